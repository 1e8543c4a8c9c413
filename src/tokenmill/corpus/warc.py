"""Crawl archives (.wet) → documents: the text of each page.

A WET file is a WARC file with records of text (WARC-Type: conversion). Archives with the fetched
pages are rejected: extraction of text from HTML is another task.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from tokenmill.corpus.blocks import Blocks, Gatherer
from tokenmill.corpus.documents import (
    RECORD_BYTES_MAX,
    DocumentOptions,
    Documents,
    Problem,
    Segment,
    too_long,
)

_HEAD_BYTES_MAX = 1 << 16
# More digits than the size of any file has.
_LENGTH_DIGITS_MAX = 18
_BEGINNING = b"WARC/"
_TEXT = b"conversion"
_PAGES = (b"response", b"resource", b"request", b"revisit", b"continuation")
_CUT = "is a record without its end"
_NOT_TEXT = (
    "contains fetched pages, not their text; use the .wet file of the same crawl, or "
    "extract the text first (trafilatura or resiliparse do), into JSON lines for example"
)


@dataclass(slots=True)
class _Record:
    """The offsets of a record and its text in the view, and the fields of its header."""

    head: int
    start: int
    end: int
    fields: dict[str, bytes]

    @property
    def is_text(self) -> bool:
        return self.fields.get("warc-type", b"").lower() == _TEXT

    def name(self, options: DocumentOptions) -> str | None:
        if options.id_field is None:
            return None
        return self.fields.get(options.id_field.lower(), b"").decode("utf-8", "replace")


class _WrongError(Exception):
    """Bytes that are not a record. The file cannot be read further."""


def read_documents(
    segment: Segment, options: DocumentOptions, stack: ExitStack
) -> Iterator[Documents]:
    """A document for each record with text. An id field is one of the record's header."""
    blocks = Blocks(segment, options, stack)
    used = room = 0
    while blocks.next(used, room):
        blocks.pace(0)
        data = bytes(blocks.view)
        gatherer = Gatherer(blocks, options)
        used = room = 0
        record: _Record | None = None
        try:
            while (record := _record_at(data, used)) and record.end <= len(data):
                _take(gatherer, data, record, options)
                used = record.end
                if gatherer.is_full:
                    yield from gatherer.documents()
            if blocks.is_last and (rest := data[used:].lstrip(b"\r\n")):
                gatherer.reject(len(data) - len(rest), rest, _CUT)
        except _WrongError as error:
            gatherer.reject(used, b"", str(error))
            yield from gatherer.documents()
            break
        yield from gatherer.documents()
        if blocks.is_over:
            break
        if used == 0 and record is None:
            room = len(data)
        elif used == 0 and record is not None:
            if record.end - record.start > options.max_document_bytes:
                used = yield from _skip_long(blocks, record, options)
            else:
                room = record.end - len(data)
    yield Documents(problems=blocks.finish(), bytes_read=blocks.bytes_read)


def _take(gatherer: Gatherer, data: bytes, record: _Record, options: DocumentOptions) -> None:
    raw = data[record.head : record.end]
    if record.is_text and record.end - record.start > options.max_document_bytes:
        gatherer.reject(record.head, raw, too_long(options.max_document_bytes))
    elif record.is_text:
        gatherer.add(record.head, raw, data[record.start : record.end], record.name(options))


def _record_at(data: bytes, place: int) -> _Record | None:
    """The record at an offset. None if more of its header may follow."""
    while data[place : place + 1] in (b"\r", b"\n"):
        place += 1
    head_end = data.find(b"\r\n\r\n", place, place + _HEAD_BYTES_MAX)
    if not _BEGINNING.startswith(data[place : place + len(_BEGINNING)]):
        raise _WrongError(f"is not a WARC file here: {data[place : place + 20]!r}")
    if head_end < 0:
        if len(data) - place >= _HEAD_BYTES_MAX:
            raise _WrongError("has a record whose head has no end")
        return None
    fields = {}
    for line in data[place:head_end].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields[name.strip().lower().decode("ascii", "replace")] = value.strip()
    size = fields.get("content-length", b"")
    if not size.isdigit() or len(size) > _LENGTH_DIGITS_MAX:
        shown = size[: 2 * _LENGTH_DIGITS_MAX]
        raise _WrongError(f"has a record whose Content-Length is {shown!r}")
    if fields.get("warc-type", b"").lower() in _PAGES:
        raise _WrongError(_NOT_TEXT)
    start = head_end + 4
    return _Record(place, start, start + int(size), fields)


def _skip_long(
    blocks: Blocks, record: _Record, options: DocumentOptions
) -> Generator[Documents, None, int]:
    """Reject a record that is longer than the limit. Return the offset of its end in the view."""
    mark = blocks.mark(record.head)
    start = bytes(blocks.view[record.head :][:RECORD_BYTES_MAX])
    end, size = record.end, record.end - record.head
    while end > len(blocks.view) and not blocks.is_over:
        end -= len(blocks.view)
        blocks.next(len(blocks.view))
    is_cut = end > len(blocks.view)
    if blocks.is_last if is_cut else record.is_text:
        reason = _CUT if is_cut else too_long(options.max_document_bytes)
        size -= max(0, end - len(blocks.view))
        name, line = blocks.source.name, blocks.line_at(mark)
        problem = Problem(name, mark.offset, line, size, reason, start)
        yield Documents(problems=[problem], bytes_read=blocks.bytes_read)
    return min(end, len(blocks.view))
