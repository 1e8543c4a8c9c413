"""Inputs → encodings, for a tokenizer whose components no longer change.

The fast path computes ids: the core's ids, the items of the post-processor, and runs instead of
lists. The complete path follows the real library step by step. It runs when a caller first reads
tokens, offsets or words of an encoding.

**Invariant**: both paths give the same ids, types and masks; a test compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import chain, islice
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from tokenmill import arguments
from tokenmill.compat.tokenizers import processors
from tokenmill.compat.tokenizers.components import check_flag, check_sequence
from tokenmill.compat.tokenizers.encoding import (
    Encoding,
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
Pair: TypeAlias = tuple[Input, Input | None]

# Programs match these texts of the real library.
_TEXT = "TextInputSequence must be str"
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
        words = check_flag(is_pretokenized)
        first = _check_input(sequence, words)
        second = None if pair is None else _check_input(pair, words)
        specials = check_flag(add_special_tokens)
        if self.is_random:
            return self.complete((first, second), specials)
        columns = [self._ids(first), None if second is None else self._ids(second)]
        return self._encode([(first, second)], columns, specials)[0]

    def encode_batch(
        self,
        input: object,
        is_pretokenized: object = False,
        add_special_tokens: object = True,
        bare: bool = False,
    ) -> list[Encoding]:
        """Encode texts and pairs; `bare` encodings have no tokens, offsets and words."""
        words = check_flag(is_pretokenized)
        pairs = [_check_pair(each, words) for each in check_sequence(input)]
        specials = check_flag(add_special_tokens)
        if not self.is_random:
            columns = self._ids_of_all([text for pair in pairs for text in pair])
            return self._encode(pairs, columns, specials, bare)
        made = [self.complete(pair, specials, bare) for pair in pairs]
        if self.padding is not None:
            target = self.padding.target(max(map(len, made), default=0))
            for each in made:
                each._pad(target, self.padding)
        return made

    # The fast path

    def _encode(
        self, pairs: list[Pair], columns: list[list[int] | None], specials: bool, bare: bool = False
    ) -> list[Encoding]:
        """Return encodings of pairs; `columns` has the ids of each first and second text."""
        texts = iter(columns)
        found = [
            self._assemble(first or [], second, specials, bare)
            for first, second in zip(texts, texts, strict=True)
        ]
        target = 0
        if self.padding is not None:
            target = self.padding.target(max((len(ids) for ids, _ in found), default=0))
            found = [self._pad(ids, runs, target, self.padding) for ids, runs in found]
        return [
            lazy_encoding(ids, runs, partial(self.complete, pair, specials, bare, target))
            for pair, (ids, runs) in zip(pairs, found, strict=True)
        ]

    def _assemble(
        self, first: list[int], second: list[int] | None, specials: bool, bare: bool
    ) -> tuple[list[int], list[Run]]:
        """Return ids and runs without padding."""
        items = self._items(second is not None, specials)
        sequences = {"A": first, "B": second or []}
        if self.truncation is not None:
            added = self._added(second is not None, specials)
            sequences = self._truncate(self.truncation, first, second, added)
        columns = [sequences[item.name] if item.ids is None else item.ids for item in items]
        is_untyped = bare and self.processor is None
        runs = [
            Run(len(column), 0 if is_untyped else item.type_id, int(item.ids is not None))
            for column, item in zip(columns, items, strict=True)
        ]
        if len(items) == 1 and items[0].ids is None:
            return sequences[items[0].name], runs
        return list(chain.from_iterable(columns)), runs

    def _pad(
        self, ids: list[int], runs: list[Run], target: int, padding: Padding
    ) -> tuple[list[int], list[Run]]:
        missing = target - len(ids)
        if missing <= 0:
            return ids, runs
        pad, run = [padding.pad_id] * missing, Run(missing, padding.pad_type_id, 1, 0)
        is_left = padding.direction == "left"
        return (pad + ids, [run, *runs]) if is_left else (ids + pad, [*runs, run])

    @cached_property
    def _items(self) -> Callable[[bool, bool], list[Item]]:
        """The items for a pair or one text, with or without special tokens."""
        return cache(partial(processors.plan, self.processor))

    def _truncate(
        self, truncation: Truncation, first: list[int], second: list[int] | None, added: int
    ) -> dict[str, list[int]]:
        count = None if second is None else len(second)
        lengths = truncation.lengths(len(first), count, added)
        found = {}
        for name, ids, length in zip("AB", (first, second or []), lengths, strict=True):
            found[name] = ids
            if length is None or length >= len(ids):
                continue
            if length:
                truncation.check_overlap(length)
            is_left = truncation.direction == "left"
            found[name] = ids[len(ids) - length :] if is_left else ids[:length]
        return found

    def _ids(self, text: Input) -> list[int]:
        if isinstance(text, str):
            return arguments.read(self.core.encode, text, self.allowed)
        return list(chain.from_iterable(self._encode_all(text)))

    def _encode_all(self, texts: list[str]) -> list[list[int]]:
        threads = arguments.thread_count(None)
        return arguments.read_all(self.core.encode_batch, texts, self.allowed, threads)

    def _ids_of_all(self, texts: list[Input | None]) -> list[list[int] | None]:
        """Return the ids of all texts with one call of the core."""
        flat: list[str] = []
        for text in texts:
            if text is not None:
                flat += [text] if isinstance(text, str) else text
        found = iter(self._encode_all(flat))

        def take(text: Input | None) -> list[int] | None:
            if text is None:
                return None
            return next(found) if isinstance(text, str) else [*chain(*islice(found, len(text)))]

        return list(map(take, texts))

    # The complete path

    def complete(self, pair: Pair, specials: bool, bare: bool = False, target: int = 0) -> Encoding:
        """Return the complete encoding; `target` is the padded length of the batch."""
        first = self._sequence(pair[0], 0, bare)
        # Both sequences of a bare encoding have type 0 until a post-processor sets the types.
        second = None if pair[1] is None else self._sequence(pair[1], int(not bare), bare)
        return self.post_process(first, second, specials, target)

    def post_process(
        self, first: Encoding, second: Encoding | None, specials: bool, target: int = 0
    ) -> Encoding:
        """Truncate, run the post-processor and pad. The arguments may change."""
        if self.truncation is not None:
            self.truncation.apply(first, second, self._added(second is not None, specials))
        made = processors.process(self.processor, first, second, specials)
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


def _check_pair(value: Any, words: bool) -> Pair:
    """Return a pair; the second text of an input that is no pair is None."""
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    if is_pair and not (words and isinstance(value[0], str)):
        return _check_input(value[0], words), _check_input(value[1], words)
    return _check_input(value, words), None


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
