"""Segments of files → blocks of text: bounded, decompressed, with the offset of each byte.

Each block has its own memory, so a caller may keep it. The bytes of a block that a reader has not
used start the next block. A file that fails in the middle ends there: records before the failure
are good, and the record that contains it is not.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from io import FileIO
from itertools import compress, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    raise_system_error,
    spans_of,
)
from tokenmill.corpus.streams import Stream
from tokenmill.errors import InputError
from tokenmill.native import _native

_COPY_BYTES = 1 << 20
_ROOM_BYTES = 16
# Blocks start small and grow while they have at most this many records: the spans of short lines
# take more memory than the lines.
_FIRST_BYTES = 1 << 18
_RECORDS_MAX = 1 << 16
# A block of text can have millions of problems. They are given in groups.
_PROBLEMS_MAX = 1 << 12


def open_file(source: Source, *, may_be_terminal: bool = False) -> Any:
    """The file of a source, open for reading, not decompressed."""
    if source.is_stdin:
        if sys.stdin is None or (sys.stdin.isatty() and not may_be_terminal):
            raise InputError("standard input is a terminal or closed; pipe data into it")
        return FileIO(sys.stdin.fileno(), closefd=False)  # closing it leaves stdin open
    if object_store.is_address(source.name):
        return object_store.open_address(source.name)
    return FileIO(source.path)


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
        self.options = options
        self._low_latency = options.low_latency and source.kind in ("text", "lines")
        file = stack.enter_context(open_file(source, may_be_terminal=self._low_latency))
        self.stream = Stream(
            file, source.name, source.compression, start=segment.start,
            end=source.size if segment.end is None else segment.end, checksum=options.checksum,
        )  # fmt: skip
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
    def is_last(self) -> bool:
        """Whether the text ends with the view, as it should."""
        return self.is_over and self.stream.failure is None

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
        self.place(used)
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
        count = self.stream.fill(view[len(rest) :], once=self._low_latency)
        filled = len(rest) + count
        self.is_over = count == 0 if self._low_latency else filled < len(view)
        self.view = view[:filled]
        if self._is_first and bytes(self.view[:3]) == codecs.BOM_UTF8:
            self.view = self.view[3:]
            self.offset = self._lines_end = 3
        self._is_first = False
        return len(self.view) > 0 or not self.is_over

    def place(self, start: int) -> tuple[int, int]:
        """The offset in the text of an offset of the view, and the newlines of the segment before.

        Offsets must increase from call to call.
        """
        new = self.view[max(0, self._lines_end - self.offset) : start]
        self._lines += _native.count_newlines(new)
        self._lines_end = max(self._lines_end, self.offset + start)
        return self.offset + start, self._lines

    def problem(
        self, place: tuple[int, int], size: int, reason: str, record: bytes, cause: str = ""
    ) -> Problem:
        """The problem of a record at a place of the text."""
        offset, line = place[0], self._line(place[1])
        record = record[:RECORD_BYTES_MAX]
        return Problem(self.source.name, offset, line, size, reason, record, cause=cause)

    def _line(self, newlines: int) -> int:
        """The number of a line after some newlines of the segment."""
        if self._lines_before is None:
            self._lines_before = _newlines_of(self.source, self._start) if self._start else 0
        return self._lines_before + newlines + 1

    def skip(self, size: int | None, reason: str) -> tuple[int, Problem | None]:
        """Skip the record at the start of the view, of `size` bytes or to the end of its line.

        Return the offset of its end in the view, and its problem. A record in which the file fails
        has none.
        """
        place = self.place(0)
        record = bytes(self.view[:RECORD_BYTES_MAX])
        done = 0
        while True:
            end = bytes(self.view).find(b"\n") if size is None else size - done
            is_whole = 0 <= end <= len(self.view)
            end = end if is_whole else len(self.view)
            done += end
            if is_whole or self.is_over:
                break
            self.next(len(self.view))
        used = min(end + (size is None), len(self.view))
        is_good = is_whole or self.is_last
        return used, self.problem(place, done, reason, record) if is_good else None

    def documents(
        self,
        data: Any,
        spans: NDArray[np.int64],
        records: NDArray[np.int64],
        bad: Sequence[int],
        failed: Iterable[tuple[int, int, Any]] = (),
        names: list[str] | None = None,
        explain: Callable[[bytes, Any], tuple[str, str]] = lambda _, reason: (reason, ""),
    ) -> Iterator[Documents]:
        """The documents of the view, and the problems of the other records.

        `records` are the records of the documents in the view, and `bad` the numbers of those to
        reject. `failed` are start, end and reason of records without a document. `explain` returns
        the reason and the cause of one. Without a reason, it is not UTF-8.
        """
        if len(bad):
            is_good = np.ones(len(spans), bool)
            is_good[bad] = False
            failed = sorted([*failed, *((*pair, "") for pair in records[bad].tolist())])
            spans, records = spans[is_good], records[is_good]
            names = names and list(compress(names, is_good))
        lines = self._lines  # before the view

        def locate(index: int) -> tuple[int, int]:
            start = int(records[index, 0])
            before = lines + _native.count_newlines(self.view[:start])
            return self.offset + start, self._line(before)

        bytes_read = self.stream.bytes_read
        yield Documents(data, spans, bytes_read=bytes_read, names=names, locate=locate)
        problems = (self._explained(one, explain) for one in failed)
        while some := list(islice(problems, _PROBLEMS_MAX)):
            yield Documents(problems=some, bytes_read=self.stream.bytes_read)

    def _explained(
        self, failed: tuple[int, int, Any], explain: Callable[[bytes, Any], tuple[str, str]]
    ) -> Problem:
        start, end, why = failed
        record = bytes(self.view[start:end])
        reason, cause = explain(record, why)
        reason = reason or utf8.reason(record, self.offset + start)
        return self.problem(self.place(start), len(record), reason, record, cause)

    def gather(
        self, found: list[tuple[int, int, bytes, str]], failed: list[tuple[int, int, str]]
    ) -> Iterator[Documents]:
        """The same for readers with an object for each text.

        `found` are start and end of records in the view, their texts and their names.
        """
        records = np.array([one[:2] for one in found], np.int64).reshape(-1, 2)
        texts = [text for _, _, text, _ in found]
        names = None if self.options.id_field is None else [name for *_, name in found]
        data, spans, bad = utf8.check(b"".join(texts), spans_of(texts), self.options.utf8)
        return self.documents(data, spans, records, bad, failed, names)

    def finish(self) -> Documents:
        """The problem of a file that failed. The rest of it is read for its checksum."""
        problems = []
        if self.stream.failure is not None:
            reason = failure_of(self.source, self.stream.failure).reason
            problems.append(self.problem(self.place(len(self.view)), 0, reason, b""))
            problems[0].is_end = True
        self.stream.drain()
        return Documents(problems=problems, bytes_read=self.stream.bytes_read)


def _newlines_of(source: Source, end: int) -> int:
    """The number of newlines of an uncompressed file before an offset."""
    count = done = 0
    buffer = np.empty(_COPY_BYTES, np.uint8)
    try:
        with open_file(source) as file:
            while done < end and (got := file.readinto(buffer.data[: end - done])):
                count += _native.count_newlines(buffer.data[:got])
                done += got
    except OSError as error:
        raise_system_error(error)
    return count
