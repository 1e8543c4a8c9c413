"""Parquet and Arrow files, and Arrow columns → documents: spans in Arrow's memory, a row each.

A segment is some row groups of a Parquet file, or some batches of an Arrow file. Each of them is
read separately, so a damaged one is a problem and the next one is not. Tables are not read in the
order of their bytes, so a checksum receives the segment's share of the bytes.
"""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
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
    missing,
    raise_system_error,
    too_long,
)
from tokenmill.corpus.streams import Stream
from tokenmill.errors import InputError, MissingExtraError

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
    pa = import_pyarrow(f"{segment.source.name}, a table,")
    parts = 1
    try:
        table = _open(pa, segment.source, stack)
        parts = table.parts
        yield from _rows(table, segment, options)
    except (InputError, OSError, pa.ArrowException) as error:
        raise_system_error(error)
        yield Documents(problems=[failure_of(segment.source, error)])
    _sum_up(segment, options, parts)


def read_column(
    segment: Segment, options: DocumentOptions, _stack: ExitStack
) -> Iterator[Documents]:
    """A document for each row of an Arrow column, or of one column of an Arrow table."""
    pa = import_pyarrow("an Arrow column")
    try:
        yield from _rows(_Column(pa, segment.source), segment, options)
    except (InputError, pa.ArrowException) as error:
        yield Documents(problems=[failure_of(segment.source, error)])


def cuts(source: Source, unit_bytes: int) -> tuple[list[int], int]:
    """The row groups or batches before which the file is cut, and their number."""
    with ExitStack() as stack:
        try:
            pa = import_pyarrow(f"{source.name}, a table,")
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
        self.names: list[str] = schema.names
        self.parts = parts
        self._numbered = (0, 1)  # a part, and the number of its first row

    def bytes_of(self, part: int) -> int:
        return (self.source.size or 0) // max(self.parts, 1)

    def rows_of(self, part: int) -> int:
        raise NotImplementedError

    def batches(self, part: int, columns: list[str], bytes_max: int) -> Iterator[Any]:
        raise NotImplementedError

    def first_row(self, part: int) -> int:
        """The number of the first row of a part, from 1. Parts must come in order."""
        last, row = self._numbered
        row += sum(map(self.rows_of, range(last, part)))
        self._numbered = (part, row)
        return row

    def column(self, field: str) -> str:
        """The column with the name of a field, or of its first part."""
        first = field if field in self.names else field.split(".")[0]
        if first not in self.names:
            raise WrongFieldError(f"{self.source.name} {missing('column', field, self.names)}")
        return first

    def pick(self, batch: Any, field: str) -> Any:
        """The array of a field in a batch."""
        first = self.column(field)
        array = batch.column(batch.schema.get_field_index(first))
        if first != field:
            array = descend(self.pa, array, field.split(".", 1)[1], self.source.name)
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
        self._ipc = importlib.import_module("pyarrow.ipc")
        self._where = where
        reader = self._ipc.open_file(where)
        super().__init__(pa, source, reader.schema, reader.num_record_batches)
        self._readers: dict[tuple[str, ...], Any] = {}

    def rows_of(self, part: int) -> int:
        return int(self._reader(self.names[:1]).get_batch(part).num_rows)

    def batches(self, part: int, columns: list[str], bytes_max: int) -> Iterator[Any]:
        yield self._reader(columns).get_batch(part)

    def _reader(self, columns: list[str]) -> Any:
        """A reader of these columns only."""
        key = tuple(columns)
        if key not in self._readers:
            fields = [self.names.index(name) for name in columns]
            options = self._ipc.IpcReadOptions(included_fields=fields)
            self._readers[key] = self._ipc.open_file(self._where, options=options)
        return self._readers[key]


class _ArrowStream(_Table):
    """A stream, which has one part and is read in order."""

    def __init__(self, pa: Any, source: Source, where: Any) -> None:
        self._reader = importlib.import_module("pyarrow.ipc").open_stream(where)
        super().__init__(pa, source, self._reader.schema, 1)

    def batches(self, part: int, columns: list[str], bytes_max: int) -> Iterator[Any]:
        while True:
            try:
                yield self._reader.read_next_batch()
            except StopIteration:
                return


class _Column(_Table):
    """A column or a table in memory. Its parts are the chunks."""

    def __init__(self, pa: Any, source: Source) -> None:
        given = source.given
        is_stream = hasattr(given, "__arrow_c_stream__")
        chunks = pa.chunked_array(given).chunks if is_stream else [pa.array(given)]
        self._is_table = bool(chunks) and pa.types.is_struct(chunks[0].type)
        if self._is_table:
            self._chunks = [pa.RecordBatch.from_struct_array(chunk) for chunk in chunks]
            schema = self._chunks[0].schema
        else:
            schema = pa.schema([("column", chunks[0].type)] if chunks else [])
            self._chunks = [pa.RecordBatch.from_arrays([c], schema=schema) for c in chunks]
        super().__init__(pa, source, schema, len(chunks))

    def rows_of(self, part: int) -> int:
        return len(self._chunks[part])

    def batches(self, part: int, columns: list[str], bytes_max: int) -> Iterator[Any]:
        chunk = self._chunks[part]
        rows = max(1, int(len(chunk) * bytes_max / max(chunk.nbytes, 1)))
        yield from (chunk.slice(start, rows) for start in range(0, len(chunk), rows))

    def column(self, field: str) -> str:
        return super().column(field) if self._is_table else field

    def pick(self, batch: Any, field: str) -> Any:
        return super().pick(batch, field) if self._is_table else batch.column(0)


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
    columns = [table.column(options.field)]
    if options.id_field is not None and table.column(options.id_field) not in columns:
        columns.append(table.column(options.id_field))
    last = table.parts if segment.end is None else segment.end
    share = (segment.source.size or 0) / max(table.parts, 1)
    for part in range(segment.start, last):
        rows = 0
        bytes_read = int(share * (part + 1 - segment.start))
        batches = table.batches(part, columns, options.block_bytes)
        while True:
            try:
                batch = next(batches, None)
            except (table.pa.ArrowException, OSError) as error:
                raise_system_error(error)
                row = table.first_row(part) + rows
                reason = f"is damaged from row {row:,} on ({error})"
                problem = Problem(segment.source.name, -1, row, 0, reason)
                yield Documents(problems=[problem], bytes_read=bytes_read)
                break
            if batch is None:
                break
            for some in _slices(table, batch, options):
                for documents in _documents_of(table, some, options, part, rows):
                    documents.bytes_read = bytes_read
                    yield documents
                rows += len(some)


