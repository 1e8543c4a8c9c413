"""Files → streams of bytes: decompressed, whatever the number of members or frames.

What is compressed is known by its first bytes, so a pipe needs no name. Readers of other projects
stop behind the first gzip member, or take a file that was cut off for a whole one; here each member
must end, and behind the last one the file must.
"""

from __future__ import annotations

import importlib
import os
import zlib
from collections.abc import Callable
from io import BufferedIOBase, RawIOBase
from typing import Any

from tokenmill.errors import InputError, MissingExtraError

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = tuple(bytes([low, 0x2A, 0x4D, 0x18]) for low in range(0x50, 0x60))

# Four bytes of zstd can become 128 KB: start small, and read more while little comes out.
_CHUNK_BYTES_MIN = 4096
_CHUNK_BYTES_MAX = 1 << 16
_OUTPUT_BYTES = 4 << 20

Raw = RawIOBase | BufferedIOBase


class Stream:
    """The bytes of an open file, decompressed; `bytes_read` are those of the file itself."""

    def __init__(self, file: Raw, name: str, compression: str | None) -> None:
        self.name = name
        self.bytes_read = 0
        self.bytes_out = 0
        self._file = file
        self._chunk_bytes = _CHUNK_BYTES_MIN
        self._ready = memoryview(self._take(_CHUNK_BYTES_MIN))
        start = bytes(self._ready[:4])
        found = "gz" if start.startswith(_GZIP) else None
        found = "zst" if start == _ZSTD or start in _SKIPPABLE else found
        if compression is not None and found != compression and start:
            raise InputError(
                f"{name} is called .{compression} and does not begin as such a file: {start!r}; "
                "give it the name of what it is"
            )
        self.compression = found
        self._make = _decompressor(found, name) if found else None
        self._member: Any = None
        self._packed = b""
        if self._make is not None:
            self._packed, self._ready = bytes(self._ready), memoryview(b"")

    def fill(self, view: memoryview) -> int:
        """Reads until the view is full or the text ends; how many bytes that were."""
        filled = 0
        while filled < len(view):
            if not self._ready and self._make is None:
                count = self._file.readinto(view[filled:]) or 0
                self.bytes_read += count
                if count == 0:
                    break
                filled += count
                continue
            if not self._ready and not self._inflate():
                break
            count = min(len(self._ready), len(view) - filled)
            view[filled : filled + count] = self._ready[:count]
            self._ready = self._ready[count:]
            filled += count
        self.bytes_out += filled
        return filled

    def size_hint(self) -> int:
        """How many bytes there are, if the file says so; else 0."""
        if self._make is not None or not self._file.seekable():
            return 0
        return os.fstat(self._file.fileno()).st_size

    def skip(self, count: int) -> None:
        """Goes on `count` bytes of text behind the beginning."""
        if self._make is None and self._file.seekable():
            self._file.seek(count)
            self._ready = memoryview(b"")
            self.bytes_read = self.bytes_out = count
            return
        buffer = memoryview(bytearray(min(count, _OUTPUT_BYTES)))
        while count > 0 and (done := self.fill(buffer[: min(count, len(buffer))])):
            count -= done

    def _take(self, count: int) -> bytes:
        data = self._file.read(count) or b""
        self.bytes_read += len(data)
        return data

    def _inflate(self) -> bool:
        """Decompresses the next piece; False at the end."""
        assert self._make is not None
        while True:
            packed = self._packed or self._take(self._chunk_bytes)
            self._packed = b""
            if not packed:
                if self._member is not None:
                    raise self._error("ends before its compressed data does")
                return False
            if self._member is None:
                # gzip files may be padded with zeros.
                packed = packed.lstrip(b"\0") if self.compression == "gz" else packed
                if not packed:
                    continue
                self._member = self._make()
            try:
                data = self._member.decompress(packed)
            except Exception as error:  # zlib.error, zstandard.ZstdError
                raise self._error(f"is damaged ({error})") from None
            if self._member.eof:
                self._packed = self._member.unused_data
                self._member = None
            self._pace(len(data))
            if data:
                self._ready = memoryview(data)
                return True

    def _pace(self, output_bytes: int) -> None:
        if output_bytes > _OUTPUT_BYTES:
            self._chunk_bytes = max(_CHUNK_BYTES_MIN, self._chunk_bytes // 2)
        else:
            self._chunk_bytes = min(_CHUNK_BYTES_MAX, self._chunk_bytes * 2)

    def _error(self, what: str) -> InputError:
        return InputError(
            f"{self.name} {what}, at byte {self.bytes_read:,}; fetch or make it again, or leave it "
            "out"
        )


def _decompressor(compression: str, name: str) -> Callable[[], Any]:
    if compression == "gz":
        return lambda: zlib.decompressobj(wbits=31)
    try:
        zstandard = importlib.import_module("zstandard")
    except ImportError as error:
        raise MissingExtraError(
            f"{name} is compressed with zstd, which needs the package zstandard: "
            'pip install "tokenmill[zstd]"'
        ) from error
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    make: Callable[[], Any] = decompressor.decompressobj
    return make
