"""Documents ↔ flat shard formats: the ids of all documents in one file, without gaps."""

from __future__ import annotations

import csv
import gzip
import io
import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ShardError
from tokenmill.shards.files import File, HashedFile, NpyFile, Spool, path_of, read_flat, read_npy
from tokenmill.shards.shard_format import Rows, ShardFormat, ShardReader, ShardWriter, Spec

ENDS_SUFFIX = ".ends.npy"
NARROW_IDS = 1 << 16  # the number of ids of uint16
_BLOCK = 1 << 16
_OLMO_BLOCK_ROWS = 1 << 12
_GZIP_BLOCK_BYTES = 1 << 16
# All line ends of str.splitlines become spaces.
_LINE_ENDS = str.maketrans("\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", " " * 10)


class FlatWriter(ShardWriter):
    """Ids go to the file with `suffix`, and document ends to a `.npy` file next to it.

    Packed shards need no ends. A shard format may have another file or spool of ends.
    """

    suffix = ".bin"

    def _open(self) -> None:
        self._ids = self._add(self._create_ids())
        self._open_ends()

    def _create_ids(self) -> HashedFile:
        return HashedFile(self.stem, self.suffix)

    def _open_ends(self) -> None:
        self._ends: HashedFile | Spool | None = None
        if self.spec.sequence_length is None:
            self._ends = self._add(NpyFile(self.stem, ENDS_SUFFIX, "<i8"))

    def _write(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows) -> None:
        self._ids.write(ids)
        if len(ends):
            self._write_ends(ends + self.tokens, rows)

    def _write_ends(self, ends: NDArray[np.int64], rows: Rows) -> None:
        """Write ends of documents, counted from the first id of the shard."""
        if self._ends is not None:
            self._ends.write(ends)


class FlatReader(ShardReader):
    """The reader for a `FlatWriter`."""

    suffix = ".bin"

    @property
    def ids(self) -> NDArray[Any]:
        """All ids of the shard, mapped."""
        return self._ids

    def document(self, index: int) -> NDArray[Any]:
        """Return the ids of a document, mapped."""
        return self.stretch(*self.span(index))

    def stretch(self, start: int, end: int) -> NDArray[Any]:
        """Return the ids from one position to another, mapped."""
        return self._ids[start:end]

    def _read(self) -> NDArray[np.int64]:
        self._ids = self._read_ids(path_of(self.stem, self.suffix))
        ends = self._read_ends()
        last = int(ends[-1]) if len(ends) else 0
        if last != len(self._ids):
            raise ShardError(
                f"{self.stem} has documents up to id {last} and {len(self._ids)} ids: its files "
                "can be of two runs"
            )
        return ends.view(np.int64)

    def _read_ids(self, path: Path) -> NDArray[Any]:
        return read_flat(path, self.spec.dtype)

    def _read_ends(self) -> NDArray[Any]:
        length = self.spec.sequence_length
        if length is None:
            return read_npy(path_of(self.stem, ENDS_SUFFIX), "int64")
        return np.arange(length, len(self._ids) + 1, length, dtype=np.int64)


