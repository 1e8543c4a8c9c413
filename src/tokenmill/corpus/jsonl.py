"""JSON lines → documents: the text in one field of each line.

The core reads whole blocks of lines. Python parses only a line that the core rejects, to name the
reason. A block grows until a line fits, up to `max_document_bytes`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from tokenmill.corpus import utf8
from tokenmill.corpus.blocks import Blocks
from tokenmill.corpus.documents import (
    RECORD_BYTES_MAX,
    DocumentOptions,
    Documents,
    Segment,
    fields_of,
    missing,
    spans_of,
    too_long,
)
from tokenmill.native import _native

# The core's numbers of reasons.
_NOT_JSON, _TOO_DEEP, _NOT_OBJECT, _NO_FIELD, _NULL_FIELD, _NOT_TEXT = range(1, 7)
_ARRAY_START = re.compile(rb"\s*\[\s*(\{|$)")
_WAY_OUT = "write one object per line, as jq -c '.[]' does"
_CAUSES = {_NO_FIELD: "field", _NOT_TEXT: "field", _NULL_FIELD: "null"}


def read_documents(
    segment: Segment, options: DocumentOptions, stack: ExitStack
) -> Iterator[Documents]:
    """A document for each line that has the field."""
    blocks = Blocks(segment, options, stack)
    fields = fields_of(options.field, segment.source.name)
    id_field = None if options.id_field is None else options.id_field.encode()
    used = records = 0
    while blocks.next(used, records):
        found = _native.json_lines(blocks.view, blocks.is_last, fields[0].encode(), id_field)
        for field in fields[1:]:
            found = _filled(blocks.view, found, field.encode(), id_field)
        used, records = found.used, found.line_count
        if used:
            yield from _documents_of(blocks, found, fields)
        elif blocks.is_over:  # a line that the file fails in
            break
        elif len(blocks.view) > options.max_document_bytes:
            used, problem = blocks.skip(None, too_long(options.max_document_bytes))
            if problem is not None:
                yield Documents(problems=[problem], bytes_read=blocks.stream.bytes_read)
    yield blocks.finish()


def _filled(view: memoryview, found: Any, field: bytes, id_field: bytes | None) -> Any:
    """The same documents, and those of another field in lines without the fields before it.

    Only these lines are read a second time.
    """
    absent = [one for one in found.problems if one[3] == _NO_FIELD]
    if not absent:
        return found
    parts = [view[start:end] for start, end, *_ in absent]
    more = _native.json_lines(b"\n".join(parts), True, field, id_field)
    starts = np.array([one[0] for one in absent], np.int64)
    joined = spans_of(parts)[:, 0] + np.arange(len(parts))

    def shift(places: Any) -> Any:
        return (starts - joined)[np.searchsorted(joined, places, "right") - 1]

    new = _pairs(more.lines)
    lines = np.concatenate([_pairs(found.lines), new + shift(new[:, :1])])
    order = np.argsort(lines[:, 0])
    problems = [one for one in found.problems if one[3] != _NO_FIELD]
    for start, end, index, code in more.problems:
        by = int(shift(start))
        problems.append((start + by, end + by, index, code))
    texts, spans = _merge(found[:2], more[:2], order)
    ids = None if id_field is None else _merge(found.ids, more.ids, order)
    values = texts, spans, lines[order], sorted(problems), found.used, ids, found.line_count
    return type(found)(values)


def _merge(first: Any, second: Any, order: Any) -> tuple[bytes, Any]:
    """The texts of two reads in the order of their lines."""
    data = bytes(first[0]) + bytes(second[0])
    spans = np.concatenate([_pairs(first[1]), _pairs(second[1]) + len(bytes(first[0]))])
    texts = [data[start:end] for start, end in spans[order].tolist()]
    return b"".join(texts), spans_of(texts)


def _documents_of(blocks: Blocks, found: Any, fields: tuple[str, ...]) -> Iterator[Documents]:
    options = blocks.options
    data, spans, lines = found.text, _pairs(found.spans), _pairs(found.lines)
    failed = [(start, end, code) for start, end, _, code in found.problems]
    names = None if found.ids is None else _names(found.ids)
    bad: list[int] = []
    if options.utf8 == "strict":  # the whole line must be UTF-8, as for json.loads
        _, _, bad = utf8.check(blocks.view, lines, "strict")
    if len(blocks.view) > options.max_document_bytes:
        long = np.flatnonzero(lines[:, 1] - lines[:, 0] > options.max_document_bytes)
        bad = sorted({*bad, *long.tolist()})
    if options.utf8 == "replace":
        data, spans, _ = utf8.check(data, spans, "replace")
    explain = partial(_explain, options, fields)
    return blocks.documents(data, spans, lines, bad, failed, names, explain)


def _pairs(buffer: Any) -> Any:
    return np.frombuffer(buffer, np.int64).reshape(-1, 2)


def _names(ids: Any) -> list[str]:
    text = bytes(ids[0])
    return [text[start:end].decode("utf-8", "replace") for start, end in _pairs(ids[1]).tolist()]


def _explain(
    options: DocumentOptions, fields: tuple[str, ...], line: bytes, code: int
) -> tuple[str, str]:
    """The reason and the cause of a line. A line that is not UTF-8 has none."""
    if len(line) > options.max_document_bytes:
        return too_long(options.max_document_bytes), ""
    if options.utf8 == "strict" and utf8.first_bad(line) >= 0:
        return "", ""
    if code == _NOT_JSON and _ARRAY_START.match(line):
        return f"is the start of a JSON array, not a JSON line; {_WAY_OUT}", "field"
    return _reason(line, code, fields), _CAUSES.get(code, "")


def _reason(line: bytes, code: int, fields: tuple[str, ...]) -> str:
    """The reason that a line gave no document, with details from Python's parser."""
    record, error = None, ""
    try:
        record = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as wrong:
        error = f" ({wrong})" * (len(line) <= RECORD_BYTES_MAX)
    if code == _NOT_JSON:
        return f"is not JSON{error}"
    if code == _TOO_DEEP:
        return "is JSON that is nested more than 1,000 deep"
    if code == _NOT_OBJECT:
        hint = f"; {_WAY_OUT}" if isinstance(record, list) else ""
        return f"is a JSON {_kind(record)}, not an object with fields{hint}"
    if code == _NO_FIELD:
        return missing("field", fields, list(record or ()))
    values = ((one, _get(record, one)) for one in fields)
    field, value = next((pair for pair in values if pair[1]), (fields[0], [None]))
    if code == _NULL_FIELD:
        return f"has null in the field {field!r}"
    return f"has a JSON {_kind(value[0])} in the field {field!r}, not a text"


def _get(record: Any, field: str) -> list[Any]:
    """The value of a field, if it exists. If no field has this name, a.b is b inside of a."""
    for part in [field] if field in record else field.split("."):
        if not isinstance(record, dict) or part not in record:
            return []
        record = record[part]
    return [record]


def _kind(value: object) -> str:
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return kinds.get(type(value), "number")
