"""Writes, one after the other → files with their checksums, or spools that have no name.

A file is hashed while it is written. One whose header is filled in at the end is read again to be
hashed.
"""

from __future__ import annotations

import io
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from tokenmill._native import Checksum

_BLOCK_BYTES = 1 << 20
_BUFFER_BYTES = 1 << 16
_SPOOL_ITEMS = 1 << 16


@dataclass(frozen=True, slots=True)
class File:
    """One file of a shard: its name is the shard's stem and this suffix."""

    suffix: str
    bytes: int
    checksum: str  # XXH3-64 in 16 hexadecimal digits

    def to_json(self) -> dict[str, Any]:
        """As a manifest holds it."""
        return {"suffix": self.suffix, "bytes": self.bytes, "checksum": self.checksum}


class HashedFile:
    """A new file that is written from its beginning to its end."""

    def __init__(self, path: Path, suffix: str) -> None:
        self.path, self.suffix, self.bytes = path, suffix, 0
        self._file = path.open("wb", buffering=_BUFFER_BYTES)
        self._checksum = Checksum()
        self._changed = False

    def write(self, data: Any) -> None:
        """`data` is any contiguous buffer."""
        view = memoryview(data).cast("B") if len(data) else b""
        self._file.write(view)
        self._checksum.update(view)
        self.bytes += len(view)

    def patch(self, data: bytes) -> None:
        """The first bytes, which were written before what they say was known."""
        self._file.seek(0)
        self._file.write(data)
        self._file.seek(0, os.SEEK_END)
        self._changed = True

    def finish(self) -> File:
        """The file is on the disk when this comes back."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        digits = checksum_file(self.path) if self._changed else format_checksum(self._checksum)
        return File(self.suffix, self.bytes, digits)

    def discard(self) -> None:
        """The file is gone, finished or not."""
        self._file.close()
        self.path.unlink(missing_ok=True)


class NpyFile:
    """A `.npy` file of one dimension whose length is known when it ends."""

    def __init__(self, path: Path, suffix: str, dtype: DTypeLike) -> None:
        self._dtype, self._items = np.dtype(dtype), 0
        self._file = HashedFile(path, suffix)
        self._file.write(npy_header(self._dtype, (0,)))

    def write(self, items: NDArray[Any]) -> None:
        """More of the array."""
        self._file.write(np.ascontiguousarray(items, self._dtype))
        self._items += items.size

    def finish(self) -> File:
        """The header says how many there are."""
        self._file.patch(npy_header(self._dtype, (self._items,)))
        return self._file.finish()

    def discard(self) -> None:
        """The file is gone."""
        self._file.discard()


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """What stands before the items. numpy leaves room for a longer first number of the shape,
    so that the header of an array that grows keeps its length."""
    out = io.BytesIO()
    header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(out, header)  # type: ignore[no-untyped-call]
    return out.getvalue()


class Spool:
    """An array that grows on the disk, without a name: whatever happens, nothing is left of it."""

    def __init__(self, folder: Path, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.items = 0
        self._map: mmap.mmap | None = None
        self._file = tempfile.TemporaryFile(  # noqa: SIM115 (discard closes it)
            dir=folder, buffering=_BUFFER_BYTES
        )

    def write(self, items: NDArray[Any]) -> None:
        """More of the array."""
        self._file.write(np.ascontiguousarray(items, self.dtype).view(np.uint8).data)
        self.items += items.size

    def clear(self) -> None:
        """Remove all items. A map of them must not be read again."""
        self._map = None
        self._file.seek(0)
        self._file.truncate()
        self.items = 0

    def blocks(self, items: int = _SPOOL_ITEMS) -> Iterator[NDArray[Any]]:
        """The array in blocks of at most `items`; each is good until the next one is asked for."""
        self._file.flush()
        self._file.seek(0)
        buffer = np.empty(items, self.dtype)
        for start in range(0, self.items, items):
            yield self.take(buffer[: min(items, self.items - start)])

    def take(self, out: NDArray[Any]) -> NDArray[Any]:
        """The next items behind the last ones taken, into `out`."""
        read: Callable[[memoryview], int] = self._file.readinto  # type: ignore[attr-defined]
        size = read(out.view(np.uint8).data)
        assert size == out.nbytes
        return out

    def rewind(self) -> None:
        """`take` begins at the first item."""
        self._file.flush()
        self._file.seek(0)

    def map(self) -> NDArray[Any]:
        """The array, mapped: its pages need no memory of their own."""
        self._file.flush()
        if not self.items:
            return np.empty(0, self.dtype)
        self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(self._map, self.dtype, self.items)

    def let_go(self) -> None:
        """Pages of the map that were read count as memory of the process no longer."""
        if self._map is not None and hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def discard(self) -> None:
        """It is gone."""
        self._file.close()


def format_checksum(checksum: Checksum) -> str:
    """Its 16 digits, as manifests hold them."""
    return f"{checksum.value():016x}"


def checksum_file(path: Path) -> str:
    """The checksum of a file, which is read in blocks."""
    checksum = Checksum()
    for block in _blocks(path):
        checksum.update(block)
    return format_checksum(checksum)


def _blocks(path: Path) -> Iterator[memoryview]:
    """The bytes of a file; each block is good until the next one is asked for."""
    buffer = bytearray(_BLOCK_BYTES)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            yield view[:size]
