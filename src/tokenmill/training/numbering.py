"""Bytes, merges and special tokens → ids, in the order of each library.

    tokenizers               special tokens, bytes in the order of their characters, merges
    rustbpe, cs336, minbpe   bytes by value, merges, special tokens
    with `extend`            all ids of the extended tokenizer, merges, new special tokens

With `tokenizers`, a special token that is spelled like a byte or a learned token shares its id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import TrainingError
from tokenmill.formats.names import byte_characters, bytes_of
from tokenmill.formats.spec import Model, TokenizerSpec
from tokenmill.native import _native
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.merging import NO_MERGES, TRAINERS, Merges, merges_of

# Ids end to end, the number of ids of each pretoken, and its count.
Words = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint64]]


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
    base: Merges

    def merges_max(self, vocab_size: int) -> int:
        """The number of ids for merges."""
        least = self.first_id + len(self.back)
        if vocab_size >= least:
            return vocab_size - least
        if len(self.base):
            reason = (
                f"it includes the {self.first_id:_} ids of the extended tokenizer and "
                f"{len(self.back)} new special tokens; pass {least:_} plus the number of tokens to "
                "learn"
            )
        else:
            names = len(self.front) + len(self.back)
            reason = (
                f"there are {len(self.tokens)} bytes and {names} special tokens; pass {least:_} or "
                "more"
            )
        raise TrainingError(f"vocab_size={vocab_size:_} is too small: {reason}")


def new_numbering(
    trainer: str, special_tokens: Sequence[str], alphabet: Iterable[int]
) -> Numbering:
    """The ids of a new vocabulary."""
    allowed = sorted(alphabet)
    if not TRAINERS[trainer].special_tokens_first:
        tokens = {id_: bytes([byte]) for id_, byte in enumerate(allowed)}
        return Numbering(tokens, len(tokens), {}, tuple(special_tokens), {}, NO_MERGES)
    front = {name: id_ for id_, name in enumerate(special_tokens)}
    characters = byte_characters()
    next_id = len(front)
    tokens = {}
    for byte in sorted(allowed, key=characters.__getitem__):
        id_ = front.get(characters[byte], next_id)
        tokens[id_] = bytes([byte])
        next_id += id_ == next_id
    reserved = {id_: token for id_, token in _spelled_bytes(front).items() if len(token) > 1}
    return Numbering(tokens, next_id, front, (), reserved, NO_MERGES)


def extended_numbering(base: Tokenizer, special_tokens: Sequence[str], trainer: str) -> Numbering:
    """The ids of a vocabulary that extends another one."""
    tokens, front, pairs = base._tokens(), dict(base.special_tokens), base._merges()
    known, made = {*tokens.values()}, {left + right for left, right in pairs}
    spelled = {i: t for i, t in _spelled_bytes(front).items() if t not in known}
    # Bytes and learned tokens that share the id of a special token are not in `base._tokens()`.
    tokens |= {id_: token for id_, token in spelled.items() if len(token) == 1 or token in made}
    ids = {token: id_ for id_, token in tokens.items()}
    pairs = [pair for pair in pairs if ids.keys() >= {*pair}]  # others begin with unknown bytes
    merges = merges_of(
        [ids[left] for left, _ in pairs],
        [ids[right] for _, right in pairs],
        [ids[left + right] for left, right in pairs],
        0,
    )
    reserved = {id_: token for id_, token in spelled.items() if token not in ids}
    if not TRAINERS[trainer].special_tokens_first:
        reserved = {}
    new = tuple(name for name in special_tokens if name not in front)
    return Numbering(tokens, base.vocab_size, front, new, reserved, merges)


def _spelled_bytes(special_tokens: Mapping[str, int]) -> dict[int, bytes]:
    """The tokens that `tokenizers` would write like a special token, by id."""
    return {id_: token for name, id_ in special_tokens.items() if (token := bytes_of(name))}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Tokens by id, special tokens by name, and learned merges.

    `base` are the merges of an extended tokenizer, which come before. `next_id` follows the last
    merge.
    """

    tokens: dict[int, bytes]
    special_tokens: dict[str, int]
    merges: Merges
    next_id: int
    base: Merges

    @property
    def size(self) -> int:
        """One more than the largest id."""
        return 1 + max((*self.tokens, *self.special_tokens.values()), default=-1)


def assign(numbering: Numbering, merges: Merges, vocab_size: int) -> Vocabulary:
    """The vocabulary of the first merges, limited by the size."""
    limit = numbering.first_id + numbering.merges_max(vocab_size)
    # The first free id before each merge and after the last one.
    following = merges["id"].astype(np.int64) + 1
    free = np.maximum.accumulate(np.concatenate([[numbering.first_id], following]))
    count = min(int(np.searchsorted(free, limit)), len(merges))
    tokens = dict(numbering.tokens)
    for left, right, id_, _ in merges[:count].tolist():
        tokens[id_] = tokens[left] + tokens[right]
    new = int(free[count])
    back = {name: new + index for index, name in enumerate(numbering.back)}
    return Vocabulary(tokens, {**numbering.front, **back}, merges[:count], new, numbering.base)


def encoder_of(vocabulary: Vocabulary) -> Tokenizer:
    """A tokenizer with the tokens of a vocabulary, in the order of the merges.

    A trained tokenizer merges by id. If a special token shares its id with a learned token, ids are
    not in the order of the merges. The encoder has no pattern, because the pattern could split a
    pretoken differently without its context.
    """
    ids = {token: id_ for id_, token in vocabulary.tokens.items()}
    merged = np.concatenate([vocabulary.base["id"], vocabulary.merges["id"]]).tolist()
    positions = {id_: position for position, id_ in reversed([*enumerate(merged)])}
    order = np.array([positions.get(id_, len(merged) + id_) for id_ in ids.values()], np.uint32)
    model = Model.of(ids, [*ids.values()], order=order, whole=True)
    return Tokenizer._from_spec(TokenizerSpec(model), "merges")


def encode_counts(
    tokenizer: Tokenizer, counts: _native.Inventory, threads: int, empty_id: int | None = None
) -> Words:
    """The ids of all counted pretokens. One that the tokenizer removes gets `empty_id`."""
    data, sizes, amounts = map(np.asarray, counts.arrays())
    ends = np.cumsum(sizes, dtype=np.int64)
    ids, stops = tokenizer._encode_spans(data, np.stack([ends - sizes, ends], 1), threads=threads)
    lengths = np.diff(stops, prepend=0).astype(np.uint32)
    if empty_id is not None:
        empty = np.flatnonzero(lengths == 0)
        ids = np.insert(ids, stops[empty], empty_id)
        lengths[empty] = 1
    return ids, lengths, amounts
