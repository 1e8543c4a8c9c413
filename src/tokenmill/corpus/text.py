"""Text files → documents: those between separators, lines, or the file as one.

A document longer than a block comes in several, each checked before it is given. Texts of the
caller become documents too, str and bytes in one buffer.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus import utf8
from tokenmill.corpus.blocks import Blocks
from tokenmill.corpus.documents import (
    RECORD_BYTES_MAX,
    DocumentFailed,
    DocumentOptions,
    Documents,
    Segment,
    spans_of,
)
from tokenmill.errors import InputError, shown
from tokenmill.native import _native

_ZIP = b"PK\x03\x04"
_NEWLINE = b"\n"
_RETURN = ord("\r")
# A block has space for four separators, so that it contains a whole one.
_SEPARATORS_MIN = 4
_CHARACTER_BYTES_MAX = 4


def read_documents(
    segment: Segment, options: DocumentOptions, stack: ExitStack
) -> Iterator[Documents]:
    """The documents of a text, or of texts. A line is one without its \\n or \\r\\n."""
    if segment.source.kind == "texts":
        return _join_texts(segment, options)
    return _read_file(segment, options, stack)


def _read_file(segment: Segment, options: DocumentOptions, stack: ExitStack) -> Iterator[Documents]:
    is_lines = segment.source.kind == "lines"
    separator = _NEWLINE if is_lines else options.separator or b""
    least = _SEPARATORS_MIN * (len(separator) + _CHARACTER_BYTES_MAX)
    blocks = Blocks(segment, options, stack, least)
    long: _LongDocument | None = None
    is_streamed = options.low_latency and not separator
    used, spans = 0, np.empty((0, 2), np.int64)
    while blocks.next(used, len(spans)):
        view = blocks.view
        found, used = _native.split_documents(view, separator, blocks.is_last)
        spans = np.array(found).reshape(-1, 2)
        if is_lines and options.keep_newlines:
            spans[:, 1] = np.minimum(spans[:, 1] + 1, len(view))
        elif is_lines:
            spans = _without_returns(view, spans)
        if long is not None and len(spans):
            yield from long.add(view[: int(spans[0, 1])], is_over=True)
            long, spans = None, spans[1:]
        if len(spans):
            data, checked, bad = utf8.check(view, spans, options.utf8)
            yield from blocks.documents(data, checked, spans, bad)
        if blocks.is_over:
            break
        if used == 0 and (is_streamed or not blocks.can_grow):
            # No document ends here. The last bytes may be the start of a separator.
            long = long or _LongDocument(blocks)
            used = utf8.whole_end(view, len(view) - max(1, len(separator) - 1))
            yield from long.add(view[:used], is_over=False)
    if long is not None and long.is_given:
        assert blocks.stream.failure is not None
        raise blocks.stream.failure
    yield blocks.finish()


class _LongDocument:
    """A document at the start of the view that does not end in it.

    One that fails before any part of it was given is a problem at its end. Later, it raises
    DocumentFailed. With its key in `options.skip`, no part of it is given.
    """

    def __init__(self, blocks: Blocks) -> None:
        self.is_given = False
        self._blocks = blocks
        self._place = blocks.place(0)
        self._key = (blocks.source.name, blocks.offset)
        self._reason = blocks.options.skip.get(self._key)
        self._record = b""
        self._bytes = 0

    def add(self, raw: memoryview, *, is_over: bool) -> Iterator[Documents]:
        """The next part of the document."""
        data, spans = raw, np.array([[0, len(raw)]], np.int64)
        if self._reason is None:
            data, spans, bad = utf8.check(raw, spans, self._blocks.options.utf8)
            if bad:
                self._reason = utf8.reason(bytes(raw), self._key[1] + self._bytes)
                if self.is_given:
                    raise DocumentFailed(self._key, self._reason)
        self._record += raw[: RECORD_BYTES_MAX - len(self._record)]
        self._bytes += len(raw)
        bytes_read = self._blocks.stream.bytes_read
        if self._reason is None:
            self.is_given = True
            yield Documents(data, spans, not is_over, bytes_read=bytes_read, key=self._key)
        elif is_over:
            problem = self._blocks.problem(self._place, self._bytes, self._reason, self._record)
            yield Documents(problems=[problem], bytes_read=bytes_read)


def refuse_binary(start: bytes, name: str) -> str | None:
    """Raise if a text file is not text, from its first bytes. Return a warning if not UTF-8."""
    zero = start.find(b"\0")
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{name} is text in UTF-16; convert it, for example with iconv -t UTF-8")
    if start.startswith(_ZIP):
        raise InputError(f"{name} is a zip archive; unpack it, or compress it with gzip or zstd")
    if zero >= 0:
        raise InputError(
            f"{name} is not text: byte {zero:,} is 0; name it after its format (.jsonl, .parquet), "
            "or leave it out"
        )
    bad = utf8.first_bad(start[: utf8.whole_end(memoryview(start), len(start))])
    if bad < 0:
        return None
    return f"{name} is not UTF-8 (byte {bad:,} is 0x{start[bad]:02X}); its bytes are counted"


def _without_returns(view: memoryview, spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """Lines without the \\r before their \\n. The last line may have no \\n."""
    if not len(spans):
        return spans
    starts, ends = spans[:, 0], spans[:, 1]
    data = np.frombuffer(view, np.uint8)
    has_return = (ends > starts) & (ends < len(view)) & (data[ends - 1] == _RETURN)
    return np.stack([starts, ends - has_return], axis=1)


def _join_texts(segment: Segment, options: DocumentOptions) -> Iterator[Documents]:
    """Documents of an iterable of str and bytes, or of lists of them."""
    texts: list[Any] = []
    size = done = 0
    for number, item in enumerate(segment.source.given):
        if type(item) is str or type(item) is bytes:
            texts.append(item)
            size += len(item)
        elif isinstance(item, list | tuple):
            inner = [_text_of(text, f"document {number}, item {i}") for i, text in enumerate(item)]
            texts += inner
            size += sum(map(len, inner))
        else:
            texts.append(_text_of(item, f"document {number}"))
            size += len(texts[-1])
        if size >= options.block_bytes:
            done += size
            yield _joined(texts, done)
            texts, size = [], 0
    yield _joined(texts, done + size)


def _text_of(text: Any, name: str) -> Any:
    if isinstance(text, str | bytes):
        return text
    try:
        view = memoryview(text)
    except TypeError:
        hint = "; pass paths as a list" if isinstance(text, os.PathLike) else ""
        raise TypeError(
            f"{name} must be a str or bytes, got {type(text).__name__} {shown(text)}{hint}"
        ) from None
    return view.cast("B") if view.c_contiguous and view.itemsize == 1 else view.tobytes()


def _joined(texts: list[Any], bytes_read: int) -> Documents:
    """The texts in one buffer. Most batches are ASCII, and then the lengths of strs are right."""
    try:
        whole = "".join(texts)
        data = whole.encode() if whole.isascii() else None
    except TypeError:  # there are bytes among them
        data = None
    if data is None:
        texts = [_encoded(text) if isinstance(text, str) else text for text in texts]
        data = b"".join(texts)
    return Documents(data, spans_of(texts), bytes_read=bytes_read)


def _encoded(text: str) -> bytes:
    """The UTF-8 of a text. A surrogate pair becomes its character, a lone surrogate U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
