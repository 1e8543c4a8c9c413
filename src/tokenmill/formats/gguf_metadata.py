"""A GGUF → the pairs of its metadata that say something about the tokenizer. No tensor is read.

A file is a head, then pairs of a key and a value, end to end; a value is a number, a text or an
array of one of these. Every length is checked against what is left of the file, and of the first
256 MiB of it, before it is used.
"""

from __future__ import annotations

import mmap
import stat
import struct
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import VocabularyError

PREFIX = "tokenizer.ggml."
HUGGING_FACE = "tokenizer.huggingface.json"
_KEPT = ("general.name", HUGGING_FACE)

_METADATA_MAX = 256 << 20
_KEY_MAX = 1 << 16
_STRINGS_MAX = 1 << 23  # in all arrays together, 16 times those of the largest vocabularies
_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
# How NumPy calls the types of numbers.
_NUMBERS = dict(enumerate(("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?"))) | {
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_SIZES = {type_: np.dtype(name).itemsize for type_, name in _NUMBERS.items()}
_HEAD = struct.Struct("<4sIQQ")
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_PAIR_BYTES_MIN = 13  # lengths of key and value, and a byte

_Value: TypeAlias = int | float | bool | bytes | list[bytes] | NDArray[Any]
Metadata: TypeAlias = dict[str, _Value]


def metadata(path: Path, source: str) -> Metadata:
    """The pairs of a file that say something about its tokenizer."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for somebody who writes
        raise VocabularyError(f"{source} is no regular file; give the path of a GGUF")
    if status.st_size < _HEAD.size:
        raise VocabularyError(f"{source} is cut off within its head; get it again")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return _Reader(data, min(len(data), _METADATA_MAX)).all()
        except (ValueError, struct.error) as error:
            raise VocabularyError(
                f"{source} is damaged, or no GGUF ({error}); get it again"
            ) from None


class _Reader:
    """Values one after the other. `ValueError` says what is wrong."""

    def __init__(self, data: mmap.mmap, end: int) -> None:
        self._data = data
        self._end = end
        self._at = 0
        self._strings = 0

    def all(self) -> Metadata:
        magic, version, _, count = _HEAD.unpack_from(self._data)
        self._at = _HEAD.size
        if magic != _MAGIC:
            raise ValueError(f"it begins with {magic!r}")
        if version not in _VERSIONS:
            swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
            big = " (it has the byte order of other machines)" if swapped in _VERSIONS else ""
            raise ValueError(f"its version is {version}{big}, and 2 and 3 are read")
        if count * _PAIR_BYTES_MIN > self._end - self._at:
            raise ValueError(f"it says that it has {count:,} pairs")
        found: Metadata = {}
        for _ in range(count):
            key = self._string(_KEY_MAX).decode(errors="replace")
            wanted = key.startswith(PREFIX) or key in _KEPT
            value = self._value(self._number(_U32), wanted)
            if wanted:
                found[key] = value
        return found

    def _left(self, size: int) -> int:
        """Moves over `size` bytes, and says where they begin."""
        if size > self._end - self._at:
            raise ValueError(f"{size:,} bytes at byte {self._at:,}, {self._end - self._at:,} left")
        at, self._at = self._at, self._at + size
        return at

    def _number(self, kind: struct.Struct) -> int:
        number: int = kind.unpack_from(self._data, self._left(kind.size))[0]
        return number

    def _string(self, size_max: int = _METADATA_MAX) -> bytes:
        size = self._number(_U64)
        if size > size_max:
            raise ValueError(f"a text has {size:,} bytes, before byte {self._at:,}")
        at = self._left(size)
        return self._data[at : at + size]

    def _value(self, type_: int, wanted: bool) -> _Value:
        if type_ == _STRING:
            return self._string()
        if type_ == _ARRAY:
            return self._array(wanted)
        if type_ not in _NUMBERS:
            raise ValueError(f"a value has type {type_}, before byte {self._at:,}")
        at = self._left(_SIZES[type_])
        value: int | float | bool = np.frombuffer(self._data, _NUMBERS[type_], 1, at)[0].item()
        return value

    def _array(self, wanted: bool) -> _Value:
        type_, count = self._number(_U32), self._number(_U64)
        if type_ == _STRING:
            return self._texts(count, wanted)
        if type_ not in _NUMBERS:
            raise ValueError(f"an array has values of type {type_}, before byte {self._at:,}")
        at = self._left(count * _SIZES[type_])
        if not wanted:
            return 0
        return np.frombuffer(self._data, _NUMBERS[type_], count, at).copy()

    def _texts(self, count: int, wanted: bool) -> list[bytes]:
        """An array of texts; the one loop over all tokens and merges."""
        self._strings += count
        if count * _U64.size > self._end - self._at or self._strings > _STRINGS_MAX:
            raise ValueError(f"an array has {count:,} texts, before byte {self._at:,}")
        found: list[bytes] = []
        data, unpack, at, end = self._data, _U64.unpack_from, self._at, self._end - _U64.size
        for _ in range(count):
            if at > end:
                raise ValueError(f"an array of {count:,} texts is cut off at byte {at:,}")
            start = at + _U64.size
            at = start + unpack(data, at)[0]
            if wanted:
                found.append(data[start:at])
        if at > self._end:
            raise ValueError(f"an array of {count:,} texts ends behind byte {self._end:,}")
        self._at = at
        return found
