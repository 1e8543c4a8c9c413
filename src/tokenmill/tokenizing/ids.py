"""Documents → ids, a block at a time; of a document that is longer than a block, piece by piece.

A long document is cut only where no pretoken can go on (`corpus/cuts.py`), so its ids are those of
the whole. What lies behind the last such place waits for the next piece. A document with a stretch
that can be cut nowhere and is longer than a bound is put aside. **Invariant**: which documents
those are depends on their text alone, not on the pieces in which it comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus.cuts import CHARACTER_BYTES_MAX, last_cut
from tokenmill.corpus.documents import Documents
from tokenmill.formats.parts import Form
from tokenmill.schemes import scheme_of, scheme_of_stages
from tokenmill.tokenizer import Tokenizer

# Behind a place where text may be cut nothing is composed with what stands before it.
_SAFE_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_NO_ENDS = np.empty(0, np.int64)


@dataclass(slots=True)
class Encoded:
    """Ids of whole documents, or of a piece of one that is not over.

    `ends` is where each whole document ends in `ids`. With `is_open` the ids are more of a document
    that goes on; with `is_closed` they end it. `withdrawn`: the open one has to go.
    """

    ids: NDArray[Any]
    ends: NDArray[np.int64]
    bytes: int
    is_open: bool = False
    is_closed: bool = False
    withdrawn: bool = False
    too_long: int = 0  # bytes of a document that cannot be cut and does not fit


class Encoder:
    """Ids of the documents of one unit, which come in order."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        before: tuple[int, ...],
        after: tuple[int, ...],
        dtype: str,
        specials: bool,
        open_bytes_max: int,
    ) -> None:
        self._core = tokenizer._core
        self._allowed = tokenizer._allowed(specials)
        self._before = np.array(before, "<u4").tobytes()
        self._after = np.array(after, "<u4").tobytes()
        self._narrow = dtype == "uint16"
        self._names = names_to_keep_whole(tokenizer, specials=specials)
        self._open_bytes_max = open_bytes_max
        self._kept = b""
        self._is_open = self._is_begun = self._is_dropped = False

    def encode(self, documents: Documents, threads: int) -> Iterator[Encoded]:
        """The ids of a block."""
        spans = documents.spans
        if documents.withdrawn:
            yield self._withdrawal(withdrawn=self._forget())
        first, last = 0, len(spans)
        view = memoryview(documents.data)
        if self._is_open and last:
            is_over = not (documents.goes_on and last == 1)
            yield from self._go_on(view[spans[0, 0] : spans[0, 1]], is_over, threads)
            first = 1
        opens = documents.goes_on and last > first
        whole = spans[first : last - opens]
        if len(whole):
            size = int((whole[:, 1] - whole[:, 0]).sum())
            ids, ends = self._encode(view, whole, self._before, self._after, threads)
            yield Encoded(ids, ends, size)
        if opens:
            self._is_open = True
            yield from self._go_on(view[spans[-1, 0] : spans[-1, 1]], False, threads)

    def _go_on(self, piece: memoryview, is_over: bool, threads: int) -> Iterator[Encoded]:
        """More of the open document; what cannot be cut off yet is kept."""
        if self._is_dropped:
            if is_over:
                self._forget()
            return
        text = self._kept + bytes(piece)
        if self._has_long_stretch(text):
            self._is_dropped, self._kept = True, b""
            yield self._withdrawal(too_long=self._open_bytes_max)
            if is_over:
                self._forget()
            return
        cut: int | None = len(text)
        if not is_over:
            cut = None if self._names is None else last_cut(text, self._names)
        self._kept = text[cut:] if cut else text
        if cut or is_over:
            before = b"" if self._is_begun else self._before
            after = self._after if is_over else b""
            spans = np.array([[0, cut or 0]], np.int64)
            ids, _ = self._encode(text, spans, before, after, threads)
            self._is_begun = True
            yield Encoded(ids, _NO_ENDS, cut or 0, is_open=True, is_closed=is_over)
        if is_over:
            self._forget()

    def _has_long_stretch(self, text: bytes) -> bool:
        """Whether two places of a text where it may be cut are too far apart. It begins at one."""
        longest = self._open_bytes_max
        if self._names is None:
            return len(text) > longest
        # So much behind a place has to be seen to know that it is one.
        seen = CHARACTER_BYTES_MAX + max(map(len, self._names), default=0)
        start = 0
        while len(text) - start > longest + seen:
            cut = last_cut(text[start : start + longest + seen], self._names)
            if cut is None:
                return True
            start += cut
        return False

    def _forget(self) -> bool:
        """No document is open any more; whether one was, and of it ids are out."""
        was_open = self._is_open and not self._is_dropped
        self._kept = b""
        self._is_open = self._is_begun = self._is_dropped = False
        return was_open

    def _withdrawal(self, *, withdrawn: bool = True, too_long: int = 0) -> Encoded:
        no_ids = np.empty(0, np.uint32)
        return Encoded(no_ids, _NO_ENDS, 0, withdrawn=withdrawn, too_long=too_long)

    def _encode(
        self, data: Any, spans: NDArray[np.int64], before: bytes, after: bytes, threads: int
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        ids, ends = self._core.encode_documents(
            data, np.ascontiguousarray(spans), self._allowed, before, after, self._narrow, threads
        )
        return np.asarray(ids), np.asarray(ends)


def names_to_keep_whole(tokenizer: Tokenizer, *, specials: bool) -> tuple[bytes, ...] | None:
    """The names that no cut may go through; None if a document of this tokenizer is never cut."""
    head = tokenizer._loaded.head
    if head is None:
        pattern = tokenizer.pattern
        is_cut = pattern is not None and isinstance(scheme_of(pattern), str)
        names = list(tokenizer.specials) if specials else []
        return tuple(name.encode() for name in names) if is_cut else None
    if head.prefix != "never" or head.blank or not head.stages:
        return None
    if any(not (isinstance(step, Form) and step.name in _SAFE_FORMS) for step in head.steps):
        return None
    if not isinstance(scheme_of_stages(head.stages, blank=head.blank), str) or head.model.dropout:
        return None
    added = [token for token in head.added if specials or not token.special]
    if any(
        token.lstrip or token.rstrip or token.single_word or token.normalized for token in added
    ):
        return None
    return tuple(token.content.encode() for token in added)
