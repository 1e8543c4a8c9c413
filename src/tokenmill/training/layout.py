"""Bytes, merges and specials → ids, as each library numbers them.

    huggingface              specials, bytes in the order of the characters that show them, merges
    rustbpe, cs336, minbpe   bytes by value, merges, specials
    with `extend`            all ids of the other tokenizer, merges, new specials

In Hugging Face's a special that is written like a byte or a learned token has the same id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tokenmill.errors import TrainingError
from tokenmill.formats import Merge
from tokenmill.formats.byte_characters import byte_characters, bytes_of
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.merging import Merges


@dataclass(frozen=True)
class Layout:
    """Which ids there are before anything is learned.

    `tokens` are those with bytes, `taken` those that only get theirs when they are learned. `base`
    are the merges of a vocabulary that is extended.
    """

    tokens: dict[int, bytes]
    first_id: int
    front: dict[str, int]
    back: tuple[str, ...]
    taken: dict[int, bytes]
    base: tuple[Merge, ...] = ()

    def alphabet(self) -> dict[int, int]:
        """The id of each byte that has one."""
        return {token[0]: id_ for id_, token in self.tokens.items() if len(token) == 1}

    def made_from(self) -> int:
        """The first id of a token that came from a merge, or will."""
        longer = [id_ for id_, token in self.tokens.items() if len(token) > 1]
        return min(longer, default=self.first_id)

    def merges_max(self, vocab_size: int) -> int:
        """How many new ids merges may take."""
        least = self.first_id + len(self.back)
        if vocab_size < least:
            raise TrainingError(
                f"vocab_size={vocab_size:_} is too small: {self._least()}; give {least:_} or more"
            )
        return vocab_size - least

    def _least(self) -> str:
        if self.base:
            return (
                f"the tokenizer that is extended has {self.first_id:_} ids, and there are "
                f"{len(self.back)} new specials"
            )
        specials = len(self.front) + len(self.back)
        return f"there are {len(self.tokens)} bytes and {specials} specials"


def new_layout(ties: str, specials: Sequence[str], alphabet: Iterable[int]) -> Layout:
    """The ids of a vocabulary that is learned from nothing but bytes."""
    allowed = sorted(alphabet)
    if ties != "huggingface":
        tokens = {id_: bytes([byte]) for id_, byte in enumerate(allowed)}
        return Layout(tokens, len(tokens), {}, tuple(specials), {})
    front = {name: id_ for id_, name in enumerate(specials)}
    characters = byte_characters()
    next_id = len(front)
    tokens = {}
    for byte in sorted(allowed, key=characters.__getitem__):
        id_ = front.get(characters[byte], next_id)
        tokens[id_] = bytes([byte])
        next_id += id_ == next_id
    return Layout(tokens, next_id, front, (), _written_like(front))


def extended_layout(base: Tokenizer, specials: Sequence[str], ties: str) -> Layout:
    """The ids of a vocabulary that goes on behind another one."""
    tokens, front = base._tokens(), dict(base.specials)
    new = tuple(name for name in specials if name not in front)
    taken = _written_like(front) if ties == "huggingface" else {}
    known = set(tokens.values())
    taken = {id_: token for id_, token in taken.items() if token not in known}
    return Layout(tokens, base.vocab_size, front, new, taken, tuple(base._merges()))


def _written_like(specials: dict[str, int]) -> dict[int, bytes]:
    """The tokens that would be written like a special, by their ids."""
    tokens = ((id_, bytes_of(name)) for name, id_ in specials.items())
    return {id_: token for id_, token in tokens if token is not None and len(token) > 1}


@dataclass(frozen=True, slots=True)
class Learned:
    """A vocabulary: tokens by id, specials by name, and its merges.

    The first `base` merges are not new; `next_id` is the first that no merge has taken.
    """

    tokens: dict[int, bytes]
    specials: dict[str, int]
    merges: list[Merge]
    base: int
    next_id: int


def assign(layout: Layout, merges: Merges, vocab_size: int) -> Learned:
    """The vocabulary of the first merges, as many as the size has room for."""
    limit = layout.first_id + layout.merges_max(vocab_size)
    # The first id that is free before each merge, and behind the last one.
    behind = merges.ids.astype(np.int64) + 1
    free = np.maximum.accumulate(np.concatenate([[layout.first_id], behind]))
    count = min(int(np.searchsorted(free, limit)), len(merges))
    tokens = dict(layout.tokens)
    pairs = list(layout.base)
    columns = (column[:count].tolist() for column in (merges.lefts, merges.rights, merges.ids))
    for left, right, id_ in zip(*columns, strict=True):
        first, second = tokens[left], tokens[right]
        pairs.append((first, second))
        tokens[id_] = first + second
    new = int(free[count])
    specials = {**layout.front, **{name: new + index for index, name in enumerate(layout.back)}}
    return Learned(tokens, specials, pairs, len(layout.base), new)
