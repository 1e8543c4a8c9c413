"""Documents → Parquet: a row for each document, a row group for each group.

Parquet has no way to write a row in pieces: a document is in memory while it is written, and a
group while one of its documents is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ShardError
from tokenmill.shards.layouts import tables
from tokenmill.shards.spec import Spec, path_of

KEEPS_NAMES = True


class Writer(tables.Writer):
    """One shard."""

    suffix = ".parquet"

    def _open_writer(self) -> Any:
        parquet = tables.pyarrow("parquet", ".parquet")
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
        self._writer.write_table(table, row_group_size=tables.GROUP_ROWS)


def suffixes(spec: Spec) -> tuple[str, ...]:
    """The files of a shard."""
    return (Writer.suffix,)


def refuse(spec: Spec) -> str | None:
    """Nothing is refused."""
    return None


class Reader(tables.Reader):
    """One shard; the last group that was read is kept."""

    def _read(self) -> NDArray[np.int64]:
        parquet = tables.pyarrow("parquet", ".parquet")
        with self._damage():
            self._file = parquet.ParquetFile(path_of(self.stem, Writer.suffix), memory_map=True)
            self._check(self._file.schema_arrow)
            lengths = self._file.read(["length"]).column("length").to_numpy()
        groups = range(self._file.num_row_groups)
        rows = [self._file.metadata.row_group(group).num_rows for group in groups]
        self._first_rows = np.cumsum([0, *rows])
        self._last: tuple[int, Any] = (-1, None)
        if len(lengths) != sum(rows):
            raise ShardError(f"{self.stem} is damaged: {len(lengths)} rows, and {sum(rows)} rows")
        return np.cumsum(lengths, dtype=np.int64)

    def _lists(self, group: int) -> Any:
        last, lists = self._last
        if last != group:
            column = self._file.read_row_group(group, ["input_ids"]).column("input_ids")
            lists = column.combine_chunks()
            lists = lists.chunk(0) if hasattr(lists, "chunk") else lists
            self._last = (group, lists)
        return lists
