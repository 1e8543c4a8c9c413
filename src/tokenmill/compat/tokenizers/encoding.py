"""Ids, and all that is known about them: what a tokenizer gives for a text or a pair.

The ids are there at once. Everything else is found out when it is first asked for, by going the
whole way again with offsets: most callers want nothing but ids and masks.

**Invariant**: lists are never changed in place, so that encodings can share them.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tokenmill.compat.tokenizers import values
from tokenmill.errors import TokenizersError

Offsets: TypeAlias = tuple[int, int]
# What there is one of for each token.
_LISTS = ("_ids", "_type_ids", "_tokens", "_words", "_offsets", "_special", "_attention")


class Encoding:
    """The result of encoding a text, or two."""

    _ids: list[int]
    _type_ids: list[int]
    _tokens: list[str]
    _words: list[int | None]
    _offsets: list[Offsets]
    _special: list[int]
    _attention: list[int]
    _overflowing: list[Encoding]
    # Sequence → its tokens, as (start, stop). Empty: there is one, and it has all of them.
    _ranges: dict[int, tuple[int, int]]
    # Makes the whole of this encoding; None if it is here.
    _make: Callable[[], Encoding] | None
    # The runs of tokens that are alike, while only the ids are here: see `Run`.
    _runs: list[Run] | None

    def __init__(self) -> None:
        self._set([], [], [], [], [], [], [], [], {})

    def _set(
        self,
        ids: list[int],
        type_ids: list[int],
        tokens: list[str],
        words: list[int | None],
        offsets: list[Offsets],
        special: list[int],
        attention: list[int],
        overflowing: list[Encoding],
        ranges: dict[int, tuple[int, int]],
    ) -> None:
        self._ids, self._type_ids, self._tokens, self._words = ids, type_ids, tokens, words
        self._offsets, self._special, self._attention = offsets, special, attention
        self._overflowing, self._ranges = overflowing, ranges
        self._make, self._runs = None, None

    # What it holds

    @property
    def ids(self) -> list[int]:
        """The ids."""
        return self._ids[:]

    @property
    def type_ids(self) -> list[int]:
        """Which text of a pair each token belongs to, as the post-processor says."""
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
        """1 for tokens that the post-processor or padding put there."""
        if self._runs is not None:
            return [run.special for run in self._runs for _ in range(run.length)]
        return self._special[:]

    @property
    def tokens(self) -> list[str]:
        """The tokens as the vocabulary spells them."""
        return self._whole()._tokens[:]

    @property
    def offsets(self) -> list[Offsets]:
        """The characters of the text that each token covers: (start, end)."""
        return self._whole()._offsets[:]

    @property
    def word_ids(self) -> list[int | None]:
        """The word that each token belongs to; None for special ones."""
        return self._whole()._words[:]

    @property
    def words(self) -> list[int | None]:
        """The old name of `word_ids`."""
        said = (
            "Deprecated in 0.9.4: Encoding.words is deprecated, please use Encoding.word_ids "
            "instead."
        )
        warnings.warn(said, DeprecationWarning, stacklevel=2)
        return self.word_ids

    @property
    def sequence_ids(self) -> list[int | None]:
        """The text, 0 or 1, that each token belongs to; None for special ones."""
        found: list[int | None] = [None] * len(self)
        for sequence in range(self.n_sequences):
            start, stop = self._range(sequence)
            found[start:stop] = [sequence] * (stop - start)
        return found

    @property
    def n_sequences(self) -> int:
        """How many texts there are."""
        return len(self._whole()._ranges) or 1

    @property
    def overflowing(self) -> list[Encoding]:
        """The encodings of what truncation cut off."""
        return self._whole()._overflowing[:]

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        return (
            f"Encoding(num_tokens={len(self)}, attributes=[ids, type_ids, tokens, offsets, "
            "attention_mask, special_tokens_mask, overflowing])"
        )

    def __getstate__(self) -> bytes:
        return json.dumps(self._state(), ensure_ascii=False, separators=(",", ":")).encode()

    def _state(self) -> dict[str, Any]:
        self._whole()
        ranges = {str(i): {"start": a, "end": b} for i, (a, b) in self._ranges.items()}
        return {
            "ids": self._ids, "type_ids": self._type_ids, "tokens": self._tokens,
            "words": self._words, "offsets": self._offsets, "special_tokens_mask": self._special,
            "attention_mask": self._attention,
            "overflowing": [each._state() for each in self._overflowing],
            "sequence_ranges": ranges,
        }  # fmt: skip

    def __setstate__(self, state: bytes) -> None:
        self._restore(json.loads(state))

    def _restore(self, state: dict[str, Any]) -> None:
        overflowing = []
        for each in state["overflowing"]:
            overflowing.append(Encoding())
            overflowing[-1]._restore(each)
        ranges = {int(i): (r["start"], r["end"]) for i, r in state["sequence_ranges"].items()}
        self._set(
            state["ids"], state["type_ids"], state["tokens"], state["words"],
            [(start, stop) for start, stop in state["offsets"]], state["special_tokens_mask"],
            state["attention_mask"], overflowing, ranges,
        )  # fmt: skip

    # From texts to tokens and back

    def token_to_sequence(self, token_index: int) -> int | None:
        """The text that a token belongs to, or None."""
        token = values.unsigned(token_index)
        ranges = self._whole()._ranges
        if token > len(self):
            return None
        if not ranges:
            return 0
        return next((i for i, (start, stop) in ranges.items() if start <= token < stop), None)

    def token_to_chars(self, token_index: int) -> Offsets | None:
        """The characters that a token covers, or None."""
        inside = self.token_to_sequence(token_index) is not None and token_index < len(self)
        return self._offsets[token_index] if inside else None

    def token_to_word(self, token_index: int) -> int | None:
        """The word that a token belongs to, or None."""
        inside = self.token_to_sequence(token_index) is not None and token_index < len(self)
        return self._words[token_index] if inside else None

    def char_to_token(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """The token that covers a character, or None."""
        place, sequence = values.unsigned(char_pos), values.unsigned(sequence_index)
        start, stop = self._range(sequence)
        for token in range(start, stop):
            if self._offsets[token][0] <= place < self._offsets[token][1]:
                return token
        return None

    def char_to_word(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """The word that covers a character, or None."""
        token = self.char_to_token(char_pos, sequence_index)
        return None if token is None else self.token_to_word(token)

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> Offsets | None:
        """The tokens of a word: (first, one past the last), or None."""
        word, sequence = values.unsigned(word_index, 32), values.unsigned(sequence_index)
        start, stop = self._range(sequence)
        found = []
        for token in range(start, stop):
            here = self._words[token]
            if here is not None and here > word:
                break
            if here == word:
                found.append(token)
        return (found[0], found[-1] + 1) if found else None

    def word_to_chars(self, word_index: int, sequence_index: int = 0) -> Offsets | None:
        """The characters of a word: (start, end), or None."""
        tokens = self.word_to_tokens(word_index, sequence_index)
        if tokens is None:
            return None
        return self._offsets[tokens[0]][0], self._offsets[tokens[1] - 1][1]

    def _range(self, sequence: int) -> tuple[int, int]:
        return self._whole()._ranges.get(sequence, (0, len(self)))

    # Changes

    def set_sequence_id(self, sequence_id: int) -> None:
        """All tokens belong to this text from now on."""
        whole = self._whole()
        whole._ranges = {**whole._ranges, values.unsigned(sequence_id): (0, len(self))}

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
        """Fills it up to `length`."""
        values.ignore(kwargs)
        side = values.choice(direction, "direction", ("left", "right"))
        target = values.unsigned(length)
        pad = (values.unsigned(pad_id, 32), values.unsigned(pad_type_id, 32))
        self._pad(target, *pad, values.text(pad_token), side == "left")

    def _pad(self, target: int, id_: int, type_id: int, token: str, left: bool) -> None:
        self._whole()
        # They may be shared with another encoding that is padded in another way.
        self._overflowing = [each._copy() for each in self._overflowing]
        for each in self._overflowing:
            each._pad(target, id_, type_id, token, left)
        n = target - len(self._ids)
        if n <= 0:
            return
        padding = _of([id_] * n, [type_id] * n, [token] * n, [1] * n, 0)
        if left:
            ranges = {i: (start + n, stop + n) for i, (start, stop) in self._ranges.items()}
            self._join(padding, self, ranges)
        else:
            self._join(self, padding, self._ranges)

    def truncate(self, max_length: int, stride: int = 0, direction: str = "right") -> None:
        """Cuts it to `max_length`; what is cut off goes to `overflowing`."""
        longest, overlap = values.unsigned(max_length), values.unsigned(stride)
        if values.text(direction) not in ("left", "right"):
            raise ValueError(f"Invalid truncation direction value : {direction}")
        self._truncate(longest, overlap, direction == "left")

    def _truncate(self, longest: int, stride: int, left: bool) -> None:
        length = len(self._ids)
        if longest >= length:
            return
        self._whole()
        if longest == 0:
            everything = self._copy()
            self.__init__()  # type: ignore[misc]
            self._overflowing = [everything]
            return
        windows = windows_of(length, longest, stride, left)
        pieces = [self._slice(start, stop) for start, stop in windows]
        self._take(pieces[0])
        self._overflowing = pieces[1:]

    @staticmethod
    def merge(encodings: Iterable[Encoding], growing_offsets: bool = True) -> Encoding:
        """One encoding of several, end to end."""
        given = [values.instance(each, Encoding) for each in values.sequence(encodings)]
        return merge(given, values.flag(growing_offsets))

    # How encodings are put together

    def _whole(self) -> Encoding:
        """This encoding with everything in it."""
        if self._make is not None:
            self._take(self._make())
        return self

    def _take(self, other: Encoding) -> None:
        for name in (*_LISTS, "_overflowing", "_ranges"):
            setattr(self, name, getattr(other._whole(), name))
        self._make, self._runs = None, None

    def _copy(self) -> Encoding:
        made = Encoding()
        made._take(self)
        return made

    def _slice(self, start: int, stop: int) -> Encoding:
        """Some of the tokens; to which sequence they belong is forgotten, as is what overflows."""
        made = Encoding()
        for name in _LISTS:
            setattr(made, name, getattr(self, name)[start:stop])
        return made

    def _join(self, a: Encoding, b: Encoding, ranges: dict[int, tuple[int, int]]) -> None:
        """Becomes the tokens of `a` and then those of `b`; what overflows stays."""
        for name in _LISTS:
            setattr(self, name, getattr(a, name) + getattr(b, name))
        self._ranges = ranges

    def _merge_with(self, pair: Encoding, growing: bool) -> None:
        """Adds `pair`. Everything that overflows here meets everything that overflows there."""
        self._whole()
        overflowing = []
        for mine in self._overflowing:
            for other in (pair._whole(), *pair._overflowing):
                overflowing.append(mine._copy())
                overflowing[-1]._merge_with(other, growing)
        for other in pair._whole()._overflowing:
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


@dataclass(slots=True)
class Run:
    """Tokens of an encoding side by side that have the same type and masks."""

    length: int
    type_id: int
    special: int = 0
    attention: int = 1


def later(ids: list[int], runs: list[Run], make: Callable[[], Encoding]) -> Encoding:
    """An encoding of which only the ids are here."""
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
    """What a sequence is before anything is put around it."""
    made, n = Encoding(), len(ids)
    made._set(ids, [type_id] * n, tokens, words, offsets, [0] * n, [1] * n, [], {})
    return made


def of_specials(ids: list[int], tokens: list[str], type_id: int) -> Encoding:
    """What a template puts around a sequence."""
    n = len(ids)
    return _of(ids, [type_id] * n, tokens, [1] * n, 1)


def _of(
    ids: list[int], type_ids: list[int], tokens: list[str], special: list[int], attention: int
) -> Encoding:
    """Tokens that come from no text."""
    made, n = Encoding(), len(ids)
    nowhere: list[Offsets] = [(0, 0)] * n
    made._set(ids, type_ids, tokens, [None] * n, nowhere, special, [attention] * n, [], {})
    return made


def merge(encodings: Iterable[Encoding], growing: bool) -> Encoding:
    made = Encoding()
    for each in encodings:
        made._merge_with(each, growing)
    return made


def windows_of(length: int, longest: int, stride: int, left: bool) -> list[tuple[int, int]]:
    """The pieces of a sequence that is too long, the one that is kept first."""
    if stride >= longest:
        raise TokenizersError(
            f"`stride` must be strictly less than `max_len={longest}` (note that `max_len` may be "
            "shorter than the max length of the original model, as it subtracts the number of "
            "special characters"
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