class Megatron(ShardFormat):
    r"""Megatron-LM: ids in `.bin` and an index in `.idx`.

    The index: `MMIDIDX\0\0`, u64 version 1, u8 code of the dtype, u64 number of sequences S, u64
    number of documents and 1, then i32[S] lengths, i64[S] byte offsets, i64[S + 1] 0, 1, …, S. The
    arrays are not aligned, because the header has 34 bytes. Each document is one sequence. Megatron
    does not have u32, so these ids are i32. Source: megatron/core/datasets/indexed_dataset.py of
    megatron-core 0.16.
    """

    INDEX = ".idx"
    HEADER = struct.Struct("<9sQBQQ")
    CODES: ClassVar = {"uint16": 8, "uint32": 4}

    @staticmethod
    def make_header(spec: Spec, count: int) -> bytes:
        """Return the header of an index of `count` documents."""
        code = Megatron.CODES[spec.dtype]
        return Megatron.HEADER.pack(b"MMIDIDX\0\0", 1, code, count, count + 1)

    class Writer(FlatWriter):
        def _open_ends(self) -> None:
            self._ends = self._spool = self._add(Spool(self.stem.parent, "<i8"))

        def _complete(self) -> None:
            count = self.documents
            index = self._add(HashedFile(self.stem, Megatron.INDEX))
            index.write(Megatron.make_header(self.spec, count))
            for starts, ends in self._spans():
                longest = int((ends - starts).max())
                if longest > 2**31 - 1:
                    raise ShardError(
                        f"{self.stem.name} has a document of {longest:,} ids, and the limit of "
                        "megatron is 2^31 − 1; split the document, or use datatrove"
                    )
                index.write((ends - starts).astype("<i4"))
            for starts, _ in self._spans():
                index.write(starts * self._dtype.itemsize)
            for start in range(0, count + 1, _BLOCK):
                index.write(np.arange(start, min(start + _BLOCK, count + 1), dtype="<i8"))

        def _spans(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
            """Yield starts and ends of documents, in blocks."""
            last = 0
            for ends in self._spool.blocks(_BLOCK):
                yield np.concatenate([np.array([last], "<i8"), ends[:-1]]), ends
                last = int(ends[-1])

    class Reader(FlatReader):
        def _read_ends(self) -> NDArray[Any]:
            path, header_bytes = path_of(self.stem, Megatron.INDEX), Megatron.HEADER.size
            with path.open("rb") as file:
                head = file.read(header_bytes)
            count = int.from_bytes(head[18:26], "little")
            if count >= 1 << 48 or head != Megatron.make_header(self.spec, count):
                raise ShardError(f"{path} is not an index of Megatron for ids of {self.spec.dtype}")
            size = path.stat().st_size
            if size != header_bytes + 12 * count + 8 * (count + 1):
                raise ShardError(f"{path} is cut off: it has {size:,} bytes for {count:,} entries")
            raw = np.memmap(path, np.uint8, "r")
            # The offsets are not aligned, so ends are sums of the lengths.
            return np.cumsum(np.frombuffer(raw, "<i4", count, header_bytes), dtype=np.int64)

    @staticmethod
    def refuse(spec: Spec) -> str | None:
        """Reject ids beyond i32."""
        if spec.vocab_size <= 2**31:
            return None
        return f"{spec.tokenizer} has {spec.vocab_size:,} ids; megatron supports ids below 2^31"


class Datatrove(ShardFormat):
    """datatrove and nanotron: ids in `.ds`, an index in `.ds.index`, and `.ds.metadata`.

    The index is u64 document ends without a header. The metadata is three lines of text:
    `tokenizer|bytes of an id`, the number of ids, and the same with a metric prefix. Source:
    datatrove/pipeline/tokens/tokenizer.py of datatrove 0.10.
    """

    class Writer(FlatWriter):
        suffix = ".ds"

        def _open_ends(self) -> None:
            self._ends = self._add(HashedFile(self.stem, ".ds.index"))

        def _complete(self) -> None:
            name = self.spec.tokenizer or "Unknown Tokenizer"
            lines = (f"{name}|{self._dtype.itemsize}", str(self.tokens), metric(self.tokens))
            metadata = self._add(HashedFile(self.stem, ".ds.metadata"))
            metadata.write("\n".join(lines).encode())

    class Reader(FlatReader):
        suffix = ".ds"

        def _read_ends(self) -> NDArray[Any]:
            return read_flat(path_of(self.stem, ".ds.index"), "uint64")


def metric(tokens: int) -> str:
    """Return three digits and a prefix, such as 1.23 MT, as `humanize.metric(tokens, unit="T")` of
    humanize 4.17."""
    exponent = math.floor(math.log10(tokens)) if tokens else 0
    value = tokens / 10 ** (exponent // 3 * 3)
    if round(value, 2 - exponent % 3) >= 10 ** (exponent % 3 + 1):  # 9.999 rounds to 10.0
        exponent += 1
        value /= 1000 if exponent % 3 == 0 else 1
    return f"{value:.{2 - exponent % 3}f} {' kMGTPE'[exponent // 3].strip()}T"


class NanoGPT(ShardFormat):
    """nanoGPT: only u16 ids in `.bin`, for its `np.memmap`. It ignores the file of ends."""

    Writer = FlatWriter
    Reader = FlatReader

    @staticmethod
    def refuse(spec: Spec) -> str | None:
        """Reject other ids than u16."""
        if spec.dtype == "uint16":
            return None
        if spec.vocab_size <= NARROW_IDS:
            return (
                f"dtype {spec.dtype!r} is not supported by nanogpt; the {spec.vocab_size:,} ids of "
                f"{spec.tokenizer} fit into uint16, so pass --dtype uint16"
            )
        return (
            f"{spec.tokenizer} has {spec.vocab_size:,} ids; nanogpt supports ids below 65,536 "
            "(uint16), so use npy, llmc or megatron"
        )


class Npy(ShardFormat):
    """numpy: ids in one `.npy` file and document ends in another. Packed shards are a matrix."""

    class Writer(FlatWriter):
        suffix = ".npy"

        def _create_ids(self) -> HashedFile:
            return NpyFile(self.stem, self.suffix, self._dtype, self.spec.sequence_length or 0)

    class Reader(FlatReader):
        suffix = ".npy"

        def _read_ids(self, path: Path) -> NDArray[Any]:
            return read_npy(path, self.spec.dtype)


class LlmC(ShardFormat):
    """llm.c: a `.bin` of 256 i32 as a header (magic, version, number of ids, zeros) and the ids.

    Files of GPT-2 (magic 20240520, version 1) have u16 ids, and those of Llama 3 (20240801, version
    7) have u32. The scripts of llm.c put the EOS token *before* each document. llm.c ignores the
    file of ends. Source: dev/data/data_common.py of karpathy/llm.c.
    """

    HEADER_BYTES = 256 * 4
    TOKENS_MAX = 2**31 - 1
    KINDS: ClassVar = {"uint16": (20240520, 1), "uint32": (20240801, 7)}
    eos_first = True

    class Writer(FlatWriter):
        def _open(self) -> None:
            super()._open()
            self._ids.write(bytes(LlmC.HEADER_BYTES))

        def _complete(self) -> None:
            if self.tokens > LlmC.TOKENS_MAX:
                raise ShardError(
                    f"{self.stem.name} has {self.tokens:,} ids, and llmc supports at most 2^31 − 1 "
                    "ids in a shard; set a smaller --shard-tokens"
                )
            header = np.array([*LlmC.KINDS[self.spec.dtype], self.tokens], "<i4")
            self._ids.patch(header.tobytes())

    class Reader(FlatReader):
        def _read_ids(self, path: Path) -> NDArray[Any]:
            header = np.fromfile(path, "<i4", 3).tolist()
            if tuple(header[:2]) != LlmC.KINDS[self.spec.dtype]:
                raise ShardError(f"{path} is not a file of llm.c with ids of {self.spec.dtype}")
            ids = read_flat(path, self.spec.dtype, LlmC.HEADER_BYTES)
            if header[2] != len(ids):
                raise ShardError(f"{path} has {len(ids)} ids, but its header has {header[2]}")
            return ids

    @staticmethod
    def refuse(spec: Spec) -> str | None:
        """Reject u32 for ids that fit into u16."""
        if spec.dtype == "uint16" or spec.vocab_size > NARROW_IDS:
            return None
        return (
            f"dtype {spec.dtype!r} is the dtype of Llama 3 in llm.c, and its loader of GPT-2 "
            f"rejects it; the {spec.vocab_size:,} ids of {spec.tokenizer} fit into uint16, so pass "
            "--dtype uint16"
        )


def _lines(labels: str | Sequence[str] | None) -> Iterable[str]:
    """Yield the label of each document on one line. One label is repeated without end."""
    if labels is None or isinstance(labels, str):
        return repeat((labels or "").translate(_LINE_ENDS))
    return (label.translate(_LINE_ENDS) for label in labels)


class GzipFile(HashedFile):
    """A gzip file without a name and a time. Its bytes do not depend on the calls of `write`."""

    def __init__(self, stem: Path, suffix: str) -> None:
        super().__init__(stem, suffix)
        super().write(b"\x1f\x8b\x08\0\0\0\0\0\0\xff")
        self._deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        self._pending = b""
        self._crc = self._text_bytes = 0

    def write(self, data: bytes) -> None:
        """Append to the text."""
        self._crc, self._text_bytes = zlib.crc32(data, self._crc), self._text_bytes + len(data)
        self._pending += data
        # Blocks of one size, because the output of a compressor can depend on its calls.
        while len(self._pending) >= _GZIP_BLOCK_BYTES:
            super().write(self._deflate.compress(self._pending[:_GZIP_BLOCK_BYTES]))
            self._pending = self._pending[_GZIP_BLOCK_BYTES:]

    def finish(self) -> File:
        """Write the checksum and the length of the text, and close the file."""
        super().write(self._deflate.compress(self._pending) + self._deflate.flush())
        super().write(struct.pack("<II", self._crc, self._text_bytes & 0xFFFFFFFF))
        return super().finish()


class OLMo(ShardFormat):
    """OLMo and dolma: ids in `.npy`, without the header of numpy, and a table in `.csv.gz`.

    The table does not have a head line. Its columns are start, end, id, source and line of each
    document; tokenmill leaves the line empty. OLMo-core splits it at line ends and commas and
    ignores quotes, so line ends in labels become spaces. Source: tokens/memmap_writer.py of dolma,
    olmo_core/data/utils.py.
    """

    TABLE = ".csv.gz"
    keeps_names = True

    class Writer(FlatWriter):
        suffix = ".npy"

        def _open_ends(self) -> None:
            self._table = self._add(GzipFile(self.stem, OLMo.TABLE))
            self._end = 0

        def _write_ends(self, ends: NDArray[np.int64], rows: Rows) -> None:
            starts = np.concatenate([np.array([self._end], np.int64), ends])
            self._end = int(starts[-1])
            for first in range(0, len(ends), _OLMO_BLOCK_ROWS):
                part = slice(first, min(first + _OLMO_BLOCK_ROWS, len(ends)))
                labels = rows.slice(part.start, part.stop)
                columns = (
                    starts[part].tolist(),
                    ends[part].tolist(),
                    _lines(labels.names),
                    _lines(labels.sources),
                    repeat(""),
                )
                out = io.StringIO()
                # Not strict, because some columns are endless.
                csv.writer(out, lineterminator="\n").writerows(zip(*columns, strict=False))
                self._table.write(out.getvalue().encode("utf-8", "replace"))

    class Reader(FlatReader):
        suffix = ".npy"

        def _read_ends(self) -> NDArray[Any]:
            path = path_of(self.stem, OLMo.TABLE)
            try:
                with gzip.open(path, "rb") as lines:
                    return np.fromiter((int(line.split(b",", 2)[1]) for line in lines), np.int64)
            except (OSError, EOFError, zlib.error, ValueError, IndexError) as error:
                raise ShardError(f"{path} is damaged ({error})") from None
