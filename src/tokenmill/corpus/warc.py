"""Crawl archives (.wet) → documents: the text of each page.

A WET file is a WARC file with records of text (WARC-Type: conversion). Archives with the fetched
pages are rejected: extraction of text from HTML is another task.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

from tokenmill.corpus.blocks import Blocks
from tokenmill.corpus.documents import DocumentOptions, Documents, Segment, too_long

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


class _Record(NamedTuple):
    """The offsets of a record and its text in the view, and the fields of its header."""

    head: int
    start: int
    end: int
    fields: dict[str, bytes]

    @property
    def is_text(self) -> bool:
        return self.fields.get("warc-type", b"").lower() == _TEXT


class _WrongError(Exception):
    """Bytes that are not a record. The file cannot be read further."""


def read_documents(
    segment: Segment, options: DocumentOptions, stack: ExitStack
) -> Iterator[Documents]:
    """A document for each record with text. An id field is one of the record's header."""
    blocks = Blocks(segment, options, stack)
    id_field = (options.id_field or "").lower()
    limit = options.max_document_bytes
    used = 0
    found: list[tuple[int, int, bytes, str]] = []
    while blocks.next(used, len(found)):
        data, used = bytes(blocks.view), 0
        found, failed = [], []
        record, is_wrong = None, False
        try:
            while (record := _record_at(data, used)) and record.end <= len(data):
                used = record.end
                if record.is_text and record.end - record.start > limit:
                    failed.append((record.head, record.end, too_long(limit)))
                elif record.is_text:
                    name = record.fields.get(id_field, b"").decode("utf-8", "replace")
                    text = data[record.start : record.end]
                    found.append((record.head, record.end, text, name))
            if blocks.is_last and (rest := data[used:].lstrip(b"\r\n")):
                failed.append((len(data) - len(rest), len(data), _CUT))
        except _WrongError as error:
            failed.append((used, used, str(error)))
            is_wrong = True
        yield from blocks.gather(found, failed)
        if is_wrong or blocks.is_over:
            break
        if used == 0 and record is not None and record.end - record.start > limit:
            if record.head:
                used = record.head
                continue
            used, problem = blocks.skip(record.end, too_long(limit))
            if problem is not None and problem.bytes < record.end:
                problem.reason = _CUT
            elif not record.is_text:
                problem = None
            if problem is not None:
                yield Documents(problems=[problem], bytes_read=blocks.stream.bytes_read)
    yield blocks.finish()


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
