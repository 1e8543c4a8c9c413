"""Segments of sources → documents: blocks of text with spans, and problems.

A `Documents` is a buffer and an array of spans in it, without a Python object per document. Only
the document of a text file may come in several blocks. Other records are whole, and
`max_document_bytes` bounds them. Bad data is a `Problem` and never an exception, so that a run over
many files ends. Errors of the system, such as a full disk, are raised. **Invariant**: the documents
are the same for any size of a block, and for any segments of `split`.
"""

from __future__ import annotations

import errno
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from dataclasses import field as field_
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus.options import READERS, RECORDS
from tokenmill.errors import InputError

STDIN = "-"
# The first bytes of a rejected record are kept.
RECORD_BYTES_MAX = 64 << 10
BLOCK_BYTES = 8 << 20
DOCUMENT_BYTES = 256 << 20
_KEYS_SHOWN = 12
_KEY_CHARS_MAX = 60
_SYSTEM_ERRORS = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)
)
_OBJECTS = {"texts": "text", "column": "tables"}  # the modules of objects of the caller
_CHECK_SOURCES = 3
_CHECK_ID_SOURCES = 32
_CHECK_BLOCKS = 2
_CHECK_BYTES = 1 << 18
_Bytes = bytes  # a field has the name of the type


@dataclass(frozen=True, slots=True)
class Source:
    """One input: a file, standard input, or an object of the caller.

    `kind` is an input format, or "counts" for a file of pretoken counts. With `given` it is
    "texts", "column" or "mapping".
    """

    name: str
    kind: str
    compression: str | None = None
    size: int | None = None
    modified: int | None = None
    etag: str | None = None  # version of a remote file, as its file system reports it
    weight: float = 1.0
    given: Any = None
    place: str | None = None  # path of a copy of standard input

    @property
    def path(self) -> str:
        """The path of the file with the bytes."""
        return self.name if self.place is None else self.place

    @property
    def is_stdin(self) -> bool:
        """Whether it is a pipe, which can be read only once."""
        return self.name == STDIN and self.place is None

    @property
    def is_file(self) -> bool:
        return self.given is None and self.name != STDIN


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of one source: bytes of a file that is not compressed, or row groups of a table.

    It starts and ends where a document does. `end` is None for the end of the source.
    """

    source: Source
    start: int = 0
    end: int | None = None


@dataclass(slots=True)
class Problem:
    """A record that gave no document, or a file that cannot be read further.

    `offset` is a byte of the decompressed text, or -1. `line` counts from 1, in tables rows, and is
    0 for a problem of the whole file. `record` is the start of the raw bytes. `cause` is "null" for
    a field that is null, and "field" for one that is missing or not a text.
    """

    source: str
    offset: int
    line: int
    bytes: int
    reason: str
    record: _Bytes = b""
    is_end: bool = False  # the rest of the file is not read
    cause: str = ""

    def __str__(self) -> str:
        source = "standard input" if self.source == STDIN else self.source
        line = f", line {self.line:,}" if self.line else ""
        return f"{source}{line} {self.reason}"


class WrongFieldError(InputError):
    """A table without the column, or with a column of another type."""


# The name of a field, several names, of which the first that exists counts, or such a value for
# each pattern of names of inputs.
Field = str | Sequence[str] | Mapping[str, str | Sequence[str]]
FIELD = "text"


def fields_of(field: Field, name: str) -> tuple[str, ...]:
    """The names of the field with the text in an input. The longest pattern that matches counts."""
    if isinstance(field, Mapping):
        patterns = [pattern for pattern in field if matches(name, pattern)]
        field = field[max(patterns, key=lambda one: (len(one), one))] if patterns else FIELD
    return (field,) if isinstance(field, str) else tuple(field)


def matches(name: str, pattern: str) -> bool:
    """Whether the name of an input, or the end of its path, matches a pattern."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"*/{pattern}")


Key = tuple[str, int]  # of a document: its source, and the offset of its first byte


class DocumentFailed(Exception):  # noqa: N818 (an event, which starts the task again)
    """A document that is bad after a part of it was given.

    The reader of the documents starts again, with the document's key in `skip`.
    """

    def __init__(self, key: Key, reason: str) -> None:
        super().__init__(f"{key[0]}, byte {key[1]:,} {reason}")
        self.key = key
        self.reason = reason


