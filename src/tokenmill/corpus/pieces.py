"""A record longer than a block → its document in pieces, or a problem and nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tokenmill.corpus import utf8
from tokenmill.corpus.blocks import Blocks
from tokenmill.corpus.spans import RECORD_BYTES_MAX, DocumentOptions, Documents, Problem

_Bytes = bytes  # a field has the name of the type


class Pieces:
    """The document of a long record, which begins at a place of the view."""

    def __init__(self, blocks: Blocks, options: DocumentOptions, place: int = 0) -> None:
        self._blocks = blocks
        self._mark = blocks.mark(place)
        self._utf8 = options.utf8
        self._record = bytearray()
        self._is_given = False
        self.bytes = 0
        self.reason: str | None = None

    @property
    def record(self) -> _Bytes:
        """The first raw bytes of the record."""
        return bytes(self._record)

    @property
    def end(self) -> int:
        """The byte of the file behind what was seen."""
        return self._mark.offset + self.bytes

    def saw(self, raw: memoryview) -> None:
        """Takes note of raw bytes of the record."""
        self._record += raw[: RECORD_BYTES_MAX - len(self._record)]
        self.bytes += len(raw)

    def check(self, raw: memoryview) -> bool:
        """Whether the bytes, which are the next ones of the record, may be in it."""
        if self._utf8 == "strict" and utf8.bad_documents(raw, _whole(raw)):
            data = bytes(raw)
            self.fail(utf8.reason(data, self.end))
            return False
        return True

    def fail(self, reason: str) -> None:
        """Says why there is no document; the first reason counts."""
        self.reason = self.reason or reason

    def give(self, text: Any) -> Iterator[Documents]:
        """Gives the next piece of the text."""
        if self.reason is None and len(text):
            self._is_given = True
            yield self._documents(text, goes_on=True)

    def withdraw(self) -> Iterator[Documents]:
        """Takes back all that was given."""
        if self._is_given:
            self._is_given = False
            yield Documents(withdrawn=True, bytes_read=self._blocks.bytes_read)

    def close(self, text: Any, name: str | None) -> Iterator[Documents]:
        """Gives the last piece, or the problem."""
        if self.reason is None:
            documents = self._documents(text, goes_on=False)
            documents.names = None if name is None else [name]
            yield documents
            return
        problem = Problem(
            self._blocks.source.name,
            self._mark.offset,
            self._blocks.line_at(self._mark),
            self.bytes,
            self.reason,
            self.record,
        )
        yield Documents(
            withdrawn=self._is_given, problems=[problem], bytes_read=self._blocks.bytes_read
        )

    def _documents(self, text: Any, *, goes_on: bool) -> Documents:
        spans = _whole(text)
        if self._utf8 == "replace" and (bad := utf8.bad_documents(text, spans)):
            text, spans = utf8.replace(text, spans, bad)
        return Documents(text, spans, goes_on, bytes_read=self._blocks.bytes_read)


def _whole(text: Any) -> Any:
    return np.array([[0, len(text)]], np.int64)
