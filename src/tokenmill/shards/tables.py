"""Documents → groups of rows: what Arrow and Parquet share.

Columns: `input_ids` (a large list), `length`, and `id` and `source`, null where they are not known.
A group takes documents as long as they are at most 2^20 ids together and 2^16 of them; a longer
document has a group of its own. So groups depend on the documents alone.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import MissingExtraError, ShardError
from tokenmill.shards import shard_format as base
from tokenmill.shards.files import File, Spool, checksum_file
from tokenmill.shards.shard_format import Rows, ShardFormat, Spec, path_of

GROUP_IDS = 1 << 20
GROUP_ROWS = 1 << 16


def pyarrow(layout: str, part: str = "") -> Any:
    """pyarrow or a part of it."""
    try:
        return importlib.import_module("pyarrow" + part)
    except ImportError:
        raise MissingExtraError(
            f'the layout {layout} needs pyarrow: pip install "tokenmill[parquet]"'
        ) from None


class TableWriter(base.Writer):
    """One shard in groups. A layout opens a writer of pyarrow for the file `suffix`."""

    suffix = ""

    def __init__(self, stem: Path, spec: Spec) -> None:
        super().__init__(stem, spec)
        self._arrow = pyarrow(self.suffix[1:])
        pa = self._arrow
        self._schema = pa.schema(
            [
                ("input_ids", pa.large_list(pa.from_numpy_dtype(spec.dtype))),
                ("length", pa.int64()),
                ("id", pa.string()),
                ("source", pa.string()),
            ]
        )
        self._path = path_of(stem, self.suffix)
        self._file = self._path.open("wb")
        self._spool = Spool(stem.parent, self._dtype)  # of a document that continues
        self._writer = self._open_writer()
        self._group: list[Any] = []  # record batches
        self._group_ids = self._group_rows = 0

    def _open_writer(self) -> Any:
        raise NotImplementedError

    def append(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows | None = None) -> None:
        """Write ids. A document that continues is in the spool until its end comes."""
        ids = self._checked(ids)
        whole = int(ends[-1]) if len(ends) else 0
        if self._spool.items and len(ends):
            self._spool.write(ids[: int(ends[0])])
            self._end_spooled(None if rows is None else rows.slice(0, 1))
            rest = None if rows is None else rows.slice(1, len(ends))
            self._append_whole(ids[int(ends[0]) : whole], ends[1:] - ends[0], rest)
        else:
            self._append_whole(ids[:whole], ends, rows)
        if whole < len(ids):
            self._spool.write(ids[whole:])
        self.tokens += len(ids)
        self.documents += len(ends)

    def _end_spooled(self, rows: Rows | None) -> None:
        ids = self._spool.map()
        self._append_whole(ids, np.array([len(ids)], np.int64), rows)
        if len(ids) > GROUP_IDS:
            self._flush()  # it is alone in its group: the spool can be cleared
        self._spool.clear()

    def _append_whole(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows | None) -> None:
        first = 0
        while first < len(ends):
            begin = int(ends[first - 1]) if first else 0
            fits = int(np.searchsorted(ends, begin + GROUP_IDS - self._group_ids, "right"))
            last = min(fits, first + GROUP_ROWS - self._group_rows)
            if last <= first:  # not even one
                if self._group_rows:
                    self._flush()
                    continue
                last = first + 1
            part = ids[begin : int(ends[last - 1])]
            self._put(part, ends[first:last] - begin, rows, first)
            first = last

    def _put(
        self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows | None, first: int
    ) -> None:
        """Documents into the group; they are those of `rows` from the `first` on."""
        pa = self._arrow
        if len(ids) <= GROUP_IDS:
            ids = ids.copy()  # the caller's memory is not ours to keep
        offsets = np.concatenate([np.zeros(1, np.int64), ends])
        lists = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids))
        part = slice(first, first + len(ends))
        names = sources = pa.nulls(len(ends), pa.string())
        if rows is not None and rows.names is not None:
            names = pa.array(rows.names[part], pa.string())
        if rows is not None and isinstance(rows.sources, str):
            sources = pa.repeat(pa.scalar(rows.sources, pa.string()), len(ends))
        elif rows is not None:
            sources = pa.array(rows.sources[part], pa.string())
        columns = [lists, pa.array(np.diff(offsets)), names, sources]
        self._group.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._group_ids += len(ids)
        self._group_rows += len(ends)

    def _flush(self) -> None:
        if self._group_rows:
            table = self._arrow.Table.from_batches(self._group)
            self._write_group(table.combine_chunks() if len(self._group) > 1 else table)
        self._group, self._group_ids, self._group_rows = [], 0, 0

    def _write_group(self, table: Any) -> None:
        raise NotImplementedError

    def _finish(self) -> list[File]:
        self._flush()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._spool.discard()
        return [File(self.suffix, self._path.stat().st_size, checksum_file(self._path))]

    def discard(self) -> None:
        """The file is gone."""
        self._group = []
        self._spool.discard()
        if not self._file.closed:
            # pyarrow writes its footer even when it is thrown away; a full disk is no matter here.
            with suppress(OSError):
                self._writer.close()
            with suppress(OSError):
                self._file.close()
        self._path.unlink(missing_ok=True)


class TableReader(base.Reader):
    """One shard. `_lists(group)` gives the column of a group, `_first_rows` where each
    group begins."""

    _first_rows: NDArray[np.int64]

    @property
    def ids(self) -> NDArray[Any]:
        """All ids of the shard; a copy, unless there is one group."""
        parts = [self._values(group) for group in range(len(self._first_rows) - 1)]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([np.empty(0, self.spec.dtype), *parts])

    def document(self, index: int) -> NDArray[Any]:
        """The ids of a document, as they lie in its group."""
        group = int(np.searchsorted(self._first_rows, index, "right")) - 1
        first = int(self._first_rows[group])
        before = int(self.ends[first - 1]) if first else 0
        start, end = self.span(index)
        return self._values(group)[start - before : end - before]

    def _values(self, group: int) -> NDArray[Any]:
        with self._damage():
            values: NDArray[Any] = self._lists(group).flatten().to_numpy(zero_copy_only=True)
        first, last = (int(row) for row in self._first_rows[group : group + 2])
        count = int(self.ends[last - 1]) - (int(self.ends[first - 1]) if first else 0)
        if len(values) != count:
            raise ShardError(
                f"{self.stem} is damaged: {count} ids by its column length, and {len(values)} ids"
            )
        return values

    def _lists(self, group: int) -> Any:
        """The column `input_ids` of a group."""
        raise NotImplementedError

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """Whatever pyarrow says of a damaged file, said in our way."""
        try:
            yield
        except (pyarrow("arrow").ArrowException, OSError, UnicodeDecodeError) as error:
            raise ShardError(f"{self.stem} is damaged, or of another layout ({error})") from None

    def _check(self, schema: Any) -> None:
        pa = pyarrow("arrow")
        found = schema.field("input_ids").type if "input_ids" in schema.names else None
        item = pa.from_numpy_dtype(self.spec.dtype)
        if found is None or not pa.types.is_large_list(found) or found.value_type != item:
            raise ShardError(
                f"{self.stem}: its column input_ids is {found}, and not a large list of {item}"
            )
        if "length" not in schema.names or schema.field("length").type != pa.int64():
            raise ShardError(f"{self.stem} has no column length of int64")


_PIECE_BYTES = 1 << 23


class Draining:
    """A file for pyarrow that takes a long document, mapped from its spool, a few pages at a time,
    and lets go of those that it has written: 512 MB of ids took 590 MB of memory, and take 90."""

    def __init__(self, file: BinaryIO, spool: Spool) -> None:
        self._file, self._spool = file, spool

    @property
    def closed(self) -> bool:
        """Whether the file is closed, which is not pyarrow's to do."""
        return self._file.closed

    def write(self, data: Any) -> int:
        """All of `data`."""
        view = memoryview(data)
        for start in range(0, len(view), _PIECE_BYTES):
            self._file.write(view[start : start + _PIECE_BYTES])
            if len(view) > _PIECE_BYTES:
                self._spool.let_go()
        return len(view)

    def flush(self) -> None:
        """Hands what is buffered to the system."""
        self._file.flush()


