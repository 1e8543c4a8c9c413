"""Inputs → encodings, for a tokenizer whose components no longer change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tokenmill import arguments
from tokenmill.compat.tokenizers import cutting, processors
from tokenmill.compat.tokenizers.components import check_flag, check_sequence
from tokenmill.compat.tokenizers.encoding import (
    Columns,
    Encoding,
    Lazy,
    Padding,
    Truncation,
    of_tokens,
)
from tokenmill.native import _native

# A text, or words that the caller has split.
Input: TypeAlias = str | list[str]
# Programs match these texts of the real library.
_TEXT = "TextInputSequence must be str"
_WORDS = "PreTokenizedInputSequence must be Union[List[str], Tuple[str]]"


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

    def encode(
        self,
        sequence: object,
        pair: object = None,
        is_pretokenized: object = False,
        add_special_tokens: object = True,
    ) -> Encoding:
        """Return the encoding of one text or one pair."""
        words = check_flag(is_pretokenized)
        texts = [_check_input(sequence, words)]
        if pair is not None:
            texts.append(_check_input(pair, words))
        return self._encode([texts], check_flag(add_special_tokens), False)[0]

    def encode_batch(
        self,
        input: object,
        is_pretokenized: object = False,
        add_special_tokens: object = True,
        bare: bool = False,
    ) -> list[Encoding]:
        """Return the encodings of a batch; `bare` ones have no tokens, offsets and words."""
        words = check_flag(is_pretokenized)
        items = [_check_item(each, words) for each in check_sequence(input)]
        made = self._encode(items, check_flag(add_special_tokens), bare)
        if self.padding is not None:  # after each encoding was padded alone, as in the real library
            self.padding.fill(made)
        return made

    def post_process(
        self, first: Encoding, second: Encoding | None, special_tokens: bool
    ) -> Encoding:
        """Truncate, run the post-processor and pad. The arguments may change."""
        if self.truncation is not None:
            added = 0
            if self.processor is not None and special_tokens:
                added = self.processor._added(second is not None)
            self.truncation.apply(first, second, added)
        made = processors.process(self.processor, first, second, special_tokens)
        if self.padding is not None:
            self.padding.fill([made])
        return made

    def _encode(
        self, items: Sequence[Sequence[Input]], special_tokens: bool, bare: bool
    ) -> list[Encoding]:
        """Return the encodings of items, each of which is one text or a pair."""
        found = self._read([text for item in items for text in item], bare)
        made = []
        for item in items:
            first = of_tokens(*next(found), 0)
            # Both sequences of a bare encoding have type 0 until a post-processor sets the types.
            second = of_tokens(*next(found), int(not bare)) if len(item) == 2 else None
            made.append(self.post_process(first, second, special_tokens))
        return made

    def _read(
        self, texts: Sequence[Input], bare: bool
    ) -> Iterator[tuple[list[int], Lazy[Columns]]]:
        """Yield the ids of each text, and its other columns."""
        if self.is_random:
            for text in texts:
                ids, columns = self._columns(text, bare)
                yield ids, Lazy(lambda columns=columns: columns)  # type: ignore[misc]
            return
        flat = [word for text in texts for word in ([text] if isinstance(text, str) else text)]
        if len(flat) == 1:
            found = iter([arguments.read(self.core.encode, flat[0], self.allowed)])
        else:
            threads = arguments.thread_count(None)
            found = iter(arguments.read_all(self.core.encode_batch, flat, self.allowed, threads))
        for text in texts:
            is_text = isinstance(text, str)
            ids = next(found) if is_text else [id_ for _ in text for id_ in next(found)]
            yield ids, Lazy(lambda text=text: self._columns(text, bare)[1])  # type: ignore[misc]

    def _columns(self, text: Input, bare: bool) -> tuple[list[int], Columns]:
        """Return the ids of a text, and its other columns."""
        all_ids: list[int] = []
        found = Columns([], [], [])
        for index, word in enumerate([text] if isinstance(text, str) else text):
            ids, spans, words = arguments.read(self.core.encode_words, word, self.allowed)
            all_ids += ids
            if bare:
                continue
            tokens = list(map(self.names.__getitem__, ids))
            if not self.taken.keys().isdisjoint(ids):
                self._set_taken(tokens, word, ids, spans)
            found.tokens.extend(tokens)
            found.offsets.extend(spans)
            found.words.extend(
                [None if number < 0 else number for number in words]
                if isinstance(text, str)
                else [index] * len(ids)
            )
        if bare:
            n = len(all_ids)
            return all_ids, Columns([""] * n, [(0, 0)] * n, [None] * n)
        return all_ids, found

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


def _check_input(value: object, words: bool) -> Input:
    found = _words(value) if words else _text(value)
    if found is None:
        raise TypeError(_WORDS if words else _TEXT)
    return found


def _check_item(value: Any, words: bool) -> list[Input]:
    """Return one text, or the two texts of a pair."""
    single = _words(value) if words else _text(value)
    if single is None and isinstance(value, tuple | list) and len(value) == 2:
        return [_check_input(each, words) for each in value]
    return [_check_input(value, words)]


def _text(value: object) -> str | None:
    """Return a str that can be encoded as UTF-8, or None."""
    if not isinstance(value, str):
        return None
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return None
    return value


def _words(value: object) -> list[str] | None:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        return None
    found = [_text(word) for word in value]
    return None if None in found else [word for word in found if word is not None]
