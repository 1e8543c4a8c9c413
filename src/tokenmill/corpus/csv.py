"""CSV and TSV files → documents: a row each, in the column that the first row names.

The format is RFC 4180. A field in quotation marks may contain separators, newlines and doubled
quotation marks. In other fields, quotation marks are characters. A row with more or fewer fields
than the first, or with text after a closing mark, is a problem, and the next row starts at the next
line. The standard library's csv is not used: its limit of field sizes is global to the process, and
it rejects a lone \\r in a field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache

from tokenmill.corpus.blocks import Blocks
from tokenmill.corpus.documents import (
    DocumentOptions,
    Documents,
    Problem,
    Segment,
    fields_of,
    missing,
)

# A mark that is never closed must not make one row of the rest of the file.
ROW_BYTES_MAX = 16 << 20
_DELIMITERS = {"csv": b",", "tsv": b"\t"}


@cache
def _field_of(delimiter: bytes) -> re.Pattern[bytes]:
    plain = rb'(?!")([^%b\n]*+)' % re.escape(delimiter)
    return re.compile(rb'"([^"]*+(?:""[^"]*+)*+)"|' + plain)


def _row_at(
    data: bytes, start: int, delimiter: bytes, *, is_last: bool
) -> tuple[list[bytes], int, str] | None:
    """The row at an offset: its fields, the offset of the next row, and the reason if it is bad.

    None if it may continue after the data. Rows are the same for any size of blocks.
    """
    line_end = data.find(b"\n", start) + 1 or len(data)
    fields: list[bytes] = []
    end, reason, is_whole = line_end, "", is_last or data[line_end - 1 : line_end] == b"\n"
    if data.find(b'"', start, line_end) < 0:
        line = data[start:line_end]
        if line.endswith(b"\n"):
            line = line[:-1].removesuffix(b"\r")
        fields = line.split(delimiter)
    else:
        at = start
        while match := _field_of(delimiter).match(data, at):
            quoted, plain = match.groups()
            fields.append(plain if quoted is None else quoted.replace(b'""', b'"'))
            at = match.end()
            if data[at : at + 1] != delimiter:
                break
            at += 1
        after = data[at : at + 2]
        if match is None:
            reason = "has an open quotation mark"
            is_whole = is_last and len(data) - start <= ROW_BYTES_MAX
        # A mark at the end of the data may be the first of two.
        elif not is_last and after in (b"", b"\r"):
            is_whole = False
        elif after[:1] in (b"", b"\n") or after == b"\r\n":
            end, is_whole = at + after.find(b"\n") + 1, True
            if quoted is None and after:
                fields[-1] = plain.removesuffix(b"\r")
        else:
            reason = "has text after a closing quotation mark"
    size = (end if is_whole else len(data)) - start
    if size > ROW_BYTES_MAX:
        # The end of the line is the only certain end of the row.
        return [], line_end, f"is longer than {ROW_BYTES_MAX:,} bytes"
    return ([] if reason else fields, end, reason) if is_whole else None


def read_documents(
    segment: Segment, options: DocumentOptions, stack: ExitStack, delimiter: bytes | None = None
) -> Iterator[Documents]:
    """A document for each row after the first. `delimiter` is the byte between fields."""
    blocks = Blocks(segment, options, stack)
    delimiter = delimiter or _DELIMITERS[segment.source.kind]
    # The names that a column may have, of the text and of the id.
    wanted = [fields_of(options.field, segment.source.name)]
    wanted += [] if options.id_field is None else [(options.id_field,)]
    columns: list[str] = []
    indexes: list[int] = []
    used, is_inside = 0, False  # of a line that is longer than the limit
    found: list[tuple[int, int, bytes, str]] = []
    while blocks.next(used, len(found)):
        data, used = bytes(blocks.view), 0
        found, failed = [], []
        if is_inside:
            used = data.find(b"\n") + 1 or len(data)
            is_inside = data[used - 1 : used] != b"\n"
        while used < len(data) and (row := _row_at(data, used, delimiter, is_last=blocks.is_last)):
            start = used
            fields, used, reason = row
            end = min(used, start + ROW_BYTES_MAX)
            is_inside = bool(reason) and data[used - 1 : used] != b"\n"
            if data[start:end] in (b"\n", b"\r\n"):
                continue
            if not columns:
                columns = [name.decode("utf-8", "replace") for name in fields]
                found_names = [[name for name in some if name in columns] for some in wanted]
                if [] in found_names:
                    reason = missing("column", wanted[found_names.index([])], columns)
                    problem = Problem(segment.source.name, -1, 0, 0, reason, cause="field")
                    yield Documents(problems=[problem])
                    yield blocks.finish()
                    return
                indexes = [columns.index(some[0]) for some in found_names]
            elif not reason and len(fields) != len(columns):
                reason = f"has {len(fields)} fields, and the first row has {len(columns)}"
                failed.append((start, end, reason))
            elif reason:
                failed.append((start, end, reason))
            else:
                text, *names = (fields[index] for index in indexes)
                name = names[0].decode("utf-8", "replace") if names else ""
                found.append((start, end, text, name))
        yield from blocks.gather(found, failed)
        if used == 0 and blocks.is_over:  # a row that the file fails in
            break
    yield blocks.finish()
