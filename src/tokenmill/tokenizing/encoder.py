"""Documents → ids, a block at a time.

A document longer than `chunk_bytes` is encoded in chunks. It is cut only where no pretoken can
continue (`_native.last_cut`), so its ids are those of the whole text. The text after the last cut
is kept for the next chunk. More than `max_unsplit_bytes` between two cuts reject the document.
**Invariant**: rejection depends on the text alone, not on the size of blocks or chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus import utf8
from tokenmill.corpus.documents import DocumentFailed, Documents
from tokenmill.native import _native
from tokenmill.tokenizer import Tokenizer

CHARACTER_BYTES_MAX = 4
_NO_IDS = np.empty(0, np.uint32)
_NO_ENDS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Encoded:
    """Ids, and the document ends among them. Ids after the last end are of a document that
    continues. `rejected` is the reason of one document that has no ids."""

    ids: NDArray[Any]
    ends: NDArray[np.int64]
    bytes: int
    rejected: str | None = None


class Encoder:
    """Encode the documents of one task, in order."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        before: tuple[int, ...],
        after: tuple[int, ...],
        dtype: str,
        allowed_special: bool,
        max_unsplit_bytes: int,
        chunk_bytes: int,
    ) -> None:
        self._tokenizer = tokenizer
        self._allowed = allowed_special
        self._before = np.array(before, "<u4").tobytes()
        self._after = np.array(after, "<u4").tobytes()
        self._narrow = dtype == "uint16"
        self._names = tokenizer._cut_names(allowed_special)
        self._max_unsplit_bytes = max_unsplit_bytes
        self._chunk_bytes = chunk_bytes
        # The open document: text that is not encoded yet, and whether ids of it are out.
        self._rest = b""
        self._is_open = self._is_begun = False

    def encode(self, documents: Documents, threads: int) -> Iterator[Encoded]:
        """Yield the ids of a block.

        Raises DocumentFailed for a document that continues from an earlier block.
        """
        view = memoryview(documents.data)
        spans = documents.spans
        lengths = spans[:, 1] - spans[:, 0]
        is_alone = lengths > self._chunk_bytes
        if len(spans):
            is_alone[0] |= self._is_open
            is_alone[-1] |= documents.goes_on
        first = 0
        for index in [*np.flatnonzero(is_alone).tolist(), len(spans)]:
            if index > first:
                ids, ends = self._encode(
                    view, spans[first:index], self._before, self._after, threads
                )
                yield Encoded(ids, ends, int(lengths[first:index].sum()))
            first = index + 1
            if index < len(spans):
                text = view[spans[index, 0] : spans[index, 1]]
                is_over = index < len(spans) - 1 or not documents.goes_on
                if self._is_open or not is_over:
                    self._check_rest(text, documents)
                elif len(text) > self._max_unsplit_bytes and self._has_long_stretch(bytes(text)):
                    yield Encoded(_NO_IDS, _NO_ENDS, len(text), self._reason)
                    continue
                yield from self._encode_chunks(text, is_over, threads)

    @property
    def _reason(self) -> str:
        return (
            f"has more than {self._max_unsplit_bytes:,} bytes without a safe split point; raise "
            "max_unsplit_bytes (--max-unsplit-bytes), which needs 16 times as much memory"
        )

    def _check_rest(self, text: memoryview, documents: Documents) -> None:
        if self._has_long_stretch(self._rest + bytes(text)):
            raise DocumentFailed(documents.key, self._reason)

    def _encode_chunks(self, text: memoryview, is_over: bool, threads: int) -> Iterator[Encoded]:
        """Yield ids of a document that is encoded alone, or of its next part."""
        self._is_open = True
        start = 0
        while True:
            is_last = start + self._chunk_bytes >= len(text)
            stop = len(text) if is_last else utf8.whole_end(text, start + self._chunk_bytes)
            yield from self._encode_chunk(bytes(text[start:stop]), is_last and is_over, threads)
            start = stop
            if is_last:
                return

    def _encode_chunk(self, chunk: bytes, is_over: bool, threads: int) -> Iterator[Encoded]:
        text = self._rest + chunk
        cut: int | None = len(text)
        if not is_over:
            cut = None if self._names is None else _native.last_cut(text, list(self._names))
        self._rest = text[cut:] if cut else text
        if cut or is_over:
            before = b"" if self._is_begun else self._before
            after = self._after if is_over else b""
            spans = np.array([[0, cut or 0]], np.int64)
            ids, ends = self._encode(text, spans, before, after, threads)
            self._is_begun = True
            yield Encoded(ids, ends if is_over else _NO_ENDS, cut or 0)
        if is_over:
            self._rest = b""
            self._is_open = self._is_begun = False

    def _has_long_stretch(self, text: bytes) -> bool:
        """Whether two cuts of a text are too far apart. The text begins at a cut."""
        longest = self._max_unsplit_bytes
        if self._names is None:
            return len(text) > longest
        # `last_cut` needs these bytes after a cut to recognize it.
        seen = CHARACTER_BYTES_MAX + max(map(len, self._names), default=0)
        start = 0
        while len(text) - start > longest + seen:
            cut = _native.last_cut(text[start : start + longest + seen], list(self._names))
            if cut is None:
                return True
            start += cut
        return False

    def _encode(
        self, data: Any, spans: NDArray[np.int64], before: bytes, after: bytes, threads: int
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        return self._tokenizer._encode_spans(
            data, spans, self._allowed, before=before, after=after, narrow=self._narrow,
            threads=threads,
        )  # fmt: skip
