"""Parquet and Arrow files, and Arrow columns → documents: spans in Arrow's memory, a row each.

A segment is some row groups of a Parquet file, or some batches of an Arrow file. Each of them is
read separately, so a damaged one is a problem and the next one is not. Tables are not read in the
order of their bytes, so a checksum receives the segment's share of the bytes.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import object_store
from tokenmill.corpus import utf8
from tokenmill.corpus.blocks import open_file
from tokenmill.corpus.documents import (
    RECORD_BYTES_MAX,
    DocumentOptions,
    Documents,
    Problem,
    Segment,
    Source,
    WrongFieldError,
    failure_of,
    fields_of,
    missing,
    raise_system_error,
    too_long,
)
from tokenmill.corpus.streams import Stream
from tokenmill.errors import InputError, import_package

_COPY_BYTES = 1 << 20
# The size of rows in memory is unknown: a value may be once in the file and in a thousand rows. So
# few rows are read at first, and more if they are small.
_ROWS_FIRST = 16
_ROWS_GROWTH = 4
_ROWS_MAX = 1 << 14
_ARROW_FILE = b"ARROW1"
_FEATHER_V1 = b"FEA1"


def read_documents(
    segment: Segment, options: DocumentOptions, stack: ExitStack
) -> Iterator[Documents]:
    """A document for each row of a column of texts."""
    source = segment.source
    pa = import_package("pyarrow", f"{source.name}, a table,")
    parts = 1
    try:
        if source.given is not None:
            name = fields_of(options.field, source.name)[0]
            table: _Table = _Column(pa, source, name)
        else:
            table = _open(pa, source, stack)
        parts = table.parts
        yield from _rows(table, segment, options)
    except (InputError, OSError, pa.ArrowException) as error:
        raise_system_error(error)
        yield Documents(problems=[failure_of(source, error)])
    _sum_up(segment, options, parts)


def cuts(source: Source, unit_bytes: int) -> tuple[list[int], int]:
    """The row groups or batches before which the file is cut, and their number."""
    with ExitStack() as stack:
        try:
            pa = import_package("pyarrow", f"{source.name}, a table,")
            table = _open(pa, source, stack)
        except InputError:
            return [], 0
        places, size = [], 0
        for part in range(table.parts):
            if size >= unit_bytes:
                places.append(part)
                size = 0
            size += table.bytes_of(part)
        return places, table.parts


class _Table:
    """A table: parts with rows, which are read in batches."""

    def __init__(self, pa: Any, source: Source, schema: Any, parts: int) -> None:
        self.pa = pa
        self.source = source
        self.schema = schema
        self.names: list[str] = schema.names
        self.parts = parts

    def bytes_of(self, part: int) -> int:
        return (self.source.size or 0) // max(self.parts, 1)

    def rows_of(self, part: int) -> int:
        raise NotImplementedError

    def batches(self, part: int, columns: list[str], bytes_max: int) -> Iterator[Any]:
        raise NotImplementedError

    def choose(self, fields: Sequence[str]) -> str:
        """The first of these fields that the table has."""
        if len(fields) == 1:
            return fields[0]
        empty = self.pa.RecordBatch.from_pylist([], schema=self.schema)
        for field in fields:
            with suppress(WrongFieldError):
                self.pick(empty, field)
                return field
        raise WrongFieldError(f"{self.source.name} {missing('column', fields, self.names)}")

    def column(self, field: str) -> str:
        """The column with the name of a field, or of its first part."""
        first = field if field in self.names else field.split(".")[0]
        if first not in self.names:
            raise WrongFieldError(f"{self.source.name} {missing('column', [field], self.names)}")
        return first

    def pick(self, batch: Any, field: str) -> Any:
        """The array of a field in a batch. A name with dots leads into structs."""
        first = self.column(field)
        array = batch.column(batch.schema.get_field_index(first))
        rest = field[len(first) + 1 :]
        while rest:
            names = getattr(array.type, "names", [])
            part = rest if rest in names else rest.split(".")[0]
            if part not in names:
                raise WrongFieldError(f"{self.source.name} {missing('column', [rest], names)}")
            array = array.flatten()[names.index(part)]
            rest = rest[len(part) + 1 :]
        return array


class _Parquet(_Table):
    def __init__(self, pa: Any, source: Source, where: Any, stack: ExitStack) -> None:
        parquet = importlib.import_module("pyarrow.parquet")
        # Without a buffer size, whole columns of a row group would be read at once.
        file = parquet.ParquetFile(
            where, pre_buffer=False, buffer_size=_COPY_BYTES, page_checksum_verification=True
        )
        self._file = stack.enter_context(file)
        super().__init__(pa, source, file.schema_arrow, file.metadata.num_row_groups)
        self._rows = _ROWS_FIRST

    def bytes_of(self, part: int) -> int:
        group = self._file.metadata.row_group(part)
        return sum(group.column(index).total_compressed_size for index in range(group.num_columns))

    def rows_of(self, part: int) -> int:
        return int(self._file.metadata.row_group(part).num_rows)

    def batches(self, part: int, columns: list[str], bytes_max: int) -> Iterator[Any]:
        for batch in self._file.iter_batches(self._rows, row_groups=[part], columns=columns):
            row_bytes = batch.nbytes / max(len(batch), 1)
            fitting = max(1, int(bytes_max / max(row_bytes, 1)))
            self._rows = min(_ROWS_MAX, _ROWS_GROWTH * self._rows, fitting)
            self._file.reader.set_batch_size(self._rows)
            yield batch


class _ArrowFile(_Table):
    def __init__(self, pa: Any, source: Source, where: Any) -> None:
        self._where = where
        self._readers: dict[tuple[str, ...], Any] = {}
        file = pa.ipc.open_file(where)
        super().__init__(pa, source, file.schema, file.num_record_batches)

    def rows_of(self, part: int) -> int:
        return int(self._reader(self.names[:1]).get_batch(part).num_rows)

    def batches(self, part: int, columns: list[str], bytes_max: int) -> Iterator[Any]:
        yield self._reader(columns).get_batch(part)

    def _reader(self, columns: list[str]) -> Any:
        """A reader of these columns only."""
        key = tuple(columns)
        if key not in self._readers:
            fields = [self.names.index(name) for name in columns]
            options = self.pa.ipc.IpcReadOptions(included_fields=fields)
            self._readers[key] = self.pa.ipc.open_file(self._where, options=options)
        return self._readers[key]


class _ArrowStream(_Table):
    """A stream, which has one part and is read in order."""

    def __init__(self, pa: Any, source: Source, where: Any) -> None:
        self._reader = pa.ipc.open_stream(where)
        super().__init__(pa, source, self._reader.schema, 1)

    def batches(self, part: int, columns: list[str], bytes_max: int) -> Iterator[Any]:
        yield from self._reader


class _Column(_Table):
    """A table in memory, or a column that gets the name of the field. Its parts are the chunks."""

    def __init__(self, pa: Any, source: Source, field: str) -> None:
        given = source.given
        is_stream = hasattr(given, "__arrow_c_stream__")
        chunks = pa.chunked_array(given).chunks if is_stream else [pa.array(given)]
        if chunks and pa.types.is_struct(chunks[0].type):
            self._chunks = [pa.RecordBatch.from_struct_array(chunk) for chunk in chunks]
        else:
            self._chunks = [pa.RecordBatch.from_arrays([chunk], [field]) for chunk in chunks]
        schema = self._chunks[0].schema if chunks else pa.schema([(field, pa.string())])
        super().__init__(pa, source, schema, len(chunks))

    def rows_of(self, part: int) -> int:
        return len(self._chunks[part])

    def batches(self, part: int, columns: list[str], bytes_max: int) -> Iterator[Any]:
        chunk = self._chunks[part]
        rows = max(1, int(len(chunk) * bytes_max / max(chunk.nbytes, 1)))
        yield from (chunk.slice(start, rows) for start in range(0, len(chunk), rows))


def _open(pa: Any, source: Source, stack: ExitStack) -> _Table:
    is_parquet = source.kind == "parquet"
    what = "a Parquet file" if is_parquet else "an Arrow file"
    where = _seekable(pa, source, stack)
    try:
        if is_parquet:
            return _Parquet(pa, source, where, stack)
        start = where.read(len(_ARROW_FILE))
        where.seek(0)
        if start == _ARROW_FILE:
            return _ArrowFile(pa, source, where)
        if start.startswith(_FEATHER_V1):
            raise InputError(
                f"{source.name} is a Feather file of version 1; write it again with pyarrow.feather"
            )
        return _ArrowStream(pa, source, where)
    except (pa.ArrowException, OSError) as error:
        raise_system_error(error)
        raise InputError(f"{source.name} is not {what}, or damaged ({error})") from None


def _seekable(pa: Any, source: Source, stack: ExitStack) -> Any:
    """The file. One that is compressed as a whole is unpacked first."""
    if source.compression is None and not object_store.is_address(source.name):
        return stack.enter_context(pa.OSFile(source.name))
    file = stack.enter_context(open_file(source))
    if source.compression is None:
        return stack.enter_context(pa.PythonFile(file, mode="r"))
    stream = Stream(file, source.name, source.compression)
    unpacked = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (the stack closes it)
    buffer = memoryview(bytearray(_COPY_BYTES))
    while count := stream.fill(buffer):
        unpacked.write(buffer[:count])
    if stream.failure is not None:
        raise stream.failure
    unpacked.seek(0)
    return stack.enter_context(pa.PythonFile(unpacked, mode="r"))


def _sum_up(segment: Segment, options: DocumentOptions, parts: int) -> None:
    """Give the checksum the segment's share of the file."""
    if options.checksum is None:
        return
    size = segment.source.size
    start = end = None
    if size is not None:
        start = size * segment.start // max(parts, 1)
        end = size if segment.end is None else size * segment.end // max(parts, 1)
    try:
        with open_file(segment.source) as file:
            Stream(
                file, segment.source.name, start=start or 0, end=end, checksum=options.checksum
            ).drain()
    except OSError as error:
        raise_system_error(error)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


