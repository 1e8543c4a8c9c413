"""Encodings: ids with offsets, tokens, types and masks; truncation and padding.

Ids are computed at once. The other lists are computed when they are first read, by encoding again
with offsets, because most callers read only ids and masks.

**Invariant**: lists are never changed in place, so that encodings can share them.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self, TypeAlias

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

Offsets: TypeAlias = tuple[int, int]
# The lists with one item per token: name in the pickle → attribute.
_LISTS = {
    "ids": "_ids", "type_ids": "_type_ids", "tokens": "_tokens", "words": "_words",
    "offsets": "_offsets", "special_tokens_mask": "_special", "attention_mask": "_attention",
}  # fmt: skip
_SIDES = ("left", "right")


@dataclass(slots=True)
class Run:
    """Adjacent tokens of an encoding with the same type and masks."""

    length: int
    type_id: int
    special: int = 0
    attention: int = 1


class Encoding:
    """The result of encoding a text or a pair."""

    _ids: list[int]
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
    _make: Callable[[], Encoding] | None
    # Types and masks while the encoding is not complete.
    _runs: list[Run] | None

    def __init__(self) -> None:
        for name in _LISTS.values():
            setattr(self, name, [])
        self._overflowing, self._ranges = [], {}
        self._make, self._runs = None, None

    # Attributes

    @property
    def ids(self) -> list[int]:
        """The ids."""
        return self._ids[:]

    @property
    def type_ids(self) -> list[int]:
        """The type of each token, which the post-processor sets: usually the text of a pair."""
        if self._runs is not None:
            return [run.type_id for run in self._runs for _ in range(run.length)]
        return self._type_ids[:]

    @property
    def attention_mask(self) -> list[int]:
        """1 for tokens, 0 for padding."""
        if self._runs is not None:
            return [run.attention for run in self._runs for _ in range(run.length)]
        return self._attention[:]

    @property
    def special_tokens_mask(self) -> list[int]:
        """1 for tokens that the post-processor or padding added."""
        if self._runs is not None:
            return [run.special for run in self._runs for _ in range(run.length)]
        return self._special[:]

    @property
    def tokens(self) -> list[str]:
        """The tokens as in the vocabulary."""
        return self._complete()._tokens[:]

    @property
    def offsets(self) -> list[Offsets]:
        """The characters of the text that each token covers: (start, end)."""
        return self._complete()._offsets[:]

    @property
    def word_ids(self) -> list[int | None]:
        """The word of each token; None for special tokens."""
        return self._complete()._words[:]

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
        return len(self._complete()._ranges) or 1

    @property
    def overflowing(self) -> list[Encoding]:
        """The encodings of the tokens that truncation removed."""
        return self._complete()._overflowing[:]

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
        self._complete()
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
        token = check_unsigned(token_index)
        ranges = self._complete()._ranges
        if token > len(self):
            return None
        if not ranges:
            return 0
        return next((i for i, (start, stop) in ranges.items() if start <= token < stop), None)

    def token_to_chars(self, token_index: int) -> Offsets | None:
        """Return the characters that a token covers, or None."""
        inside = self.token_to_sequence(token_index) is not None and token_index < len(self)
        return self._offsets[token_index] if inside else None

    def token_to_word(self, token_index: int) -> int | None:
        """Return the word of a token, or None."""
        inside = self.token_to_sequence(token_index) is not None and token_index < len(self)
        return self._words[token_index] if inside else None

    def char_to_token(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Return the token that covers a character, or None."""
        position, sequence = check_unsigned(char_pos), check_unsigned(sequence_index)
        for token in range(*self._range(sequence)):
            if self._offsets[token][0] <= position < self._offsets[token][1]:
                return token
        return None

    def char_to_word(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """Return the word that covers a character, or None."""
        token = self.char_to_token(char_pos, sequence_index)
        return None if token is None else self.token_to_word(token)

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> Offsets | None:
        """Return the tokens of a word: (first, one past the last), or None."""
        word, sequence = check_unsigned(word_index, 32), check_unsigned(sequence_index)
        found = []
        for token in range(*self._range(sequence)):
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
        return self._complete()._ranges.get(sequence, (0, len(self)))

    # Changes

    def set_sequence_id(self, sequence_id: int) -> None:
        """Assign all tokens to this text."""
        whole = self._complete()
        whole._ranges = {**whole._ranges, check_unsigned(sequence_id): (0, len(self))}

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
        self._complete()
        # Another encoding may share them and pad them in another way.
        self._overflowing = [each._copy() for each in self._overflowing]
        for each in self._overflowing:
            each._pad(target, id_, type_id, token, left)
        n = target - len(self._ids)
        if n <= 0:
            return
        padding = _without_text([id_] * n, [token] * n, type_id, 0)
        if left:
            ranges = {i: (start + n, stop + n) for i, (start, stop) in self._ranges.items()}
            self._join(padding, self, ranges)
        else:
            self._join(self, padding, self._ranges)

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
        self._complete()
        if longest == 0:
            everything = self._copy()
            self.__init__()  # type: ignore[misc]
            self._overflowing = [everything]
            return
        windows = windows_of(length, longest, stride, left)
        first, *others = [self._slice(start, stop) for start, stop in windows]
        self._take(first)
        self._overflowing = others

    @staticmethod
    def merge(encodings: Iterable[Encoding], growing_offsets: bool = True) -> Encoding:
        """Return the concatenation of encodings."""
        each = [check_instance(each, Encoding) for each in check_sequence(encodings)]
        return merge(each, check_flag(growing_offsets))

    # Assembly

    def _complete(self) -> Encoding:
        """Return this encoding with all lists."""
        if self._make is not None:
            self._take(self._make())
        return self

    def _take(self, other: Encoding) -> None:
        for name in (*_LISTS.values(), "_overflowing", "_ranges"):
            setattr(self, name, getattr(other._complete(), name))
        self._make, self._runs = None, None

    def _copy(self) -> Encoding:
        made = Encoding()
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
        self._complete()
        overflowing = []
        for mine in self._overflowing:
            for other in (pair._complete(), *pair._overflowing):
                overflowing.append(mine._copy())
                overflowing[-1]._merge_with(other, growing)
        for other in pair._complete()._overflowing:
            overflowing.append(self._copy())
            overflowing[-1]._merge_with(other, growing)
        length = len(self._ids)
        moved = {i: (length + start, length + stop) for i, (start, stop) in pair._ranges.items()}
        shift = self._offsets[-1][1] if growing and self._offsets else 0
        if shift:
            shifted = pair._copy()
            shifted._offsets = [(start + shift, stop + shift) for start, stop in pair._offsets]
            pair = shifted
        self._join(self, pair, {**self._ranges, **moved})
        self._overflowing = overflowing


def lazy_encoding(ids: list[int], runs: list[Run], make: Callable[[], Encoding]) -> Encoding:
    """Return an encoding that has only ids until `make` completes it."""
    made = Encoding.__new__(Encoding)
    made._ids, made._runs, made._make = ids, runs, make
    return made


def of_tokens(
    ids: list[int],
    tokens: list[str],
    offsets: list[Offsets],
    words: list[int | None],
    type_id: int,
) -> Encoding:
    """Return the encoding of a sequence before post-processing."""
    made, n = Encoding(), len(ids)
    made._ids, made._tokens, made._offsets, made._words = ids, tokens, offsets, words
    made._type_ids, made._special, made._attention = [type_id] * n, [0] * n, [1] * n
    return made


def of_specials(ids: list[int], tokens: list[str], type_id: int) -> Encoding:
    """Return the encoding of special tokens that a post-processor adds."""
    return _without_text(ids, tokens, type_id, 1)


def _without_text(ids: list[int], tokens: list[str], type_id: int, attention: int) -> Encoding:
    n = len(ids)
    made = of_tokens(ids, tokens, [(0, 0)] * n, [None] * n, type_id)
    made._special, made._attention = [1] * n, [attention] * n
    return made


def merge(encodings: Iterable[Encoding], growing: bool) -> Encoding:
    made = Encoding()
    for each in encodings:
        made._merge_with(each, growing)
    return made


def windows_of(length: int, longest: int, stride: int, left: bool) -> list[tuple[int, int]]:
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
