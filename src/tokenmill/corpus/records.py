"""JSON lines → documents: the text in one field of each line.

The core reads whole blocks of lines. Only of a line that it refuses a Python object is made, to say
what is wrong with it. A line longer than a block is read by long_lines.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from tokenmill.corpus import utf8
from tokenmill.corpus.blocks import Blocks
from tokenmill.corpus.long_lines import LongLine
from tokenmill.corpus.reasons import NOT_JSON, reason_in
from tokenmill.corpus.spans import (
    RECORD_BYTES_MAX,
    DocumentOptions,
    Documents,
    Problem,
    Segment,
    in_groups,
)
from tokenmill.native import _native


def read_json_lines(
    segment: Segment, options: DocumentOptions, stack: ExitStack
) -> Iterator[Documents]:
    """A document for each line that has the field."""
    blocks = Blocks(segment, options, stack)
    field = options.field.encode()
    id_field = None if options.id_field is None else options.id_field.encode()
    used = 0
    while blocks.next(used):
        found = _native.json_lines(blocks.view, blocks.is_last, field, id_field)
        used = found[4]
        blocks.pace(found[6])
        if used:
            yield from _documents_of(blocks, found, options)
        elif blocks.is_over:  # a line that the file fails in
            break
        elif not blocks.can_grow:
            line = LongLine(blocks, options)
            yield from line.read()
            used = line.used
    yield Documents(problems=blocks.finish(), bytes_read=blocks.bytes_read)


def _documents_of(blocks: Blocks, found: Any, options: DocumentOptions) -> Iterator[Documents]:
    data: Any = found[0]
    spans, lines = _pairs(found[1]), _pairs(found[2])
    names = None if found[5] is None else _names(found[5])
    failed = [(start, end, code) for start, end, _, code in found[3]]
    if options.utf8 == "strict":
        # The whole line counts: json.loads takes no other.
        bad = utf8.bad_documents(blocks.view, lines)
        if bad:
            failed += [(start, end, NOT_JSON) for start, end in lines[bad].tolist()]
            failed.sort()
            spans = np.delete(spans, bad, axis=0)
            names = names and _without(names, bad)
    elif options.utf8 == "replace" and (bad := utf8.bad_documents(data, spans)):
        data, spans = utf8.replace(data, spans, bad)
    yield Documents(data, spans, bytes_read=blocks.bytes_read, names=names)
    problems = (_problem(blocks, start, end, code, options) for start, end, code in failed)
    yield from in_groups(problems, blocks.bytes_read)


def _pairs(buffer: Any) -> Any:
    return np.frombuffer(buffer, np.int64).reshape(-1, 2)


def _names(ids: Any) -> list[str]:
    text = bytes(ids[0])
    return [text[start:end].decode("utf-8", "replace") for start, end in _pairs(ids[1]).tolist()]


def _without(names: list[str], bad: Iterable[int]) -> list[str]:
    gone = set(bad)
    return [name for index, name in enumerate(names) if index not in gone]


def _problem(blocks: Blocks, start: int, end: int, code: int, options: DocumentOptions) -> Problem:
    line = bytes(blocks.view[start:end])
    offset = blocks.offset + start
    if options.utf8 == "strict" and utf8.first_bad(line) >= 0:
        reason = utf8.reason(line, offset)
    else:
        reason = reason_in(line, code, options.field)
    record = line[:RECORD_BYTES_MAX]
    return Problem(blocks.source.name, offset, blocks.line_of(offset), len(line), reason, record)
