"""Documents → numpy: ids in one `.npy`, ends of documents in another.

Packed sequences are rows of a matrix, and there are no ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tokenmill.shards.files import npy_header
from tokenmill.shards.layouts import base
from tokenmill.shards.spec import File, Spec, path_of


class Writer(base.EndsWriter):
    """One shard."""

    suffix = ".npy"

    def _write_head(self) -> None:
        self._ids.write(self._header())

    def _finish(self) -> list[File]:
        self._ids.patch(self._header())
        return super()._finish()

    def _header(self) -> bytes:
        length = self.spec.sequence_length
        shape = (self.tokens,) if length is None else (self.tokens // length, length)
        return npy_header(self._dtype, shape)


def suffixes(spec: Spec) -> tuple[str, ...]:
    """The files of a shard."""
    return base.ends_suffixes(Writer.suffix, spec)


def refuse(spec: Spec) -> str | None:
    """Nothing is refused."""
    return None


class Reader(base.FlatReader):
    """One shard."""

    def _read(self) -> NDArray[np.int64]:
        self._ids = base.read_npy(path_of(self.stem, Writer.suffix), self.spec.dtype)
        return base.read_ends(self.stem, self.spec, len(self._ids))
