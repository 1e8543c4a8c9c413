"""Documents → Megatron: a `.bin` of ids and an `.idx` that says where documents are.

The `.idx`: `MMIDIDX\\0\\0`, u64 version 1, u8 code of the dtype, u64 number of sequences S, u64
number of documents and one, then i32[S] lengths, i64[S] byte offsets, i64[S + 1] 0, 1, …, S. Its
34 bytes of header leave the arrays unaligned. Each document is one sequence. Megatron has no u32:
such ids are its i32. Source: megatron/core/datasets/indexed_dataset.py of megatron-core 0.16.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ShardError
from tokenmill.shards.files import HashedFile, Spool
from tokenmill.shards.layouts import base
from tokenmill.shards.spec import File, Rows, Spec, path_of

INDEX_SUFFIX = ".idx"
HEADER = struct.Struct("<9sQBQQ")
MAGIC = b"MMIDIDX\0\0"
# dtype → Megatron's code of what is written for it
CODES = {"uint16": 8, "uint32": 4}
_BLOCK = 1 << 16


class Writer(base.FlatWriter):
    """One shard."""

    def __init__(self, stem: Path, spec: Spec) -> None:
        super().__init__(stem, spec)
        self._ends = Spool(stem.parent, "<i8")
        self._outputs.append(self._ends)

    def _write_ends(self, ends: NDArray[np.int64], rows: Rows | None) -> None:
        self._ends.write(ends)

    def _finish(self) -> list[File]:
        count = self.documents
        index = HashedFile(path_of(self.stem, INDEX_SUFFIX), INDEX_SUFFIX)
        self._outputs.append(index)
        index.write(HEADER.pack(MAGIC, 1, CODES[self.spec.dtype], count, count + 1))
        for starts, ends in self._spans():
            lengths = ends - starts
            if int(lengths.max()) > 2**31 - 1:
                raise ShardError(
                    f"megatron holds documents of at most 2^31 − 1 ids, and one of "
                    f"{self.stem.name} has {int(lengths.max()):,}: cut it, or use datatrove"
                )
            index.write(lengths.astype("<i4"))
        for starts, _ in self._spans():
            index.write(starts * self._dtype.itemsize)
        for start in range(0, count + 1, _BLOCK):
            index.write(np.arange(start, min(start + _BLOCK, count + 1), dtype="<i8"))
        files = [self._ids.finish(), index.finish()]
        self._ends.discard()
        return files

    def _spans(self) -> Any:
        """Starts and ends of the documents, in blocks."""
        last = 0
        for ends in self._ends.blocks(_BLOCK):
            yield np.concatenate([np.array([last], "<i8"), ends[:-1]]), ends
            last = int(ends[-1])


def suffixes(spec: Spec) -> tuple[str, ...]:
    """The files of a shard."""
    return (Writer.suffix, INDEX_SUFFIX)


def refuse(spec: Spec) -> str | None:
    """Why this layout cannot hold it, or None."""
    if spec.vocab_size > 2**31:
        return f"megatron holds ids below 2^31, and {spec.tokenizer} has {spec.vocab_size:,}"
    return None


class Reader(base.FlatReader):
    """One shard."""

    def _read(self) -> NDArray[np.int64]:
        path = path_of(self.stem, INDEX_SUFFIX)
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(HEADER.size)
        if len(head) < HEADER.size or not head.startswith(MAGIC):
            raise ShardError(f"{path} is no index of Megatron")
        _, version, code, count, documents = HEADER.unpack(head)
        if version != 1 or code != CODES[self.spec.dtype] or documents != count + 1:
            raise ShardError(
                f"{path} has version {version}, dtype code {code}, {count} sequences and "
                f"{documents - 1} documents: not what tokenmill writes for {self.spec.dtype}"
            )
        if size != HEADER.size + 12 * count + 8 * documents:
            raise ShardError(f"{path} is cut off: {size:,} bytes are no index of {count:,}")
        # The arrays are unaligned, and an end is a start and a length: 8 bytes for a document.
        raw = np.memmap(path, np.uint8, "r")
        lengths = np.frombuffer(raw, "<i4", count, HEADER.size)
        ends = np.cumsum(lengths, dtype=np.int64)
        self._ids = base.read_flat(path_of(self.stem, Writer.suffix), self.spec.dtype)
        return base.checked_ends(ends, len(self._ids), self.stem)