def _slices(table: _Table, batch: Any, options: DocumentOptions) -> Iterator[Any]:
    """The batch in slices, if the texts of its dictionary array are longer than a block."""
    array = table.pick(batch, options.field)
    if not table.pa.types.is_dictionary(array.type) or len(array) < 2:
        yield batch
        return
    name = f"{table.source.name}, column {options.field!r}"
    values = text_array(table.pa, array.dictionary, name)
    _, offsets = memory_of(table.pa, values) if len(values) else (b"", np.zeros(1, np.int64))
    # The size 0 is appended for nulls. `dictionary_decode` reports an index out of range.
    sizes = np.append(np.diff(offsets), 0)
    indices = array.indices.cast(table.pa.int64()).fill_null(len(values)).to_numpy()
    for start, stop in _runs(sizes[indices.clip(0, len(values))], options.block_bytes):
        yield batch.slice(start, stop - start)


def _documents_of(
    table: _Table, batch: Any, options: DocumentOptions, part: int, rows: int
) -> Iterator[Documents]:
    """The documents of a batch that follows `rows` rows of a part."""
    pa, name = table.pa, table.source.name
    array = text_array(pa, table.pick(batch, options.field), f"{name}, column {options.field!r}")
    ids = None if options.id_field is None else _ids(table.pick(batch, options.id_field))
    if not len(array):
        return
    view, offsets = memory_of(pa, array)
    low, high = int(offsets[0]), int(offsets[-1])
    data: Any = view[low:high]
    offsets = offsets.astype(np.int64) - low
    spans = np.stack([offsets[:-1], offsets[1:]], axis=1)
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    reasons = dict.fromkeys(
        np.flatnonzero(nulls).tolist(), f"has null in the column {options.field!r}"
    )
    long = np.flatnonzero(spans[:, 1] - spans[:, 0] > options.max_document_bytes)
    reasons |= dict.fromkeys(long.tolist(), too_long(options.max_document_bytes))
    checked, checked_spans, bad = utf8.check(data, spans, options.utf8)
    for index in set(bad) - reasons.keys():
        reasons[index] = utf8.reason(bytes(data[slice(*spans[index].tolist())]), 0)
    problems = []
    for index in sorted(reasons):
        start, end = spans[index].tolist()
        row = table.first_row(part) + rows + index
        record = bytes(data[start : min(end, start + RECORD_BYTES_MAX)])
        cause = "null" if nulls[index] else ""
        problems.append(Problem(name, -1, row, end - start, reasons[index], record, cause=cause))
    keep = np.ones(len(spans), bool)
    keep[list(reasons)] = False
    names = None if ids is None else [one for one, kept in zip(ids, keep, strict=True) if kept]
    if problems:
        yield Documents(problems=problems)
    yield from _in_blocks(checked, checked_spans[keep], names, options.block_bytes)


def _ids(array: Any) -> list[str]:
    """The values of a column as str. A null is an empty one."""
    values = ("" if value is None else value for value in array.to_pylist())
    return [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values]


# Arrow arrays. The package tokenmill.arrow uses these functions, too.


def import_pyarrow(what: str) -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError(
            f'{what} needs the package pyarrow: pip install "tokenmill[parquet]"'
        ) from error


def descend(pa: Any, array: Any, field: str, name: str) -> Any:
    """The column that a name with dots means: a.b is b inside of a."""
    parts = [field] if field in array.type.names else field.split(".")
    for part in parts:
        names = array.type.names if pa.types.is_struct(array.type) else []
        if part not in names:
            raise WrongFieldError(f"{name} {missing('column', field, names)}")
        array = array.flatten()[names.index(part)]
    return array


def text_array(pa: Any, array: Any, name: str) -> Any:
    """An array of texts that are contiguous in memory. Arrays of other types are an error."""
    types = pa.types
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if types.is_string_view(array.type) or types.is_binary_view(array.type):
        return array.cast(pa.large_binary())  # views may be anywhere: a copy is simpler
    is_text = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    if not any(test(array.type) for test in is_text):
        raise WrongFieldError(f"{name} contains {array.type}, not texts")
    return array


def memory_of(pa: Any, array: Any) -> tuple[memoryview, Any]:
    """The bytes of an array of texts, and the start of each text and the end of the last one."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets_buffer, data = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64 if wide else np.int32)
    view = memoryview(data) if data is not None else memoryview(b"")
    return view, offsets[array.offset : array.offset + len(array) + 1]


def _in_blocks(
    data: Any, spans: NDArray[np.int64], names: list[str] | None, bytes_max: int
) -> Iterator[Documents]:
    """Blocks of bounded size, or of one document."""
    view = memoryview(data)
    for start, stop in _runs(spans[:, 1] - spans[:, 0], bytes_max):
        some = spans[start:stop]
        low = int(some[0, 0])
        part = Documents(view[low : int(some[-1, 1])], some - low)
        part.names = None if names is None else names[start:stop]
        yield part


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
