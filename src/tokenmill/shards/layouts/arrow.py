"""Documents → an Arrow file (`.arrow`, Feather 2): a row for each one, a batch for each group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.shards.layouts import tables
from tokenmill.shards.spec import Spec, path_of


class Writer(tables.Writer):
    """One shard."""

    suffix = ".arrow"

    def _open_writer(self) -> Any:
        ipc = tables.pyarrow("arrow", ".ipc")
        return ipc.new_file(self._file, self._schema)

    def _write_group(self, table: Any) -> None:
        self._writer.write_table(table)


def suffixes(spec: Spec) -> tuple[str, ...]:
    """The files of a shard."""
    return (Writer.suffix,)


def refuse(spec: Spec) -> str | None:
    """Nothing is refused."""
    return None


class Reader(tables.Reader):
    """One shard; documents are not copied."""

    def _read(self) -> NDArray[np.int64]:
        pa, ipc = tables.pyarrow("arrow"), tables.pyarrow("arrow", ".ipc")
        with self._damage():
            file = ipc.open_file(pa.memory_map(str(path_of(self.stem, Writer.suffix))))
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