def _rows(table: _Table, segment: Segment, options: DocumentOptions) -> Iterator[Documents]:
    field = table.choose(fields_of(options.field, segment.source.name))
    fields = [field] if options.id_field is None else [field, options.id_field]
    columns = list(dict.fromkeys(map(table.column, fields)))
    last = table.parts if segment.end is None else segment.end
    share = (segment.source.size or 0) / max(table.parts, 1)
    first_row = 1 + sum(map(table.rows_of, range(segment.start)))
    for part in range(segment.start, last):
        if part > segment.start:
            first_row += table.rows_of(part - 1)
        row = first_row
        bytes_read = int(share * (part + 1 - segment.start))
        try:
            for batch in table.batches(part, columns, options.block_bytes):
                for some in _slices(table, batch, field, options.block_bytes):
                    for documents in _documents_of(table, some, options, field, row):
                        documents.bytes_read = bytes_read
                        yield documents
                    row += len(some)
        except (table.pa.ArrowException, OSError) as error:
            raise_system_error(error)
            reason = f"is damaged from row {row:,} on ({error})"
            problem = Problem(segment.source.name, -1, row, 0, reason)
            yield Documents(problems=[problem], bytes_read=bytes_read)


def _slices(table: _Table, batch: Any, field: str, block_bytes: int) -> Iterator[Any]:
    """The batch in slices, if the texts of its dictionary array are longer than a block."""
    array = table.pick(batch, field)
    if not table.pa.types.is_dictionary(array.type) or len(array) < 2:
        yield batch
        return
    name = f"{table.source.name}, column {field!r}"
    _, spans = memory_of(text_array(array.dictionary, name))
    # The size 0 is appended for nulls. `dictionary_decode` reports an index out of range.
    sizes = np.append(spans[:, 1] - spans[:, 0], 0)
    indices = array.indices.cast("int64").fill_null(len(spans)).to_numpy()
    for start, stop in _runs(sizes[indices.clip(0, len(spans))], block_bytes):
        yield batch.slice(start, stop - start)


