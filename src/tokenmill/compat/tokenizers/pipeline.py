"""Inputs → encodings: a tokenizer as it was when it was asked.

Ids go the quick way: the engine's ids, a plan of what is put around them, runs instead of lists.
Everything else about an encoding goes the slow way, which is that of the real library, when it is
first asked for.

**Invariant**: both ways give the same ids, types and masks; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from tokenmill.compat.tokenizers import cutting, engine, processors
from tokenmill.compat.tokenizers.encoding import (
    Encoding,
    Run,
    later,
    merge,
    of_tokens,
    windows_of,
)
from tokenmill.compat.tokenizers.padding import Padding
from tokenmill.compat.tokenizers.truncation import Truncation

# A text, or words that someone else has cut.
Input: TypeAlias = str | list[str]
Pair: TypeAlias = tuple[Input, Input | None]


class Names(dict[int, str]):
    """id → its token, asked for once."""

    def __init__(self, token: Callable[[int], str | None]) -> None:
        self._token = token

    def __missing__(self, id_: int) -> str:
        self[id_] = found = self._token(id_) or ""
        return found


@dataclass(frozen=True)
class Pipeline:
    """All that encoding depends on; none of it changes."""

    engine: engine.Engine
    allowed: bytes | None
    processor: processors.PostProcessor | None
    truncation: Truncation | None
    padding: Padding | None
    names: Names
    # The contents of the added tokens that cut a text before it is normalized.
    cuts: Mapping[int, str]
    # Added tokens whose text in an encoding is what they took of the text, not their content; with
    # whether that is normalized, and their content.
    taken: Mapping[int, tuple[bool, str]]
    normalizer: Mapping[str, Any] | None
    random: bool  # whether encoding a text again gives something else

    def encode(self, pair: Pair, specials: bool) -> Encoding:
        return self.encode_batch([pair], specials, single=True)[0]

    def encode_batch(
        self, pairs: Sequence[Pair], specials: bool, single: bool = False, bare: bool = False
    ) -> list[Encoding]:
        """Encodings of one length, if there is padding. `bare` ones have no places."""
        if self.random:
            made = [self.slowly(pair, specials, bare) for pair in pairs]
            if self.padding is not None and not single:
                self.padding.fill(made)
            return made
        if single:
            first, second = pairs[0]
            columns = [self._ids(first), None if second is None else self._ids(second)]
        else:
            columns = self._ids_of_all([text for pair in pairs for text in pair])
        found = []
        for index in range(len(pairs)):
            ids, second_ids = columns[2 * index : 2 * index + 2]
            found.append(self._quick(ids or [], second_ids, specials, bare))
        return self._padded(pairs, found, specials, bare)

    def _padded(
        self,
        pairs: Sequence[Pair],
        found: list[tuple[list[int], list[Run]] | None],
        specials: bool,
        bare: bool,
    ) -> list[Encoding]:
        whole = {
            index: self.slowly(pairs[index], specials, bare)
            for index, each in enumerate(found)
            if each is None
        }
        lengths = [len(whole[i]) if each is None else len(each[0]) for i, each in enumerate(found)]
        padding, target = self.padding, 0
        if padding is not None:
            # Each is padded by itself before the longest is looked for.
            target = padding.target(max(map(padding.target, lengths), default=0))
        made = []
        for index, each in enumerate(found):
            if each is None:
                if padding is not None:
                    padding.fill_to(whole[index], target)
                made.append(whole[index])
                continue
            ids, runs = each
            missing = target - len(ids)
            if padding is not None and missing > 0:
                pad, run = [padding.pad_id] * missing, Run(missing, padding.pad_type_id, 1, 0)
                left = padding.direction == "left"
                ids, runs = (pad + ids, [run, *runs]) if left else (ids + pad, [*runs, run])
            made.append(
                later(ids, runs, partial(self.slowly, pairs[index], specials, bare, target))
            )
        return made

    # The quick way

    def _quick(
        self, first: list[int], second: list[int] | None, specials: bool, bare: bool
    ) -> tuple[list[int], list[Run]] | None:
        """Ids and runs, without padding; None: only the slow way knows."""
        is_pair = second is not None
        places = processors.plan(self.processor, is_pair, specials)
        if places is None:
            return None
        if bare and self.processor is None:
            places = [(None, index, 0) for _, index, _ in places]
        sequences = [first, second or []]
        if self.truncation is not None:
            sequences = self._kept(self.truncation, first, second, specials)
        if len(places) == 1 and places[0][0] is None:
            return sequences[0], [Run(len(sequences[0]), places[0][2])]
        ids: list[int] = []
        runs = []
        for special, index, type_id in places:
            added = sequences[index] if special is None else special
            ids += added
            runs.append(Run(len(added), type_id, int(special is not None)))
        return ids, runs

    def _kept(
        self, truncation: Truncation, first: list[int], second: list[int] | None, specials: bool
    ) -> list[list[int]]:
        count = None if second is None else len(second)
        lengths = truncation.lengths(len(first), count, self._added(second is not None, specials))
        kept = []
        for ids, length in zip((first, second or []), lengths, strict=True):
            if length is None or length >= len(ids):
                kept.append(ids)
                continue
            if length:  # which also refuses a stride that leaves no room
                windows_of(length + 1, length, truncation.stride, False)
            left = truncation.direction == "left"
            kept.append(ids[len(ids) - length :] if left else ids[:length])
        return kept

    def _ids(self, text: Input) -> list[int]:
        if isinstance(text, str):
            return self.engine.encode(text, self.allowed)
        return [id_ for ids in self.engine.encode_batch(text, self.allowed) for id_ in ids]

    def _ids_of_all(self, texts: Sequence[Input | None]) -> list[list[int] | None]:
        """The ids of all texts with one call."""
        flat: list[str] = []
        for text in texts:
            if text is not None:
                flat += [text] if isinstance(text, str) else text
        found = iter(self.engine.encode_batch(flat, self.allowed))
        made: list[list[int] | None] = []
        for text in texts:
            if text is None:
                made.append(None)
            elif isinstance(text, str):
                made.append(next(found))
            else:
                made.append([id_ for _ in text for id_ in next(found)])
        return made

    # The slow way

    def slowly(self, pair: Pair, specials: bool, bare: bool = False, target: int = 0) -> Encoding:
        """The whole encoding of one or two inputs; `target` is the length of the batch."""
        first = self._sequence(pair[0], 0, bare)
        # Bare ones are of type 0, whichever they are, until a processor says something else.
        second = None if pair[1] is None else self._sequence(pair[1], int(not bare), bare)
        made = self.post_process(first, second, specials)
        if self.padding is not None:
            self.padding.fill_to(made, target)
        return made

    def post_process(self, first: Encoding, second: Encoding | None, specials: bool) -> Encoding:
        """Truncation, templates, padding. Changes what it is given."""
        if self.truncation is not None:
            self.truncation.cut(first, second, self._added(second is not None, specials))
        made = processors.process(self.processor, first, second, specials)
        if self.padding is not None:
            self.padding.fill([made])
        return made

    def _added(self, is_pair: bool, specials: bool) -> int:
        """How many tokens will be put around the sequences."""
        if self.processor is None or not specials:
            return 0
        return self.processor._added(is_pair)

    def _sequence(self, text: Input, type_id: int, bare: bool) -> Encoding:
        if isinstance(text, str):
            return self._piece(text, type_id, None, bare)
        words = (self._piece(word, type_id, index, bare) for index, word in enumerate(text))
        return merge(words, False)

    def _piece(self, text: str, type_id: int, word: int | None, bare: bool) -> Encoding:
        ids, spans, words = self.engine.details(text, self.allowed)
        if bare:
            n = len(ids)
            return of_tokens(ids, [""] * n, [(0, 0)] * n, [None] * n, type_id)
        tokens = list(map(self.names.__getitem__, ids))
        if not self.taken.keys().isdisjoint(ids):
            self._put_taken(tokens, text, ids, spans)
        numbers: list[int | None] = [word] * len(ids)
        if word is None:
            numbers = [None if number < 0 else number for number in words]
        return of_tokens(ids, tokens, spans, numbers, type_id)

    def _put_taken(
        self, tokens: list[str], text: str, ids: list[int], spans: list[tuple[int, int]]
    ) -> None:
        """Puts in place of added tokens what they took."""
        end: int | None = 0  # where a segment may begin
        for index, (id_, (start, stop)) in enumerate(zip(ids, spans, strict=True)):
            if id_ in self.taken:
                tokens[index] = self._taken(id_, text[start:stop], start == end)
            is_end = id_ in self.cuts and self.cuts[id_] in text[start:stop]
            end = stop if is_end else None

    def _taken(self, id_: int, found: str, is_first: bool) -> str:
        """What an added token took: its name, normalized or not, with white space around it."""
        is_normal, content = self.taken[id_]
        if self.normalizer is None or not is_normal:
            return found
        name = self.names[id_]
        # A normalizer may put something in front of a segment, so a name is looked for as in the
        # middle of one first.
        separator = "\x01"
        middle = cutting.normalize(self.normalizer, separator + found)
        middle = middle.removeprefix(cutting.normalize(self.normalizer, separator))
        whole = cutting.normalize(self.normalizer, found) if is_first else ""
        for normal in (middle, whole):
            before, found_name, after = normal.rpartition(name)
            if found_name:
                before = before[len(before.rstrip()) :]
                return before + name + after[: len(after) - len(after.lstrip())]
        return content  # it came from the model
