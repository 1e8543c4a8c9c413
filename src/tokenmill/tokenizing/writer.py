"""Ids of a task → its shards, and its rejected records → a file of JSON lines.

A shard ends with the document that makes it large enough. That rule looks only at the documents
before, so the shards are the same for any size of blocks and chunks. With packing, a shard format
gets sequences of one length instead of documents. The starts of the documents are a file next to
the shard, and the last sequence of a shard is padded.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus.documents import Problem
from tokenmill.shards.files import File, HashedFile, NpyFile
from tokenmill.shards.shard_format import (
    DOCUMENTS_SUFFIX,
    Rows,
    Shard,
    ShardWriter,
    Spec,
    get_format,
)

# The files of a task for the shuffle pass.
IDS, ENDS, NAMES, NAME_ENDS = ".ids", ".ends", ".names", ".name_ends"
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

    def finish_entry(self) -> dict[str, Any]:
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


class ShuffleWriter(ShardWriter):
    """Ids of a task, and names of its documents if there are any → files for the shuffle pass."""

    def __init__(self, folder: Path, number: int, spec: Spec, has_names: bool) -> None:
        self._has_names = has_names
        self._name_bytes = 0
        super().__init__(folder / f"{number:05d}", spec)

    def _open(self) -> None:
        suffixes = (IDS, ENDS, NAMES, NAME_ENDS) if self._has_names else (IDS, ENDS)
        self._files = {suffix: self._add(HashedFile(self.stem, suffix)) for suffix in suffixes}

    def _write(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows) -> None:
        self._files[IDS].write(ids)
        self._files[ENDS].write(ends + self.tokens)
        if self._has_names:
            names = [name.encode("utf-8", "replace") for name in rows.names or [""] * len(ends)]
            name_ends = np.cumsum([len(name) for name in names], dtype=np.int64)
            self._files[NAMES].write(b"".join(names))
            self._files[NAME_ENDS].write(name_ends + self._name_bytes)
            self._name_bytes += sum(map(len, names))

    def finish_entry(self) -> dict[str, Any]:
        """Flush the files to the disk. Return the part of an entry with their names and sizes."""
        name = self.stem.name
        files = [{"name": name + file.suffix, "bytes": file.bytes} for file in self.finish()]
        return {"shards": [], "shuffle_files": files}


class Quarantine:
    """The rejected records of one task. `keeps_records` includes their bytes."""

    def __init__(self, path: Path, keeps_records: bool) -> None:
        self._path, self._keeps_records = path, keeps_records
        self._file: HashedFile | None = None
        self.count = 0

    def add(self, problem: Problem) -> None:
        if self._file is None:
            self._file = HashedFile(self._path, "")
        row = {
            "source": problem.source,
            "line": problem.line,
            "offset": problem.offset,
            "bytes": problem.bytes,
            "reason": problem.reason,
        }
        if self._keeps_records:
            row |= _record(problem.record)
        self._file.write(json.dumps(row).encode() + b"\n")
        self.count += 1

    def finish(self) -> Path | None:
        """The file, which is on the disk; None if there is none."""
        if self._file is None:
            return None
        self._file.finish()
        return self._path

    def discard(self) -> None:
        if self._file is not None:
            self._file.discard()


def _record(raw: bytes) -> dict[str, Any]:
    try:
        return {"record": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"record_base64": base64.b64encode(raw).decode("ascii")}
