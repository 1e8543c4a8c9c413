"""Encodings: ids with offsets, tokens, types and masks; truncation and padding.

A field is computed when it is first read, by encoding again with offsets, because most callers read
only ids and masks.

**Invariant**: lists are never changed in place, so that encodings can share them.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple, Self, TypeAlias

from tokenmill.compat.tokenizers.components import (
    Component,
    Option,
    check,
    check_id,
    check_items,
    dump,
    maybe,
    one_of,
    options_of,
)
from tokenmill.errors import TokenizersError

Offsets: TypeAlias = tuple[int, int]
# The lists with one item per token: name in the pickle → attribute.
_LISTS = {
    "ids": "_ids", "type_ids": "_type_ids", "tokens": "_tokens", "words": "_words",
    "offsets": "_offsets", "special_tokens_mask": "_special", "attention_mask": "_attention",
}  # fmt: skip
_new = object.__new__
_check_side = one_of({"left": "Left", "right": "Right"})


class Run(NamedTuple):
    """Adjacent tokens of an encoding with the same type and masks."""

    ids: Sequence[int]
    type_id: int
    special: int = 0
    attention: int = 1


def _list(name: str, doc: str) -> Any:
    """Return a property with a copy of a list."""
    return property(lambda encoding: getattr(encoding, name)[:], doc=doc)


def _list_of_runs(name: str, field: str, doc: str) -> Any:
    """Return a property with a list that has a field of `Run` until the list is computed."""

    def get(encoding: Encoding) -> list[int]:
        if encoding._runs is None:
            return getattr(encoding, name)[:]  # type: ignore[no-any-return]
        values = (repeat(getattr(run, field), len(run.ids)) for run in encoding._runs)
        return list(chain.from_iterable(values))

    return property(get, doc=doc)


class Encoding:
    """The result of encoding a text or a pair."""

    _ids: Sequence[int]  # a list if the encoding is complete
    _type_ids: list[int]
    _tokens: list[str]
    _words: list[int | None]
    _offsets: list[Offsets]
    _special: list[int]
    _attention: list[int]
    _overflowing: list[Encoding]
    # Sequence → its tokens, as (start, stop). If empty, one sequence has all tokens.
    _ranges: dict[int, tuple[int, int]]
    # Computes the complete encoding; None if it is complete.
    _make: Callable[[], Encoding] | None = None
    # Known while the encoding is not complete: the number of texts, and maybe types and masks.
    _count: int = 1
    _runs: list[Run] | None = None

    def __init__(self) -> None:
        for name in _LISTS.values():
            setattr(self, name, [])
        self._overflowing, self._ranges = [], {}
        self._make = self._runs = None

    def __getattr__(self, name: str) -> Any:
        """Compute the complete encoding for a field that it does not have yet."""
        if self._make is None or name not in Encoding.__annotations__:
            raise AttributeError(f"'Encoding' object has no attribute {name!r}")
        return getattr(self._complete(), name)

    # Attributes

    type_ids = _list_of_runs(
        "_type_ids", "type_id", "The type of each token: usually the text, by the post-processor."
    )
    attention_mask = _list_of_runs("_attention", "attention", "1 for tokens, 0 for padding.")
    special_tokens_mask = _list_of_runs(
        "_special", "special", "1 for tokens that the post-processor or padding added."
    )
    tokens = _list("_tokens", "The tokens as in the vocabulary.")
    offsets = _list("_offsets", "The characters of the text that each token covers: (start, end).")
    word_ids = _list("_words", "The word of each token; None for special tokens.")
    overflowing = _list("_overflowing", "The encodings of the tokens that truncation removed.")

    @property
    def ids(self) -> list[int]:
        """The ids."""
        return list(self._ids)

    @property
    def words(self) -> list[int | None]:
        """The old name of `word_ids`."""
        warnings.warn("use Encoding.word_ids instead of words", DeprecationWarning, stacklevel=2)
        return self.word_ids  # type: ignore[no-any-return]

    @property
    def sequence_ids(self) -> list[int | None]:
        """The text of each token, 0 or 1; None for special tokens."""
        found: list[int | None] = [None] * len(self)
        for sequence in range(self.n_sequences):
            start, stop = self._range(sequence)
            found[start:stop] = [sequence] * (stop - start)
        return found

    @property
    def n_sequences(self) -> int:
        """The number of texts."""
        return self._count if self._make is not None else len(self._ranges) or 1

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        return (
            f"Encoding(num_tokens={len(self)}, attributes=[ids, type_ids, tokens, offsets, "
            "attention_mask, special_tokens_mask, overflowing])"
        )

    def __getstate__(self) -> bytes:
        return dump(self._state()).encode()

    def _state(self) -> dict[str, Any]:
        ranges = {str(i): {"start": a, "end": b} for i, (a, b) in self._ranges.items()}
        return {
            **{key: getattr(self, name) for key, name in _LISTS.items()},
            "overflowing": [each._state() for each in self._overflowing],
            "sequence_ranges": ranges,
        }

    def __setstate__(self, state: bytes) -> None:
        self._restore(json.loads(state))

    def _restore(self, state: dict[str, Any]) -> Self:
        self.__init__()  # type: ignore[misc]
        for key, name in _LISTS.items():
            setattr(self, name, state[key])
        self._offsets = [(start, stop) for start, stop in state["offsets"]]
        self._overflowing = [Encoding()._restore(each) for each in state["overflowing"]]
        ranges = state["sequence_ranges"].items()
        self._ranges = {int(i): (range_["start"], range_["end"]) for i, range_ in ranges}
        return self

    # From texts to tokens and back

    def token_to_sequence(self, token_index: int) -> int | None:
        """Return the text of a token, or None."""
        token = check(token_index, int)
        ranges = self._ranges or {0: (0, len(self) + 1)}  # also one past the end
        return next((i for i, (start, stop) in ranges.items() if start <= token < stop), None)

    def token_to_chars(self, token_index: int) -> Offsets | None:
        """Return the characters that a token covers, or None."""
        return self._offsets[token_index] if self._is_of_text(token_index) else None

    def token_to_word(self, token_index: int) -> int | None:
        """Return the word of a token, or None."""
        return self._words[token_index] if self._is_of_text(token_index) else None

    def _is_of_text(self, index: int) -> bool:
        return self.token_to_sequence(index) is not None and index < len(self)

    def char_to_token(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Return the token that covers a character, or None."""
        position, tokens = check(char_pos, int), range(*self._range(sequence_index))
        offsets = self._offsets
        return next((i for i in tokens if offsets[i][0] <= position < offsets[i][1]), None)

    def char_to_word(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Return the word that covers a character, or None."""
        token = self.char_to_token(char_pos, sequence_index)
        return None if token is None else self.token_to_word(token)

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> Offsets | None:
        """Return the tokens of a word: (first, one past the last), or None."""
        word, found = check_id(word_index), []
        for token in range(*self._range(sequence_index)):
            here = self._words[token]
            if here is not None and here > word:
                break
            if here == word:
                found.append(token)
        return (found[0], found[-1] + 1) if found else None

    def word_to_chars(self, word_index: int, sequence_index: int = 0) -> Offsets | None:
        """Return the characters of a word: (start, end), or None."""
        tokens = self.word_to_tokens(word_index, sequence_index)
        if tokens is None:
            return None
        return self._offsets[tokens[0]][0], self._offsets[tokens[1] - 1][1]

    def _range(self, sequence: int) -> tuple[int, int]:
        return self._ranges.get(check(sequence, int), (0, len(self)))

    # Changes

    def set_sequence_id(self, sequence_id: int) -> None:
        """Assign all tokens to this text."""
        self._complete()._ranges = {**self._ranges, check(sequence_id, int): (0, len(self))}

    def pad(self, length: int, **kwargs: Any) -> None:
        """Pad to `length` tokens, with `direction`, `pad_id`, `pad_type_id` and `pad_token`."""
        self._pad(check(length, int), Padding(**kwargs))

    def _pad(self, target: int, padding: Padding) -> None:
        # Another encoding may share them and pad them in another way.
        self._overflowing = [each._copy() for each in self._overflowing]
        for each in self._overflowing:
            each._pad(target, padding)
        n = target - len(self._ids)
        if n <= 0:
            return
        pad = of_specials([padding.pad_id] * n, [padding.pad_token] * n, padding.pad_type_id, 0)
        if padding.direction == "left":
            ranges = {i: (start + n, stop + n) for i, (start, stop) in self._ranges.items()}
            self._join(pad, self, ranges)
        else:
            self._join(self, pad, self._ranges)

    def truncate(self, max_length: int, stride: int = 0, direction: str = "right") -> None:
        """Truncate to `max_length` tokens; the others go to `overflowing`."""
        truncation = Truncation(max_length=max_length, stride=stride, direction=direction)
        self._truncate(truncation.max_length, truncation)

    def _truncate(self, longest: int, truncation: Truncation) -> None:
        length = len(self._ids)
        if longest >= length:
            return
        if longest == 0:
            everything = self._copy()
            self.__init__()  # type: ignore[misc]
            self._overflowing = [everything]
            return
        windows = truncation.windows(length, longest)
        first, *others = [self._slice(start, stop) for start, stop in windows]
        self._take(first)
        self._overflowing = others

    @staticmethod
    def merge(encodings: Iterable[Encoding], growing_offsets: bool = True) -> Encoding:
        """Return the concatenation of encodings."""
        return merge(check_items(encodings, Encoding), check(growing_offsets, bool))

    # Assembly

    def _complete(self) -> Encoding:
        """Return this encoding with all lists."""
        make = self._make  # None if another thread has completed it
        if make is not None:
            self._take(make())
        return self

    def _take(self, other: Encoding) -> None:
        vars(self).update(vars(other._complete()))

    def _copy(self) -> Encoding:
        made = Encoding.__new__(Encoding)
        made._take(self)
        return made

    def _slice(self, start: int, stop: int) -> Encoding:
        """Return some of the tokens, without sequences and overflow."""
        made = Encoding()
        for name in _LISTS.values():
            setattr(made, name, getattr(self, name)[start:stop])
        return made

    def _join(self, a: Encoding, b: Encoding, ranges: dict[int, tuple[int, int]]) -> None:
        """Become the tokens of `a` and then those of `b`; the overflow stays."""
        for name in _LISTS.values():
            setattr(self, name, getattr(a, name) + getattr(b, name))
        self._ranges = ranges

    def _merge_with(self, pair: Encoding, growing: bool) -> None:
        """Append `pair`. Each overflow of one is combined with each overflow of the other."""
        overflowing = []
        for mine in self._overflowing:
            for other in (pair, *pair._overflowing):
                overflowing.append(mine._copy())
                overflowing[-1]._merge_with(other, growing)
        for other in pair._overflowing:
            overflowing.append(self._copy())
            overflowing[-1]._merge_with(other, growing)
        length = len(self._ids)
        moved = {i: (length + start, length + stop) for i, (start, stop) in pair._ranges.items()}
        shift = self._offsets[-1][1] if growing and self._offsets else 0
        if shift:
            pair = pair._copy()
            pair._offsets = [(start + shift, stop + shift) for start, stop in pair._offsets]
        self._join(self, pair, {**self._ranges, **moved})
        self._overflowing = overflowing


def lazy_encoding(make: Callable[[], Encoding], runs: list[Run] | None = None) -> Encoding:
    """Return an encoding that has only the ids of `runs` until `make` completes it."""
    made = _new(Encoding)
    made._make = make
    if runs is not None:
        columns = [run.ids for run in runs]
        made._ids = columns[0] if len(runs) == 1 else list(chain.from_iterable(columns))
        made._runs = runs
    return made


def of_tokens(
    ids: list[int], tokens: list[str], offsets: list[Offsets], words: list[int | None], type_id: int
) -> Encoding:
    """Return the encoding of a sequence before post-processing."""
    made, n = Encoding(), len(ids)
    made._ids, made._tokens, made._offsets, made._words = ids, tokens, offsets, words
    made._type_ids, made._special, made._attention = [type_id] * n, [0] * n, [1] * n
    return made


def of_specials(ids: list[int], tokens: list[str], type_id: int, attention: int = 1) -> Encoding:
    """Return the encoding of special tokens or, with `attention` 0, of padding."""
    n = len(ids)
    made = of_tokens(ids, tokens, [(0, 0)] * n, [None] * n, type_id)
    made._special, made._attention = [1] * n, [attention] * n
    return made


def merge(encodings: Iterable[Encoding], growing: bool) -> Encoding:
    made = Encoding()
    for each in encodings:
        made._merge_with(each, growing)
    return made


# ── Truncation and padding ───────────────────────────────────────────────────────────────────────

_STRATEGIES = {
    "longest_first": "LongestFirst", "only_first": "OnlyFirst", "only_second": "OnlySecond",
}  # fmt: skip
_STRATEGY_NAMES = {json_name: name for name, json_name in _STRATEGIES.items()}
_DIRECTION = Option("direction", _check_side, "right", read=str.lower)


class Lengths(Component):
    """Truncation or padding, which have no type in tokenizer.json."""

    def to_json(self) -> dict[str, Any]:
        return self._data

    def values(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {option.name: getattr(self, option.name) for option in self.options}


class Truncation(
    Lengths,
    options=(
        _DIRECTION,
        Option("max_length", int),
        Option("strategy", one_of(_STRATEGIES), "longest_first", read=_STRATEGY_NAMES.__getitem__),
        Option("stride", int, 0),
    ),
    unknown="warn",
    is_keyword_only=True,
):
    """The maximum length of encodings, and how they are truncated."""

    def check_stride(self, added: int) -> None:
        """Raise ValueError for a stride that leaves no space for new tokens."""
        space = self.max_length - added
        if 0 <= space < self.stride:
            raise ValueError(
                f"stride must be at most {space}, max_length without {added} special tokens, got "
                f"{self.stride}"
            )

    def lengths(self, lengths: list[int], added: int) -> list[int]:
        """Return the truncated lengths of one sequence or two.

        `added` is the number of special tokens. If they alone are too long, the lengths stay.
        """
        longest = self.max_length - added
        removed = sum(lengths) - longest
        if longest < 0 or removed <= 0:
            return lengths
        if longest == 0:
            return [0] * len(lengths)
        strategy = self.strategy
        if strategy == "longest_first":
            return [longest] if len(lengths) == 1 else _balanced(lengths, longest)
        index = int(strategy == "only_second")
        if index == len(lengths) or lengths[index] <= removed:
            raise TokenizersError(f"cannot truncate {strategy}: {removed} tokens must go")
        return [n - removed if i == index else n for i, n in enumerate(lengths)]

    def cut(self, sequences: list[list[int]], added: int) -> list[list[int]]:
        """Return the ids of one sequence or two without those that truncation removes."""
        found, lengths = [], self.lengths(list(map(len, sequences)), added)
        for ids, length in zip(sequences, lengths, strict=True):
            if 0 < length < len(ids):
                self.check_overlap(length)
            first = max(len(ids) - length, 0) if self.direction == "left" else 0
            found.append(ids[first : first + length] if length < len(ids) else ids)
        return found

    def check_overlap(self, longest: int) -> None:
        """Raise TokenizersError for a stride that leaves no space in a window."""
        if self.stride >= longest:
            raise TokenizersError(f"stride must be below {longest}, got {self.stride}")

    def windows(self, length: int, longest: int) -> list[tuple[int, int]]:
        """Return the windows of a sequence that is too long; the first one is not overflow."""
        self.check_overlap(longest)
        step = longest - self.stride
        # The window that reaches the other end is the last one.
        starts = range(0, length - longest + step, step)
        found = [(start, min(start + longest, length)) for start in starts]
        if self.direction == "left":
            return [(length - stop, length - start) for start, stop in found]
        return found


def _balanced(lengths: list[int], longest: int) -> list[int]:
    """Return the lengths of longest_first: the longer one is truncated, or both to one half."""
    short, long = sorted(lengths)
    long = short if short > longest else max(short, longest - short)
    if short + long > longest:
        short = longest // 2
        long = short + longest % 2
    return [short, long] if lengths[0] <= lengths[1] else [long, short]


class Padding(
    Lengths,
    options=(
        Option(
            "length",
            lambda length: "BatchLongest" if length is None else {"Fixed": check(length, int)},
            None,
            key="strategy",
            read=lambda strategy: None if strategy == "BatchLongest" else strategy["Fixed"],
        ),
        _DIRECTION,
        Option("pad_to_multiple_of", maybe(int), None),
        Option("pad_id", check_id, 0),
        Option("pad_type_id", check_id, 0),
        *options_of(pad_token="[PAD]"),
    ),
    unknown="warn",
    is_keyword_only=True,
):
    """The padding token and the target length; None is the longest of a batch."""

    def target(self, longest: int) -> int:
        """Return the padded length of a batch whose longest encoding has `longest` tokens."""
        length = longest if self.length is None else self.length
        multiple = self.pad_to_multiple_of or 1
        return -(-length // multiple) * multiple