class Arrow(ShardFormat):
    """Documents → an Arrow file (`.arrow`, Feather 2): a row for each, a batch for each group."""

    KEEPS_NAMES = True

    class Writer(TableWriter):
        """One shard."""

        suffix = ".arrow"

        def _open_writer(self) -> Any:
            ipc = pyarrow("arrow", ".ipc")
            return ipc.new_file(Draining(self._file, self._spool), self._schema)

        def _write_group(self, table: Any) -> None:
            self._writer.write_table(table)

    @staticmethod
    def suffixes(spec: Spec) -> tuple[str, ...]:
        """The files of a shard."""
        return (Arrow.Writer.suffix,)

    @staticmethod
    def refuse(spec: Spec) -> str | None:
        """Nothing is refused."""
        return None

    class Reader(TableReader):
        """One shard; documents are not copied."""

        def _read(self) -> NDArray[np.int64]:
            pa, ipc = pyarrow("arrow"), pyarrow("arrow", ".ipc")
            with self._damage():
                file = ipc.open_file(pa.memory_map(str(path_of(self.stem, Arrow.Writer.suffix))))
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
    """Documents → Parquet: a row for each document, a row group for each group.

    Parquet has no way to write a row in pieces: a document is in memory while it is written, and a
    group while one of its documents is read.
    """

    KEEPS_NAMES = True

    class Writer(TableWriter):
        """One shard."""

        suffix = ".parquet"

        def _open_writer(self) -> Any:
            parquet = pyarrow("parquet", ".parquet")
            return parquet.ParquetWriter(
                self._file,
                self._schema,
                compression="zstd",
                compression_level=1,
                # Ids are spread too evenly for a dictionary of them to be worth its time.
                use_dictionary=["id", "source"],
                write_statistics=["length", "id", "source"],
            )

        def _write_group(self, table: Any) -> None:
            self._writer.write_table(table, row_group_size=GROUP_ROWS)

    @staticmethod
    def suffixes(spec: Spec) -> tuple[str, ...]:
        """The files of a shard."""
        return (Parquet.Writer.suffix,)

    @staticmethod
    def refuse(spec: Spec) -> str | None:
        """Nothing is refused."""
        return None

    class Reader(TableReader):
        """One shard; the last group that was read is kept."""

        def _read(self) -> NDArray[np.int64]:
            parquet = pyarrow("parquet", ".parquet")
            with self._damage():
                self._file = parquet.ParquetFile(
                    path_of(self.stem, Parquet.Writer.suffix), memory_map=True
                )
                self._check(self._file.schema_arrow)
                lengths = self._file.read(["length"]).column("length").to_numpy()
            groups = range(self._file.num_row_groups)
            rows = [self._file.metadata.row_group(group).num_rows for group in groups]
            self._first_rows = np.cumsum([0, *rows])
            self._last: tuple[int, Any] = (-1, None)
            if len(lengths) != sum(rows):
                raise ShardError(
                    f"{self.stem} is damaged: {len(lengths)} rows, and {sum(rows)} rows"
                )
            return np.cumsum(lengths, dtype=np.int64)

        def _lists(self, group: int) -> Any:
            last, lists = self._last
            if last != group:
                column = self._file.read_row_group(group, ["input_ids"]).column("input_ids")
                lists = column.combine_chunks()
                lists = lists.chunk(0) if hasattr(lists, "chunk") else lists
                self._last = (group, lists)
            return lists