def _documents_of(
    table: _Table, batch: Any, options: DocumentOptions, field: str, first_row: int
) -> Iterator[Documents]:
    """The documents of a batch, whose rows have numbers from `first_row` on."""
    name, limit = table.source.name, options.max_document_bytes
    array = text_array(table.pick(batch, field), f"{name}, column {field!r}")
    ids = None if options.id_field is None else _ids(table.pick(batch, options.id_field))
    if not len(array):
        return
    view, spans = memory_of(array)
    low = spans[0, 0]
    data, spans = view[low : spans[-1, 1]], spans - low
    nulls = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist()
    long = np.flatnonzero(spans[:, 1] - spans[:, 0] > limit).tolist()
    checked, checked_spans, bad = utf8.check(data, spans, options.utf8)
    reasons = dict.fromkeys(nulls, f"has null in the column {field!r}")
    reasons |= dict.fromkeys(long, too_long(limit))
    for index in set(bad) - reasons.keys():
        reasons[index] = utf8.reason(bytes(data[slice(*spans[index].tolist())]), 0)
    problems = []
    for index, reason in sorted(reasons.items()):
        start, end = spans[index].tolist()
        record = bytes(data[start : min(end, start + RECORD_BYTES_MAX)])
        cause = "null" if reason.startswith("has null") else ""
        row = first_row + index
        problems.append(Problem(name, -1, row, end - start, reason, record, cause=cause))
    is_good = np.ones(len(spans), bool)
    is_good[list(reasons)] = False
    if problems:
        yield Documents(problems=problems)
    spans = checked_spans[is_good]
    names = ids and list(compress(ids, is_good))
    for start, stop in _runs(spans[:, 1] - spans[:, 0], options.block_bytes):
        some = spans[start:stop]
        low = some[0, 0]
        part_names = names and names[start:stop]
        data = memoryview(checked)[low : some[-1, 1]]
        rows = first_row + np.flatnonzero(is_good)[start:stop]
        locate = partial(_locate, rows)
        yield Documents(data, some - low, names=part_names, locate=locate)


