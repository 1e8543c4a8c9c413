"""A table with a column of texts → a table of pretokens and counts, which an engine adds up.

Counts of parts add up to the counts of all rows, so an engine may split the rows anywhere. The sums
become a file of counts, which is an input of `train`.
"""

from __future__ import annotations

import importlib
import os
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill import arguments
from tokenmill.arrow.encode import arrow_of, find_column, is_spark, text_spans
from tokenmill.corpus.tables import memory_of, text_array
from tokenmill.errors import InputError, TrainingError, import_package
from tokenmill.native import _native
from tokenmill.patterns.schemes import scheme_of
from tokenmill.tokenizer import Tokenizer
from tokenmill.training import options
from tokenmill.training.counting import metadata
from tokenmill.training.train import Summary

_PRETOKEN, _COUNT = "pretoken", "count"
# A task returns its counts when the tables take this much memory.
_MEMORY_MAX = 256 << 20
_ROWS_MAX = 1 << 16
# Sums are sorted in parts of about this many bytes. Then the parts are merged.
_RUN_BYTES = 256 << 20


class CountPretokens:
    """A callable that counts the pretokens of a batch, as `tokenmill.count_pretokens` does.

    >>> import pyarrow
    >>> count = CountPretokens("gpt2")
    >>> count(pyarrow.table({"text": ["hello world", "hello"]})).sort_by("count").to_pydict()
    {'pretoken': [b' world', b'hello'], 'count': [1, 2]}

    Rows have no order. `save` writes the sums to a file for `tokenmill.train`.
    """

    def __init__(
        self,
        pattern: str | Tokenizer | None = None,
        column: str = "text",
        *,
        special_tokens: Sequence[str] = (),
        separator: str | None = None,
        threads: int | None = 1,
    ) -> None:
        """The options are those of `count_pretokens`. For a tokenizer, its pattern is used."""
        import_package("pyarrow", "tokenmill.arrow.CountPretokens")
        if not isinstance(column, str):
            raise TypeError(f"column must be the name of a column, not {column!r}")
        if isinstance(pattern, Tokenizer):
            if pattern.pattern is None:
                raise TrainingError(
                    f"{pattern.name} is not cut by one pattern; give one, or the name of a scheme"
                )
            pattern = pattern.pattern
        given = {"pattern": pattern, "special_tokens": special_tokens, "separator": separator}
        chosen = options.resolve_options(options.CountOptions, given)
        self._pattern = options.choose_pattern(chosen["pattern"], None, [])
        self._scheme = scheme_of(self._pattern)
        self._specials = options.special_names(chosen, None)
        end = chosen["separator"]
        self._ends = (*self._specials, end) if end else self._specials
        self._column = column
        self._threads = None if threads is None else arguments.thread_count(threads)

    def schema(self, schema: Any = None) -> Any:
        """The schema of the result: a Spark schema if `schema` is one, else an Arrow schema."""
        if is_spark(schema):
            types = importlib.import_module("pyspark.sql.types")
            pretoken = types.StructField(_PRETOKEN, types.BinaryType())
            return types.StructType([pretoken, types.StructField(_COUNT, types.LongType())])
        return _schema(import_package("pyarrow", "tokenmill.arrow.CountPretokens"))

    @property
    def type(self) -> Any:
        """The Arrow type of the result for a series: lists of pretokens and counts."""
        pa = import_package("pyarrow", "tokenmill.arrow.CountPretokens")
        return pa.large_list(pa.struct(list(_schema(pa))))

    def __call__(self, batch: Any) -> Any:
        """The table of the counts of a Table or RecordBatch.

        Functions of Daft return a row for each row and receive a series. It becomes a column of as
        many lists. The first list has all counts.
        """
        pa = import_package("pyarrow", "tokenmill.arrow.CountPretokens")
        counter = self._counter()
        if isinstance(batch, pa.Table | pa.RecordBatch):
            self._add(pa, counter, batch)
            return type(batch).from_arrays(_arrays(pa, counter.take()), schema=_schema(pa))
        column = arrow_of(pa, batch)
        self._add(pa, counter, pa.table({self._column: column}))
        counts = pa.StructArray.from_arrays(_arrays(pa, counter.take()), fields=list(_schema(pa)))
        ends = np.full(len(column) + 1, len(counts), np.int64)
        ends[0] = 0
        return pa.LargeListArray.from_arrays(ends, counts)

    def map_in_arrow(self, batches: Iterable[Any]) -> Iterator[Any]:
        """RecordBatches with the counts of a partition, for Spark's `mapInArrow`."""
        pa = import_package("pyarrow", "tokenmill.arrow.CountPretokens")
        schema = pa.schema([(_PRETOKEN, pa.binary()), (_COUNT, pa.int64())])
        counter = self._counter()
        for batch in batches:
            self._add(pa, counter, batch)
            if counter.memory() > _MEMORY_MAX:
                yield from _batches(pa, counter.take(), schema)
        yield from _batches(pa, counter.take(), schema)

    def save(self, counts: Any, path: str | os.PathLike[str]) -> Summary:
        """Write counts to a file for `train` and add up those of equal pretokens.

        `counts` is a table, or an iterator of tables or batches, with the column `pretoken` and one
        other of any name. Tables of an iterator are released one by one.
        """
        pa = import_package("pyarrow", "tokenmill.arrow.CountPretokens")
        about = metadata(self._pattern, self._specials)
        output = os.path.realpath(path)
        with tempfile.TemporaryDirectory(
            dir=Path(output).parent, prefix=".tokenmill-counts-"
        ) as folder:
            runs: list[str] = []
            for inventory in _inventories(pa, counts):
                runs.append(f"{folder}/{len(runs):06}.tmc")
                inventory.write(runs[-1], about)
            if not runs:
                raise InputError("the table has no counts to save")
            _native.merge_counts(runs, np.ones(len(runs)), output, about)
        saved = _native.CountsFile(output)
        return Summary(saved.total(), len(saved))

    def _counter(self) -> _native.Counter:
        return _native.Counter(self._scheme, list(self._ends), secrets.randbits(64), False)

    def _add(self, pa: Any, counter: _native.Counter, table: Any) -> None:
        place = find_column(table.schema, self._column)
        column = table.column(place)
        for array in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            view, spans, _ = text_spans(array, self._column)
            counter.add_blocks([(view, spans, False)], arguments.thread_count(self._threads))

    def __repr__(self) -> str:
        return f"<CountPretokens {self._column!r}: {self._pattern!r}>"


