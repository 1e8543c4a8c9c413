"""Parquet files and Arrow columns → batches of documents, which show Arrow's own memory."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from io import FileIO
from itertools import pairwise
from typing import Any

import numpy as np

from tokenmill.corpus.batches import Batch, ReadOptions
from tokenmill.corpus.sources import STDIN, Source
from tokenmill.corpus.streams import Stream
from tokenmill.errors import InputError, MissingExtraError

_ROWS_MIN = 64
_COPY_BYTES = 1 << 20


def read_arrow(column: Any, options: ReadOptions) -> Iterator[Batch]:
    """Batches of an Arrow column of texts, or of the field of a table."""
    pa = import_pyarrow("an Arrow column")
    if hasattr(column, "__arrow_c_stream__"):
        chunks = pa.chunked_array(column).chunks
    else:
        chunks = [pa.array(column)]
    done = rows = 0
    for chunk in chunks:
        if pa.types.is_struct(chunk.type):
            chunk = descend(pa, chunk, options.field, "the table")
        for part in _slices(chunk, options.batch_bytes):
            texts, size = texts_of(pa, part, "the column")
            done += size
            rows += len(part)
            yield Batch(options.keep(texts), size, rows, done)


def read_parquet(source: Source, options: ReadOptions, start: int) -> Iterator[Batch]:
    """Batches of one column of a Parquet file; positions are rows."""
    pa = import_pyarrow(f"{source.name}, a Parquet file,")
    parquet = importlib.import_module("pyarrow.parquet")
    with ExitStack() as stack:
        where = _seekable(source, stack)
        try:
            file = stack.enter_context(parquet.ParquetFile(where))
        except pa.ArrowInvalid as error:
            raise InputError(f"{source.name} is not a Parquet file, or damaged ({error})") from None
        names = file.schema_arrow.names
        first = options.field if options.field in names else options.field.split(".")[0]
        if first not in names:
            raise InputError(
                f"{source.name} has no column {options.field!r}; its columns are "
                f"{', '.join(map(repr, names))}. Name the right one with field= (--field)"
            )
        rows = 0
        for group in range(file.metadata.num_row_groups):
            group_rows = file.metadata.row_group(group).num_rows
            if rows + group_rows <= start:
                rows += group_rows
                continue
            yield from _row_group(pa, file, group, rows, first, source, options, start)
            rows += group_rows


def _row_group(
    pa: Any,
    file: Any,
    group: int,
    rows: int,
    first: str,
    source: Source,
    options: ReadOptions,
    start: int,
) -> Iterator[Batch]:
    metadata = file.metadata.row_group(group)
    share = (source.size or 0) / max(file.metadata.num_rows, 1)
    per_row = metadata.total_byte_size / max(metadata.num_rows, 1)
    batch_rows = max(_ROWS_MIN, int(options.batch_bytes / max(per_row, 1)))
    column = options.field if first == options.field else first
    batches = file.iter_batches(batch_rows, row_groups=[group], columns=[column])
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{source.name} is damaged behind row {rows:,} ({error})") from None
        if batch is None:
            return
        chunk = batch.column(0).slice(min(max(0, start - rows), len(batch)))
        rows += len(batch) - len(chunk)
        if first != options.field:
            chunk = descend(pa, chunk, options.field.split(".", 1)[1], source.name)
        for part in _slices(chunk, options.batch_bytes):
            texts, size = texts_of(pa, part, f"{source.name}, column {options.field!r}")
            rows += len(part)
            yield Batch(options.keep(texts), size, rows, int(rows * share))


def _seekable(source: Source, stack: ExitStack) -> Any:
    """A Parquet file is read from its end: one that is compressed as a whole is unpacked first."""
    if source.name == STDIN:
        raise InputError("a Parquet file is read from its end, so it cannot come from a pipe")
    if source.compression is None:
        return source.name
    stream = Stream(stack.enter_context(FileIO(source.name)), source.name, source.compression)
    unpacked = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (the stack closes it)
    buffer = memoryview(bytearray(_COPY_BYTES))
    while count := stream.fill(buffer):
        unpacked.write(buffer[:count])
    unpacked.seek(0)
    return unpacked


def descend(pa: Any, array: Any, field: str, name: str) -> Any:
    """The column that a name with dots leads to."""
    parts = [field] if field in array.type.names else field.split(".")
    for part in parts:
        if not pa.types.is_struct(array.type) or part not in array.type.names:
            known = array.type.names if pa.types.is_struct(array.type) else []
            raise InputError(
                f"{name} has no column {field!r}; there are {', '.join(map(repr, known)) or 'none'}"
                ". Name the right one with field= (--field)"
            )
        array = array.flatten()[array.type.names.index(part)]
    return array


def _slices(array: Any, bytes_max: int) -> Iterator[Any]:
    """Slices of about as many bytes as a batch has."""
    count = max(1, -(-array.nbytes // bytes_max))
    rows = max(1, -(-len(array) // count))
    for start in range(0, len(array), rows):
        yield array.slice(start, rows)


def texts_of(pa: Any, array: Any, name: str) -> tuple[list[Any], int]:
    """The texts of an Arrow array: slices of its memory. A null is no document."""
    array = text_array(pa, array, name)
    if array.null_count:
        array = array.drop_null()
    if not len(array):
        return [], 0
    view, offsets = memory_of(pa, array)
    ends = offsets.tolist()
    return [view[begin:end] for begin, end in pairwise(ends)], ends[-1] - ends[0]


def text_array(pa: Any, array: Any, name: str) -> Any:
    """The array, if it is one of texts, as one whose texts lie one behind the other."""
    types = pa.types
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not any(
        test(array.type)
        for test in (
            types.is_string, types.is_large_string, types.is_string_view,
            types.is_binary, types.is_large_binary, types.is_binary_view,
        )
    ):  # fmt: skip
        raise InputError(f"{name} holds {array.type}, not texts")
    if types.is_string_view(array.type) or types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())  # views lie anywhere: a copy is simpler
    return array


def memory_of(pa: Any, array: Any) -> tuple[memoryview, Any]:
    """The bytes of an array of texts, and where each one begins and the last one ends."""
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    _, offsets_buffer, data = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64 if wide else np.int32)
    view = memoryview(data) if data is not None else memoryview(b"")
    return view, offsets[array.offset : array.offset + len(array) + 1]


def import_pyarrow(what: str) -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingExtraError(
            f'{what} needs the package pyarrow: pip install "tokenmill[parquet]"'
        ) from error
