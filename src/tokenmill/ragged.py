"""Ids of many texts in one array, with the offsets of each text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.native import _native

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Ragged:
    """Ids of a batch: `ragged[i]` is `ids[offsets[i]:offsets[i + 1]]`, the ids of text i.

    `ids` is an array of uint32. `offsets` is an array of int64, with one item more than there are
    texts. Both are views of the core's memory. `pyarrow.array(ragged)` and other users of the Arrow
    PyCapsule interface get a large_list<uint32> without a copy.

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
        # Arrow does not check the offsets, so they are read-only.
        self.offsets.flags.writeable = False

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.uint32]:
        count = len(self)
        if not hasattr(index, "__index__"):
            raise TypeError(f"index must be an int, got {index!r}")
        if not -count <= index < count:
            raise IndexError(f"index {index} is out of range; there are {count} texts")
        index %= count
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[NDArray[np.uint32]]:
        return (self[index] for index in range(len(self)))

    def tolist(self) -> list[list[int]]:
        """Return the ids of each text as a list of int."""
        return [ids.tolist() for ids in self]

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[object, object]:
        return _native.arrow_capsules(self._ids_buffer, self._offsets_buffer)

    def __repr__(self) -> str:
        return f"<Ragged: {len(self.ids):,} ids of {len(self):,} texts>"
