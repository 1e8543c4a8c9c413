"""Pretokens and merges → ids: what merges leave of each pretoken, in their own order.

A tokenizer merges by id. Where a special shares its id with a learned token, ids are not in the
order of the merges, so here each token has its place in that order for an id, and the ids are put
in afterwards. Pretokens are cut already: cutting them again, each alone, might cut them otherwise.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments
from tokenmill.native import _native
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.layout import Learned

_WHOLE = r"(?s:.+)"


class Encoder:
    """Encodes pretokens with the merges of a vocabulary."""

    space_bytes = 0  # a pretoken has all of its bytes

    def __init__(self, learned: Learned) -> None:
        ids = {token: id_ for id_, token in learned.tokens.items()}
        made = [left + right for left, right in learned.merges]
        others = sorted(ids.keys() - set(made), key=lambda token: (len(token) > 1, ids[token]))
        order = list(dict.fromkeys([*(t for t in others if len(t) == 1), *made, *others]))
        self._ids = np.array([ids[token] for token in order], np.uint32)
        places = {token: place for place, token in enumerate(order)}
        arrays = arguments.token_arrays(places, "the vocabulary")
        self._tokenizer = Tokenizer._from_arrays(arrays, _WHOLE, {}, "merges")

    def encode(
        self, inventory: _native.Inventory, threads: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint64]]:
        """The ids of all pretokens end to end, how many each has, and their counts."""
        data, lengths, counts = (np.asarray(buffer) for buffer in inventory.arrays())
        ends = [0, *np.cumsum(lengths, dtype=np.int64).tolist()]
        view = data.data
        texts = [view[start:end] for start, end in pairwise(ends)]
        ragged = self._tokenizer.encode_ragged(texts, threads=threads)
        return self._ids[ragged.ids], np.diff(ragged.offsets).astype(np.uint32), counts
