"""Segments → documents: every input read into blocks of spans, and into problems."""

from __future__ import annotations

from collections.abc import Iterator

from tokenmill.corpus.sources import Source
from tokenmill.corpus.spans import DocumentOptions, Documents, Problem, Segment

__all__ = ["DocumentOptions", "Documents", "Problem", "Segment", "cuts", "read"]


def read(segment: Segment, options: DocumentOptions) -> Iterator[Documents]:
    """The documents of a segment, in blocks of about `options.block_bytes`."""
    raise NotImplementedError


def cuts(source: Source, options: DocumentOptions, unit_bytes: int) -> list[Segment]:
    """The segments of a source, of about `unit_bytes` each."""
    raise NotImplementedError
