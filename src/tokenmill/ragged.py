"""Ids of many texts, end to end in one array, with the offsets that cut it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.native import _native


class Ragged:
    """Ids of a batch: text i is `ids[offsets[i]:offsets[i + 1]]`, and so is `ragged[i]`.

    `ids` is uint32 and `offsets` int64, one more than there are texts; both show the core's own
    memory. `pyarrow.array(ragged)` and other users of the Arrow PyCapsule interface get a
    large_list<uint32> without a copy. A number that no text has is an IndexError.

    Examples:
        >>> from tokenmill import Tokenizer
        >>> ragged = Tokenizer.load("gpt2").encode_ragged(["hello world", "hi"])
        >>> len(ragged), ragged.tolist()
        (2, [[31373, 995], [5303]])
    """

    __slots__ = ("_ids_buffer", "_offsets_buffer", "ids", "offsets")

    ids: NDArray[np.uint32]
    offsets: NDArray[np.int64]

    def __init__(self, ids: _native.Buffer, offsets: _native.Buffer) -> None:
        self._ids_buffer = ids
        self._offsets_buffer = offsets
        self.ids = np.asarray(ids)
        self.offsets = np.asarray(offsets)
        # Arrow trusts the offsets, so nobody may change them.
        self.offsets.flags.writeable = False

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.uint32]:
        count = len(self)
        if not hasattr(index, "__index__"):
            raise TypeError(f"a text is chosen by its number, not by {index!r}")
        if not -count <= index < count:
            raise IndexError(f"text {index} was asked for, and there are {count}")
        index %= count
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[NDArray[np.uint32]]:
        return (self[index] for index in range(len(self)))

    def tolist(self) -> list[list[int]]:
        """The ids as lists of int, one for each text."""
        return [ids.tolist() for ids in self]

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[object, object]:
        return _native.arrow_capsules(self._ids_buffer, self._offsets_buffer)

    def __repr__(self) -> str:
        return f"<Ragged: {len(self.ids):,} ids of {len(self):,} texts>"
