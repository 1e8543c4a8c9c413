"""Ids of a unit → its shards. A shard ends with the document that makes it large enough.

That rule looks only at what came before, so it is the same for any size of block and any number of
pieces in which a long document comes. With packing, a layout gets sequences of one length instead
of documents; where the documents begin is a file beside the shard, and the last sequence of a
shard is filled up.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tokenmill.shards import layouts
from tokenmill.shards.layouts.base import Writer
from tokenmill.shards.spec import DOCUMENTS_SUFFIX, File, Rows, Shard, Spec
from tokenmill.shards.streams import NpyFile
from tokenmill.tokenizing.ids import Encoded

_COPY_IDS = 1 << 20


class Series:
    """The shards of one unit, one after the other."""

    def __init__(
        self, folder: Path, unit: int, layout: str, spec: Spec, tokens_max: int, pad: int | None
    ) -> None:
        self._folder = folder
        self._unit = unit
        self._layout = layouts.layout(layout)
        self._spec = spec
        self._tokens_max = tokens_max
        self._pad = pad
        self._target: _Plain | _Packed | None = None
        self._is_open = False
        self.shards: list[Shard] = []

    def add(self, encoded: Encoded, rows: Rows | None) -> None:
        """Takes what the encoder gives; documents stay whole, and in order."""
        if encoded.withdrawn:
            if self._is_open and self._target is not None:
                self._target.withdraw()
            self._is_open = False
        elif encoded.is_open:
            self._is_open = True
            self._target_now().open(encoded.ids)
            if encoded.is_closed:
                self._target_now().close_open(rows)
                self._is_open = False
                self._end_if_full()
        else:
            self._add_whole(encoded.ids, encoded.ends, rows)

    def finish(self) -> list[Shard]:
        """Ends the last shard; all of them, in order."""
        self._end_shard()
        return self.shards

    def discard(self) -> None:
        """Leaves nothing behind."""
        if self._target is not None:
            self._target.discard()
            self._target = None

    def _add_whole(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows | None) -> None:
        first = start = 0
        while first < len(ends):
            room = self._tokens_max - self._target_now().tokens
            last = int(np.searchsorted(ends, start + room, side="left")) + 1
            last = min(max(last, first + 1), len(ends))
            end = int(ends[last - 1])
            part = rows.slice(first, last) if rows is not None else None
            self._target_now().add(ids[start:end], ends[first:last] - start, part)
            self._end_if_full()
            first, start = last, end

    def _target_now(self) -> _Plain | _Packed:
        if self._target is None:
            stem = self._folder / self._stem()
            writer = self._layout.Writer(stem, self._spec)
            if self._spec.sequence is None:
                self._target = _Plain(writer)
            else:
                assert self._pad is not None
                self._target = _Packed(writer, stem, self._spec, self._pad)
        return self._target

    def _stem(self) -> str:
        return f"{self._unit:05d}-{len(self.shards):03d}"

    def _end_if_full(self) -> None:
        if self._target is not None and self._target.tokens >= self._tokens_max:
            self._end_shard()

    def _end_shard(self) -> None:
        target = self._target
        if target is None:
            return
        if not target.documents:
            self.discard()
            return
        files = tuple(target.finish())
        self._target = None
        shard = Shard(self._stem(), target.documents, target.tokens, files, target.padding)
        self.shards.append(shard)


class _Plain:
    """Documents as they are."""

    padding = 0

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.add = writer.add
        self.open = writer.open
        self.close_open = writer.close_open
        self.withdraw = writer.withdraw
        self.finish = writer.finish
        self.discard = writer.discard

    @property
    def tokens(self) -> int:
        return self._writer.tokens

    @property
    def documents(self) -> int:
        return self._writer.documents


class _Packed:
    """Documents end to end, in sequences of one length."""

    def __init__(self, writer: Writer, stem: Path, spec: Spec, pad: int) -> None:
        assert spec.sequence is not None
        self._writer = writer
        self._stem = stem
        self._length = spec.sequence
        self._pad = pad
        self._dtype = np.dtype(spec.dtype)
        self._rest = np.empty(0, self._dtype)
        path = stem.with_name(stem.name + DOCUMENTS_SUFFIX)
        self._starts = NpyFile(path, DOCUMENTS_SUFFIX, "<i8")
        self._spill: BinaryIO | None = None
        self.tokens = self.documents = self.padding = 0

    def add(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows | None) -> None:
        starts = np.concatenate(([0], ends[:-1])) + self.tokens
        self._starts.write(starts)
        self.documents += len(ends)
        self._pour(ids)

    def open(self, ids: NDArray[Any]) -> None:
        # A sequence cannot be taken back, so what may be withdrawn waits on the disk.
        if self._spill is None:
            self._spill = tempfile.TemporaryFile(dir=self._stem.parent)  # noqa: SIM115
        self._spill.write(np.ascontiguousarray(ids).data)

    def close_open(self, rows: Rows | None) -> None:
        assert self._spill is not None
        self._starts.write(np.array([self.tokens], np.int64))
        self.documents += 1
        self._spill.seek(0)
        while data := self._spill.read(_COPY_IDS * self._dtype.itemsize):
            self._pour(np.frombuffer(data, self._dtype))
        self.withdraw()

    def withdraw(self) -> None:
        if self._spill is not None:
            self._spill.close()
            self._spill = None

    def finish(self) -> list[File]:
        if len(self._rest):
            self.padding = self._length - len(self._rest)
            self._give(np.append(self._rest, np.full(self.padding, self._pad, self._dtype)))
        return [*self._writer.finish(), self._starts.finish()]

    def discard(self) -> None:
        self.withdraw()
        self._writer.discard()
        self._starts.discard()

    def _pour(self, ids: NDArray[Any]) -> None:
        self.tokens += len(ids)
        if len(self._rest):
            missing = self._length - len(self._rest)
            self._rest = np.append(self._rest, ids[:missing])
            ids = ids[missing:]
            if len(self._rest) < self._length:
                return
            self._give(self._rest)
        whole = len(ids) - len(ids) % self._length
        self._give(ids[:whole])
        self._rest = ids[whole:].copy()

    def _give(self, ids: NDArray[Any]) -> None:
        if len(ids):
            ends = np.arange(self._length, len(ids) + 1, self._length, dtype=np.int64)
            self._writer.add(ids, ends, None)
