"""Counted pretokens → ids, by the merges of a vocabulary."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenmill.formats.ranks import of_ranks
from tokenmill.native import _native
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.numbering import Vocabulary

# Ids end to end, the number of ids of each pretoken, and its count.
Words = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint64]]

_WHOLE = r"(?s:.+)"


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