def _locate(rows: NDArray[np.int64], index: int) -> tuple[int, int]:
    """The offset and the row of a document, as in a Problem."""
    return -1, int(rows[index])


def _runs(sizes: NDArray[np.int64], bytes_max: int) -> Iterator[tuple[int, int]]:
    """Start and stop of slices of up to `bytes_max`, or of one item."""
    ends = np.cumsum(sizes, dtype=np.int64)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + bytes_max, side="right"))
        stop = max(stop, start + 1)
        yield start, stop
        start = stop


def _ids(array: Any) -> list[str]:
    """The values of a column as str. A null is an empty one."""
    values = ("" if value is None else value for value in array.to_pylist())
    return [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values]


# Arrow arrays. The package tokenmill.arrow uses these functions, too.


def text_array(array: Any, name: str) -> Any:
    """An array of texts that are contiguous in memory. Arrays of other types are an error."""
    if hasattr(array, "dictionary_decode"):
        array = array.dictionary_decode()
    if str(array.type) in ("string_view", "binary_view"):
        return array.cast("large_binary")  # views may be anywhere: a copy is simpler
    if str(array.type) not in ("string", "large_string", "binary", "large_binary"):
        raise WrongFieldError(f"{name} contains {array.type}, not texts")
    return array


def memory_of(array: Any) -> tuple[memoryview, NDArray[np.int64]]:
    """The bytes of an array of texts, and the span of each. That of a null has any size."""
    if not len(array):
        return memoryview(b""), np.empty((0, 2), np.int64)
    _, ends, data = array.buffers()
    width = np.int64 if str(array.type).startswith("large") else np.int32
    offsets = np.frombuffer(ends, width)[array.offset : array.offset + len(array) + 1]
    places = offsets.astype(np.int64)
    return memoryview(data or b""), np.stack([places[:-1], places[1:]], axis=1)
