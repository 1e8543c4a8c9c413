"""Segments of files → blocks of text: bounded, decompressed, with the place of each byte.

A block is memory of its own, so whoever has it may keep it. What a reader has not used of a block
begins the next one. A file that fails in the middle ends there, and says why: what came before is
good, and what it was cut in is not.
"""

from __future__ import annotations

import codecs
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO, RawIOBase
from typing import Any

import numpy as np

from tokenmill.corpus import remote
from tokenmill.corpus.faults import raise_of_machine
from tokenmill.corpus.sources import Source
from tokenmill.corpus.spans import Checksum, DocumentOptions, Problem, Segment, failed
from tokenmill.corpus.streams import Stream
from tokenmill.errors import InputError

_COPY_BYTES = 1 << 20
_ROOM_BYTES = 16
# Blocks begin small and grow, as long as they have no more records than this: ten million lines of
# two bytes take as much memory as their spans.
_FIRST_BYTES = 1 << 18
_RECORDS_MAX = 1 << 16
_NEWLINE = ord("\n")


def open_file(source: Source) -> Any:
    """The file of a source, as it lies there."""
    if source.is_stdin:
        if sys.stdin is None or sys.stdin.isatty():
            raise InputError("the input - is standard input, and nothing is piped into it")
        # A second name, so that closing it leaves stdin open.
        return FileIO(sys.stdin.fileno(), closefd=False)
    if remote.is_address(source.name):
        return remote.open_address(source.name)
    return FileIO(source.path)


class Part(RawIOBase):
    """Some bytes of a file, which a checksum sees as they are read."""

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
            raise OSError(f"it had {self._end:,} bytes and ends at {self._place:,}")
        if self._checksum is not None and count:
            self._checksum.update(memoryview(view)[:count])
        self._place += count
        self.bytes_read += count
        return count

    def drain(self) -> None:
        """Reads to the end, so that the checksum is that of the file."""
        buffer = bytearray(_COPY_BYTES)
        try:
            while self.readinto(buffer):
                pass
        except OSError as error:
            raise_of_machine(error)


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the text, and its line if that had to be counted at once."""

    offset: int
    line: int | None


class Blocks:
    """The blocks of a segment of a text file. `next` says how much of the last one was used."""

    def __init__(
        self, segment: Segment, options: DocumentOptions, stack: ExitStack, least_bytes: int = 0
    ) -> None:
        source = segment.source
        self.source = source
        end = source.size if segment.end is None else segment.end
        file = stack.enter_context(open_file(source))
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
        # The place of the view in the text.
        self.offset = segment.start
        # Behind the view nothing comes: the text ends, or it failed.
        self.is_over = False
        # Lines are counted when one is asked for, and up to there; the text that is gone by then is
        # read again, or was counted when it went if that cannot be.
        self._lines = 0
        self._lines_place = 0
        self._counts = self._stream.compression is not None or source.is_stdin

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

    def next(self, used: int, room: int = _ROOM_BYTES) -> bool:
        """Goes on behind the first `used` bytes; False if nothing is left.

        There is `room` for so many new bytes at least.
        """
        rest = self.view[used:]
        if self._counts:
            self._count_to(self.offset + used)
        self.offset += used
        if self.is_over:
            self.view = rest
            return len(rest) > 0
        view = np.empty(max(self._size, len(rest) + room), np.uint8).data
        view[: len(rest)] = rest
        filled = len(rest) + self._stream.fill_good(view[len(rest) :])
        self.is_over = filled < len(view)
        self.view = view[:filled]
        if self._is_first:
            self._is_first = False
            if bytes(self.view[:3]) == codecs.BOM_UTF8:
                self.view = self.view[3:]
                self.offset = self._lines_place = 3
        return len(self.view) > 0 or not self.is_over

    def pace(self, records: int) -> None:
        """Makes the next block larger, or smaller if this one had many records."""
        if records > _RECORDS_MAX:
            self._size = max(min(self._size, _ROOM_BYTES), self._size * _RECORDS_MAX // records)
        else:
            self._size = min(self._block_bytes, 2 * self._size)

    @property
    def can_grow(self) -> bool:
        """Whether a record that does not fit into this block may fit into one."""
        return len(self.view) < self._block_bytes

    def mark(self, place: int) -> Mark:
        """Where a record begins that may fail later; `place` is in the view."""
        offset = self.offset + place
        return Mark(offset, self.line_of(offset) if self._counts else None)

    def line_at(self, mark: Mark) -> int:
        return self.line_of(mark.offset) if mark.line is None else mark.line

    def line_of(self, offset: int) -> int:
        """The number of the line, from 1, in which a byte of the text lies.

        It is asked in order, and if lines are counted while they go by, of bytes in the view.
        """
        self._count_to(offset)
        return self._lines + 1

    def finish(self) -> list[Problem]:
        """What is to be said at the end. The rest of the file is read for its checksum."""
        problems = []
        if self.failure is not None:
            end = self.offset + len(self.view)
            problem = failed(self.source, self.failure)
            problem.offset, problem.line = end, self.line_of(end)
            problems.append(problem)
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
    """How many newlines a file that is not compressed has from `start` to `end`."""
    count = 0
    buffer = np.empty(_COPY_BYTES, np.uint8)
    try:
        with open_file(source) as file:
            file.seek(start)
            while start < end and (got := file.readinto(buffer.data[: end - start])):
                count += int(np.count_nonzero(buffer[:got] == _NEWLINE))
                start += got
    except OSError as error:
        raise_of_machine(error)
    return count
