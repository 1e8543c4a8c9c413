"""Documents ↔ Arrow and Parquet: one row per document, in groups of rows.

Columns: `input_ids` (a large list), `length`, `id` and `source`. The last two can be null. A group
has at most 2^20 ids and 2^16 documents. A longer document is alone in a group. So the groups depend
only on the documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ShardError, import_package
from tokenmill.shards.files import HashedFile, Spool, path_of
from tokenmill.shards.shard_format import Rows, ShardFormat, ShardReader, ShardWriter

GROUP_IDS = 1 << 20
GROUP_ROWS = 1 << 16
_PIECE_BYTES = 1 << 23


def pyarrow(module: str = "") -> Any:
    """Import pyarrow or one of its modules."""
    return import_package("pyarrow" + module, "a shard of the format arrow or parquet")


class TableFile(HashedFile):
    """A file for pyarrow. It releases the pages of a long document, mapped from the spool, while it
    writes them: 512 MB of ids needed 590 MB of memory, and need 90."""

    spool: Spool

    @property
    def closed(self) -> bool:
        """Whether the file is closed. pyarrow does not close it."""
        return self._file.closed

    def write(self, data: Any) -> None:
        """Append a buffer."""
        view = memoryview(data)
        for start in range(0, len(view), _PIECE_BYTES):
            super().write(view[start : start + _PIECE_BYTES])
            if len(view) > _PIECE_BYTES:
                self.spool.release()

    def flush(self) -> None:
        """Leave the flush to `finish`."""


class TableWriter(ShardWriter):
    """A writer of groups. A shard format opens a writer of pyarrow for the file with `suffix`."""

    suffix: str

    def _open(self) -> None:
        pa = self._arrow = pyarrow()
        ids = pa.large_list(pa.from_numpy_dtype(self.spec.dtype))
        labels = [("id", pa.string()), ("source", pa.string())]
        self._schema = pa.schema([("input_ids", ids), ("length", pa.int64()), *labels])
        self._file = self._add(TableFile(self.stem, self.suffix))
        # The ids of a document that continues.
        self._spool = self._file.spool = self._add(Spool(self.stem.parent, self._dtype))
        self._writer = self._open_writer()
        self._clear_group()

    def _open_writer(self) -> Any:
        raise NotImplementedError

    def _clear_group(self) -> None:
        self._group: list[Any] = []  # record batches
        self._group_ids = self._group_rows = 0

    def _write(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows) -> None:
        if self._spool.items and len(ends):
            first = int(ends[0])
            self._spool.write(ids[:first])
            document = self._spool.map()
            self._add_documents(document, np.array([len(document)]), rows.slice(0, 1))
            self._spool.clear()
            ids, ends, rows = ids[first:], ends[1:] - first, rows.slice(1, len(ends))
        end = int(ends[-1]) if len(ends) else 0
        self._add_documents(ids[:end], ends, rows)
        if end < len(ids):
            self._spool.write(ids[end:])

    def _add_documents(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows) -> None:
        first = start = 0
        while first < len(ends):
            fits = int(np.searchsorted(ends, start + GROUP_IDS - self._group_ids, "right"))
            last = min(fits, first + GROUP_ROWS - self._group_rows)
            if last <= first and self._group_rows:
                self._end_group()
                continue
            last = max(last, first + 1)
            end = int(ends[last - 1])
            self._add_batch(ids[start:end], ends[first:last] - start, rows.slice(first, last))
            first, start = last, end

    def _add_batch(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows) -> None:
        pa = self._arrow
        is_long = len(ids) > GROUP_IDS
        offsets = np.concatenate([np.zeros(1, np.int64), ends])
        values = pa.array(ids if is_long else ids.copy())  # the caller can reuse its memory
        columns = [
            pa.LargeListArray.from_arrays(pa.array(offsets), values),
            pa.array(np.diff(offsets)),
            self._labels(rows.names, len(ends)),
            self._labels(rows.sources, len(ends)),
        ]
        self._group.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._group_ids += len(ids)
        self._group_rows += len(ends)
        if is_long:
            self._end_group()

    def _labels(self, labels: str | Sequence[str] | None, count: int) -> Any:
        if labels is None or isinstance(labels, str):
            return self._arrow.repeat(self._arrow.scalar(labels, self._arrow.string()), count)
        return self._arrow.array(labels, self._arrow.string())

    def _end_group(self) -> None:
        if self._group:
            table = self._arrow.Table.from_batches(self._group)
            table = table.combine_chunks() if len(self._group) > 1 else table
            self._writer.write_table(table, GROUP_ROWS)
        self._clear_group()

    def _complete(self) -> None:
        self._end_group()
        self._writer.close()

    def discard(self) -> None:
        """Remove the file, finished or not."""
        if not self._file.closed:
            with suppress(OSError):  # pyarrow writes its footer now, and the disk can be full
                self._writer.close()
        super().discard()


class TableReader(ShardReader):
    """A reader of groups. `_first_rows` has the first row of each group, and the number of rows."""

    _first_rows: NDArray[np.int64]

    @property
    def ids(self) -> NDArray[Any]:
        """All ids of the shard; a copy, except of one group."""
        parts = [self._values(group) for group in range(len(self._first_rows) - 1)]
        return (
            parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, self.spec.dtype), *parts])
        )

    def document(self, index: int) -> NDArray[Any]:
        """Return the ids of a document. They are not a copy of those of its group."""
        group = int(np.searchsorted(self._first_rows, index, "right")) - 1
        before = self._start(int(self._first_rows[group]))
        start, end = self.span(index)
        return self._values(group)[start - before : end - before]

    def _values(self, group: int) -> NDArray[Any]:
        with self._damage():
            values: NDArray[Any] = self._lists(group).flatten().to_numpy(zero_copy_only=True)
        first, last = (self._start(int(row)) for row in self._first_rows[group : group + 2])
        if len(values) != last - first:
            raise ShardError(
                f"{self.stem} is damaged: a group has {len(values)} ids, and its column length has "
                f"{last - first}"
            )
        return values

    def _lists(self, group: int) -> Any:
        """Return the column `input_ids` of a group."""
        raise NotImplementedError

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """Turn exceptions of pyarrow into a ShardError."""
        try:
            yield
        except (pyarrow().ArrowException, OSError, UnicodeDecodeError) as error:
            raise ShardError(
                f"{self.stem} is damaged, or has another shard format ({error})"
            ) from None

    def _check(self, schema: Any) -> None:
        pa = pyarrow()
        ids = pa.large_list(pa.from_numpy_dtype(self.spec.dtype))
        for name, kind in (("input_ids", ids), ("length", pa.int64())):
            found = schema.field(name).type if name in schema.names else None
            if found != kind:
                raise ShardError(f"{self.stem} has a column {name} of {found}, not of {kind}")


class Arrow(ShardFormat):
    """Arrow IPC file (Feather 2), not compressed. A group is a record batch."""

    keeps_names = True

    class Writer(TableWriter):
        suffix = ".arrow"

        def _open_writer(self) -> Any:
            return pyarrow(".ipc").new_file(self._file, self._schema)

    class Reader(TableReader):
        def _read(self) -> NDArray[np.int64]:
            with self._damage():
                source = pyarrow().memory_map(str(path_of(self.stem, ".arrow")))
                file = pyarrow(".ipc").open_file(source)
                self._check(file.schema)
                batches = [file.get_batch(index) for index in range(file.num_record_batches)]
                for batch in batches:
                    batch.validate()
            self._columns = [batch.column("input_ids") for batch in batches]
            self._first_rows = np.cumsum([0, *map(len, batches)])
            lengths = [np.asarray(batch.column("length")) for batch in batches]
            return np.cumsum(np.concatenate([np.empty(0, np.int64), *lengths]), dtype=np.int64)

        def _lists(self, group: int) -> Any:
            return self._columns[group]


class Parquet(ShardFormat):
    """Parquet, compressed with zstd. A group is a row group.

    Parquet cannot write a row in pieces. A document is in memory while it is written, and a group
    while one of its documents is read.
    """

    keeps_names = True

    class Writer(TableWriter):
        suffix = ".parquet"

        def _open_writer(self) -> Any:
            return pyarrow(".parquet").ParquetWriter(
                self._file,
                self._schema,
                compression="zstd",
                compression_level=1,
                # Ids are too evenly distributed for a dictionary.
                use_dictionary=["id", "source"],
                write_statistics=["length", "id", "source"],
            )

    class Reader(TableReader):
        def _read(self) -> NDArray[np.int64]:
            with self._damage():
                path = path_of(self.stem, ".parquet")
                self._file = pyarrow(".parquet").ParquetFile(path, memory_map=True)
                self._check(self._file.schema_arrow)
                lengths = self._file.read(["length"]).column("length").to_numpy()
            groups = range(self._file.num_row_groups)
            rows = [self._file.metadata.row_group(group).num_rows for group in groups]
            self._first_rows = np.cumsum([0, *rows])
            self._last: tuple[int, Any] = (-1, None)
            if len(lengths) != sum(rows):
                raise ShardError(
                    f"{self.stem} is damaged: it has {len(lengths)} rows, and its groups "
                    f"{sum(rows)}"
                )
            return np.cumsum(lengths, dtype=np.int64)

        def _lists(self, group: int) -> Any:
            if self._last[0] != group:
                column = self._file.read_row_group(group, ["input_ids"]).column("input_ids")
                lists = column.combine_chunks()
                self._last = (group, lists.chunk(0) if hasattr(lists, "chunk") else lists)
            return self._last[1]
