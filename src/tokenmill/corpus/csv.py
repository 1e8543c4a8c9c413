"""CSV and TSV files → documents: a row each, in the column that the first row names.

The format is RFC 4180. A field in quotation marks may contain separators, newlines and doubled
quotation marks. In other fields, quotation marks are characters. A row with more or fewer fields
than the first, or with text after a closing mark, is a problem, and the next row starts at the next
line. The standard library's csv is not used: its limit of field sizes is global to the process, and
it rejects a lone \\r in a field.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from tokenmill.corpus.blocks import Blocks, Gatherer
from tokenmill.corpus.documents import DocumentOptions, Documents, Problem, Segment, missing

# A mark that is never closed must not make one row of the rest of the file.
ROW_BYTES_MAX = 16 << 20
_DELIMITERS = {"csv": b",", "tsv": b"\t"}
_MARK = ord('"')


@dataclass(slots=True)
class _Row:
    """The fields of a row, the offset of the next one, and the reason if the row is bad."""

    fields: list[bytes] = field(default_factory=list)
    end: int = 0
    reason: str | None = None


class _Parser:
    """Rows from a block. Rows are the same for any size of blocks."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        mark = re.escape(delimiter)
        self._quoted = re.compile(rb'"([^"]*+(?:""[^"]*+)*+)"')
        self._plain = re.compile(rb"[^%b\n]*+" % mark)

    def row(self, data: bytes, start: int, *, is_last: bool) -> _Row | None:
        """The row at an offset. None if it may continue after the data."""
        newline = data.find(b"\n", start)
        end = len(data) if newline < 0 else newline
        row = None
        if data.find(b'"', start, end) >= 0:
            row = self._with_marks(data, start, is_last=is_last)
        elif newline >= 0 or is_last:
            line = data[start:end]
            line = line.removesuffix(b"\r") if newline >= 0 else line
            row = _Row(line.split(self._delimiter), min(end + 1, len(data)))
        size = (len(data) if row is None else row.end) - start
        if size <= ROW_BYTES_MAX:
            return row
        # The end of the line is the only certain end of the row.
        return _Row([], min(end + 1, len(data)), f"is longer than {ROW_BYTES_MAX:,} bytes")

    def _with_marks(self, data: bytes, start: int, *, is_last: bool) -> _Row | None:
        fields: list[bytes] = []
        at = start
        while True:
            if at < len(data) and data[at] == _MARK:
                match = self._quoted.match(data, at)
                # A mark at the end may be the first of two.
                if match is None or (match.end() == len(data) and not is_last):
                    if not is_last or len(data) - start > ROW_BYTES_MAX:
                        return None
                    return _first_line(data, start, "has an open quotation mark", is_last=True)
                fields.append(match.group(1).replace(b'""', b'"'))
                at = match.end()
                if data[at : at + 2] == b"\r\n":
                    at += 1
            else:
                match = self._plain.match(data, at)
                assert match is not None
                at = match.end()
                text = match.group()
                fields.append(text.removesuffix(b"\r") if data[at : at + 1] == b"\n" else text)
            after = data[at : at + 1]
            if not after or (after == b"\r" and at + 1 == len(data) and not is_last):
                return _Row(fields, at) if is_last else None
            at += 1
            if after == b"\n":
                return _Row(fields, at)
            if after != self._delimiter:
                reason = "has text after a closing quotation mark"
                return _first_line(data, start, reason, is_last=is_last)


def _first_line(data: bytes, start: int, reason: str, *, is_last: bool) -> _Row | None:
    """A bad row, which ends with its line. None if the line may continue after the data."""
    newline = data.find(b"\n", start)
    if newline < 0 and not is_last and len(data) - start <= ROW_BYTES_MAX:
        return None
    return _Row([], len(data) if newline < 0 else newline + 1, reason)


def read_documents(
    segment: Segment, options: DocumentOptions, stack: ExitStack, delimiter: bytes | None = None
) -> Iterator[Documents]:
    """A document for each row after the first. `delimiter` is the byte between fields."""
    blocks = Blocks(segment, options, stack)
    reader = _Reader(blocks, options, delimiter or _DELIMITERS[segment.source.kind])
    used = room = 0
    while blocks.next(used, room):
        blocks.pace(0)
        used = yield from reader.read(bytes(blocks.view))
        if reader.failure is not None:
            yield Documents(problems=[reader.failure])
            break
        if used == 0 and blocks.is_over:  # a row that the file fails in
            break
        room = len(blocks.view) if used == 0 else 0
    yield Documents(problems=blocks.finish(), bytes_read=blocks.bytes_read)


class _Reader:
    """Rows of blocks, and the columns that the first row names."""

    def __init__(self, blocks: Blocks, options: DocumentOptions, delimiter: bytes) -> None:
        self._blocks = blocks
        self._options = options
        self._parser = _Parser(delimiter)
        self._width = 0
        self._text_at = 0
        self._id_at: int | None = None
        # Whether the view starts in a line that is longer than the limit.
        self._skips = False
        self.failure: Problem | None = None

    def read(self, data: bytes) -> Generator[Documents, None, int]:
        """Yield the documents of a block. Return the number of bytes of its rows."""
        gatherer = Gatherer(self._blocks, self._options)
        used = 0
        if self._skips:
            newline = data.find(b"\n")
            self._skips = newline < 0
            used = len(data) if newline < 0 else newline + 1
        while used < len(data) and self.failure is None:
            row = self._parser.row(data, used, is_last=self._blocks.is_last)
            if row is None:
                break
            start, used = used, row.end
            self._skips = row.reason is not None and data[used - 1 : used] != b"\n"
            raw = data[start : min(used, start + ROW_BYTES_MAX)]
            if raw not in (b"\n", b"\r\n"):
                self._take(gatherer, start, raw, row)
            if gatherer.is_full:
                yield from gatherer.documents()
        yield from gatherer.documents()
        return used

    def _take(self, gatherer: Gatherer, start: int, raw: bytes, row: _Row) -> None:
        if not self._width:
            self._find_columns([name.decode("utf-8", "replace") for name in row.fields])
            return
        if row.reason is None and len(row.fields) != self._width:
            row.reason = f"has {len(row.fields)} fields, and the first row has {self._width}"
        if row.reason is not None:
            gatherer.reject(start, raw, row.reason)
            return
        name = None
        if self._id_at is not None:
            name = row.fields[self._id_at].decode("utf-8", "replace")
        gatherer.add(start, raw, row.fields[self._text_at], name)

    def _find_columns(self, names: list[str]) -> None:
        self._width = max(len(names), 1)
        for wanted in (self._options.field, self._options.id_field):
            if wanted is not None and wanted not in names:
                reason = missing("column", wanted, names)
                self.failure = Problem(self._blocks.source.name, -1, 0, 0, reason, cause="field")
                return
        self._text_at = names.index(self._options.field)
        if self._options.id_field is not None:
            self._id_at = names.index(self._options.id_field)
