"""Documents → OLMo and dolma: a `.npy` that is none, and a `.csv.gz` of the documents.

Ids lie in the `.npy` without numpy's header. The table has no head line and the columns start, end,
id, source and line of each document. OLMo-core splits it at line ends and commas without looking at
quotes, so that no name may hold a line end: it is written as a space. Source: dolma's
tokens/memmap_writer.py, olmo_core/data/utils.py.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ShardError
from tokenmill.shards.files import HashedFile
from tokenmill.shards.layouts import base
from tokenmill.shards.spec import File, Rows, Spec, path_of

TABLE_SUFFIX = ".csv.gz"
KEEPS_NAMES = True
_BLOCK_ROWS = 1 << 12
_BLOCK_BYTES = 1 << 16
# What ends a line to str.splitlines.
_LINE_ENDS = str.maketrans("\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", " " * 10)


class Writer(base.FlatWriter):
    """One shard."""

    suffix = ".npy"

    def __init__(self, stem: Path, spec: Spec) -> None:
        super().__init__(stem, spec)
        self._table = GzipFile(path_of(stem, TABLE_SUFFIX), TABLE_SUFFIX)
        self._outputs.append(self._table)
        self._end = 0

    def _write_ends(self, ends: NDArray[np.int64], rows: Rows | None) -> None:
        starts = np.concatenate([np.array([self._end], np.int64), ends])
        self._end = int(starts[-1])
        rows = rows or Rows()
        for first in range(0, len(ends), _BLOCK_ROWS):
            part = slice(first, min(first + _BLOCK_ROWS, len(ends)))
            if isinstance(rows.sources, str):
                sources: Iterable[str] = repeat(_on_a_line(rows.sources))
            else:
                sources = map(_on_a_line, rows.sources[part])
            columns = (
                starts[part].tolist(),
                ends[part].tolist(),
                repeat("") if rows.names is None else map(_on_a_line, rows.names[part]),
                sources,
                repeat("") if rows.lines is None else rows.lines[part].tolist(),
            )
            out = io.StringIO()
            # Not strict, since some go on for ever; the first two are as many as the documents.
            csv.writer(out, lineterminator="\n").writerows(zip(*columns, strict=False))
            self._table.write(out.getvalue().encode("utf-8", "replace"))

    def _finish(self) -> list[File]:
        return [self._ids.finish(), self._table.finish()]


def _on_a_line(name: str) -> str:
    return name.translate(_LINE_ENDS)


class GzipFile:
    """A gzip file without a name or a time in it, whatever pieces it is written in."""

    def __init__(self, path: Path, suffix: str) -> None:
        self._file = HashedFile(path, suffix)
        self._file.write(b"\x1f\x8b\x08\0\0\0\0\0\0\xff")
        self._deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        self._pending = b""
        self._crc = self._bytes = 0

    def write(self, data: bytes) -> None:
        """More of the text."""
        self._crc, self._bytes = zlib.crc32(data, self._crc), self._bytes + len(data)
        data = self._pending + data
        # Blocks of one size, since a compressor may look at how its input comes.
        whole = len(data) // _BLOCK_BYTES * _BLOCK_BYTES
        for start in range(0, whole, _BLOCK_BYTES):
            self._file.write(self._deflate.compress(data[start : start + _BLOCK_BYTES]))
        self._pending = data[whole:]

    def finish(self) -> File:
        """With the checksum and the length that end it."""
        self._file.write(self._deflate.compress(self._pending) + self._deflate.flush())
        self._file.write(np.array([self._crc, self._bytes & 0xFFFFFFFF], "<u4").tobytes())
        return self._file.finish()

    def discard(self) -> None:
        """The file is gone."""
        self._file.discard()


def suffixes(spec: Spec) -> tuple[str, ...]:
    """The files of a shard."""
    return (Writer.suffix, TABLE_SUFFIX)


def refuse(spec: Spec) -> str | None:
    """Nothing is refused."""
    return None


class Reader(base.FlatReader):
    """One shard."""

    def _read(self) -> NDArray[np.int64]:
        self._ids = base.read_flat(path_of(self.stem, Writer.suffix), self.spec.dtype)
        path = path_of(self.stem, TABLE_SUFFIX)
        try:
            with gzip.open(path, "rb") as lines:
                ends = np.fromiter((int(line.split(b",", 2)[1]) for line in lines), np.int64)
        except (OSError, EOFError, zlib.error, ValueError, IndexError) as error:
            raise ShardError(f"{path} is damaged ({error})") from None
        return base.checked_ends(ends, len(self._ids), self.stem)
