"""Documents → MDS of mosaicml-streaming: a `.mds` for each shard and one `index.json` for all.

A shard: u32 number of samples n, u32[n + 1] where each begins in the file, JSON that describes the
columns, then the samples. There is one column, `tokens`, an array. A packed sequence is its ids and
nothing else, since the column says the length of each; another document has in front of its ids a
u32 of what follows, a byte for one dimension and the width of its length, and the length. What
stands in front needs the number of samples: ids and ends wait in spools. Source:
streaming/base/format/mds of mosaicml-streaming 0.13, whose writer gives the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ShardError
from tokenmill.shards import shard_format as base
from tokenmill.shards.files import File, HashedFile, Spool
from tokenmill.shards.shard_format import Rows, Shard, ShardFormat, Spec, path_of

SUFFIX = ".mds"
INDEX = "index.json"
BYTES_MAX = 2**32 - 1
_BLOCK = 1 << 16
_BLOCK_IDS = 1 << 18


def _head_bytes(lengths: NDArray[np.int64], spec: Spec) -> NDArray[np.int64]:
    """Bytes in front of the ids of each document."""
    return lengths * 0 if spec.sequence_length is not None else 5 + _width(lengths)


def _width(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes in which streaming writes a length: as few as it needs."""
    return np.select([lengths < 1 << 8, lengths < 1 << 16], [1, 2], 4)


