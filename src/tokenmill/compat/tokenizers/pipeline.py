"""Inputs → encodings, for a tokenizer whose components no longer change.

The fast path computes ids: the core's ids, the slots of the post-processor, and runs instead of
lists. The complete path follows the real library step by step. It runs when a caller first reads
tokens, offsets or words of an encoding.

**Invariant**: both paths give the same ids, types and masks; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Any, TypeAlias

from tokenmill import arguments
from tokenmill.compat.tokenizers import cutting, processors
from tokenmill.compat.tokenizers.encoding import (
    Encoding,
    Padding,
    Run,
    Truncation,
    lazy_encoding,
    merge,
    of_tokens,
    windows_of,
)
from tokenmill.native import _native

# A text, or words that the caller has split.
Input: TypeAlias = str | list[str]
Pair: TypeAlias = tuple[Input, Input | None]


class Names(dict[int, str]):
    """The token of each id, looked up once."""

    def __init__(self, token: Callable[[int], str | None]) -> None:
        self._token = token

    def __missing__(self, id_: int) -> str:
        self[id_] = found = self._token(id_) or ""
        return found


@dataclass(frozen=True)
class Pipeline:
    """Everything that encoding depends on."""

    core: _native.Core
    # One byte per added token, in the order of their texts. 0: ordinary text. 1: found. 2: found
    # and dropped.
    allowed: bytes | None
    processor: processors.PostProcessor | None
    truncation: Truncation | None
    padding: Padding | None
    names: Names
    # The texts of the added tokens that split a text before it is normalized.
    cuts: Mapping[int, str]
    # Added tokens that an encoding shows as the matched text instead of the token text: whether
    # they match normalized text, and the token text.
    taken: Mapping[int, tuple[bool, str]]
    normalizer: Mapping[str, Any] | None
    is_random: bool  # with dropout, encoding the same text again gives other ids

    def encode(self, pair: Pair, special_tokens: bool) -> Encoding:
        return self.encode_batch([pair], special_tokens, single=True)[0]

    def encode_batch(
        self, pairs: Sequence[Pair], special_tokens: bool, single: bool = False, bare: bool = False
    ) -> list[Encoding]:
        """Return the encodings of a batch; `bare` ones have no tokens, offsets and words."""
        if self.is_random:
            made = [self.complete(pair, special_tokens, bare) for pair in pairs]
            if self.padding is not None and not single:
                self.padding.fill(made)
            return made
        if single:
            first, second = pairs[0]
            columns = [self._ids(first), None if second is None else self._ids(second)]
        else:
            columns = self._ids_of_all([text for pair in pairs for text in pair])
        found = [
            self._fast(columns[2 * index] or [], columns[2 * index + 1], special_tokens, bare)
            for index in range(len(pairs))
        ]
        padding, target = self.padding, 0
        if padding is not None:
            # The real library pads each encoding alone before it pads the batch.
            lengths = [padding.target(len(ids)) for ids, _ in found]
            target = padding.target(max(lengths, default=0))
        made = []
        for pair, (ids, runs) in zip(pairs, found, strict=True):
            missing = target - len(ids)
            if padding is not None and missing > 0:
                pad, run = [padding.pad_id] * missing, Run(missing, padding.pad_type_id, 1, 0)
                left = padding.direction == "left"
                ids, runs = (pad + ids, [run, *runs]) if left else (ids + pad, [*runs, run])
            make = partial(self.complete, pair, special_tokens, bare, target)
            made.append(lazy_encoding(ids, runs, make))
        return made

    # The fast path

    def _fast(
        self, first: list[int], second: list[int] | None, special_tokens: bool, bare: bool
    ) -> tuple[list[int], list[Run]]:
        """Return ids and runs without padding."""
        slots = self._slots(second is not None, special_tokens)
        sequences = [first, second or []]
        if self.truncation is not None:
            sequences = self._truncate(self.truncation, first, second, special_tokens)
        columns = [sequences[s.sequence] if s.ids is None else s.ids for s in slots]
        is_untyped = bare and self.processor is None
        runs = [
            Run(len(column), 0 if is_untyped else slot.type_id, int(slot.ids is not None))
            for column, slot in zip(columns, slots, strict=True)
        ]
        return columns[0] if len(columns) == 1 else list(chain.from_iterable(columns)), runs

    def _slots(self, is_pair: bool, special_tokens: bool) -> list[processors.Slot]:
        key = (is_pair, special_tokens)
        if key not in self._plans:
            self._plans[key] = processors.plan(self.processor, is_pair, special_tokens)
        return self._plans[key]

    @cached_property
    def _plans(self) -> dict[tuple[bool, bool], list[processors.Slot]]:
        return {}

    def _truncate(
        self,
        truncation: Truncation,
        first: list[int],
        second: list[int] | None,
        special_tokens: bool,
    ) -> list[list[int]]:
        count = None if second is None else len(second)
        lengths = truncation.lengths(
            len(first), count, self._added(second is not None, special_tokens)
        )
        found = []
        for ids, length in zip((first, second or []), lengths, strict=True):
            if length is None or length >= len(ids):
                found.append(ids)
                continue
            if length:  # raises the error for a stride that is too large
                windows_of(length + 1, length, truncation.stride, False)
            left = truncation.direction == "left"
            found.append(ids[len(ids) - length :] if left else ids[:length])
        return found

    def _ids(self, text: Input) -> list[int]:
        if isinstance(text, str):
            return arguments.read(self.core.encode, text, self.allowed)
        return [id_ for ids in self._encode_all(text) for id_ in ids]

    def _encode_all(self, texts: list[str]) -> list[list[int]]:
        threads = arguments.thread_count(None)
        return arguments.read_all(self.core.encode_batch, texts, self.allowed, threads)

    def _ids_of_all(self, texts: Sequence[Input | None]) -> list[list[int] | None]:
        """Return the ids of all texts with one call of the core."""
        flat: list[str] = []
        for text in texts:
            if text is not None:
                flat += [text] if isinstance(text, str) else text
        found = iter(self._encode_all(flat))
        made: list[list[int] | None] = []
        for text in texts:
            if text is None:
                made.append(None)
            elif isinstance(text, str):
                made.append(next(found))
            else:
                made.append([id_ for _ in text for id_ in next(found)])
        return made

    # The complete path

    def complete(
        self, pair: Pair, special_tokens: bool, bare: bool = False, target: int = 0
    ) -> Encoding:
        """Return the complete encoding; `target` is the padded length of the batch."""
        first = self._sequence(pair[0], 0, bare)
        # Both sequences of a bare encoding have type 0 until a post-processor sets the types.
        second = None if pair[1] is None else self._sequence(pair[1], int(not bare), bare)
        made = self.post_process(first, second, special_tokens)
        if self.padding is not None:
            self.padding.fill_to(made, target)
        return made

    def post_process(
        self, first: Encoding, second: Encoding | None, special_tokens: bool
    ) -> Encoding:
        """Truncate, run the post-processor and pad. The arguments may change."""
        if self.truncation is not None:
            self.truncation.apply(first, second, self._added(second is not None, special_tokens))
        made = processors.process(self.processor, first, second, special_tokens)
        if self.padding is not None:
            self.padding.fill([made])
        return made

    def _added(self, is_pair: bool, special_tokens: bool) -> int:
        """Return the number of special tokens that the post-processor adds."""
        if self.processor is None or not special_tokens:
            return 0
        return self.processor._added(is_pair)

    def _sequence(self, text: Input, type_id: int, bare: bool) -> Encoding:
        if isinstance(text, str):
            return self._encode_text(text, type_id, None, bare)
        words = (self._encode_text(word, type_id, index, bare) for index, word in enumerate(text))
        return merge(words, False)

    def _encode_text(self, text: str, type_id: int, word: int | None, bare: bool) -> Encoding:
        ids, spans, words = arguments.read(self.core.encode_words, text, self.allowed)
        if bare:
            n = len(ids)
            return of_tokens(ids, [""] * n, [(0, 0)] * n, [None] * n, type_id)
        tokens = list(map(self.names.__getitem__, ids))
        if not self.taken.keys().isdisjoint(ids):
            self._set_taken(tokens, text, ids, spans)
        numbers: list[int | None] = [word] * len(ids)
        if word is None:
            numbers = [None if number < 0 else number for number in words]
        return of_tokens(ids, tokens, spans, numbers, type_id)

    def _set_taken(
        self, tokens: list[str], text: str, ids: list[int], spans: list[tuple[int, int]]
    ) -> None:
        """Replace added tokens by the text that they matched."""
        end: int | None = 0  # where a segment between added tokens can begin
        for index, (id_, (start, stop)) in enumerate(zip(ids, spans, strict=True)):
            if id_ in self.taken:
                tokens[index] = self._taken(id_, text[start:stop], start == end)
            is_end = id_ in self.cuts and self.cuts[id_] in text[start:stop]
            end = stop if is_end else None

    def _taken(self, id_: int, found: str, is_first: bool) -> str:
        """Return the text that an added token matched, with the whitespace that it takes."""
        is_normal, content = self.taken[id_]
        if self.normalizer is None or not is_normal:
            return found
        name = self.names[id_]
        # A normalizer may add a prefix to a segment. So the token is first searched in text that is
        # normalized as the middle of a segment.
        separator = "\x01"
        middle = cutting.normalize(self.normalizer, separator + found)
        middle = middle.removeprefix(cutting.normalize(self.normalizer, separator))
        whole = cutting.normalize(self.normalizer, found) if is_first else ""
        for normal in (middle, whole):
            before, found_name, after = normal.rpartition(name)
            if found_name:
                before = before[len(before.rstrip()) :]
                return before + name + after[: len(after) - len(after.lstrip())]
        return content  # the model found it, not the added-token split