@dataclass(slots=True)
class Documents:
    """Some documents of one source, in order.

    `spans` are start and end of each in `data`. With `goes_on` the last one, whose key is `key`,
    continues in the next `Documents`. `bytes_read` counts bytes of the file, which may be
    compressed, since the start of the segment. `names` are the ids of the documents if `id_field`
    is set. `locate` returns the offset and the line of a document, until the next block is read.
    """

    data: Any = b""
    spans: NDArray[np.int64] = field_(default_factory=lambda: np.empty((0, 2), np.int64))
    goes_on: bool = False
    problems: list[Problem] = field_(default_factory=list)
    bytes_read: int = 0
    names: list[str] | None = None
    key: Key = ("", -1)
    locate: Callable[[int], tuple[int, int]] = lambda _: (-1, 0)


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """How documents are read. `utf8` is the treatment of bytes that are not UTF-8.

    `checksum.update` receives the bytes of the file in order, before decompression. A record longer
    than `max_document_bytes` is a problem. `skip` has the reasons of documents that failed after a
    part of them was given. With `keep_newlines`, a line contains its newline, which training
    counts. With `low_latency`, a text is given as soon as it is read, for pipes and terminals.
    """

    field: Field = "text"
    id_field: str | None = None
    separator: bytes | None = None
    utf8: str = "strict"
    block_bytes: int = BLOCK_BYTES
    max_document_bytes: int = DOCUMENT_BYTES
    skip: Mapping[Key, str] = field_(default_factory=dict)
    checksum: Any = None
    keep_newlines: bool = False
    low_latency: bool = False


def read(segment: Segment, options: DocumentOptions) -> Iterator[Documents]:
    """The documents of a segment, in blocks of about `options.block_bytes`.

    Raises DocumentFailed if the file fails in a document of which a part was given.
    """
    reader = _reader(segment.source)
    with ExitStack() as stack:
        open_key: Key | None = None
        try:
            for documents in reader(segment, options, stack):
                if len(documents.spans):
                    open_key = documents.key if documents.goes_on else None
                yield documents
        except (InputError, OSError) as error:
            raise_system_error(error)
            bytes_read = 0 if segment.start else segment.source.size or 0
            problem = failure_of(segment.source, error)
            if open_key is not None:
                raise DocumentFailed(open_key, problem.reason) from error
            yield Documents(problems=[problem], bytes_read=bytes_read)


def _reader(source: Source) -> Callable[..., Iterator[Documents]]:
    module = _OBJECTS.get(source.kind) or READERS[source.kind].module
    found: Callable[..., Iterator[Documents]]
    found = importlib.import_module(f"tokenmill.corpus.{module}").read_documents
    return found


def read_once(segment: Segment, options: DocumentOptions) -> Iterator[Documents]:
    """Read documents for a caller that cannot start again.

    A document that fails after a part of it was given is a problem, and the end of the source.
    """
    try:
        yield from read(segment, options)
    except DocumentFailed as failure:
        name, offset = failure.key
        reason = failure.reason.removeprefix(f"{name} ")
        yield Documents(problems=[Problem(name, offset, 0, 0, reason, is_end=True)])


def join_parts(
    blocks: Iterator[Documents], name: str = "", bytes_max: int | None = None
) -> Iterator[Documents]:
    """The same documents, each in one block.

    A document of more than `bytes_max` bytes that comes in several blocks is an InputError.
    """
    whole: bytearray | None = None  # the document that continues
    for block in blocks:
        spans, view = block.spans, memoryview(block.data)
        if whole is not None and len(spans):
            whole += view[slice(*spans[0])]
            if bytes_max is not None and len(whole) > bytes_max:
                raise InputError(
                    f"{name!r} has a document of {len(whole):,} bytes or more; raise memory, or "
                    "use another separator"
                )
            if len(spans) > 1 or not block.goes_on:
                yield Documents(whole, spans_of([whole]), bytes_read=block.bytes_read)
                whole = None
            spans = spans[1:]
        if block.goes_on and len(spans):
            whole = bytearray(view[slice(*spans[-1])])
            spans = spans[:-1]
        yield replace(block, spans=spans, goes_on=False)


