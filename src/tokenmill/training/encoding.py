"""Pretokens and merges → ids, in the order of the merges.

A tokenizer merges by id. If a special token shares its id with a learned token, ids are not in the
order of the merges. So each token gets its position in that order as a temporary id. Pretokens are
encoded whole, because the pattern could split one differently without its context.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tokenmill.formats.ranks import of_ranks
from tokenmill.native import _native
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.numbering import Vocabulary

_WHOLE = r"(?s:.+)"


class Encoder:
    """Encodes counted pretokens with the merges of a vocabulary."""

    space_bytes = 0  # a pretoken contains its space

    def __init__(self, vocabulary: Vocabulary) -> None:
        ids = {token: id_ for id_, token in vocabulary.tokens.items()}
        made = [left + right for left, right in vocabulary.merges]
        others = sorted(ids.keys() - set(made), key=lambda token: (len(token) > 1, ids[token]))
        order = list(dict.fromkeys([*(t for t in others if len(t) == 1), *made, *others]))
        self._ids = np.array([ids[token] for token in order], np.uint32)
        positions = {token: position for position, token in enumerate(order)}
        spec = of_ranks(positions, _WHOLE, {}, "the vocabulary")
        self._tokenizer = Tokenizer._from_spec(spec, "merges")

    def encode(
        self, counts: _native.Inventory, threads: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint64]]:
        """The ids of all pretokens end to end, the number of ids of each, and its count."""
        data, lengths, amounts = (np.asarray(buffer) for buffer in counts.arrays())
        ends = [0, *np.cumsum(lengths, dtype=np.int64).tolist()]
        view = data.data
        texts = [view[start:end] for start, end in pairwise(ends)]
        ragged = self._tokenizer.encode_ragged(texts, threads=threads)
        return self._ids[ragged.ids], np.diff(ragged.offsets).astype(np.uint32), amounts
