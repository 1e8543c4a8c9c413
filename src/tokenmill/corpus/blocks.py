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
from io import FileIO, RawIOBase
from typing import Any

import numpy as np

from tokenmill import object_store
from tokenmill.corpus import utf8
from tokenmill.corpus.documents import (
    RECORD_BYTES_MAX,
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

    def __init__(self, file: Any, start: int, end: int | None, checksum: Any) -> None:
        self._file = file
        self._start = start
        self._end = end
        self._checksum = checksum
        self.bytes_read = 0
        if start:
            file.seek(start)

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any, /) -> int:
        place = self._start + self.bytes_read
        if self._end is not None:
            view = memoryview(view)[: max(0, self._end - place)]
            if not len(view):
                return 0
        count = self._file.readinto(view) or 0
        if count == 0 and self._end is not None:
            raise OSError(
                f"it had {self._end:,} bytes and ends at {place:,}: it was cut while it was read"
            )
        if self._checksum is not None and count:
            self._checksum.update(memoryview(view)[:count])
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


class Blocks:
    """The blocks of a segment of a text file. `next` receives the used bytes of the last one.

    With the option `low_latency`, a block of a text is as long as one read of the file. The file
    may be a terminal.
    """

    def __init__(
        self, segment: Segment, options: DocumentOptions, stack: ExitStack, least_bytes: int = 0
    ) -> None:
        source = segment.source
        self.source = source
        self._low_latency = options.low_latency and source.kind in ("text", "lines")
        end = source.size if segment.end is None else segment.end
        is_direct = self._low_latency and source.is_stdin
        file = stack.enter_context(_open_stdin() if is_direct else open_file(source))
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
        self.view = memoryview(b"")
        self._is_first = segment.start == 0
        # The offset of the view in the text.
        self.offset = self._start = segment.start
        # The view is the last one: the text ends, or it failed.
        self.is_over = False
        # The newlines from the start of the segment to an offset, and those before the segment.
        self._lines = 0
        self._lines_end = segment.start
        self._lines_before: int | None = None

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

    @property
    def can_grow(self) -> bool:
        """Whether a record that does not fit into this block may fit into one."""
        return len(self.view) < self._block_bytes

    def next(self, used: int, records: int = 0) -> bool:
        """Move the view after its first `used` bytes. Return False at the end.

        The view gets new bytes, and its size doubles if no byte was used, unless the text ends.
        The next block is larger, or smaller if this one had many `records`.
        """
        rest = self.view[used:]
        self.line_at(used)
        self.offset += used
        if self.is_over:
            self.view = rest
            return len(rest) > 0
        size = len(rest) + _ROOM_BYTES
        if used == 0:
            doubled = 2 * len(rest)
            size = max(size, min(doubled, self._block_bytes) if self.can_grow else doubled)
        if records > _RECORDS_MAX:
            self._size = max(min(self._size, _ROOM_BYTES), self._size * _RECORDS_MAX // records)
        elif self.view:
            self._size = min(self._block_bytes, 2 * self._size)
        view = np.empty(max(self._size, size), np.uint8).data
        view[: len(rest)] = rest
        count = self._stream.fill_good(view[len(rest) :], once=self._low_latency)
        filled = len(rest) + count
        self.is_over = count == 0 if self._low_latency else filled < len(view)
        self.view = view[:filled]
        if self._is_first and bytes(self.view[:3]) == codecs.BOM_UTF8:
            self.view = self.view[3:]
            self.offset = self._lines_end = 3
        self._is_first = False
        return len(self.view) > 0 or not self.is_over

    def line_at(self, place: int) -> int:
        """The number of newlines of the segment before an offset of the view. Offsets increase."""
        part = self.view[max(0, self._lines_end - self.offset) : place]
        self._lines += _newlines(part)
        self._lines_end = max(self._lines_end, self.offset + place)
        return self._lines

    def problem(self, start: int, raw: bytes, reason: str, cause: str = "") -> Problem:
        """The problem of a record with the bytes `raw` at an offset of the view."""
        offset, lines = self.offset + start, self.line_at(start)
        return self.problem_at(offset, lines, len(raw), reason, raw[:RECORD_BYTES_MAX], cause)

    def problem_at(
        self, offset: int, lines: int, size: int, reason: str, record: bytes, cause: str = ""
    ) -> Problem:
        """The problem of a record at an offset of the text, after `lines` of the segment."""
        if self._lines_before is None:
            self._lines_before = _newlines_of(self.source, self._start) if self._start else 0
        line = self._lines_before + lines + 1
        return Problem(self.source.name, offset, line, size, reason, record, cause=cause)

    def skip(self, start: int, size: int | None, reason: str) -> tuple[int, Problem | None]:
        """Skip a long record of `size` bytes, or the rest of a line.

        Return the offset of its end in the view, and its problem. A line of spaces has none, and a
        record in which the file fails.
        """
        offset, lines = self.offset + start, self.line_at(start)
        record = bytes(self.view[start:][:RECORD_BYTES_MAX])
        done, is_blank = 0, size is None
        while True:
            rest = bytes(self.view[start:])
            found = rest.find(b"\n") if size is None else size - done
            is_whole = 0 <= found <= len(rest)
            end = found if is_whole else len(rest)
            is_blank = is_blank and not rest[:end].strip()
            done += end
            if is_whole or self.is_over:
                break
            self.next(len(self.view))
            start = 0
        used = min(start + end + (size is None), len(self.view))
        if is_blank or not (is_whole or self.is_last):
            return used, None
        return used, self.problem_at(offset, lines, done, reason, record)

    def finish(self) -> Documents:
        """The problem of a file that failed. The rest of it is read for its checksum."""
        problems = []
        if self.failure is not None:
            problem = failure_of(self.source, self.failure)
            end = self.problem(len(self.view), b"", "")
            problem.offset, problem.line = end.offset, end.line
            problems.append(problem)
        if not self._low_latency:  # a terminal would be read again after its end
            self._part.drain()
        return Documents(problems=problems, bytes_read=self.bytes_read)


def _newlines(text: memoryview) -> int:
    # Comparisons of small slices stay in the cache.
    data, step = np.frombuffer(text, np.uint8), 1 << 16
    slices = (data[start : start + step] for start in range(0, len(data), step))
    return sum(int(np.count_nonzero(some == ord("\n"))) for some in slices)


def _newlines_of(source: Source, end: int) -> int:
    """The number of newlines of an uncompressed file before an offset."""
    count = done = 0
    buffer = np.empty(_COPY_BYTES, np.uint8)
    try:
        with open_file(source) as file:
            while done < end and (got := file.readinto(buffer.data[: end - done])):
                count += _newlines(buffer.data[:got])
                done += got
    except OSError as error:
        raise_system_error(error)
    return count


class Gatherer:
    """Texts of the view of a block, one by one → documents, for readers with an object for each."""

    def __init__(self, blocks: Blocks, options: DocumentOptions) -> None:
        self._blocks = blocks
        self._options = options
        self._texts: list[bytes] = []
        self._names: list[str] = []
        self._problems: list[Problem] = []

    def add(self, start: int, raw: bytes, text: bytes, name: str) -> None:
        """Add the text of a record with the bytes `raw` at an offset of the view."""
        if self._options.utf8 != "bytes" and utf8.first_bad(text) >= 0:
            if self._options.utf8 == "strict":
                at = self._blocks.offset + start + max(raw.find(text), 0)
                self.reject(start, raw, utf8.reason(text, at))
                return
            text = text.decode("utf-8", "replace").encode()
        self._texts.append(text)
        self._names.append(name)

    def reject(self, start: int, raw: bytes, reason: str) -> None:
        """Add a record that gives no document."""
        self._problems.append(self._blocks.problem(start, raw, reason))

    @property
    def is_full(self) -> bool:
        return len(self._texts) + len(self._problems) >= _GATHERED_MAX

    def documents(self) -> Iterator[Documents]:
        """The records since the last call."""
        if self._problems:
            yield Documents(problems=self._problems, bytes_read=self._blocks.bytes_read)
        ends = np.cumsum([0, *map(len, self._texts)], dtype=np.int64)
        spans = np.stack([ends[:-1], ends[1:]], axis=1)
        data = b"".join(self._texts)
        names = self._names if self._options.id_field is not None else None
        self._texts, self._names, self._problems = [], [], []
        for part in in_blocks(data, spans, names, self._options.block_bytes):
            part.bytes_read = self._blocks.bytes_read
            yield part