def _schema(pa: Any) -> Any:
    return pa.schema([(_PRETOKEN, pa.large_binary()), (_COUNT, pa.int64())])


def _arrays(pa: Any, inventory: _native.Inventory) -> list[Any]:
    """The pretokens and their counts as columns."""
    data, lengths, counts = inventory.arrays()
    offsets = np.zeros(len(inventory) + 1, np.int64)
    np.cumsum(np.asarray(lengths), out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    pretokens = pa.Array.from_buffers(pa.large_binary(), len(inventory), buffers)
    numbers = pa.Array.from_buffers(pa.int64(), len(inventory), [None, pa.py_buffer(counts)])
    return [pretokens, numbers]


def _batches(pa: Any, inventory: _native.Inventory, schema: Any) -> Iterator[Any]:
    pretokens, counts = _arrays(pa, inventory)
    for start in range(0, len(counts), _ROWS_MAX):
        some = pretokens.slice(start, _ROWS_MAX).cast(pa.binary())
        yield pa.RecordBatch.from_arrays([some, counts.slice(start, _ROWS_MAX)], schema=schema)


def _inventories(pa: Any, given: Any) -> Iterator[_native.Inventory]:
    """The counts of tables, in parts of bounded size."""
    is_one = isinstance(given, pa.Table | pa.RecordBatch)
    for table in [given] if is_one else given:
        if not isinstance(table, pa.Table | pa.RecordBatch):
            raise TypeError(f"counts are tables or batches of pyarrow, not {type(table).__name__}")
        batches = table.to_batches() if isinstance(table, pa.Table) else [table]
        for batch in batches:
            parts = max(1, -(-batch.nbytes // _RUN_BYTES))
            rows = max(1, -(-len(batch) // parts))
            for start in range(0, len(batch), rows):
                yield _inventory(pa, batch.slice(start, rows))


def _inventory(pa: Any, batch: Any) -> _native.Inventory:
    names = batch.schema.names
    if sorted(name == _PRETOKEN for name in names) != [False, True]:
        raise InputError(
            f"counts are a column {_PRETOKEN!r} and one of their numbers, and the table has "
            f"{', '.join(map(repr, names)) or 'none'}; select these two"
        )
    if not len(batch):
        return _native.Inventory(b"", np.empty(0, np.uint32), np.empty(0, np.uint64))
    place = names.index(_PRETOKEN)
    numbers = batch.column(1 - place)
    pretokens = text_array(batch.column(place), f"column {_PRETOKEN!r}")
    if pretokens.null_count or numbers.null_count or not pa.types.is_integer(numbers.type):
        raise InputError(
            f"counts are texts and whole numbers without nulls, and the table has {pretokens.type} "
            f"with {pretokens.null_count} nulls and {numbers.type} with {numbers.null_count}"
        )
    try:
        counts = numbers.cast(pa.uint64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise InputError(f"a count is below 0 ({error})") from None
    view, spans = memory_of(pretokens)
    lengths = np.diff(spans)[:, 0].astype(np.uint32)
    is_one = (lengths > 0) & (counts > 0)
    if not is_one.all():
        return _inventory(pa, batch.filter(pa.array(is_one)))
    data = np.frombuffer(view, np.uint8)[spans[0, 0] : spans[-1, 1]]
    return _native.Inventory(data, lengths, counts)
