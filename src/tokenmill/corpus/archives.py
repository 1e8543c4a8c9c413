"""Archives of crawls (.wet) → documents: the text of each page.

A WET file is a WARC file whose records are texts (WARC-Type: conversion). One whose records are the
pages as they were fetched is refused: to make text of HTML is another task than this.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from tokenmill.corpus import utf8
from tokenmill.corpus.blocks import Blocks
from tokenmill.corpus.gathered import Gatherer
from tokenmill.corpus.pieces import Pieces
from tokenmill.corpus.spans import DocumentOptions, Documents, Segment

_HEAD_BYTES_MAX = 1 << 16
# More bytes than any file has.
_LENGTH_DIGITS_MAX = 18
_BEGINNING = b"WARC/"
_TEXT = b"conversion"
_PAGES = (b"response", b"resource", b"request", b"revisit", b"continuation")
_CUT = "is a record without its end"
_NOT_TEXT = (
    "holds pages as they were fetched, not their text: take the .wet file of the same crawl, or "
    "extract the text first (trafilatura or resiliparse do), into JSON lines for example"
)


@dataclass(slots=True)
class _Record:
    """Where a record and its text lie in the view, and the fields of its head."""

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
    """What is no record; behind it nothing can be read."""


def read_archive(
    segment: Segment, options: DocumentOptions, stack: ExitStack
) -> Iterator[Documents]:
    """A document for each record with text. An id field is one of the record's head."""
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
                gatherer.fail(len(data) - len(rest), rest, _CUT)
        except _WrongError as error:
            gatherer.fail(used, b"", str(error))
            yield from gatherer.documents()
            break
        yield from gatherer.documents()
        if blocks.is_over:
            break
        if used == 0 and record is None:
            room = len(data)
        elif used == 0 and record is not None:
            used = yield from _long(blocks, record, options)
    yield Documents(problems=blocks.finish(), bytes_read=blocks.bytes_read)


def _take(gatherer: Gatherer, data: bytes, record: _Record, options: DocumentOptions) -> None:
    if record.is_text:
        raw = data[record.head : record.end]
        gatherer.add(record.head, raw, data[record.start : record.end], record.name(options))


def _record_at(data: bytes, place: int) -> _Record | None:
    """The record at a place; None if more of its head may follow."""
    while data[place : place + 1] in (b"\r", b"\n"):
        place += 1
    head_end = data.find(b"\r\n\r\n", place, place + _HEAD_BYTES_MAX)
    if not _BEGINNING.startswith(data[place : place + len(_BEGINNING)]):
        raise _WrongError(f"is no WARC file here: {data[place : place + 20]!r}")
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


def _long(
    blocks: Blocks, record: _Record, options: DocumentOptions
) -> Generator[Documents, None, int]:
    """Reads a record longer than a block; where the next one begins in the view then."""
    pieces = Pieces(blocks, options, record.head)
    pieces.saw(blocks.view[record.head : record.start])
    used, left = record.start, record.end - record.start
    while left > len(blocks.view) - used and not blocks.is_over:
        view = blocks.view[used:]
        view = view[: utf8.whole_end(view, len(view))]
        yield from _next_of(pieces, view, record)
        blocks.next(used + len(view))
        used, left = 0, left - len(view)
    last = blocks.view[used : used + left]
    if len(last) < left and not blocks.is_last:
        yield from pieces.withdraw()
        return used
    if len(last) < left:
        pieces.reason = _CUT
    elif record.is_text:
        pieces.check(last)
    pieces.saw(last)
    if record.is_text or pieces.reason:
        yield from pieces.close(last, record.name(options))
    return used + len(last)


def _next_of(pieces: Pieces, raw: memoryview, record: _Record) -> Iterator[Documents]:
    if record.is_text:
        pieces.check(raw)
    pieces.saw(raw)
    if record.is_text:
        yield from pieces.give(raw)
