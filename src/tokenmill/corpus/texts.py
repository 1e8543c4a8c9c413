"""Texts of the caller → documents: str and bytes in one buffer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from tokenmill.corpus.documents import DocumentOptions, Documents, Segment, spans_of
from tokenmill.errors import shown


def read_documents(
    segment: Segment, options: DocumentOptions, _stack: ExitStack
) -> Iterator[Documents]:
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
