"""Ids of a task → its shards. A shard ends with the document that makes it large enough.

That rule looks only at the documents before, so the shards are the same for any size of blocks and
chunks. With packing, a shard format gets sequences of one length instead of documents. The starts
of the documents are a file next to the shard, and the last sequence of a shard is padded.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.shards.files import File, NpyFile
from tokenmill.shards.shard_format import (
    DOCUMENTS_SUFFIX,
    Rows,
    Shard,
    ShardWriter,
    Spec,
    get_format,
)

_NO_ENDS = np.empty(0, np.int64)


@dataclass(slots=True)
class ShardsWriter:
    """The shards of one task, one after the other."""

    folder: Path
    number: int
    format: str
    spec: Spec
    tokens_max: int
    pad_id: int | None
    shards: list[Shard] = field(default_factory=list)
    _writer: ShardWriter | _Packed | None = None

    def append(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows | None) -> None:
        """Write ids. Those after the last end are of a document that continues."""
        first = start = 0
        while first < len(ends):
            writer = self._open_writer()
            room = self.tokens_max - writer.tokens
            last = int(np.searchsorted(ends, start + room, side="left")) + 1
            last = min(max(last, first + 1), len(ends))
            end = int(ends[last - 1])
            part = rows.slice(first, last) if rows is not None else None
            writer.append(ids[start:end], ends[first:last] - start, part)
            if writer.tokens >= self.tokens_max:
                self._end_shard()
            first, start = last, end
        if start < len(ids):
            self._open_writer().append(ids[start:], _NO_ENDS, None)

    def finish(self) -> dict[str, Any]:
        """End the last shard. Return the part of an entry with all of them, in order."""
        self._end_shard()
        return {"shards": [shard.to_json() for shard in self.shards]}

    def discard(self) -> None:
        """Remove the files of the shard that is being written."""
        if self._writer is not None:
            self._writer.discard()
            self._writer = None

    def _open_writer(self) -> ShardWriter | _Packed:
        if self._writer is None:
            stem = self.folder / self._stem()
            writer = get_format(self.format).Writer(stem, self.spec)
            packed = self.spec.sequence_length is not None
            self._writer = _Packed(writer, stem, self.spec, self.pad_id) if packed else writer
        return self._writer

    def _stem(self) -> str:
        return f"{self.number:05d}-{len(self.shards):03d}"

    def _end_shard(self) -> None:
        writer = self._writer
        if writer is None:
            return
        files = tuple(writer.finish())
        self._writer = None
        padding = writer.padding if isinstance(writer, _Packed) else 0
        self.shards.append(Shard(self._stem(), writer.documents, writer.tokens, files, padding))


class _Packed:
    """Documents end to end, in sequences of one length."""

    def __init__(self, writer: ShardWriter, stem: Path, spec: Spec, pad_id: int | None) -> None:
        assert spec.sequence_length is not None and pad_id is not None
        self._writer = writer
        self._length = spec.sequence_length
        self._pad_id = pad_id
        self._dtype = np.dtype(spec.dtype)
        self._rest = np.empty(0, self._dtype)
        self._starts = NpyFile(stem, DOCUMENTS_SUFFIX, "<i8")
        self._next_start = 0
        self.tokens = self.documents = self.padding = 0

    def append(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows | None) -> None:
        if len(ends):
            ends = ends + self.tokens
            self._starts.write(np.concatenate(([self._next_start], ends[:-1])))
            self._next_start = int(ends[-1])
            self.documents += len(ends)
        self.tokens += len(ids)
        if len(self._rest):
            missing = self._length - len(self._rest)
            self._rest = np.append(self._rest, ids[:missing])
            ids = ids[missing:]
            if len(self._rest) < self._length:
                return
            self._write(self._rest)
        whole = len(ids) - len(ids) % self._length
        self._write(ids[:whole])
        self._rest = ids[whole:].copy()

    def finish(self) -> list[File]:
        if len(self._rest):
            self.padding = self._length - len(self._rest)
            self._write(np.append(self._rest, np.full(self.padding, self._pad_id, self._dtype)))
        return [*self._writer.finish(), self._starts.finish()]

    def discard(self) -> None:
        self._writer.discard()
        self._starts.discard()

    def _write(self, ids: NDArray[Any]) -> None:
        if len(ids):
            ends = np.arange(self._length, len(ids) + 1, self._length, dtype=np.int64)
            self._writer.append(ids, ends, None)


class ShuffleWriter:
    """Ids of a task → flat files for the shuffle pass."""

    def __init__(self, folder: Path, number: int, dtype: str, *, keeps_names: bool) -> None:
        self._stem = folder / f"{number:05d}"
        self._dtype = np.dtype(dtype)
        suffixes = (".ids", ".ends") + ((".names", ".name_ends") if keeps_names else ())
        self._files = {suffix: self._stem.with_suffix(suffix).open("wb") for suffix in suffixes}
        self._tokens = self._name_bytes = 0

    def append(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows | None) -> None:
        self._files[".ids"].write(np.ascontiguousarray(ids, self._dtype).data)
        self._files[".ends"].write((ends + self._tokens).tobytes())
        self._tokens += len(ids)
        if ".names" in self._files and len(ends):
            names = None if rows is None else rows.names
            self._add_names([""] * len(ends) if names is None else list(names))

    def _add_names(self, names: list[str]) -> None:
        spelled = [name.encode("utf-8", "replace") for name in names]
        ends = np.cumsum([len(name) for name in spelled], dtype=np.int64) + self._name_bytes
        self._files[".names"].write(b"".join(spelled))
        self._files[".name_ends"].write(ends.tobytes())
        self._name_bytes = int(ends[-1])

    def finish(self) -> dict[str, Any]:
        """Flush the files to the disk. Return the part of an entry with their names and sizes."""
        files = []
        for suffix, file in self._files.items():
            file.flush()
            os.fsync(file.fileno())
            files.append({"name": self._stem.name + suffix, "bytes": file.tell()})
            file.close()
        return {"shards": [], "shuffle_files": files}

    def discard(self) -> None:
        for suffix, file in self._files.items():
            file.close()
            self._stem.with_suffix(suffix).unlink(missing_ok=True)
