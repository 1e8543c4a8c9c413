"""Files → streams of bytes: decompressed, with any number of members or frames.

The first bytes tell the compression, so a pipe needs no name. Each member must end, and the file
must end after the last one. Other readers stop after the first gzip member, or accept a truncated
file. LZMAFile and BZ2File ignore garbage after the data.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tokenmill.corpus.documents import raise_system_error
from tokenmill.errors import InputError, import_package

COMPRESSIONS = {".gz": "gz", ".zst": "zst", ".zstd": "zst", ".xz": "xz", ".bz2": "bz2"}
_MAGIC = {
    b"\x1f\x8b": "gz",
    b"\x28\xb5\x2f\xfd": "zst",
    **{bytes([low, 0x2A, 0x4D, 0x18]): "zst" for low in range(0x50, 0x60)},  # skippable frames
    b"\xfd7zXZ\0": "xz",
    # After the size, a block starts, or an empty file ends.
    **{b"BZh%d%b" % (n, next_): "bz2" for n in range(10) for next_ in (b"1AY&SY", b"\x17rE8P\x90")},
}
_MAGIC_STARTS = tuple({magic[:1] for magic in _MAGIC})
_PREFIXES = {start[:n] for start in (*_MAGIC, codecs.BOM_UTF8) for n in range(len(start))}

_CHUNK_BYTES = 1 << 16
_STEP_BYTES_MIN, _STEP_BYTES_MAX = 1 << 9, 1 << 16
_OUTPUT_BYTES = 4 << 20


def compression_of(start: bytes) -> str | None:
    """The compression of a file with these first bytes."""
    if not start.startswith(_MAGIC_STARTS):
        return None
    return next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)


class Stream:
    """The bytes of an open file from `start` to `end`, decompressed.

    `bytes_read` counts bytes of the file itself, and a checksum receives them. `failure` is the
    error that ended the stream. `compression` is detected. Bytes from the middle have none.
    """

    def __init__(
        self,
        file: Any,
        name: str,
        compression: str | None = None,
        *,
        start: int = 0,
        end: int | None = None,
        checksum: Any = None,
    ) -> None:
        self.bytes_read = 0
        self.failure: InputError | None = None
        self._file, self._name = file, name
        self._start, self._end, self._checksum = start, end, checksum
        self._member: Any = None
        self._make: Callable[[], Any] | None = None
        if start:
            file.seek(start)
        first = b"" if start else self._first_bytes()
        self.compression = found = compression_of(first)
        if compression not in (None, found) and first:
            self.drain()
            raise InputError(
                f"{name} is called .{compression} and does not start like such a file: "
                f"{first[:4]!r}; rename it"
            )
        if found is not None:
            self._make = _decompressor(found, name)
        # Files of gzip and xz may be padded with zeros.
        self._padding = b"\0" if found in ("gz", "xz") else b""
        self._packed = first if found else b""
        self._ready = memoryview(b"" if found else first)

    def fill(self, view: memoryview, *, once: bool = False) -> int:
        """Read until the view is full, or the text ends or fails. Return the number of bytes.

        With `once`, one read of the file that returns bytes is enough.
        """
        filled = 0
        while filled < len(view) and self.failure is None and not (once and filled):
            if self._ready or (self._make is not None and self._inflate()):
                count = min(len(self._ready), len(view) - filled)
                view[filled : filled + count] = self._ready[:count]
                self._ready = self._ready[count:]
            elif self._make is not None or not (count := self._read_into(view[filled:])):
                break
            filled += count
        return filled

    def drain(self) -> None:
        """Read to the end, for the checksum of the whole file."""
        while self._checksum is not None and self._read():
            pass

    def _first_bytes(self) -> bytes:
        """The first bytes. One read of a pipe may return too few to detect a compression."""
        first = more = self._read()
        while more and first in _PREFIXES:
            more = self._read()
            first += more
        return first

    def _read(self) -> bytes:
        buffer = np.empty(_CHUNK_BYTES, np.uint8).data
        return bytes(buffer[: self._read_into(buffer)])

    def _read_into(self, view: memoryview) -> int:
        place = self._start + self.bytes_read
        if self._end is not None:
            view = view[: max(0, self._end - place)]
        try:
            count: int = (self._file.readinto(view) or 0) if len(view) else 0
            if len(view) and not count and self._end is not None:
                raise OSError(
                    f"it had {self._end:,} bytes and ends at {place:,}: it was cut while it was "
                    "read"
                )
        except OSError as error:
            raise_system_error(error)
            self.failure = self._error(f"cannot be read further ({error})")
            return 0
        if self._checksum is not None and count:
            self._checksum.update(view[:count])
        self.bytes_read += count
        return count

    def _inflate(self) -> bool:
        """Decompress more. Return False at the end, or if the file fails."""
        assert self._make is not None
        while True:
            packed, self._packed = self._packed, b""
            if not packed and (self._member is None or self._member.needs_input):
                packed = self._read()
                if not packed:
                    if self._member is not None and self.failure is None:
                        self.failure = self._error("ends before its compressed data does")
                    return False
            if self._member is None:
                packed = packed.lstrip(self._padding) if self._padding else packed
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
            f"{self._name} {what}, at byte {self.bytes_read:,}; fetch or make it again, or leave "
            "it out"
        )


class _InSteps:
    """A decompressor of gzip or zstd, with output of bounded size like those of bz2 and lzma.

    Four bytes of zstd can become 128 KB, and its object has no limit. So it gets input in steps.
    """

    def __init__(self, decompressor: Any) -> None:
        self._object = decompressor
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
            self._step = min(_STEP_BYTES_MAX, self._step * 2)
        self.eof = self._object.eof
        self.needs_input = not self._rest
        self.unused_data = self._object.unused_data + bytes(self._rest) if self.eof else b""
        return output


def _decompressor(compression: str, name: str) -> Callable[[], Any]:
    if compression == "gz":
        return lambda: _InSteps(zlib.decompressobj(wbits=31))
    if compression == "xz":
        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ)
    if compression == "bz2":
        return bz2.BZ2Decompressor
    zstandard = import_package("zstandard", f"{name}, compressed with zstd,")
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    return lambda: _InSteps(decompressor.decompressobj())
