"""Sources → segments: a large file in parts that can be read separately.

A cut is the end of a document for any earlier documents: after a newline, or after a separator that
overlaps no earlier one. A separator of two newlines may overlap itself. In a run of newlines, only
the first two are certainly a separator. Cuts depend only on the file and `unit_bytes`.
"""

from __future__ import annotations

import codecs
from typing import Any

from tokenmill.corpus import tables
from tokenmill.corpus.blocks import open_file
from tokenmill.corpus.documents import DocumentOptions, Segment, Source, raise_system_error
from tokenmill.corpus.options import READERS
from tokenmill.corpus.streams import compression_of

_LOOK_BYTES = 1 << 16


def cuts(source: Source, options: DocumentOptions, unit_bytes: int) -> list[Segment]:
    """The segments of a source, of about `unit_bytes` each; one if it cannot be cut."""
    places: list[int] = []
    end: int | None = None
    if source.compression is None and not source.is_stdin:
        try:
            split = READERS[source.kind].split
            if split == "table":
                places, end = tables.cuts(source, unit_bytes)
            elif split == "text" and source.size is not None:
                separator = options.separator if source.kind == "text" else b"\n"
                if separator:
                    places = _text_cuts(source, separator, unit_bytes)
                end = source.size if places else None
        except OSError as error:
            raise_system_error(error)
            places = []  # reading the file reports the error
    if not places:
        return [Segment(source)]
    edges = [0, *places]
    return [Segment(source, start, stop) for start, stop in zip(edges, [*places, end], strict=True)]


def _text_cuts(source: Source, separator: bytes, unit_bytes: int) -> list[int]:
    size = source.size or 0
    if size <= unit_bytes:
        return []
    places = []
    with open_file(source) as file:
        start = file.read(_LOOK_BYTES)
        if compression_of(start) is not None:
            return []  # the name has no suffix for the compression
        first = len(codecs.BOM_UTF8) if start.startswith(codecs.BOM_UTF8) else 0
        # All segments have about the same size, also the last one.
        step = -(-size // -(-size // unit_bytes))
        target = step
        while target < size:
            place = _cut_from(file, max(target, first), size, separator, first)
            if place is None:
                break
            places.append(place)
            target = (place // step + 1) * step
    return places


def _cut_from(file: Any, target: int, size: int, separator: bytes, first: int) -> int | None:
    """The first cut after `target` and before the end, or None."""
    width = len(separator)
    # A separator that starts here may overlap one that ends after the target.
    place = max(first, target - 2 * width + 2)
    last = place - width
    while True:
        file.seek(place)
        window: bytes = file.read(_LOOK_BYTES + width)
        found = window.find(separator)
        while found >= 0:
            start = place + found
            end = start + width
            if start >= last + width and target < end < size:
                return end
            last = start
            found = window.find(separator, found + 1)
        if len(window) < width or place + len(window) >= size:
            return None
        place += len(window) - width + 1
