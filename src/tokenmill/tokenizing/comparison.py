"""Documents read again ↔ documents as they were written: whether they are the same.

The ids of a document must give its bytes back. A tokenizer that changes text (one that normalises)
cannot be asked that; its documents are encoded again instead. A document that is longer than a
block is compared piece by piece: neither its text nor its ids are ever in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus.documents import Documents, Segment, read
from tokenmill.native import _native
from tokenmill.shards import Shards
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import plan
from tokenmill.tokenizing.ids import Encoder
from tokenmill.tokenizing.options import Options
from tokenmill.tokenizing.shuffle import Order

_BLOCK_BYTES = 4 << 20
_CHUNK_IDS = 1 << 18
_BEGINNING_BYTES = 40


class Written:
    """The documents of one unit as the shards have them, in the order of the sources."""

    def __init__(self, shards: Shards, order: Order, unit: int) -> None:
        self._shards = shards
        self._numbers = order.numbers(unit)
        self.place = 0

    def next(self) -> WrittenDocument | None:
        """The next document; None if there are no more. `skip` goes past it."""
        if self.place >= len(self._numbers):
            return None
        return WrittenDocument(self._shards, int(self._numbers[self.place]))

    def skip(self) -> None:
        self.place += 1


class WrittenDocument:
    """One document in the shards, read in stretches."""

    def __init__(self, shards: Shards, number: int) -> None:
        shard, self._start, self._end = shards.original_span(number)
        self._reader = shards.reader(shard)

    def __len__(self) -> int:
        return self._end - self._start

    def ids(self, start: int, end: int) -> NDArray[Any]:
        """The ids from one place to another."""
        return self._reader.stretch(self._start + start, self._start + end)


class Comparison:
    """Compares the documents of segments, counts them, and tells `find` of those that differ."""

    def __init__(
        self, tokenizer: Tokenizer, options: Options, share: float, find: Callable[[str], None]
    ) -> None:
        self.tokenizer = tokenizer
        self.options = options
        self.compared = 0
        self._find = find
        self._share = share
        self._random = np.random.default_rng(0)
        self._head = np.array(options.before, np.int64)
        self._tail = np.array(options.after, np.int64)

    def segment(
        self, segment: Segment, written: Written, checksum: _native.Checksum, *, too_long: bool
    ) -> None:
        """Reads a segment again. `too_long`: documents of its unit were put aside for length."""
        reading = plan.document_options(self.options, _BLOCK_BYTES, checksum)
        long: _Long | None = None
        for documents in read(segment, reading):
            if documents.withdrawn:
                long = None
            view = memoryview(documents.data)
            last = len(documents.spans) - 1
            for index, (start, end) in enumerate(documents.spans.tolist()):
                goes_on = index == last and documents.goes_on
                if long is None and not goes_on:
                    self._whole(segment, written, bytes(view[start:end]))
                    continue
                if long is None:
                    asked = too_long or self._is_asked()
                    long = _Long(self, written.next(), asked=asked, encodes=too_long)
                long.add(view[start:end], is_over=not goes_on)
                if not goes_on:
                    self._end(segment, written, long)
                    long = None

    def _is_asked(self) -> bool:
        return self._share >= 1 or bool(self._random.random() < self._share)

    def _whole(self, segment: Segment, written: Written, text: bytes) -> None:
        if self._is_asked():
            found = written.next()
            is_same = found is not None and self._is_same(found, text)
            self._say(segment, written.place, text, is_same=is_same)
        written.skip()

    def _end(self, segment: Segment, written: Written, long: _Long) -> None:
        if long.is_too_long:
            return  # which was put aside, and is not in the shards
        if long.asked:
            self._say(segment, written.place, long.beginning, is_same=long.is_same)
        written.skip()

    def _say(self, segment: Segment, place: int, text: bytes, *, is_same: bool) -> None:
        self.compared += 1
        if not is_same:
            self._find(
                f"{segment.source.name}: document {place + 1:,} of its unit is not what was "
                f"written; it begins {bytes(text[:_BEGINNING_BYTES])!r}"
            )

    def inside(self, found: WrittenDocument) -> tuple[int, int] | None:
        """Where the ids of the text lie, between those around each document; None if not so."""
        start, end = len(self._head), len(found) - len(self._tail)
        if end < start or not np.array_equal(found.ids(0, start), self._head):
            return None
        return (start, end) if np.array_equal(found.ids(end, len(found)), self._tail) else None

    def _is_same(self, found: WrittenDocument, text: bytes) -> bool:
        span = self.inside(found)
        if span is None:
            return False
        ids = found.ids(*span)
        if self.tokenizer.decode_bytes(ids) == text:
            return True
        again = self.tokenizer.encode_array(text, specials=self.options.specials)
        return bool(np.array_equal(again, ids))


class _Long:
    """A document that comes in pieces: decoded, and where that is not enough encoded, as it comes.

    Only tokenizers of a file with parts can change a text, so for the others decoding decides.
    """

    def __init__(
        self, comparison: Comparison, found: WrittenDocument | None, *, asked: bool, encodes: bool
    ) -> None:
        self.asked = asked
        self.beginning = b""
        self.is_too_long = False
        self._tokenizer = comparison.tokenizer
        self._found = found
        span = None if found is None else comparison.inside(found)
        self._place, self._end = span or (0, 0)
        self._rest = memoryview(b"")
        self._decodes = asked and span is not None
        self._encoder: Encoder | None = None
        self._encoded = 0
        self._is_encoded = False
        if encodes or (self._decodes and self._tokenizer._loaded.head is not None):
            options = comparison.options
            self._is_encoded = span is not None
            self._encoder = Encoder(
                self._tokenizer,
                before=options.before,
                after=options.after,
                dtype=options.dtype,
                specials=options.specials,
                open_bytes_max=options.whole_bytes,
            )

    @property
    def is_same(self) -> bool:
        """Whether it is what was written, when it is over."""
        return self._decodes or self._is_encoded

    def add(self, piece: memoryview, *, is_over: bool) -> None:
        """More of the document."""
        if len(self.beginning) < _BEGINNING_BYTES:
            self.beginning += bytes(piece[:_BEGINNING_BYTES])
        if self._decodes:
            self._decodes = self._decode(piece, is_over)
        if self._encoder is not None:
            self._encode(self._encoder, piece, is_over)

    def _decode(self, piece: memoryview, is_over: bool) -> bool:
        assert self._found is not None
        while len(piece) or is_over:
            if not self._rest:
                if self._place == self._end:
                    return not len(piece)
                stop = min(self._place + _CHUNK_IDS, self._end)
                ids = self._found.ids(self._place, stop)
                self._rest = memoryview(self._tokenizer.decode_bytes(ids))
                self._place = stop
                continue
            count = min(len(piece), len(self._rest))
            if not count or bytes(piece[:count]) != bytes(self._rest[:count]):
                return False
            piece, self._rest = piece[count:], self._rest[count:]
        return True

    def _encode(self, encoder: Encoder, piece: memoryview, is_over: bool) -> None:
        spans = np.array([[0, len(piece)]], np.int64)
        for encoded in encoder.encode(Documents(piece, spans, goes_on=not is_over), 1):
            self.is_too_long |= encoded.too_long > 0
            start, self._encoded = self._encoded, self._encoded + len(encoded.ids)
            if self._is_encoded:
                assert self._found is not None
                stretch = self._found.ids(start, self._encoded)
                self._is_encoded = bool(np.array_equal(stretch, encoded.ids))
        if is_over:
            self._is_encoded &= self._found is not None and self._encoded == len(self._found)
