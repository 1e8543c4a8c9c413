"""Documents ↔ MDS of mosaicml-streaming: one `.mds` per shard, and one `index.json` for all.

A shard: u32 number of samples n, u32[n + 1] offsets of the samples, JSON that describes the
columns, then the samples. The only column is `tokens`, an array. A packed sequence is only its ids,
because the column has their number. The ids of another document follow a head: u32 number of the
following bytes, u8 for one dimension and the width of the length, and the length. The offsets need
the number of samples, so ids and ends are in spools until the end. Source:
streaming/base/format/mds of mosaicml-streaming 0.13. Its writer writes the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ShardError
from tokenmill.shards.files import HashedFile, Spool, path_of
from tokenmill.shards.shard_format import Rows, Shard, ShardFormat, ShardReader, ShardWriter, Spec

SUFFIX = ".mds"
BYTES_MAX = 2**32 - 1
_BLOCK = 1 << 16
_BLOCK_IDS = 1 << 18


def _width(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of bytes of each length: 1, 2 or 4."""
    return np.select([lengths < 1 << 8, lengths < 1 << 16], [1, 2], 4)


def _heads(
    lengths: NDArray[np.int64], itemsize: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the heads of documents, concatenated, and the size of each."""
    width = _width(lengths)
    head = np.zeros((len(lengths), 9), np.uint8)
    head[:, :4] = (1 + width + lengths * itemsize).astype("<u4").view(np.uint8).reshape(-1, 4)
    head[:, 4] = 4 | width // 2  # one dimension, and 0, 1 or 2 for a length of 1, 2 or 4 bytes
    head[:, 5:] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
    return head[np.arange(9) < 5 + width[:, None]], 5 + width


def _alternate(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of bytes: runs of True and False in turn, with these sizes."""
    runs = np.stack([first, second], axis=1).reshape(-1)
    return np.repeat(np.tile([True, False], len(first)), runs)


def _config(spec: Spec) -> dict[str, Any]:
    """Return the description of the columns, which is in each shard and in `index.json`."""
    fixed = spec.sequence_length
    size = None if fixed is None else fixed * np.dtype(spec.dtype).itemsize
    return {
        "column_encodings": [f"ndarray:{spec.dtype}" + ("" if fixed is None else f":{fixed}")],
        "column_names": ["tokens"],
        "column_sizes": [size],
        "compression": None,
        "format": "mds",
        "hashes": ["xxh3_64"],
        "size_limit": None,
        "version": 2,
    }


class MDS(ShardFormat):
    """A format with one file per shard."""

    class Writer(ShardWriter):
        def _open(self) -> None:
            self._ids = self._add(Spool(self.stem.parent, self._dtype))
            self._ends = self._add(Spool(self.stem.parent, "<i8"))

        def _write(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows) -> None:
            self._ids.write(ids)
            self._ends.write(ends + self.tokens)

        def _complete(self) -> None:
            packed = self.spec.sequence_length
            file = self._add(HashedFile(self.stem, SUFFIX))
            config = json.dumps(_config(self.spec), sort_keys=True).encode()
            position = 4 + 4 * (self.documents + 1) + len(config)
            file.write(np.array([self.documents, position], "<u4"))
            last = 0
            for ends in self._ends.blocks(_BLOCK):
                lengths = np.diff(ends, prepend=last)
                heads = 0 if packed else 5 + _width(lengths)
                offsets = position + np.cumsum(heads + lengths * self._dtype.itemsize)
                last, position = int(ends[-1]), int(offsets[-1])
                if position > BYTES_MAX:
                    raise ShardError(
                        f"{self.stem.name} is too large; mds supports at most 4 GiB per shard, "
                        "so set a smaller --shard-tokens"
                    )
                file.write(offsets.astype("<u4"))
            file.write(config)
            samples = self._samples() if packed is None else self._ids.blocks(_BLOCK_IDS)
            for block in samples:
                file.write(block)

        def _samples(self) -> Iterator[NDArray[Any]]:
            """Yield the heads and ids of documents, in blocks."""
            ids, ends = self._ids.map(), self._ends.map()
            first = start = 0
            while first < len(ends):
                fits = int(np.searchsorted(ends, start + _BLOCK_IDS, "right"))
                last = max(first + 1, min(fits, first + _BLOCK))
                end = int(ends[last - 1])
                lengths = np.diff(ends[first:last], prepend=start)
                heads, widths = _heads(lengths, self._dtype.itemsize)
                if end - start <= _BLOCK_IDS:
                    of_head = _alternate(widths, lengths * self._dtype.itemsize)
                    out = np.empty(len(of_head), np.uint8)
                    out[of_head] = heads
                    out[~of_head] = ids[start:end].view(np.uint8)
                    yield out
                else:  # one document
                    yield heads
                    for at in range(start, end, _BLOCK_IDS):
                        yield ids[at : min(at + _BLOCK_IDS, end)]
                        self._ids.release()
                self._ids.release()
                self._ends.release()
                first, start = last, end

    class Reader(ShardReader):
        @property
        def ids(self) -> NDArray[Any]:
            """All ids of the shard; a copy, except of packed shards."""
            if not len(self._starts):
                return np.empty(0, self.spec.dtype)
            body = self._raw[int(self._starts[0]) :]
            if self.spec.sequence_length is None:
                sizes = np.diff(self.ends, prepend=0) * np.dtype(self.spec.dtype).itemsize
                # The head of the next document follows the ids, except for the last.
                heads = np.append(self._starts[1:], len(self._raw)) - self._starts - sizes
                body = body[_alternate(sizes, heads)]
            return body.view(self.spec.dtype)

        def document(self, index: int) -> NDArray[Any]:
            """Return the ids of a document, mapped."""
            start, end = self.span(index)
            first = int(self._starts[index])
            size = (end - start) * np.dtype(self.spec.dtype).itemsize
            return self._raw[first : first + size].view(self.spec.dtype)

        def _read(self) -> NDArray[np.int64]:
            path = path_of(self.stem, SUFFIX)
            size = path.stat().st_size
            if size < 8:
                raise ShardError(f"{path} is not a shard of MDS: it has {size} bytes")
            self._raw = np.memmap(path, np.uint8, "r").view(np.ndarray)
            count = int(self._raw[:4].view("<u4")[0])
            if size < 4 * (count + 2):
                raise ShardError(f"{path} is cut off: it has {size:,} bytes for {count:,} samples")
            offsets = self._raw[4 : 4 * (count + 2)].view("<u4").astype(np.int64)
            sizes = np.diff(offsets)
            if int(offsets[-1]) != size or (sizes < 0).any():
                raise ShardError(
                    f"{path} is damaged: its samples do not end at the end of the file"
                )
            self._starts = offsets[:-1]
            if self.spec.sequence_length is None:
                if (sizes < 6).any():
                    raise ShardError(f"{path} is damaged: a sample is too short")
                widths = self._raw[self._starts + 4] & 3
                self._starts = self._starts + 5 + (1 << widths.astype(np.int64))
            lengths, rest = np.divmod(
                offsets[1:] - self._starts, np.dtype(self.spec.dtype).itemsize
            )
            if rest.any() or (lengths < 0).any():
                raise ShardError(
                    f"{path} is damaged: a sample is not an array of {self.spec.dtype}"
                )
            return np.cumsum(lengths)

    @staticmethod
    def make_index(shards: Sequence[Shard], spec: Spec) -> tuple[str, bytes]:
        """Return `index.json`. streaming finds the shards with it."""
        rows = []
        for shard in shards:
            file = next(file for file in shard.files if file.suffix == SUFFIX)
            raw = {
                "basename": shard.stem + SUFFIX,
                "bytes": file.bytes,
                "hashes": {"xxh3_64": file.checksum},
            }
            samples = shard.entries(spec.sequence_length)
            rows.append({"raw_data": raw, "samples": samples, "zip_data": None} | _config(spec))
        return "index.json", json.dumps({"shards": rows, "version": 2}, sort_keys=True).encode()
