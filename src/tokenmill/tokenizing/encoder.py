"""Documents → ids, a block at a time.

A document longer than `chunk_bytes` is encoded in chunks. It is cut only where no pretoken can
continue (`_native.last_cut`), so its ids are those of the whole text. The text after the last cut
is kept for the next chunk. More than `max_unsplit_bytes` between two cuts reject the document.
**Invariant**: rejection depends on the text alone, not on the size of blocks or chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus import utf8
from tokenmill.corpus.documents import DocumentFailed, Documents
from tokenmill.native import _native
from tokenmill.tokenizer import Tokenizer

CHARACTER_BYTES_MAX = 4
_ALWAYS_SEARCHED = 1 << 12
Ids: TypeAlias = tuple[int, ...]
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


@dataclass(slots=True)
class Encoder:
    """Encode the documents of one task, in order."""

    tokenizer: Tokenizer
    _: KW_ONLY
    before: Ids  # ids before each document
    after: Ids
    dtype: str
    allowed_special: bool
    max_unsplit_bytes: int
    chunk_bytes: int
    # The open document: text that is not encoded yet, and whether ids of it are out.
    _rest: bytearray = field(default_factory=bytearray)
    _wanted: int = 0
    _is_open: bool = False
    _is_begun: bool = False
    _names: tuple[bytes, ...] | None = field(init=False)

    def __post_init__(self) -> None:
        self._names = self.tokenizer._cut_names(self.allowed_special)

    def encode(self, documents: Documents, threads: int) -> Iterator[Encoded]:
        """Yield the ids of a block.

        Raises DocumentFailed for a document that continues from an earlier block.
        """
        view = memoryview(documents.data)
        spans = documents.spans
        lengths = spans[:, 1] - spans[:, 0]
        is_alone = lengths > self.chunk_bytes
        if len(spans):
            is_alone[0] |= self._is_open
            is_alone[-1] |= documents.goes_on
        first = 0
        for index in [*np.flatnonzero(is_alone).tolist(), len(spans)]:
            if index > first:
                ids, ends = self._encode(view, spans[first:index], self.before, self.after, threads)
                yield Encoded(ids, ends, int(lengths[first:index].sum()))
            first = index + 1
            if index < len(spans):
                text = view[spans[index, 0] : spans[index, 1]]
                is_over = index < len(spans) - 1 or not documents.goes_on
                if self._is_open or not is_over:
                    size = len(self._rest) + len(text)
                    if size > self.max_unsplit_bytes and self._has_long_stretch(self._rest + text):
                        raise DocumentFailed(documents.key, self._reason)
                elif len(text) > self.max_unsplit_bytes and self._has_long_stretch(bytes(text)):
                    yield Encoded(_NO_IDS, _NO_ENDS, len(text), self._reason)
                    continue
                yield from self._encode_chunks(text, is_over, threads)

    @property
    def _reason(self) -> str:
        return (
            f"has more than {self.max_unsplit_bytes:,} bytes without a safe split point; raise "
            "max_unsplit_bytes (--max-unsplit-bytes), which needs 16 times as much memory"
        )

    def _encode_chunks(self, text: memoryview, is_over: bool, threads: int) -> Iterator[Encoded]:
        """Yield ids of a document that is encoded alone, or of its next part."""
        self._is_open = True
        start = 0
        while True:
            is_last = start + self.chunk_bytes >= len(text)
            stop = len(text) if is_last else utf8.whole_end(text, start + self.chunk_bytes)
            yield from self._encode_chunk(text[start:stop], is_last and is_over, threads)
            start = stop
            if is_last:
                return

    def _encode_chunk(self, chunk: memoryview, is_over: bool, threads: int) -> Iterator[Encoded]:
        text = self._rest
        text += chunk
        if len(text) < self._wanted and not is_over:
            return
        cut: int | None = len(text)
        if not is_over:
            cut = None if self._names is None else _native.last_cut(text, list(self._names))
        # Without a cut, the next search waits for twice as much text. So time stays linear.
        self._wanted = 0 if cut or len(text) < _ALWAYS_SEARCHED else 2 * len(text)
        if cut or is_over:
            before = () if self._is_begun else self.before
            after = self.after if is_over else ()
            spans = np.array([[0, cut or 0]], np.int64)
            ids, ends = self._encode(text, spans, before, after, threads)
            del text[:cut]
            self._is_begun = True
            yield Encoded(ids, ends if is_over else _NO_ENDS, cut or 0)
        if is_over:
            self._is_open = self._is_begun = False

    def _has_long_stretch(self, text: bytes | bytearray) -> bool:
        """Whether two cuts of a text are too far apart. The text begins at a cut."""
        longest = self.max_unsplit_bytes
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
        self, data: Any, spans: NDArray[np.int64], before: Ids, after: Ids, threads: int
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        return self.tokenizer._encode_spans(
            data,
            spans,
            self.allowed_special,
            before=np.array(before, "<u4").tobytes(),
            after=np.array(after, "<u4").tobytes(),
            narrow=self.dtype == "uint16",
            threads=threads,
        )
