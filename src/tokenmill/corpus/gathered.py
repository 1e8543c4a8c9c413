"""Texts of a block, one by one → documents and problems, under the policy for UTF-8."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tokenmill.corpus import utf8
from tokenmill.corpus.blocks import Blocks
from tokenmill.corpus.spans import RECORD_BYTES_MAX, DocumentOptions, Documents, Problem
from tokenmill.corpus.tables import in_parts

_RECORDS_MAX = 1 << 14


class Gatherer:
    """Takes the records of the view of a block, for readers that have an object for each."""

    def __init__(self, blocks: Blocks, options: DocumentOptions) -> None:
        self._blocks = blocks
        self._options = options
        self._texts: list[bytes] = []
        self._names: list[str] | None = None if options.id_field is None else []
        self._problems: list[Problem] = []

    def add(self, place: int, raw: bytes, text: bytes, name: str | None) -> None:
        """A text, whose record lies at a place of the view."""
        if self._options.utf8 != "bytes" and utf8.first_bad(text) >= 0:
            if self._options.utf8 == "strict":
                at = max(raw.find(text), 0)
                self.fail(place, raw, utf8.reason(text, self._blocks.offset + place + at))
                return
            text = text.decode("utf-8", "replace").encode()
        self._texts.append(text)
        if self._names is not None:
            self._names.append(name or "")

    def fail(self, place: int, raw: bytes, reason: str) -> None:
        """A record that gives no document."""
        offset = self._blocks.offset + place
        line = self._blocks.line_of(offset)
        record = raw[:RECORD_BYTES_MAX]
        problem = Problem(self._blocks.source.name, offset, line, len(raw), reason, record)
        self._problems.append(problem)

    @property
    def is_full(self) -> bool:
        """Whether what was taken should be given: there is an object for each."""
        return len(self._texts) + len(self._problems) >= _RECORDS_MAX

    def documents(self) -> Iterator[Documents]:
        """All that was taken since the last time."""
        if self._problems:
            yield Documents(problems=self._problems, bytes_read=self._blocks.bytes_read)
        ends = np.cumsum([0, *map(len, self._texts)], dtype=np.int64)
        spans = np.stack([ends[:-1], ends[1:]], axis=1)
        data = b"".join(self._texts)
        names = self._names
        self._texts, self._problems = [], []
        self._names = None if names is None else []
        for part in in_parts(data, spans, names, self._options.block_bytes):
            part.bytes_read = self._blocks.bytes_read
            yield part
