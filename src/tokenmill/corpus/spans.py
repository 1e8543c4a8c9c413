"""What reading for shards gives: stretches of sources, documents as spans, records that failed.

A `Documents` is a buffer and an array of places in it: no Python object stands for one document,
so ten million small ones cost what their bytes do. A document longer than a block comes in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus.sources import Source

UTF8_POLICIES = ("strict", "replace", "bytes")
# Of a record that failed so much is kept to be looked at.
RECORD_BYTES_MAX = 64 << 10
BLOCK_BYTES = 8 << 20
_BLOCK_BYTES_MIN = 16
_GROUP = 4096
_Bytes = bytes  # a field has the name of the type


class Checksum(Protocol):
    """What sees each byte of a segment's file once, in order."""

    def update(self, data: Any, /) -> object: ...


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one source: bytes of a file that is not compressed, or row groups or batches.

    It begins and ends where a document does. `end` is None for the end of the source.
    """

    source: Source
    start: int = 0
    end: int | None = None


@dataclass(slots=True)
class Problem:
    """A record that gave no document, or a file of which no more can be read.

    `offset` is a byte of the decompressed text, or -1; `line` counts from 1, in tables rows, and is
    0 where the whole file is meant; `record` are its raw bytes, 64 KiB of them at most.
    """

    source: str
    offset: int
    line: int
    bytes: int
    reason: str
    record: _Bytes = b""
    is_end: bool = False  # no more of the file can be read


def failed(source: Source, error: Exception) -> Problem:
    """The problem of a file that cannot be read at all, or no further."""
    reason = str(error).removeprefix(f"{source.name} ")
    return Problem(source.name, -1, 0, 0, reason, is_end=True)


def _no_spans() -> NDArray[np.int64]:
    return np.empty((0, 2), np.int64)


@dataclass(slots=True)
class Documents:
    """Some documents of one source, one after the other.

    `spans` are start and end of each in `data`. With `goes_on` the last one goes on in the first of
    the next `Documents`; with `withdrawn` the one that went on turned out bad, nothing of it may
    stay, and `spans` is without it. `bytes_read` are those of the file, compressed ones if it is,
    since the segment began. `names` are the ids of the documents if a field was named for them; of
    a document in pieces the last one has it.
    """

    data: Any = b""
    spans: NDArray[np.int64] = field(default_factory=_no_spans)
    goes_on: bool = False
    withdrawn: bool = False
    problems: list[Problem] = field(default_factory=list)
    bytes_read: int = 0
    names: list[str] | None = None


def in_groups(problems: Iterable[Problem], bytes_read: int) -> Iterator[Documents]:
    """The problems, a few thousand at a time: a block can have millions of them."""
    remaining = iter(problems)
    while group := list(islice(remaining, _GROUP)):
        yield Documents(problems=group, bytes_read=bytes_read)


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """How documents are read. `utf8` says what becomes of bytes that are not UTF-8.

    `checksum` sees the bytes of the file as they lie there, so compressed ones if it is.
    """

    field: str = "text"
    id_field: str | None = None
    separator: bytes | None = None
    utf8: str = "strict"
    block_bytes: int = BLOCK_BYTES
    checksum: Checksum | None = None

    def __post_init__(self) -> None:
        if self.utf8 not in UTF8_POLICIES:
            raise ValueError(f"utf8 must be one of {', '.join(UTF8_POLICIES)}, not {self.utf8!r}")
        if self.block_bytes < _BLOCK_BYTES_MIN:
            raise ValueError(f"block_bytes must be {_BLOCK_BYTES_MIN} or more")
        if self.separator is not None and not self.separator:
            raise ValueError("separator must not be empty; None makes a file one document")
