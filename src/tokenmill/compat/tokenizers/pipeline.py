"""Inputs → encodings, for a tokenizer whose components no longer change.

The fast path computes ids: the core's ids, the items of the post-processor, and runs instead of
lists. The complete path follows the real library step by step. It runs when a caller first reads
tokens, offsets or words of an encoding.

**Invariant**: both paths give the same ids, types and masks; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from tokenmill import arguments
from tokenmill.compat.tokenizers import processors
from tokenmill.compat.tokenizers.components import check, check_sequence, once
from tokenmill.compat.tokenizers.encoding import (
    Encoding,
    Offsets,
    Padding,
    Run,
    Truncation,
    lazy_encoding,
    merge,
    of_tokens,
)
from tokenmill.compat.tokenizers.normalizers import Normalizer
from tokenmill.formats.spec import Item
from tokenmill.native import _native

# A text, or words that the caller has split.
Input: TypeAlias = str | list[str]
Texts: TypeAlias = list[Input]  # one, or two of a pair

# Programs match these texts of the real library.
_TEXT = "TextInputSequence must be str"
_NOWHERE: Offsets = (0, 0)  # of a token that is not in the text
_WORDS = "PreTokenizedInputSequence must be Union[List[str], Tuple[str]]"


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
    name_of: Callable[[int], str]  # the token of an id, with a cache
    # The texts of the added tokens that split a text before it is normalized.
    cuts: Mapping[int, str]
    # Added tokens that an encoding shows as the matched text instead of the token text: whether
    # they match normalized text, and the token text.
    taken: Mapping[int, tuple[bool, str]]
    normalizer: Normalizer | None
    is_random: bool  # with dropout, encoding the same text again gives other ids

    # Calls with the arguments of the real library

    def encode(
        self,
        sequence: object,
        pair: object = None,
        is_pretokenized: object = False,
        add_special_tokens: object = True,
    ) -> Encoding:
        """Encode one text or one pair."""
        words, given = (
            check(is_pretokenized, bool),
            [sequence] if pair is None else [sequence, pair],
        )
        texts = [_check_input(each, words) for each in given]
        specials = check(add_special_tokens, bool)
        if self.is_random:
            return self.complete(texts, specials)
        return self._encode([texts], [list(map(self._ids, texts))], specials)[0]

    def encode_batch(
        self,
        input: object,
        is_pretokenized: object = False,
        add_special_tokens: object = True,
        bare: bool = False,
    ) -> list[Encoding]:
        """Encode texts and pairs; `bare` encodings have no tokens, offsets and words."""
        words = check(is_pretokenized, bool)
        batch = [_check_inputs(each, words) for each in check_sequence(input)]
        specials = check(add_special_tokens, bool)
        if not self.is_random:
            return self._encode(batch, self._ids_of_batch(batch), specials, bare)
        made = [self.complete(texts, specials, bare) for texts in batch]
        if self.padding is not None:
            target = self.padding.target(max(map(len, made), default=0))
            for each in made:
                each._pad(target, self.padding)
        return made

    # The fast path

    def columns(
        self, texts: list[str], specials: bool, has_offsets: bool
    ) -> tuple[list[list[int]], list[list[int]], list[list[Offsets]], list[Encoding]]:
        """Return the ids, the attention masks, the offsets and the encodings of texts.

        A text with a lone surrogate is a ValueError.
        """
        before, after = self.around(specials)
        if len(texts) > 1:
            threads = arguments.threads_for_batch(texts, None)
            rows = self.core.encode_batch(texts, self.allowed, threads)
        else:
            rows = [self.core.encode(texts[0], self.allowed)]
        longest, cut = max(map(len, rows)), self.truncation
        if cut is not None:
            (limit,) = cut.lengths([longest], len(before) + len(after))
            if 0 < limit < longest:
                cut.check_overlap(limit)
            if limit < longest and cut.direction == "left":
                for ids in rows:
                    del ids[: max(len(ids) - limit, 0)]
            elif limit < longest:
                for ids in rows:
                    del ids[limit:]
        spans = self._offsets_of(texts, rows) if has_offsets else []
        if before or after:
            rows = [[*before, *ids, *after] for ids in rows]
            first, last = [_NOWHERE] * len(before), [_NOWHERE] * len(after)
            spans = [[*first, *each, *last] for each in spans]
        masks, target = [[1] * len(ids) for ids in rows], 0
        if self.padding is not None:
            target = self.padding.target(max(map(len, rows)))
            is_left = self.padding.direction == "left"
            _pad(rows, target, self.padding.pad_id, is_left)
            _pad(masks, target, 0, is_left)
            _pad(spans, target, _NOWHERE, is_left)
        complete = self._complete_text
        encodings = [lazy_encoding(partial(complete, text, specials, target)) for text in texts]
        if has_offsets and not spans:
            spans = [each.offsets for each in encodings]
        return rows, masks, spans, encodings

    def _offsets_of(self, texts: list[str], rows: list[list[int]]) -> list[list[Offsets]]:
        """Return the offsets of the truncated ids; no list if the complete path is needed."""
        trims = [] if self.processor is None else self.processor._trims()
        if trims and not self.taken.keys().isdisjoint(chain.from_iterable(rows)):
            return []  # such a token may begin with any whitespace
        is_left = self.truncation is not None and self.truncation.direction == "left"
        found = []
        for text, row in zip(texts, rows, strict=True):
            ids, spans = map(np.asarray, self.core.encode_spans(text, self.allowed, 1))
            first = len(ids) - len(row) if is_left else 0
            kept = slice(first, first + len(row))
            starts, stops = spans.astype(np.int64).reshape(-1, 2)[kept].T
            for has_prefix in trims:
                starts, stops = self._margins.trim(ids[kept], starts, stops, has_prefix)
            found.append(list(zip(starts.tolist(), stops.tolist(), strict=True)))
        return found

    @once
    def _margins(self) -> processors.Margins:
        return processors.Margins(self.name_of)

    def around(self, specials: bool) -> tuple[list[int], list[int]]:
        """Return the ids before and after one text; ValueError if the text is repeated."""
        items = self._items(False, specials)
        (place,) = (index for index, item in enumerate(items) if item.ids is None)
        ids = [item.ids or () for item in items]
        return [*chain(*ids[:place])], [*chain(*ids[place + 1 :])]

    def _encode(
        self, batch: list[Texts], ids: list[list[list[int]]], specials: bool, bare: bool = False
    ) -> list[Encoding]:
        """Return encodings of texts that have these ids."""
        found = [self._runs(each, specials, bare) for each in ids]
        padding, target = self.padding, 0
        if padding is not None:
            lengths = [sum(len(run.ids) for run in runs) for runs in found]
            target = padding.target(max(lengths, default=0))
            pad_id, type_id, side = padding.pad_id, padding.pad_type_id, padding.direction
            for runs, length in zip(found, lengths, strict=True):
                if length < target:
                    run = Run([pad_id] * (target - length), type_id, 1, 0)
                    runs.insert(0 if side == "left" else len(runs), run)
        made = []
        for texts, runs in zip(batch, found, strict=True):
            made.append(lazy_encoding(partial(self.complete, texts, specials, bare, target), runs))
            made[-1]._count = len(texts)
        return made

    def _runs(self, sequences: list[list[int]], specials: bool, bare: bool) -> list[Run]:
        """Return the ids of one encoding without padding."""
        is_pair = len(sequences) == 2
        if self.truncation is not None:
            sequences = self.truncation.cut(sequences, self._added(is_pair, specials))
        is_typed = not bare or self.processor is not None
        return [
            Run(sequences[item.name == "B"], item.type_id if is_typed else 0)
            if item.ids is None
            else Run(item.ids, item.type_id, 1)
            for item in self._items(is_pair, specials)
        ]

    @once
    def _items(self) -> Callable[[bool, bool], list[Item]]:
        """The items for a pair or one text, with or without special tokens."""
        return cache(partial(processors.plan, self.processor))

    def _ids(self, text: Input) -> list[int]:
        if isinstance(text, str):
            return arguments.read(self.core.encode, text, self.allowed)
        return list(chain.from_iterable(self._encode_all(text)))

    def _encode_all(self, texts: list[str]) -> list[list[int]]:
        threads = arguments.thread_count(None)
        return arguments.read_all(self.core.encode_batch, texts, self.allowed, threads)

    def _ids_of_batch(self, batch: list[Texts]) -> list[list[list[int]]]:
        """Return the ids of all texts with one call of the core."""
        flat: list[str] = []
        for text in chain.from_iterable(batch):
            flat += [text] if isinstance(text, str) else text
        found = iter(self._encode_all(flat))

        def take(text: Input) -> list[int]:
            return next(found) if isinstance(text, str) else [*chain(*islice(found, len(text)))]

        return [list(map(take, texts)) for texts in batch]

    # The complete path

    def _complete_text(self, text: str, specials: bool, target: int) -> Encoding:
        return self.complete([text], specials, False, target)

    def complete(
        self, texts: Texts, specials: bool, bare: bool = False, target: int = 0
    ) -> Encoding:
        """Return the complete encoding; `target` is the padded length of the batch."""
        # Both sequences of a bare encoding have type 0 until a post-processor sets the types.
        encodings = [
            self._sequence(text, 0 if bare else index, bare) for index, text in enumerate(texts)
        ]
        return self.post_process(encodings, specials, target)

    def post_process(self, encodings: list[Encoding], specials: bool, target: int = 0) -> Encoding:
        """Truncate one encoding or two, run the post-processor and pad. They may change."""
        if self.truncation is not None:
            added = self._added(len(encodings) == 2, specials)
            lengths = self.truncation.lengths(list(map(len, encodings)), added)
            for encoding, length in zip(encodings, lengths, strict=True):
                encoding._truncate(length, self.truncation)
        made = processors.process(self.processor, encodings, specials)
        if self.padding is not None:
            made._pad(max(target, self.padding.target(len(made))), self.padding)
        return made

    def _added(self, is_pair: bool, specials: bool) -> int:
        """Return the number of special tokens that the post-processor adds."""
        items = self._items(is_pair, specials)
        return sum(len(item.ids) for item in items if item.ids is not None)

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
        tokens = list(map(self.name_of, ids))
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
        name, normalize = self.name_of(id_), self.normalizer.normalize_str
        # A normalizer may add a prefix to a segment. So the token is first searched in text that is
        # normalized as the middle of a segment.
        separator = "\x01"
        middle = normalize(separator + found)
        middle = middle.removeprefix(normalize(separator))
        whole = normalize(found) if is_first else ""
        for normal in (middle, whole):
            before, found_name, after = normal.rpartition(name)
            if found_name:
                before = before[len(before.rstrip()) :]
                return before + name + after[: len(after) - len(after.lstrip())]
        return content  # the model found it, not the added-token split


def _pad(column: list[list[Any]], target: int, item: object, is_left: bool) -> None:
    for items in column:
        missing = target - len(items)
        if missing > 0 and is_left:
            items[:0] = [item] * missing
        elif missing > 0:
            items += [item] * missing


def _check_inputs(value: Any, words: bool) -> Texts:
    """Return the text of an input, or both texts of a pair."""
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    if is_pair and not (words and isinstance(value[0], str)):
        return [_check_input(value[0], words), _check_input(value[1], words)]
    return [_check_input(value, words)]


def _check_input(value: object, words: bool) -> Input:
    if not words:
        if _is_text(value):
            return value
        raise TypeError(_TEXT)
    given = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(given, list | tuple) and all(map(_is_text, given)):
        return list(given)
    raise TypeError(_WORDS)


def _is_text(value: object) -> TypeGuard[str]:
    """Return whether a value is a str that can be encoded as UTF-8."""
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False
