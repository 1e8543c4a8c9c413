"""Encodings: ids with offsets, tokens, types and masks; truncation and padding.

Ids, types and masks are lists. Tokens, offsets, words and the overflow are computed when they are
first read, because most callers read only ids and masks.

**Invariant**: lists are never changed in place, so that encodings can share them.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar

from tokenmill.compat.tokenizers.components import (
    check_choice,
    check_flag,
    check_instance,
    check_sequence,
    check_text,
    check_unsigned,
    dump,
    warn_unknown,
)
from tokenmill.errors import TokenizersError

T = TypeVar("T")
Offsets: TypeAlias = tuple[int, int]
_LISTS = ("_ids", "_type_ids", "_special", "_attention")
_SIDES = ("left", "right")


class Columns(NamedTuple):
    """The lists of an encoding that need its text."""

    tokens: list[str]
    offsets: list[Offsets]
    words: list[int | None]


class Lazy(Generic[T]):
    """A value that `make` computes when it is first read."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make

    @cached_property
    def value(self) -> T:
        return self._make()


class Encoding:
    """The result of encoding a text or a pair."""

    _ids: list[int]
    _type_ids: list[int]
    _special: list[int]
    _attention: list[int]
    _text: Lazy[Columns]
    _overflow: Lazy[list[Encoding]] | None
    # Sequence → its tokens, as (start, stop). If empty, one sequence has all tokens.
    _ranges: dict[int, tuple[int, int]]

    def __init__(self) -> None:
        self._fill([], Lazy(lambda: Columns([], [], [])))

    def _fill(
        self,
        ids: list[int],
        text: Lazy[Columns],
        type_id: int = 0,
        special: int = 0,
        attention: int = 1,
    ) -> Self:
        n = len(ids)
        self._ids, self._text = ids, text
        self._type_ids, self._special = [type_id] * n, [special] * n
        self._attention = [attention] * n
        self._overflow, self._ranges = None, {}
        return self

    # Attributes

    @property
    def ids(self) -> list[int]:
        """The ids."""
        return self._ids[:]

    @property
    def type_ids(self) -> list[int]:
        """The type of each token, which the post-processor sets: usually the text of a pair."""
        return self._type_ids[:]

    @property
    def attention_mask(self) -> list[int]:
        """1 for tokens, 0 for padding."""
        return self._attention[:]

    @property
    def special_tokens_mask(self) -> list[int]:
        """1 for tokens that the post-processor or padding added."""
        return self._special[:]

    @property
    def tokens(self) -> list[str]:
        """The tokens as in the vocabulary."""
        return self._text.value.tokens[:]

    @property
    def offsets(self) -> list[Offsets]:
        """The characters of the text that each token covers: (start, end)."""
        return self._text.value.offsets[:]

    @property
    def word_ids(self) -> list[int | None]:
        """The word of each token; None for special tokens."""
        return self._text.value.words[:]

    @property
    def words(self) -> list[int | None]:
        """The old name of `word_ids`."""
        warnings.warn("use Encoding.word_ids instead of words", DeprecationWarning, stacklevel=2)
        return self.word_ids

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
        return len(self._ranges) or 1

    @property
    def overflowing(self) -> list[Encoding]:
        """The encodings of the tokens that truncation removed."""
        return [] if self._overflow is None else self._overflow.value[:]

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
        tokens, offsets, words = self._text.value
        return {
            "ids": self._ids, "type_ids": self._type_ids, "tokens": tokens, "words": words,
            "offsets": offsets, "special_tokens_mask": self._special,
            "attention_mask": self._attention,
            "overflowing": [each._state() for each in self.overflowing],
            "sequence_ranges": {
                str(i): {"start": start, "end": stop} for i, (start, stop) in self._ranges.items()
            },
        }  # fmt: skip

    def __setstate__(self, state: bytes) -> None:
        self._restore(json.loads(state))

    def _restore(self, state: dict[str, Any]) -> Self:
        offsets = [(start, stop) for start, stop in state["offsets"]]
        columns = Columns(state["tokens"], offsets, state["words"])
        self._fill(state["ids"], Lazy(lambda: columns))
        self._type_ids, self._special = state["type_ids"], state["special_tokens_mask"]
        self._attention = state["attention_mask"]
        overflow = [Encoding()._restore(each) for each in state["overflowing"]]
        self._overflow = Lazy(lambda: overflow) if overflow else None
        ranges = state["sequence_ranges"].items()
        self._ranges = {int(i): (range_["start"], range_["end"]) for i, range_ in ranges}
        return self

    # From texts to tokens and back

    def token_to_sequence(self, token_index: int) -> int | None:
        """Return the text of a token, or None."""
        token = check_unsigned(token_index)
        if token > len(self):
            return None
        ranges = self._ranges or {0: (0, token + 1)}
        return next((i for i, (start, stop) in ranges.items() if start <= token < stop), None)

    def token_to_chars(self, token_index: int) -> Offsets | None:
        """Return the characters that a token covers, or None."""
        return self._text.value.offsets[token_index] if self._has(token_index) else None

    def token_to_word(self, token_index: int) -> int | None:
        """Return the word of a token, or None."""
        return self._text.value.words[token_index] if self._has(token_index) else None

    def _has(self, token: int) -> bool:
        return self.token_to_sequence(token) is not None and token < len(self)

    def char_to_token(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Return the token that covers a character, or None."""
        position, sequence = check_unsigned(char_pos), check_unsigned(sequence_index)
        offsets = self._text.value.offsets
        tokens = range(*self._range(sequence))
        return next((t for t in tokens if offsets[t][0] <= position < offsets[t][1]), None)

    def char_to_word(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Return the word that covers a character, or None."""
        token = self.char_to_token(char_pos, sequence_index)
        return None if token is None else self.token_to_word(token)

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> Offsets | None:
        """Return the tokens of a word: (first, one past the last), or None."""
        word, sequence = check_unsigned(word_index, 32), check_unsigned(sequence_index)
        found = []
        for token in range(*self._range(sequence)):
            here = self._text.value.words[token]
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
        offsets = self._text.value.offsets
        return offsets[tokens[0]][0], offsets[tokens[1] - 1][1]

    def _range(self, sequence: int) -> tuple[int, int]:
        return self._ranges.get(sequence, (0, len(self)))

    # Changes

    def set_sequence_id(self, sequence_id: int) -> None:
        """Assign all tokens to this text."""
        self._ranges = {**self._ranges, check_unsigned(sequence_id): (0, len(self))}

    def pad(
        self,
        length: int,
        *,
        direction: str = "right",
        pad_id: int = 0,
        pad_type_id: int = 0,
        pad_token: str = "[PAD]",
        **kwargs: object,
    ) -> None:
        """Pad to `length` tokens."""
        warn_unknown(kwargs)
        side = check_choice(direction, "direction", _SIDES)
        target = check_unsigned(length)
        pad = (check_unsigned(pad_id, 32), check_unsigned(pad_type_id, 32))
        self._pad(target, *pad, check_text(pad_token), side == "left")

    def _pad(self, target: int, id_: int, type_id: int, token: str, left: bool) -> None:
        def pad(each: Encoding) -> None:
            n = target - len(each._ids)
            if n > 0:
                padding = of_specials([id_] * n, [token] * n, type_id, attention=0)
                overflow = each._overflow
                each._take(_concatenate([padding, each] if left else [each, padding]))
                each._overflow = overflow

        self._change(pad)

    def truncate(self, max_length: int, stride: int = 0, direction: str = "right") -> None:
        """Truncate to `max_length` tokens; the others go to `overflowing`."""
        longest, overlap = check_unsigned(max_length), check_unsigned(stride)
        if check_text(direction) not in _SIDES:
            raise ValueError(f"Invalid truncation direction value : {direction}")
        self._truncate(longest, overlap, direction == "left")

    def _truncate(self, longest: int, stride: int, left: bool) -> None:
        length = len(self._ids)
        if longest >= length:
            return
        whole = self._copy()
        if longest == 0:
            self.__init__()  # type: ignore[misc]
            self._overflow = Lazy(lambda: [whole])
            return
        first, *others = _windows(length, longest, stride, left)
        self._take(self._slice(first))
        self._overflow = Lazy(lambda: [whole._slice(window) for window in others])

    @staticmethod
    def merge(encodings: Iterable[Encoding], growing_offsets: bool = True) -> Encoding:
        """Return the concatenation of encodings."""
        each = [check_instance(each, Encoding)._copy() for each in check_sequence(encodings)]
        return merge(each, check_flag(growing_offsets))

    # Assembly

    def _take(self, other: Encoding) -> None:
        vars(self).update(vars(other))

    def _copy(self) -> Encoding:
        made = Encoding.__new__(Encoding)
        made._take(self)
        return made

    def _change(self, change: Callable[[Encoding], None]) -> None:
        """Change this encoding, and its overflow when that is read."""
        before = self._overflow

        def changed() -> list[Encoding]:
            copies = [each._copy() for each in before.value] if before else []
            for each in copies:
                each._change(change)
            return copies

        change(self)
        if before is not None:
            self._overflow = Lazy(changed)

    def _change_text(self, change: Callable[[Columns], Columns]) -> None:
        text = self._text
        self._text = Lazy(lambda: change(text.value))

    def _slice(self, window: tuple[int, int]) -> Encoding:
        """Return some of the tokens, without sequences and overflow."""
        made, part = self._copy(), slice(*window)
        made._overflow, made._ranges = None, {}
        for name in _LISTS:
            setattr(made, name, getattr(self, name)[part])
        made._change_text(lambda c: Columns(c.tokens[part], c.offsets[part], c.words[part]))
        return made

    def _merged(self, pair: Encoding, growing: bool) -> Encoding:
        """Return this encoding and then `pair`, with all combinations of their overflow."""
        shifted = pair._copy()
        if growing and self._ids:
            shift = self._text.value.offsets[-1][1]
            shifted._change_text(
                lambda columns: columns._replace(
                    offsets=[(start + shift, stop + shift) for start, stop in columns.offsets]
                )
            )
        made = _concatenate([self, shifted])

        def combine() -> list[Encoding]:
            rights = pair.overflowing
            found = [left._merged(r, growing) for left in self.overflowing for r in (pair, *rights)]
            return found + [self._merged(right, growing) for right in rights]

        if self._overflow or pair._overflow:
            made._overflow = Lazy(combine)
        return made


def of_tokens(ids: list[int], text: Lazy[Columns], type_id: int) -> Encoding:
    """Return the encoding of a sequence before post-processing."""
    return Encoding.__new__(Encoding)._fill(ids, text, type_id)


def of_specials(ids: list[int], tokens: list[str], type_id: int, attention: int = 1) -> Encoding:
    """Return the encoding of special tokens that a post-processor or padding adds."""
    n = len(ids)
    text = Lazy(lambda: Columns(tokens, [(0, 0)] * n, [None] * n))
    return Encoding.__new__(Encoding)._fill(ids, text, type_id, 1, attention)


def _concatenate(parts: Sequence[Encoding]) -> Encoding:
    """Return the tokens of one or more encodings in order, without their overflow."""
    made = Encoding.__new__(Encoding)
    for name in _LISTS:
        setattr(made, name, [*chain.from_iterable([getattr(each, name) for each in parts])])
    texts = [each._text for each in parts]

    def columns() -> Columns:
        tokens, offsets, words = zip(*(text.value for text in texts), strict=True)
        return Columns([*chain(*tokens)], [*chain(*offsets)], [*chain(*words)])

    made._text = Lazy(columns)
    made._overflow, made._ranges = None, {}
    length = 0
    for each in parts:
        for sequence, (start, stop) in each._ranges.items():
            made._ranges[sequence] = (length + start, length + stop)
        length += len(each._ids)
    return made


def merge(encodings: Sequence[Encoding], growing: bool) -> Encoding:
    """Return the concatenation of encodings, which must not change later."""
    if encodings and not growing and not any(each._overflow for each in encodings):
        return _concatenate(encodings)
    made = Encoding()
    for each in encodings:
        made = made._merged(each, growing)
    return made


def _windows(length: int, longest: int, stride: int, left: bool) -> list[tuple[int, int]]:
    """Return the windows of a sequence that is too long; the first one is not overflow."""
    if stride >= longest:
        raise TokenizersError(
            f"stride must be below {longest}, the maximum length without special tokens, got "
            f"{stride}"
        )
    step = longest - stride
    if left:
        stops = range(length, 0, -step)
        found = [(max(stop - longest, 0), stop) for stop in stops]
        end = next(i for i, (start, _) in enumerate(found) if start == 0)
    else:
        found = [(start, min(start + longest, length)) for start in range(0, length, step)]
        end = next(i for i, (_, stop) in enumerate(found) if stop == length)
    return found[: end + 1]


_STRATEGIES = {
    "longest_first": "LongestFirst", "only_first": "OnlyFirst", "only_second": "OnlySecond",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Truncation:
    """The maximum length of encodings, and how they are truncated."""

    max_length: int
    stride: int = 0
    strategy: str = "longest_first"
    direction: str = "right"

    @classmethod
    def of(cls, max_length: object, options: Mapping[str, Any]) -> Truncation:
        """Return the checked options of `enable_truncation`."""
        warn_unknown(options, ("stride", "strategy", "direction"))
        return cls(
            check_unsigned(max_length),
            check_unsigned(options.get("stride", 0)),
            check_choice(options.get("strategy", "longest_first"), "strategy", _STRATEGIES),
            check_choice(options.get("direction", "right"), "direction", _SIDES),
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Truncation | None:
        if data is None:
            return None
        names = {json_name: name for name, json_name in _STRATEGIES.items()}
        direction = data.get("direction", "Right").lower()
        return cls(data["max_length"], data["stride"], names[data["strategy"]], direction)

    def to_json(self) -> dict[str, Any]:
        return {
            "direction": self.direction.capitalize(), "max_length": self.max_length,
            "strategy": _STRATEGIES[self.strategy], "stride": self.stride,
        }  # fmt: skip

    def check_stride(self, added: int) -> None:
        """Raise ValueError for a stride that leaves no space for new tokens."""
        space = self.max_length - added
        if 0 <= space < self.stride:
            raise ValueError(
                f"stride must be at most {space} ({self.max_length} tokens without {added} "
                f"special tokens), got {self.stride}"
            )

    def lengths(self, first: int, second: int | None, added: int) -> tuple[int, int | None]:
        """Return the truncated lengths of two sequences; None for a second that does not exist.

        `added` is the number of special tokens. If they alone are too long, both lengths stay.
        """
        longest = self.max_length - added
        if longest < 0:
            return first, second
        if longest == 0:
            return 0, None if second is None else 0
        removed = first + (second or 0) - longest
        if removed <= 0:
            return first, second
        if self.strategy == "longest_first":
            if second is None:
                return longest, None
            return _balanced(first, second, longest)
        if self.strategy == "only_second" and second is None:
            raise TokenizersError("cannot truncate only_second without a second sequence")
        target = first if self.strategy == "only_first" else second or 0
        if target <= removed:
            raise TokenizersError(
                f"cannot truncate {self.strategy}: it has {target} tokens, and {removed} must go"
            )
        if self.strategy == "only_first":
            return first - removed, second
        return first, target - removed

    def apply(self, first: Encoding, second: Encoding | None, added: int) -> None:
        """Truncate both in place; the removed tokens become overflow."""
        lengths = self.lengths(len(first), None if second is None else len(second), added)
        for encoding, length in zip((first, second), lengths, strict=True):
            if encoding is not None and length is not None:
                encoding._truncate(length, self.stride, self.direction == "left")


def _balanced(first: int, second: int, longest: int) -> tuple[int, int]:
    """Return the lengths of longest_first: the longer one is truncated, or both to one half."""
    short, long = sorted((first, second))
    long = short if short > longest else max(short, longest - short)
    if short + long > longest:
        short = longest // 2
        long = short + longest % 2
    return (short, long) if first <= second else (long, short)


@dataclass(frozen=True, slots=True)
class Padding:
    """The padding token and the target length; None is the longest of a batch."""

    length: int | None = None
    pad_to_multiple_of: int | None = None
    pad_id: int = 0
    pad_token: str = "[PAD]"
    pad_type_id: int = 0
    direction: str = "right"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Padding:
        """Return the checked options of `enable_padding`."""
        given = dict(options)
        if "max_length" in given:  # the old name
            given["length"] = given.pop("max_length")
        warn_unknown(given, asdict(cls()))
        length, multiple = given.get("length"), given.get("pad_to_multiple_of")
        return cls(
            None if length is None else check_unsigned(length),
            None if multiple is None else check_unsigned(multiple),
            check_unsigned(given.get("pad_id", 0), 32),
            check_text(given.get("pad_token", "[PAD]")),
            check_unsigned(given.get("pad_type_id", 0), 32),
            check_choice(given.get("direction", "right"), "direction", _SIDES),
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Padding | None:
        if data is None:
            return None
        strategy = data["strategy"]
        length = None if strategy == "BatchLongest" else strategy["Fixed"]
        return cls(
            length, data.get("pad_to_multiple_of"), data["pad_id"], data["pad_token"],
            data["pad_type_id"], data["direction"].lower(),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        return {
            "strategy": "BatchLongest" if self.length is None else {"Fixed": self.length},
            "direction": self.direction.capitalize(),
            "pad_to_multiple_of": self.pad_to_multiple_of,
            "pad_id": self.pad_id, "pad_type_id": self.pad_type_id, "pad_token": self.pad_token,
        }  # fmt: skip

    def target(self, longest: int) -> int:
        """Return the padded length of a batch whose longest encoding has `longest` tokens."""
        length = longest if self.length is None else self.length
        multiple = self.pad_to_multiple_of or 1
        return -(-length // multiple) * multiple

    def fill(self, encodings: Sequence[Encoding]) -> None:
        target = self.target(max(map(len, encodings), default=0))
        for each in encodings:
            self.fill_to(each, target)

    def fill_to(self, encoding: Encoding, target: int) -> None:
        left = self.direction == "left"
        encoding._pad(target, self.pad_id, self.pad_type_id, self.pad_token, left)
