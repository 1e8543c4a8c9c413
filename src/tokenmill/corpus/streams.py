"""Files → streams of bytes: decompressed, with any number of members or frames.

The first bytes tell the compression, so a pipe needs no name. Each member must end, and the file
must end after the last one. Other readers stop after the first gzip member, or accept a truncated
file. LZMAFile and BZ2File ignore garbage after the data.
"""

from __future__ import annotations

import bz2
import codecs
import importlib
import lzma
import zlib
from collections.abc import Callable
from io import BufferedIOBase, RawIOBase
from typing import Any

from tokenmill.corpus.documents import raise_system_error
from tokenmill.errors import InputError, MissingExtraError

COMPRESSIONS = {".gz": "gz", ".zst": "zst", ".zstd": "zst", ".xz": "xz", ".bz2": "bz2"}
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = tuple(bytes([low, 0x2A, 0x4D, 0x18]) for low in range(0x50, 0x60))
_XZ = b"\xfd7zXZ\0"
_BZIP2 = b"BZh"
# The bytes after the size in a bzip2 header: a block, or the end of an empty file.
_BZIP2_NEXT = (b"1AY&SY", b"\x17rE8P\x90")
_MAGIC_BYTES = 10
_STARTS = (_GZIP, _ZSTD, *_SKIPPABLE, _XZ, _BZIP2, codecs.BOM_UTF8)

_CHUNK_BYTES = 1 << 16
# Four bytes of zstd can become 128 KB, and its object has no limit: it gets input in steps.
_STEP_BYTES_MIN = 512
_OUTPUT_BYTES = 4 << 20

Raw = RawIOBase | BufferedIOBase


def compression_of(start: bytes) -> str | None:
    """The compression of a file with these first bytes."""
    if start.startswith(_GZIP):
        return "gz"
    if start.startswith((_ZSTD, *_SKIPPABLE)):
        return "zst"
    if start.startswith(_XZ):
        return "xz"
    if start.startswith(_BZIP2) and start[3:4].isdigit() and start[4:10] in _BZIP2_NEXT:
        return "bz2"
    return None


class Stream:
    """The bytes of an open file, decompressed; `bytes_read` are those of the file itself.

    `failure` is the error that ended the stream. `is_plain` is for bytes from the middle of a file,
    which have no header.
    """

    def __init__(
        self, file: Raw, name: str, compression: str | None, *, is_plain: bool = False
    ) -> None:
        self.name = name
        self.bytes_read = 0
        self.bytes_out = 0
        self.failure: InputError | None = None
        self._file = file
        self._ready = memoryview(self._start())
        start = bytes(self._ready[:_MAGIC_BYTES])
        found = None if is_plain else compression_of(start)
        if compression is not None and found != compression and start:
            raise InputError(
                f"{name} is called .{compression} and does not start like such a file: "
                f"{start[:4]!r}; rename it"
            )
        self.compression = found
        self._make = _decompressor(found, name) if found else None
        self._member: Any = None
        self._packed = b""
        if self._make is not None:
            self._packed, self._ready = bytes(self._ready), memoryview(b"")

    def fill(self, view: memoryview) -> int:
        """Read until the view is full or the text ends. Return the number of bytes."""
        count = self.fill_good(view)
        if self.failure is not None:
            raise self.failure
        return count

    def fill_good(self, view: memoryview, *, once: bool = False) -> int:
        """The same, with the bytes before a failure, which is then in `failure`.

        With `once`, one read of the file that returns bytes is enough.
        """
        filled = 0
        while filled < len(view) and self.failure is None and not (once and filled):
            if not self._ready and self._make is None:
                count = self._read_into(view[filled:])
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

    def _start(self) -> bytes:
        """The first bytes. One read of a pipe may return too few to detect a compression."""
        start = b""
        while len(start) < _MAGIC_BYTES and any(
            known.startswith(start[: len(known)]) for known in _STARTS
        ):
            if not (more := self._file.read(_CHUNK_BYTES)):
                break
            start += more
            self.bytes_read += len(more)
        return start

    def _read_into(self, view: memoryview) -> int:
        try:
            count = self._file.readinto(view) or 0
        except OSError as error:
            raise_system_error(error)
            self.failure = self._error(f"cannot be read further ({error})")
            return 0
        self.bytes_read += count
        return count

    def _inflate(self) -> bool:
        """Decompress more. Return False at the end, or if the file fails."""
        assert self._make is not None
        while True:
            packed, self._packed = self._packed, b""
            if not packed and (self._member is None or self._member.needs_input):
                buffer = memoryview(bytearray(_CHUNK_BYTES))
                packed = bytes(buffer[: self._read_into(buffer)])
                if not packed:
                    if self._member is not None and self.failure is None:
                        self.failure = self._error("ends before its compressed data does")
                    return False
            if self._member is None:
                # Files of gzip and xz may be padded with zeros.
                packed = packed.lstrip(b"\0") if self.compression in ("gz", "xz") else packed
                if not packed:
                    continue
                self._member = self._make()
            try:
                data = self._member.decompress(packed, _OUTPUT_BYTES)
            except Exception as error:  # zlib.error, zstandard.ZstdError, lzma.LZMAError, OSError
                self.failure = self._error(f"is damaged ({error})")
                return False
            if self._member.eof:
                self._packed = self._member.unused_data
                self._member = None
            if data:
                self._ready = memoryview(data)
                return True

    def _error(self, what: str) -> InputError:
        return InputError(
            f"{self.name} {what}, at byte {self.bytes_read:,}; fetch or make it again, or leave it "
            "out"
        )


class _Gzip:
    """A decompressor of one member, with output of bounded size, like those of bz2 and lzma."""

    def __init__(self) -> None:
        self._object = zlib.decompressobj(wbits=31)
        self.eof = False
        self.needs_input = True
        self.unused_data = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        data = self._object.unconsumed_tail + data if self._object.unconsumed_tail else data
        output = self._object.decompress(data, max_length)
        self.eof = self._object.eof
        self.needs_input = not self._object.unconsumed_tail and len(output) < max_length
        self.unused_data = self._object.unused_data
        return output


class _Zstd:
    """The same for a frame of zstd."""

    def __init__(self, decompressor: Any) -> None:
        self._object = decompressor.decompressobj()
        self._rest = memoryview(b"")
        self._step = _STEP_BYTES_MIN
        self.eof = False
        self.needs_input = True
        self.unused_data = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if data:
            self._rest = memoryview(data)
        output: bytes = self._object.decompress(self._rest[: self._step])
        self._rest = self._rest[self._step :]
        if len(output) > max_length:
            self._step = max(_STEP_BYTES_MIN, self._step // 2)
        else:
            self._step = min(_CHUNK_BYTES, self._step * 2)
        self.eof = self._object.eof
        self.needs_input = not self._rest
        self.unused_data = self._object.unused_data + bytes(self._rest) if self.eof else b""
        return output


def _decompressor(compression: str, name: str) -> Callable[[], Any]:
    if compression == "gz":
        return _Gzip
    if compression == "xz":
        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ)
    if compression == "bz2":
        return bz2.BZ2Decompressor
    try:
        zstandard = importlib.import_module("zstandard")
    except ImportError as error:
        raise MissingExtraError(
            f"{name} is compressed with zstd, which needs the package zstandard: "
            'pip install "tokenmill[zstd]"'
        ) from error
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    return lambda: _Zstd(decompressor)
