"""Text files → documents: those between separators, lines, or the file as one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus import utf8
from tokenmill.corpus.blocks import Blocks
from tokenmill.corpus.pieces import Pieces
from tokenmill.corpus.spans import (
    RECORD_BYTES_MAX,
    DocumentOptions,
    Documents,
    Problem,
    Segment,
    in_groups,
)
from tokenmill.native import _native

_NEWLINE = b"\n"
_RETURN = ord("\r")
# A block holds so many separators at least, so that one can be told from a part of one.
_SEPARATORS_MIN = 4
_CHARACTER_BYTES_MAX = 4


def read_text(segment: Segment, options: DocumentOptions, stack: ExitStack) -> Iterator[Documents]:
    """The documents of a text. A line is one without its \\n or \\r\\n."""
    is_lines = segment.source.kind == "lines"
    separator = _NEWLINE if is_lines else options.separator or b""
    least = _SEPARATORS_MIN * (len(separator) + _CHARACTER_BYTES_MAX)
    blocks = Blocks(segment, options, stack, least)
    pieces: Pieces | None = None
    used = 0
    while blocks.next(used):
        view = blocks.view
        found, used = _native.split_documents(view, separator, blocks.is_last)
        spans = np.asarray(found).reshape(-1, 2)
        if is_lines:
            spans = _without_returns(view, spans)
        if pieces is not None and len(spans):
            yield from _end_of(pieces, view[: int(spans[0, 1])])
            pieces, spans = None, spans[1:]
        if len(spans):
            yield from _documents_of(blocks, spans, options)
        if blocks.is_over:
            break
        blocks.pace(len(spans))
        if used == 0 and not blocks.can_grow:
            # No document ends here. What may be the beginning of a separator stays.
            pieces = pieces or Pieces(blocks, options)
            used = utf8.whole_end(view, len(view) - max(1, len(separator) - 1))
            yield from _next_of(pieces, view[:used])
    if pieces is not None:
        yield from pieces.withdraw()
    yield Documents(problems=blocks.finish(), bytes_read=blocks.bytes_read)


def _next_of(pieces: Pieces, raw: memoryview) -> Iterator[Documents]:
    pieces.check(raw)
    pieces.saw(raw)
    yield from pieces.give(raw)


def _end_of(pieces: Pieces, raw: memoryview) -> Iterator[Documents]:
    pieces.check(raw)
    pieces.saw(raw)
    yield from pieces.close(raw, None)


def _without_returns(view: memoryview, spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Lines without the \\r before their \\n. A line that the file ends has no \\n."""
    if not len(spans):
        return spans
    starts, ends = spans[:, 0], spans[:, 1]
    data = np.frombuffer(view, np.uint8)
    has_return = (ends > starts) & (ends < len(view)) & (data[ends - 1] == _RETURN)
    return np.stack([starts, ends - has_return], axis=1)


def _documents_of(
    blocks: Blocks, spans: NDArray[np.int64], options: DocumentOptions
) -> Iterator[Documents]:
    data: Any = blocks.view
    bad = [] if options.utf8 == "bytes" else utf8.bad_documents(data, spans)
    failed = spans[bad].tolist() if options.utf8 == "strict" else []
    if failed:
        spans = np.delete(spans, bad, axis=0)
    elif bad:
        data, spans = utf8.replace(data, spans, bad)
    yield Documents(data, spans, bytes_read=blocks.bytes_read)
    problems = (_problem(blocks, start, end) for start, end in failed)
    yield from in_groups(problems, blocks.bytes_read)


def _problem(blocks: Blocks, start: int, end: int) -> Problem:
    raw = bytes(blocks.view[start:end])
    offset = blocks.offset + start
    reason = utf8.reason(raw, offset)
    record = raw[:RECORD_BYTES_MAX]
    return Problem(blocks.source.name, offset, blocks.line_of(offset), len(raw), reason, record)
