"""Words and pieces → ids, for a report: what SentencePiece would make of each counted word.

A tokenizer of bytes does it: before all pieces, it joins the bytes of each character. What is left
in bytes belongs to unknown characters, and a run of those is one `<unk>`.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments
from tokenmill.formats.pieces import SPACE
from tokenmill.native import _native
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.pieces.vocabulary import Pieces

_WHOLE = r"(?s:.+)"
_UNKNOWN_ID = 0


class PieceEncoder:
    """Encodes counted words, to which it adds the "▁" in front."""

    space_bytes = 1  # the space that a "▁" stands for

    def __init__(self, pieces: Pieces) -> None:
        ids = {
            piece.encode(): id_
            for id_, piece in enumerate(pieces.pieces)
            if id_ >= len(pieces.specials)
        }
        characters = [piece for piece in ids if len(piece.decode()) == 1]
        beginnings = [piece[:size] for size in (2, 3) for piece in characters if len(piece) >= size]
        parts = [*(bytes([byte]) for byte in range(256)), *beginnings, *characters, *ids]
        order = list(dict.fromkeys(parts))
        self._ids = np.array([ids.get(part, _UNKNOWN_ID) for part in order], np.uint32)
        places = {part: place for place, part in enumerate(order)}
        arrays = arguments.token_arrays(places, "the pieces")
        self._tokenizer = Tokenizer._from_arrays(arrays, _WHOLE, {}, "pieces")

    def encode(
        self, inventory: _native.Inventory, threads: int
    ) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint64]]:
        """The ids of all words end to end, how many each has, and their counts."""
        data, lengths, counts = (np.asarray(buffer) for buffer in inventory.arrays())
        ends = [0, *np.cumsum(lengths, dtype=np.int64).tolist()]
        raw, space = data.tobytes(), SPACE.encode()
        words = (raw[start:end] for start, end in pairwise(ends))
        texts = [space if word == space else space + word for word in words]
        ragged = self._tokenizer.encode_ragged(texts, threads=threads)
        ids, starts = self._ids[ragged.ids], np.asarray(ragged.offsets[:-1], np.int64)
        is_unknown = ids == _UNKNOWN_ID
        repeats = np.zeros(len(ids), bool)
        repeats[1:] = is_unknown[1:] & is_unknown[:-1]
        repeats[starts] = False
        kept = np.add.reduceat(~repeats, starts, dtype=np.uint32)
        return ids[~repeats], kept, counts