def refuse_unused_patterns(field: Field, sources: Sequence[Source]) -> None:
    """Raise if a pattern of fields matches no input."""
    for pattern in field if isinstance(field, Mapping) else ():
        if not any(matches(source.name, pattern) for source in sources):
            raise InputError(
                f"the field of {pattern!r} matches no input; the first one is {sources[0].name!r}"
            )


def find_wrong_field(sources: Sequence[Source], options: DocumentOptions) -> str | None:
    """The error of the field, if no record at the start of the first sources has a text in it."""
    reasons = []
    for documents in _starts(sources, options, slice(_CHECK_SOURCES)):
        causes = {problem.cause: str(problem) for problem in reversed(documents.problems)}
        if len(documents.spans) or "null" in causes:
            return None
        reasons += [causes["field"]] if "field" in causes else []
    return reasons[0] if reasons else None


def find_wrong_id_field(sources: Sequence[Source], options: DocumentOptions) -> str | None:
    """The error of the field of ids, if no record at the start of some sources has an id."""
    every = -(-len(sources) // _CHECK_ID_SOURCES)
    seen = 0
    for documents in _starts(sources, options, slice(None, None, every)):
        seen += len(documents.spans)
        if any(documents.names or ()):
            return None
    if not seen or options.id_field is None:
        return None
    return (
        f"field {options.id_field!r} has no id in the first {seen:,} records, from "
        f"{sources[0].name!r}; pass the right --id-field, or leave it out"
    )


def _starts(
    sources: Sequence[Source], options: DocumentOptions, chosen: slice
) -> Iterator[Documents]:
    """The documents at the start of some sources with records."""
    options = replace(options, block_bytes=_CHECK_BYTES, checksum=None)
    records = [source for source in sources if source.kind in RECORDS and not source.is_stdin]
    for source in records[chosen]:
        yield from islice(read_once(Segment(source), options), _CHECK_BLOCKS)


class Rejections:
    """The rejected records of a run. Each is an error, or there may be up to `max_errors`."""

    def __init__(self, on_error: str, max_errors: int | None) -> None:
        self._fails = on_error == "fail"
        self._max_errors = max_errors
        self.count = 0
        self.first = ""

    def add(self, problems: list[Problem]) -> None:
        """Raise for a rejected record, or for one too many."""
        for problem in problems:
            if self._fails:
                raise InputError(str(problem))
            self.count += 1
            self.first = self.first or str(problem)
        if self._max_errors is not None and self.count > self._max_errors:
            raise InputError(
                f"more than {self._max_errors:,} records gave no document (max_errors), the first: "
                f"{self.first}"
            )


def raise_system_error(error: Exception) -> None:
    """Raise an OS error again that is about the system and not about one file.

    A full disk is not a fault of the data. As a problem of a file, it would remove documents.
    """
    if isinstance(error, OSError) and error.errno in _SYSTEM_ERRORS:
        raise error


def failure_of(source: Source, error: Exception) -> Problem:
    """The problem of a file that cannot be read, or not further."""
    reason = str(error).removeprefix(f"{source.name} ")
    cause = "field" if isinstance(error, WrongFieldError) else ""
    return Problem(source.name, -1, 0, 0, reason, is_end=True, cause=cause)


def too_long(limit: int) -> str:
    """The reason of a record that is longer than the limit."""
    return f"is longer than {limit:,} bytes; raise max_document_bytes (--max-document-bytes)"


def missing(what: str, fields: Sequence[str], keys: list[str]) -> str:
    """The reason of a record without a field, or of a table without a column."""
    shown = ", ".join(repr(key[:_KEY_CHARS_MAX]) for key in keys[:_KEYS_SHOWN]) or "none"
    more = ", …" * (len(keys) > _KEYS_SHOWN)
    return (
        f"has no {what} {' or '.join(map(repr, fields))}; its {what}s are {shown}{more}. "
        "Name the right one with field= (--field)"
    )


def spans_of(texts: Sequence[Any]) -> NDArray[np.int64]:
    """The spans of texts that follow each other."""
    ends = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=ends[1:])
    return np.stack([ends[:-1], ends[1:]], axis=1)
