"""Segments of files → blocks of text: bounded, decompressed, with the offset of each byte.

Each block has its own memory, so a caller may keep it. The bytes of a block that a reader has not
used start the next block. A file that fails in the middle ends there: records before the failure
are good, and the record that contains it is not.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO, RawIOBase
from typing import Any

import numpy as np

from tokenmill import object_store
from tokenmill.corpus import utf8
from tokenmill.corpus.documents import (
    RECORD_BYTES_MAX,
    Checksum,
    DocumentOptions,
    Documents,
    Problem,
    Segment,
    Source,
    failure_of,
    in_blocks,
    raise_system_error,
)
from tokenmill.corpus.streams import Stream
from tokenmill.errors import InputError

_COPY_BYTES = 1 << 20
_ROOM_BYTES = 16
# Blocks start small and grow while they have at most this many records: the spans of short lines
# take more memory than the lines.
_FIRST_BYTES = 1 << 18
_RECORDS_MAX = 1 << 16
_GATHERED_MAX = 1 << 14
_NEWLINE = ord("\n")


def open_file(source: Source) -> Any:
    """The file of a source, open for reading, not decompressed."""
    if source.is_stdin:
        if sys.stdin is None or sys.stdin.isatty():
            raise InputError("standard input is a terminal or closed; pipe data into it")
        return _open_stdin()
    if object_store.is_address(source.name):
        return object_store.open_address(source.name)
    return FileIO(source.path)


def _open_stdin() -> FileIO:
    """A second object for standard input, so that closing it leaves stdin open."""
    return FileIO(sys.stdin.fileno(), closefd=False)


class Part(RawIOBase):
    """Some bytes of a file. A checksum receives them as they are read."""

    def __init__(self, file: Any, start: int, end: int | None, checksum: Checksum | None) -> None:
        self._file = file
        self._end = end
        self._place = start
        self._checksum = checksum
        self.bytes_read = 0
        if start:
            file.seek(start)

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any, /) -> int:
        if self._end is not None:
            view = memoryview(view)[: max(0, self._end - self._place)]
            if not len(view):
                return 0
        count = self._file.readinto(view) or 0
        if count == 0 and self._end is not None:
            raise OSError(
                f"it had {self._end:,} bytes and ends at {self._place:,}: it was cut while it was "
                "read"
            )
        if self._checksum is not None and count:
            self._checksum.update(memoryview(view)[:count])
        self._place += count
        self.bytes_read += count
        return count

    def drain(self) -> None:
        """Read to the end, for the checksum of the whole file."""
        buffer = bytearray(_COPY_BYTES)
        try:
            while self.readinto(buffer):
                pass
        except OSError as error:
            raise_system_error(error)


@dataclass(frozen=True, slots=True)
class Mark:
    """An offset in the text, and its line if lines are counted while they are read."""

    offset: int
    line: int | None


class Blocks:
    """The blocks of a segment of a text file. `next` receives the used bytes of the last one.

    With `low_latency`, a block is as long as one read of the file. The file may be a terminal.
    """

    def __init__(
        self,
        segment: Segment,
        options: DocumentOptions,
        stack: ExitStack,
        least_bytes: int = 0,
        *,
        low_latency: bool = False,
    ) -> None:
        source = segment.source
        self.source = source
        end = source.size if segment.end is None else segment.end
        is_direct = low_latency and source.is_stdin
        file = stack.enter_context(_open_stdin() if is_direct else open_file(source))
        self._low_latency = low_latency
        self._part = stack.enter_context(Part(file, segment.start, end, options.checksum))
        try:
            self._stream = Stream(
                self._part, source.name, source.compression, is_plain=segment.start > 0
            )
        except InputError:
            self._part.drain()
            raise
        self._block_bytes = max(options.block_bytes, least_bytes)
        self._size = min(self._block_bytes, _FIRST_BYTES)
        self._is_first = segment.start == 0
        self.view = memoryview(b"")
        # The offset of the view in the text.
        self.offset = segment.start
        # The view is the last one: the text ends, or it failed.
        self.is_over = False
        # Lines are counted on request. Earlier text is read again for it, or, if the input cannot
        # be read again, its lines are counted while they are read.
        self._lines = 0
        self._lines_place = 0
        is_pipe = source.is_stdin or low_latency
        self._counts = self._stream.compression is not None or is_pipe

    @property
    def failure(self) -> InputError | None:
        return self._stream.failure

    @property
    def is_last(self) -> bool:
        """Whether the text ends with the view, as it should."""
        return self.is_over and self._stream.failure is None

    @property
    def bytes_read(self) -> int:
        return self._part.bytes_read

    def next(self, used: int, more: int = _ROOM_BYTES) -> bool:
        """Move the view after its first `used` bytes. Return False at the end.

        The view gets at least `more` new bytes, unless the text ends.
        """
        rest = self.view[used:]
        if self._counts:
            self._count_to(self.offset + used)
        self.offset += used
        if self.is_over:
            self.view = rest
            return len(rest) > 0
        view = np.empty(max(self._size, len(rest) + more), np.uint8).data
        view[: len(rest)] = rest
        count = self._stream.fill_good(view[len(rest) :], once=self._low_latency)
        filled = len(rest) + count
        self.is_over = count == 0 if self._low_latency else filled < len(view)
        self.view = view[:filled]
        if self._is_first:
            self._is_first = False
            if bytes(self.view[:3]) == codecs.BOM_UTF8:
                self.view = self.view[3:]
                self.offset = self._lines_place = 3
        return len(self.view) > 0 or not self.is_over

    def pace(self, records: int) -> None:
        """Make the next block larger, or smaller if this one had many records."""
        if records > _RECORDS_MAX:
            self._size = max(min(self._size, _ROOM_BYTES), self._size * _RECORDS_MAX // records)
        else:
            self._size = min(self._block_bytes, 2 * self._size)

    @property
    def can_grow(self) -> bool:
        """Whether a record that does not fit into this block may fit into one."""
        return len(self.view) < self._block_bytes

    def mark(self, place: int) -> Mark:
        """The start of a record that may fail later, from its offset in the view."""
        offset = self.offset + place
        return Mark(offset, self.line_of(offset) if self._counts else None)

    def line_at(self, mark: Mark) -> int:
        return self.line_of(mark.offset) if mark.line is None else mark.line

    def line_of(self, offset: int) -> int:
        """The number of the line, from 1, that contains a byte of the text.

        Offsets must increase. If lines are counted while they are read, the byte is in the view.
        """
        self._count_to(offset)
        return self._lines + 1

    def problem(self, start: int, raw: bytes, reason: str, cause: str = "") -> Problem:
        """The problem of a record with the bytes `raw` at an offset of the view."""
        offset = self.offset + start
        record, line = raw[:RECORD_BYTES_MAX], self.line_of(offset)
        return Problem(self.source.name, offset, line, len(raw), reason, record, cause=cause)

    def finish(self) -> list[Problem]:
        """The problem of a file that failed. The rest of it is read for its checksum."""
        problems = []
        if self.failure is not None:
            end = self.offset + len(self.view)
            problem = failure_of(self.source, self.failure)
            problem.offset, problem.line = end, self.line_of(end)
            problems.append(problem)
        if not self._low_latency:  # a terminal would be read again after its end
            self._part.drain()
        return problems

    def _count_to(self, offset: int) -> None:
        if offset <= self._lines_place:
            return
        if self._lines_place < self.offset:
            end = min(offset, self.offset)
            self._lines += _newlines_of(self.source, self._lines_place, end)
            self._lines_place = end
        if offset > self._lines_place:
            part = self.view[self._lines_place - self.offset : offset - self.offset]
            self._lines += int(np.count_nonzero(np.frombuffer(part, np.uint8) == _NEWLINE))
            self._lines_place = offset


def _newlines_of(source: Source, start: int, end: int) -> int:
    """The number of newlines of an uncompressed file from `start` to `end`."""
    count = 0
    buffer = np.empty(_COPY_BYTES, np.uint8)
    try:
        with open_file(source) as file:
            file.seek(start)
            while start < end and (got := file.readinto(buffer.data[: end - start])):
                count += int(np.count_nonzero(buffer[:got] == _NEWLINE))
                start += got
    except OSError as error:
        raise_system_error(error)
    return count


class Gatherer:
    """Texts of the view of a block, one by one → documents, for readers with an object for each."""

    def __init__(self, blocks: Blocks, options: DocumentOptions) -> None:
        self._blocks = blocks
        self._options = options
        self._texts: list[bytes] = []
        self._names: list[str] | None = None if options.id_field is None else []
        self._problems: list[Problem] = []

    def add(self, start: int, raw: bytes, text: bytes, name: str | None) -> None:
        """Add the text of a record with the bytes `raw` at an offset of the view."""
        if self._options.utf8 != "bytes" and utf8.first_bad(text) >= 0:
            if self._options.utf8 == "strict":
                at = self._blocks.offset + start + max(raw.find(text), 0)
                self.reject(start, raw, utf8.reason(text, at))
                return
            text = text.decode("utf-8", "replace").encode()
        self._texts.append(text)
        if self._names is not None:
            self._names.append(name or "")

    def reject(self, start: int, raw: bytes, reason: str, cause: str = "") -> None:
        """Add a record that gives no document."""
        self._problems.append(self._blocks.problem(start, raw, reason, cause))

    @property
    def is_full(self) -> bool:
        return len(self._texts) + len(self._problems) >= _GATHERED_MAX

    def documents(self) -> Iterator[Documents]:
        """The records since the last call."""
        if self._problems:
            yield Documents(problems=self._problems, bytes_read=self._blocks.bytes_read)
        ends = np.cumsum([0, *map(len, self._texts)], dtype=np.int64)
        spans = np.stack([ends[:-1], ends[1:]], axis=1)
        data, names = b"".join(self._texts), self._names
        self._texts, self._problems = [], []
        self._names = None if names is None else []
        for part in in_blocks(data, spans, names, self._options.block_bytes):
            part.bytes_read = self._blocks.bytes_read
            yield part
