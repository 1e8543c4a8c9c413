"""Documents → an Arrow file (`.arrow`, Feather 2): a row for each one, a batch for each group."""

from __future__ import annotations

from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tokenmill.shards.files import Spool
from tokenmill.shards.layouts import tables
from tokenmill.shards.spec import Spec, path_of

_PIECE_BYTES = 1 << 23

KEEPS_NAMES = True


class Writer(tables.Writer):
    """One shard."""

    suffix = ".arrow"

    def _open_writer(self) -> Any:
        ipc = tables.pyarrow("arrow", ".ipc")
        return ipc.new_file(Draining(self._file, self._spool), self._schema)

    def _write_group(self, table: Any) -> None:
        self._writer.write_table(table)


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