def _heads(
    lengths: NDArray[np.int64], itemsize: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes in front of the ids of each document, end to end, and how many for each."""
    width = _width(lengths)
    head = np.zeros((len(lengths), 9), np.uint8)
    head[:, :4] = (1 + width + lengths * itemsize).astype("<u4").view(np.uint8).reshape(-1, 4)
    head[:, 4] = 4 | width // 2  # one dimension, and 0, 1 or 2 for a length of 1, 2 or 4 bytes
    head[:, 5:] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
    return head[np.arange(9) < 5 + width[:, None]], 5 + width


def _config(spec: Spec) -> dict[str, Any]:
    """What each shard says of itself, and `index.json` of each."""
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
    """One file per shard and one index.json."""

    class Writer(base.Writer):
        """One shard."""

        def __init__(self, stem: Path, spec: Spec) -> None:
            super().__init__(stem, spec)
            self._ids = Spool(stem.parent, self._dtype)
            self._ends = Spool(stem.parent, "<i8")
            self._outputs += [self._ids, self._ends]

        def _write_ids(self, ids: NDArray[Any]) -> None:
            self._ids.write(ids)

        def _write_ends(self, ends: NDArray[np.int64], rows: Rows | None) -> None:
            self._ends.write(ends)

        def _finish(self) -> list[File]:
            file = HashedFile(path_of(self.stem, SUFFIX), SUFFIX)
            self._outputs.append(file)
            config = json.dumps(_config(self.spec), sort_keys=True).encode()
            file.write(np.array([self.documents], "<u4"))
            position = 4 + 4 * (self.documents + 1) + len(config)
            file.write(np.array([position], "<u4"))
            for lengths in self._lengths():
                offsets = position + np.cumsum(
                    _head_bytes(lengths, self.spec) + self._size(lengths)
                )
                position = int(offsets[-1])
                if position > BYTES_MAX:
                    raise ShardError(
                        f"mds holds at most 4 GiB in a shard, and {self.stem.name} has more: set a "
                        "smaller --shard-tokens"
                    )
                file.write(offsets.astype("<u4"))
            file.write(config)
            self._write_samples(file)
            files = [file.finish()]
            self._ids.discard()
            self._ends.discard()
            return files

        def _size(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
            return lengths * self._dtype.itemsize

        def _lengths(self) -> Any:
            """Lengths of the documents, in blocks."""
            last = 0
            for ends in self._ends.blocks(_BLOCK):
                yield np.diff(ends, prepend=last)
                last = int(ends[-1])

        def _write_samples(self, file: HashedFile) -> None:
            if self.spec.sequence_length is not None:
                for ids in self._ids.blocks(_BLOCK_IDS):
                    file.write(ids)
                return
            self._ids.rewind()
            for lengths in self._lengths():
                first = 0
                while first < len(lengths):
                    total = np.cumsum(lengths[first:])
                    count = max(1, int(np.searchsorted(total, _BLOCK_IDS, "right")))
                    if total[0] > _BLOCK_IDS:
                        self._write_long(file, int(total[0]))
                    else:
                        file.write(self._samples(lengths[first : first + count]))
                    first += count

        def _write_long(self, file: HashedFile, length: int) -> None:
            """A document of more ids than a block."""
            file.write(_heads(np.array([length], np.int64), self._dtype.itemsize)[0])
            for start in range(0, length, _BLOCK_IDS):
                ids = np.empty(min(_BLOCK_IDS, length - start), self._dtype)
                file.write(self._ids.take(ids))

        def _samples(self, lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
            """The bytes of documents: a head, then ids, for each."""
            ids = self._ids.take(np.empty(int(lengths.sum()), self._dtype))
            heads, widths = _heads(lengths, self._dtype.itemsize)
            sizes = self._size(lengths)
            # For each byte, whether it is of a head: runs of heads and of ids take turns.
            runs = np.stack([widths, sizes], axis=1).reshape(-1)
            of_head = np.repeat(np.tile([True, False], len(lengths)), runs)
            out = np.empty(len(of_head), np.uint8)
            out[of_head] = heads
            out[~of_head] = ids.view(np.uint8)
            return out

    @staticmethod
    def make_index(shards: Sequence[Shard], spec: Spec) -> tuple[str, bytes]:
        """The name and the content of `index.json`, which streaming needs to find shards."""
        rows = []
        for shard in shards:
            data = next(file for file in shard.files if file.suffix == SUFFIX)
            raw = {
                "basename": shard.stem + SUFFIX,
                "bytes": data.bytes,
                "hashes": {"xxh3_64": data.checksum},
            }
            samples = shard.entries(spec.sequence_length)
            rows.append({"raw_data": raw, "samples": samples, "zip_data": None} | _config(spec))
        return INDEX, json.dumps({"shards": rows, "version": 2}, sort_keys=True).encode()

    @staticmethod
    def suffixes(spec: Spec) -> tuple[str, ...]:
        """The files of a shard."""
        return (SUFFIX,)

    @staticmethod
    def refuse(spec: Spec) -> str | None:
        """Nothing is refused."""
        return None

    class Reader(base.Reader):
        """One shard. A document is not copied; `ids`, which lie apart in the file, are."""

        @property
        def ids(self) -> NDArray[Any]:
            """All ids of the shard; a copy, unless it is packed."""
            if not len(self._starts):
                return np.empty(0, self.spec.dtype)
            body = self._raw[int(self._starts[0]) :]
            if self.spec.sequence_length is None:
                sizes = np.diff(self.ends, prepend=0) * np.dtype(self.spec.dtype).itemsize
                # Runs of ids and of the next document's head take turns; no head follows the last.
                heads = np.append(self._starts[1:], len(self._raw)) - self._starts - sizes
                runs = np.stack([sizes, heads], axis=1).reshape(-1)
                body = body[np.repeat(np.tile([True, False], len(sizes)), runs)]
            return body.view(self.spec.dtype)

        def _read(self) -> NDArray[np.int64]:
            path = path_of(self.stem, SUFFIX)
            size = path.stat().st_size
            if size < 8:
                raise ShardError(f"{path} is no shard of MDS: it has {size} bytes")
            self._raw = np.memmap(path, np.uint8, "r").view(np.ndarray)
            count = int(self._raw[:4].view("<u4")[0])
            if size < 4 * (count + 2):
                raise ShardError(f"{path} is cut off: {size:,} bytes for {count:,} samples")
            offsets = self._raw[4 : 4 * (count + 2)].view("<u4").astype(np.int64)
            if int(offsets[-1]) != size or (np.diff(offsets) < 0).any():
                raise ShardError(f"{path} is damaged: its samples do not end where it does")
            self._starts, sizes = offsets[:-1], np.diff(offsets)
            if self.spec.sequence_length is None:
                self._starts = self._starts + self._heads(path, sizes)
            lengths, rest = np.divmod(
                offsets[1:] - self._starts, np.dtype(self.spec.dtype).itemsize
            )
            if rest.any() or (lengths < 0).any():
                raise ShardError(f"{path} is damaged: a sample is no array of {self.spec.dtype}")
            return np.cumsum(lengths)

        def _heads(self, path: Path, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
            """Bytes in front of the ids of each sample, by its byte with the length's width."""
            if (sizes < 6).any():
                raise ShardError(f"{path} is damaged: a sample is too short")
            return 5 + (1 << (self._raw[self._starts + 4] & 3).astype(np.int64))

        def document(self, index: int) -> NDArray[Any]:
            """The ids of a document."""
            start, end = self.span(index)
            first = int(self._starts[index])
            size = (end - start) * np.dtype(self.spec.dtype).itemsize
            return self._raw[first : first + size].view(self.spec.dtype)
