"""Documents → ids, a block at a time.

A document longer than `chunk_bytes` is encoded in chunks. It is cut only where no pretoken can
continue (`_native.last_cut`), so its ids are those of the whole text. The text after the last cut
is kept for the next chunk, and only new bytes are searched for a cut. More than
`max_unsplit_bytes` between two cuts reject the document. **Invariants**: rejection depends on the
text alone, not on the size of blocks or chunks. A chunk has at most `max_unsplit_bytes`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus import utf8
from tokenmill.corpus.documents import DocumentFailed, Documents, Key
from tokenmill.native import _native
from tokenmill.tokenizer import Tokenizer

CHARACTER_BYTES_MAX = 4
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
    # The open document: text that is not encoded yet, the first offset in it that may be a cut,
    # and whether ids of it are out.
    _rest: bytearray = field(default_factory=bytearray)
    _first: int = 0
    _is_open: bool = False
    _is_begun: bool = False
    _names: list[bytes] | None = field(init=False)
    _after_cut: int = field(init=False)  # bytes after a cut that `last_cut` needs to recognize it

    def __post_init__(self) -> None:
        names = self.tokenizer._cut_names(self.allowed_special)
        self._names = None if names is None else list(names)
        longest = max(map(len, names), default=0) if names is not None else -CHARACTER_BYTES_MAX
        self._after_cut = CHARACTER_BYTES_MAX + longest

    def encode(self, documents: Documents, threads: int) -> Iterator[Encoded]:
        """Yield the ids of a block.

        Raises DocumentFailed for a document that continues from an earlier block.
        """
        spans = documents.spans
        if not len(spans):
            return
        view = memoryview(documents.data)
        lengths = spans[:, 1] - spans[:, 0]
        is_alone = lengths > self.chunk_bytes
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
                if not self._is_open and is_over and self._has_long_stretch(text):
                    yield Encoded(_NO_IDS, _NO_ENDS, len(text), self._reason)
                    continue
                yield from self._encode_chunks(text, is_over, documents.key, threads)

    @property
    def _reason(self) -> str:
        return (
            f"has more than {self.max_unsplit_bytes:,} bytes without a safe split point; raise "
            "max_unsplit_bytes (--max-unsplit-bytes), which needs 16 times as much memory"
        )

    def _encode_chunks(
        self, text: memoryview, is_over: bool, key: Key, threads: int
    ) -> Iterator[Encoded]:
        """Yield ids of a document that is encoded alone, or of its next part."""
        self._is_open = True
        start = 0
        while True:
            is_last = start + self.chunk_bytes >= len(text)
            stop = len(text) if is_last else utf8.whole_end(text, start + self.chunk_bytes)
            self._rest += text[start:stop]
            limit = self.max_unsplit_bytes + self._after_cut
            if len(self._rest) > limit and self._last_cut(self._rest, self._first, limit) is None:
                raise DocumentFailed(key, self._reason)
            yield from self._encode_rest(is_last and is_over, threads)
            start = stop
            if is_last:
                return

    def _encode_rest(self, is_over: bool, threads: int) -> Iterator[Encoded]:
        """Yield ids of the rest: of all of it if the document is over, or up to the last cut."""
        text = self._rest
        cut = len(text) if is_over else self._last_cut(text, self._first, len(text))
        self._first = max(0, len(text) - self._after_cut + 1 - (cut or 0))
        if cut is not None:
            before = () if self._is_begun else self.before
            after = self.after if is_over else ()
            spans = np.array([[0, cut]], np.int64)
            ids, ends = self._encode(text, spans, before, after, threads)
            del text[:cut]
            self._is_begun = True
            yield Encoded(ids, ends if is_over else _NO_ENDS, cut)
        if is_over:
            self._is_open = self._is_begun = False
            self._first = 0

    def _has_long_stretch(self, text: memoryview) -> bool:
        """Whether two cuts of a text are too far apart. The text begins at a cut."""
        limit = self.max_unsplit_bytes + self._after_cut
        while len(text) > limit:
            cut = self._last_cut(bytes(text[:limit]), 0, limit)
            if cut is None:
                return True
            text = text[cut:]
        return False

    def _last_cut(self, text: bytes | bytearray, first: int, stop: int) -> int | None:
        """Return the last cut from `first` that `text[:stop]` shows."""
        if self._names is None:
            return None
        start = max(0, first - self._after_cut)
        cut = _native.last_cut(memoryview(text)[start:stop], self._names)
        return None if cut is None or start + cut < first else start + cut

    def _encode(
        self, data: Any, spans: NDArray[np.int64], before: Ids, after: Ids, threads: int
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        return self.tokenizer._encode_spans(
            data,
            spans,
            self.allowed_special,
            before=struct.pack(f"<{len(before)}I", *before),
            after=struct.pack(f"<{len(after)}I", *after),
            narrow=self.dtype == "uint16",
            threads=threads,
        )
