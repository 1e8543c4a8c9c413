"""Bytes, merges and special tokens → ids, in the order of each library.

    tokenizers               special tokens, bytes in the order of their characters, merges
    rustbpe, cs336, minbpe   bytes by value, merges, special tokens
    with `extend`            all ids of the extended tokenizer, merges, new special tokens

With `tokenizers`, a special token that is spelled like a byte or a learned token shares its id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import TrainingError
from tokenmill.formats.names import byte_characters, bytes_of
from tokenmill.formats.ranks import Merge, of_ranks
from tokenmill.native import _native
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.merging import TRAINERS, Merges

# Ids end to end, the number of ids of each pretoken, and its count.
Words = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint64]]

_WHOLE = r"(?s:.+)"


@dataclass(frozen=True)
class Numbering:
    """The ids before the first merge.

    `tokens` are tokens with bytes. `reserved` are the bytes of special tokens: a merge with these
    bytes gets the id. `base` are the merges of an extended tokenizer.
    """

    tokens: dict[int, bytes]
    first_id: int
    front: dict[str, int]
    back: tuple[str, ...]
    reserved: dict[int, bytes]
    base: tuple[Merge, ...] = ()

    def alphabet(self) -> dict[int, int]:
        """The id of each byte."""
        return {token[0]: id_ for id_, token in self.tokens.items() if len(token) == 1}

    def made_from(self) -> int:
        """The first id of a token that is or will be the result of a merge."""
        longer = [id_ for id_, token in self.tokens.items() if len(token) > 1]
        return min(longer, default=self.first_id)

    def merges_max(self, vocab_size: int) -> int:
        """The number of ids for merges."""
        least = self.first_id + len(self.back)
        if vocab_size < least:
            raise TrainingError(
                f"vocab_size={vocab_size:_} is too small: {self._least()}; pass {least:_} or more"
            )
        return vocab_size - least

    def _least(self) -> str:
        if self.base:
            return (
                f"the extended tokenizer has {self.first_id:_} ids, and there are "
                f"{len(self.back)} new special tokens"
            )
        special_tokens = len(self.front) + len(self.back)
        return f"there are {len(self.tokens)} bytes and {special_tokens} special tokens"


def new_numbering(
    trainer: str, special_tokens: Sequence[str], alphabet: Iterable[int]
) -> Numbering:
    """The ids of a new vocabulary."""
    allowed = sorted(alphabet)
    if not TRAINERS[trainer].special_tokens_first:
        tokens = {id_: bytes([byte]) for id_, byte in enumerate(allowed)}
        return Numbering(tokens, len(tokens), {}, tuple(special_tokens), {})
    front = {name: id_ for id_, name in enumerate(special_tokens)}
    characters = byte_characters()
    next_id = len(front)
    tokens = {}
    for byte in sorted(allowed, key=characters.__getitem__):
        id_ = front.get(characters[byte], next_id)
        tokens[id_] = bytes([byte])
        next_id += id_ == next_id
    return Numbering(tokens, next_id, front, (), _spelled_bytes(front))


def extended_numbering(base: Tokenizer, special_tokens: Sequence[str], trainer: str) -> Numbering:
    """The ids of a vocabulary that extends another one."""
    tokens, front = base._tokens(), dict(base.special_tokens)
    new = tuple(name for name in special_tokens if name not in front)
    reserved = _spelled_bytes(front) if TRAINERS[trainer].special_tokens_first else {}
    known = set(tokens.values())
    reserved = {id_: token for id_, token in reserved.items() if token not in known}
    return Numbering(tokens, base.vocab_size, front, new, reserved, tuple(base._merges()))


def _spelled_bytes(special_tokens: dict[str, int]) -> dict[int, bytes]:
    """The tokens that `tokenizers` would write like a special token, by id."""
    tokens = ((id_, bytes_of(name)) for name, id_ in special_tokens.items())
    return {id_: token for id_, token in tokens if token is not None and len(token) > 1}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens by id, special tokens by name, and merges.

    The first `base` merges are those of the extended tokenizer. `next_id` follows the last merge.
    """

    tokens: dict[int, bytes]
    special_tokens: dict[str, int]
    merges: list[Merge]
    base: int
    next_id: int

    def ids(self) -> dict[bytes, int]:
        """The id of each token."""
        return {token: id_ for id_, token in self.tokens.items()}


def assign(numbering: Numbering, merges: Merges, vocab_size: int) -> Vocabulary:
    """The vocabulary of the first merges, limited by the size."""
    limit = numbering.first_id + numbering.merges_max(vocab_size)
    # The first free id before each merge and after the last one.
    following = merges.ids.astype(np.int64) + 1
    free = np.maximum.accumulate(np.concatenate([[numbering.first_id], following]))
    count = min(int(np.searchsorted(free, limit)), len(merges))
    tokens = dict(numbering.tokens)
    pairs = list(numbering.base)
    columns = (column[:count].tolist() for column in (merges.lefts, merges.rights, merges.ids))
    for left, right, id_ in zip(*columns, strict=True):
        first, second = tokens[left], tokens[right]
        pairs.append((first, second))
        tokens[id_] = first + second
    new = int(free[count])
    back = {name: new + index for index, name in enumerate(numbering.back)}
    return Vocabulary(tokens, {**numbering.front, **back}, pairs, len(numbering.base), new)


class Encoder:
    """Encodes counted pretokens with a tokenizer.

    `ids` has the result for each id of the tokenizer. `space_bytes` is the size of the space that a
    counted pretoken lacks. `empty_id` is the id of a pretoken that the tokenizer removes.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        ids: NDArray[np.uint32] | None = None,
        space_bytes: int = 0,
        empty_id: int | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._ids = ids
        self._empty_id = empty_id
        self.space_bytes = space_bytes

    def encode(self, counts: _native.Inventory, threads: int) -> Words:
        """The ids of all pretokens."""
        data, sizes, amounts = (np.asarray(buffer) for buffer in counts.arrays())
        stops = np.cumsum(sizes, dtype=np.int64)
        spans = np.stack([stops - sizes, stops], axis=1)
        ids, ends = self._tokenizer._encode_spans(data, spans, threads=threads)
        lengths = np.diff(ends, prepend=0).astype(np.uint32)
        if self._ids is not None:
            ids = self._ids[ids]
        if self._empty_id is not None:
            empty = np.flatnonzero(lengths == 0)
            ids = np.insert(ids, ends[empty], self._empty_id)
            lengths[empty] = 1
        return ids, lengths, amounts


def encoder_of(vocabulary: Vocabulary) -> Encoder:
    """An encoder for the bytes and merges of a vocabulary.

    A tokenizer merges by id. If a special token shares its id with a learned token, ids are not in
    the order of the merges. So each token gets its position in that order as a temporary id.
    Pretokens are encoded whole, because the pattern could split one differently without its
    context.
    """
    ids = vocabulary.ids()
    made = [left + right for left, right in vocabulary.merges]
    others = sorted(ids.keys() - set(made), key=lambda token: (len(token) > 1, ids[token]))
    order = list(dict.fromkeys([*(t for t in others if len(t) == 1), *made, *others]))
    positions = {token: position for position, token in enumerate(order)}
    spec = of_ranks(positions, _WHOLE, {}, "the vocabulary")
    found = np.array([ids[token] for token in order], np.uint32)
    return Encoder(Tokenizer._from_spec(spec, "merges"), found)
