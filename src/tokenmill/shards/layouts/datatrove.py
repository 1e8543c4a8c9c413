"""Documents → datatrove and nanotron: a `.ds` of ids, a `.ds.index`, a `.ds.metadata`.

The index is u64 ends of the documents without a header; the metadata is three lines of text:
`tokenizer|bytes of an id`, the number of ids, and the same as people say it. Source:
datatrove/pipeline/tokens/tokenizer.py of datatrove 0.10.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokenmill.shards.files import HashedFile
from tokenmill.shards.layouts import base
from tokenmill.shards.spec import File, Rows, Spec, path_of

INDEX_SUFFIX = ".ds.index"
METADATA_SUFFIX = ".ds.metadata"


class Writer(base.FlatWriter):
    """One shard."""

    suffix = ".ds"

    def __init__(self, stem: Path, spec: Spec) -> None:
        super().__init__(stem, spec)
        self._index = HashedFile(path_of(stem, INDEX_SUFFIX), INDEX_SUFFIX)
        self._outputs.append(self._index)

    def _write_ends(self, ends: NDArray[np.int64], rows: Rows | None) -> None:
        self._index.write(ends.astype("<u8"))

    def _finish(self) -> list[File]:
        metadata = HashedFile(path_of(self.stem, METADATA_SUFFIX), METADATA_SUFFIX)
        self._outputs.append(metadata)
        name = self.spec.tokenizer or "Unknown Tokenizer"
        lines = (f"{name}|{self._dtype.itemsize}", str(self.tokens), metric(self.tokens))
        metadata.write("\n".join(lines).encode())
        return [self._ids.finish(), self._index.finish(), metadata.finish()]


def metric(tokens: int) -> str:
    """Three digits and a prefix, such as 1.23 MT, as `humanize.metric(tokens, unit="T")` of
    humanize 4.17 returns them."""
    exponent = math.floor(math.log10(tokens)) if tokens else 0
    value = tokens / 10 ** (exponent // 3 * 3)
    if round(value, 2 - exponent % 3) >= 10 ** (exponent % 3 + 1):  # 9.999 rounds to 10.0
        exponent += 1
        value /= 1000 if exponent % 3 == 0 else 1
    return f"{value:.{2 - exponent % 3}f} {' kMGTPE'[exponent // 3].strip()}T"


def suffixes(spec: Spec) -> tuple[str, ...]:
    """The files of a shard."""
    return (Writer.suffix, INDEX_SUFFIX, METADATA_SUFFIX)


def refuse(spec: Spec) -> str | None:
    """Nothing is refused."""
    return None


class Reader(base.FlatReader):
    """One shard."""

    def _read(self) -> NDArray[np.int64]:
        self._ids = base.read_flat(path_of(self.stem, Writer.suffix), self.spec.dtype)
        ends = base.read_flat(path_of(self.stem, INDEX_SUFFIX), "uint64")
        return base.checked_ends(ends, len(self._ids), self.stem)
