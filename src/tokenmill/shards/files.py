"""Arrays → files with checksums, or temporary files without a name; files → mapped arrays.

A file is hashed while it is written. A file whose header is replaced at the end is read again.
"""

from __future__ import annotations

import hashlib
import io
import math
import mmap
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from tokenmill._native import Checksum
from tokenmill.errors import ShardError

_BUFFER_BYTES = 1 << 16
_NPY_HEAD_MAX = 256
_NPY_HEAD = re.compile(
    rb"\x93NUMPY\x01\0..\{'descr': '([^']{3})', 'fortran_order': False, "
    rb"'shape': \(([0-9]{1,18}(?:,|, [0-9]{1,18}))\), \} *\n",
    re.DOTALL,
)
_JSON_END = b"\n}\n"
_DIGEST = re.compile(rb',\n "digest": "([0-9a-f]{64})"\n\}\n\Z')
_DIGEST_BYTES = 100  # more than its field and the end


@dataclass(frozen=True, slots=True)
class File:
    """One file of a shard. Its name is the stem of the shard and this suffix."""

    suffix: str
    bytes: int
    checksum: str  # XXH3-64 in 16 hexadecimal digits


def path_of(stem: Path, suffix: str) -> Path:
    """Return the path of a file of a shard. A stem may contain dots."""
    return stem.with_name(stem.name + suffix)


class HashedFile:
    """A new file of a shard, written from its beginning to its end."""

    def __init__(self, stem: Path, suffix: str) -> None:
        self.path, self.suffix, self.bytes = path_of(stem, suffix), suffix, 0
        self._file = self.path.open("wb", buffering=_BUFFER_BYTES)
        self._checksum = Checksum()
        self._is_patched = False

    def write(self, data: Any) -> None:
        """Append a contiguous buffer."""
        view = memoryview(data).cast("B") if len(data) else b""
        self._file.write(view)
        self._checksum.update(view)
        self.bytes += len(view)

    def patch(self, data: bytes) -> None:
        """Replace the first bytes."""
        self._file.seek(0)
        self._file.write(data)
        self._is_patched = True

    def finish(self) -> File:
        """Flush the file to the disk and close it."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        digits = checksum_file(self.path) if self._is_patched else format_checksum(self._checksum)
        return File(self.suffix, self.bytes, digits)

    def discard(self) -> None:
        """Remove the file, finished or not."""
        with suppress(OSError):  # the disk can be full
            self._file.close()
        self.path.unlink(missing_ok=True)


class NpyFile(HashedFile):
    """A `.npy` file of one dimension, or a matrix with this number of `columns`."""

    def __init__(self, stem: Path, suffix: str, dtype: DTypeLike, columns: int = 0) -> None:
        super().__init__(stem, suffix)
        self._dtype, self._columns, self._items = np.dtype(dtype), columns, 0
        super().write(self._header())

    def write(self, data: NDArray[Any]) -> None:
        """Append items."""
        super().write(np.ascontiguousarray(data, self._dtype))
        self._items += data.size

    def finish(self) -> File:
        """Write the final header, flush the file to the disk and close it."""
        self.patch(self._header())
        return super().finish()

    def _header(self) -> bytes:
        """Return the bytes before the items. numpy pads them, so their number does not change."""
        rows = (self._items // self._columns, self._columns) if self._columns else (self._items,)
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": rows}
        out = io.BytesIO()
        npy.write_array_header_1_0(out, header)  # type: ignore[no-untyped-call]
        return out.getvalue()


class Spool:
    """An array that grows in a temporary file without a name, which is removed in any case."""

    def __init__(self, folder: Path, dtype: DTypeLike) -> None:
        self.dtype, self.items = np.dtype(dtype), 0
        self._map: mmap.mmap | None = None
        self._file = tempfile.TemporaryFile(  # noqa: SIM115 (discard closes it)
            dir=folder, buffering=_BUFFER_BYTES
        )

    def write(self, items: NDArray[Any]) -> None:
        """Append items."""
        self._file.write(np.ascontiguousarray(items, self.dtype).view(np.uint8).data)
        self.items += items.size

    def clear(self) -> None:
        """Remove all items. A map of them must not be read again."""
        self._map = None
        self._file.seek(0)
        self._file.truncate()
        self.items = 0

    def map(self) -> NDArray[Any]:
        """Return the array, mapped."""
        self._file.flush()
        if not self.items:
            return np.empty(0, self.dtype)
        self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(self._map, self.dtype, self.items)

    def blocks(self, size: int) -> Iterator[NDArray[Any]]:
        """Yield the array in blocks of at most `size` items."""
        items = self.map()
        for start in range(0, len(items), size):
            yield items[start : start + size]
            self.release()

    def release(self) -> None:
        """Stop counting the pages of the map as memory of the process."""
        if self._map is not None and hasattr(self._map, "madvise"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def discard(self) -> None:
        """Remove the file."""
        self._file.close()


def format_checksum(checksum: Checksum) -> str:
    """Return the 16 digits of a checksum, as in a manifest."""
    return f"{checksum.value():016x}"


def describe_bytes(name: str, data: bytes) -> File:
    """Return the size and the checksum of the bytes of a file."""
    checksum = Checksum()
    checksum.update(data)
    return File(name, len(data), format_checksum(checksum))


def checksum_file(path: Path) -> str:
    """Return the checksum of a file."""
    digest: Any = Checksum
    with path.open("rb", buffering=0) as file:
        found: Any = hashlib.file_digest(file, digest)
    return format_checksum(found)


def add_digest(document: bytes) -> bytes:
    """Add the SHA-256 of a JSON object as its last field. The object ends with an own line."""
    start = document.removesuffix(_JSON_END)
    field = b',\n "digest": "%s"' % hashlib.sha256(start).hexdigest().encode()
    return start + field + _JSON_END


def read_digest(document: bytes) -> str | None:
    """Return the digest of a JSON object; None if it differs from the bytes before it."""
    match = _DIGEST.search(document, max(0, len(document) - _DIGEST_BYTES))
    if match is None:
        return None
    found = hashlib.sha256(memoryview(document)[: match.start()]).hexdigest()
    return found if found == match[1].decode() else None


def read_flat(path: Path, dtype: str, offset: int = 0) -> NDArray[Any]:
    """Return the numbers of a file after its first `offset` bytes, mapped."""
    kind = np.dtype(dtype)
    count, rest = divmod(path.stat().st_size - offset, kind.itemsize)
    if count < 0 or rest:
        raise ShardError(f"{path} is cut off: its size is not a multiple of the size of {dtype}")
    if not count:  # an empty file cannot be mapped
        return np.empty(0, kind)
    with path.open("rb") as file:  # a map keeps the file open
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, kind, count, offset)


def read_npy(path: Path, dtype: str) -> NDArray[Any]:
    """Return the items of a `.npy` file in one dimension, mapped.

    numpy cannot map an empty array, and raises many kinds of exceptions for a damaged header.
    """
    with path.open("rb") as file:
        match = _NPY_HEAD.match(file.read(_NPY_HEAD_MAX))
    if match is None or np.dtype(dtype).newbyteorder("<").str.encode() != match[1]:
        raise ShardError(f"{path} is not a .npy file of {dtype}")
    items = read_flat(path, dtype, match.end())
    expected = math.prod(int(number) for number in match[2].split(b",") if number.strip())
    if expected != len(items):
        raise ShardError(f"{path} has {len(items)} items, but its header has {expected}")
    return items
