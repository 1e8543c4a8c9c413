"""Documents ↔ the flat shard formats: ids end to end in one file."""

from __future__ import annotations

import csv
import gzip
import io
import math
import struct
import zlib
from collections.abc import Iterable
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ShardError
from tokenmill.shards import shard_format as base
from tokenmill.shards.files import File, HashedFile, Spool, npy_header
from tokenmill.shards.shard_format import Rows, ShardFormat, Spec, path_of

MEGATRON_INDEX = ".idx"
MEGATRON_HEADER = struct.Struct("<9sQBQQ")
MEGATRON_MAGIC = b"MMIDIDX\0\0"
# dtype → Megatron's code of what is written for it
MEGATRON_CODES = {"uint16": 8, "uint32": 4}
_BLOCK = 1 << 16


class Megatron(ShardFormat):
    """Documents → Megatron: a `.bin` of ids and an `.idx` that says where documents are.

    The `.idx`: `MMIDIDX\\0\\0`, u64 version 1, u8 code of the dtype, u64 number of sequences S, u64
    number of documents and one, then i32[S] lengths, i64[S] byte offsets, i64[S + 1] 0, 1, …, S.
    Its 34 bytes of header leave the arrays unaligned. Each document is one sequence. Megatron has
    no u32: such ids are its i32. Source:
    megatron/core/datasets/indexed_dataset.py of megatron-core 0.16.
    """

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
            index = HashedFile(path_of(self.stem, MEGATRON_INDEX), MEGATRON_INDEX)
            self._outputs.append(index)
            index.write(
                MEGATRON_HEADER.pack(
                    MEGATRON_MAGIC, 1, MEGATRON_CODES[self.spec.dtype], count, count + 1
                )
            )
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

    @staticmethod
    def suffixes(spec: Spec) -> tuple[str, ...]:
        """The files of a shard."""
        return (Megatron.Writer.suffix, MEGATRON_INDEX)

    @staticmethod
    def refuse(spec: Spec) -> str | None:
        """Why this layout cannot hold it, or None."""
        if spec.vocab_size > 2**31:
            return f"megatron holds ids below 2^31, and {spec.tokenizer} has {spec.vocab_size:,}"
        return None

    class Reader(base.FlatReader):
        """One shard."""

        def _read(self) -> NDArray[np.int64]:
            path = path_of(self.stem, MEGATRON_INDEX)
            size = path.stat().st_size
            with path.open("rb") as file:
                head = file.read(MEGATRON_HEADER.size)
            if len(head) < MEGATRON_HEADER.size or not head.startswith(MEGATRON_MAGIC):
                raise ShardError(f"{path} is no index of Megatron")
            _, version, code, count, documents = MEGATRON_HEADER.unpack(head)
            if version != 1 or code != MEGATRON_CODES[self.spec.dtype] or documents != count + 1:
                raise ShardError(
                    f"{path} has version {version}, dtype code {code}, {count} sequences and "
                    f"{documents - 1} documents: not what tokenmill writes for {self.spec.dtype}"
                )
            if size != MEGATRON_HEADER.size + 12 * count + 8 * documents:
                raise ShardError(f"{path} is cut off: {size:,} bytes are no index of {count:,}")
            # The arrays are unaligned, and an end is a start and a length: 8 bytes for a document.
            raw = np.memmap(path, np.uint8, "r")
            lengths = np.frombuffer(raw, "<i4", count, MEGATRON_HEADER.size)
            ends = np.cumsum(lengths, dtype=np.int64)
            self._ids = base.read_flat(path_of(self.stem, Megatron.Writer.suffix), self.spec.dtype)
            return base.checked_ends(ends, len(self._ids), self.stem)


DATATROVE_INDEX = ".ds.index"
DATATROVE_METADATA = ".ds.metadata"


def metric(tokens: int) -> str:
    """Three digits and a prefix, such as 1.23 MT, as `humanize.metric(tokens, unit="T")` of
    humanize 4.17 returns them."""
    exponent = math.floor(math.log10(tokens)) if tokens else 0
    value = tokens / 10 ** (exponent // 3 * 3)
    if round(value, 2 - exponent % 3) >= 10 ** (exponent % 3 + 1):  # 9.999 rounds to 10.0
        exponent += 1
        value /= 1000 if exponent % 3 == 0 else 1
    return f"{value:.{2 - exponent % 3}f} {' kMGTPE'[exponent // 3].strip()}T"


class Datatrove(ShardFormat):
    """Documents → datatrove and nanotron: a `.ds` of ids, a `.ds.index`, a `.ds.metadata`.

    The index is u64 ends of the documents without a header; the metadata is three lines of text:
    `tokenizer|bytes of an id`, the number of ids, and the same as people say it. Source:
    datatrove/pipeline/tokens/tokenizer.py of datatrove 0.10.
    """

    class Writer(base.FlatWriter):
        """One shard."""

        suffix = ".ds"

        def __init__(self, stem: Path, spec: Spec) -> None:
            super().__init__(stem, spec)
            self._index = HashedFile(path_of(stem, DATATROVE_INDEX), DATATROVE_INDEX)
            self._outputs.append(self._index)

        def _write_ends(self, ends: NDArray[np.int64], rows: Rows | None) -> None:
            self._index.write(ends.astype("<u8"))

        def _finish(self) -> list[File]:
            metadata = HashedFile(path_of(self.stem, DATATROVE_METADATA), DATATROVE_METADATA)
            self._outputs.append(metadata)
            name = self.spec.tokenizer or "Unknown Tokenizer"
            lines = (f"{name}|{self._dtype.itemsize}", str(self.tokens), metric(self.tokens))
            metadata.write("\n".join(lines).encode())
            return [self._ids.finish(), self._index.finish(), metadata.finish()]

    @staticmethod
    def suffixes(spec: Spec) -> tuple[str, ...]:
        """The files of a shard."""
        return (Datatrove.Writer.suffix, DATATROVE_INDEX, DATATROVE_METADATA)

    @staticmethod
    def refuse(spec: Spec) -> str | None:
        """Nothing is refused."""
        return None

    class Reader(base.FlatReader):
        """One shard."""

        def _read(self) -> NDArray[np.int64]:
            self._ids = base.read_flat(path_of(self.stem, Datatrove.Writer.suffix), self.spec.dtype)
            ends = base.read_flat(path_of(self.stem, DATATROVE_INDEX), "uint64")
            return base.checked_ends(ends, len(self._ids), self.stem)


class NanoGPT(ShardFormat):
    """Documents → nanoGPT: a `.bin` of nothing but u16 ids, as its `np.memmap` reads it.

    Its loader takes windows anywhere, so the end of text stands behind each document among the ids.
    The ends of documents are in a side file that it does not look at.
    """

    Writer = base.EndsWriter

    @staticmethod
    def suffixes(spec: Spec) -> tuple[str, ...]:
        """The files of a shard."""
        return base.ends_suffixes(NanoGPT.Writer.suffix, spec)

    @staticmethod
    def refuse(spec: Spec) -> str | None:
        """Why this layout cannot hold it, or None."""
        if spec.dtype != "uint16":
            if spec.vocab_size <= base.NARROW_IDS:
                return (
                    f"nanogpt holds ids of uint16, and not of {spec.dtype}; the "
                    f"{spec.vocab_size:,} of {spec.tokenizer} fit: give --dtype uint16"
                )
            return (
                f"nanogpt holds ids below 65,536 (uint16), and {spec.tokenizer} has "
                f"{spec.vocab_size:,}: use npy, llmc or megatron"
            )
        return None

    class Reader(base.FlatReader):
        """One shard."""

        def _read(self) -> NDArray[np.int64]:
            self._ids = base.read_flat(path_of(self.stem, NanoGPT.Writer.suffix), "<u2")
            return base.read_ends(self.stem, self.spec, len(self._ids))


class Npy(ShardFormat):
    """Documents → numpy: ids in one `.npy`, ends of documents in another.

    Packed sequences are rows of a matrix, and there are no ends.
    """

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

    @staticmethod
    def suffixes(spec: Spec) -> tuple[str, ...]:
        """The files of a shard."""
        return base.ends_suffixes(Npy.Writer.suffix, spec)

    @staticmethod
    def refuse(spec: Spec) -> str | None:
        """Nothing is refused."""
        return None

    class Reader(base.FlatReader):
        """One shard."""

        def _read(self) -> NDArray[np.int64]:
            self._ids = base.read_npy(path_of(self.stem, Npy.Writer.suffix), self.spec.dtype)
            return base.read_ends(self.stem, self.spec, len(self._ids))


LLMC_HEADER_BYTES = 256 * 4
LLMC_TOKENS_MAX = 2**31 - 1
# dtype → magic and version
LLMC_KINDS = {"uint16": (20240520, 1), "uint32": (20240801, 7)}
# Whoever encodes for this layout puts the end of text in front.


class LlmC(ShardFormat):
    """Documents → llm.c: a `.bin` of 256 numbers as its header, then ids.

    The header is i32: magic, version, number of ids, zeros. GPT-2's files (magic 20240520, version
    1) hold u16, Llama 3's (20240801, version 7) u32. Its own scripts put the end of text *before*
    each document. The ends of documents are in a side file that it does not look at.
    Source: dev/data/data_common.py of karpathy/llm.c.
    """

    EOS_FIRST = True

    class Writer(base.EndsWriter):
        """One shard."""

        def _write_head(self) -> None:
            self._ids.write(bytes(LLMC_HEADER_BYTES))

        def _finish(self) -> list[File]:
            if self.tokens > LLMC_TOKENS_MAX:
                raise ShardError(
                    f"llmc holds at most 2^31 − 1 ids in a shard, and {self.stem.name} has "
                    f"{self.tokens:,}: set a smaller --shard-tokens"
                )
            header = np.zeros(256, "<i4")
            header[:3] = *LLMC_KINDS[self.spec.dtype], self.tokens
            self._ids.patch(header.tobytes())
            return super()._finish()

    @staticmethod
    def suffixes(spec: Spec) -> tuple[str, ...]:
        """The files of a shard."""
        return base.ends_suffixes(LlmC.Writer.suffix, spec)

    @staticmethod
    def refuse(spec: Spec) -> str | None:
        """Why this layout cannot hold it, or None."""
        if spec.dtype == "uint32" and spec.vocab_size <= base.NARROW_IDS:
            return (
                f"llm.c takes ids of uint32 for those of Llama 3, and GPT-2's loader refuses them; "
                f"the {spec.vocab_size:,} of {spec.tokenizer} fit uint16: give --dtype uint16"
            )
        return None

    class Reader(base.FlatReader):
        """One shard."""

        def _read(self) -> NDArray[np.int64]:
            path = path_of(self.stem, LlmC.Writer.suffix)
            with path.open("rb") as file:
                head = file.read(LLMC_HEADER_BYTES)
            header = np.frombuffer(head.ljust(LLMC_HEADER_BYTES, b"\0"), "<i4")
            if tuple(header[:2].tolist()) != LLMC_KINDS[self.spec.dtype]:
                raise ShardError(f"{path} is no file of llm.c with ids of {self.spec.dtype}")
            self._ids = base.read_flat(path, self.spec.dtype, LLMC_HEADER_BYTES)
            if int(header[2]) != len(self._ids):
                raise ShardError(
                    f"{path} says that it has {header[2]} ids, and has {len(self._ids)}"
                )
            return base.read_ends(self.stem, self.spec, len(self._ids))


OLMO_TABLE = ".csv.gz"
_BLOCK_ROWS = 1 << 12
_BLOCK_BYTES = 1 << 16
# What ends a line to str.splitlines.
_LINE_ENDS = str.maketrans("\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", " " * 10)


def _on_a_line(name: str) -> str:
    return name.translate(_LINE_ENDS)


class GzipFile:
    """A gzip file without a name or a time in it, whatever pieces it is written in."""

    def __init__(self, path: Path, suffix: str) -> None:
        self._file = HashedFile(path, suffix)
        self._file.write(b"\x1f\x8b\x08\0\0\0\0\0\0\xff")
        self._deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
        self._pending = b""
        self._crc = self._bytes = 0

    def write(self, data: bytes) -> None:
        """More of the text."""
        self._crc, self._bytes = zlib.crc32(data, self._crc), self._bytes + len(data)
        data = self._pending + data
        # Blocks of one size, since a compressor may look at how its input comes.
        whole = len(data) // _BLOCK_BYTES * _BLOCK_BYTES
        for start in range(0, whole, _BLOCK_BYTES):
            self._file.write(self._deflate.compress(data[start : start + _BLOCK_BYTES]))
        self._pending = data[whole:]

    def finish(self) -> File:
        """With the checksum and the length that end it."""
        self._file.write(self._deflate.compress(self._pending) + self._deflate.flush())
        self._file.write(np.array([self._crc, self._bytes & 0xFFFFFFFF], "<u4").tobytes())
        return self._file.finish()

    def discard(self) -> None:
        """The file is gone."""
        self._file.discard()


class OLMo(ShardFormat):
    """Documents → OLMo and dolma: a `.npy` that is none, and a `.csv.gz` of the documents.

    Ids lie in the `.npy` without numpy's header. The table has no head line and the columns start,
    end, id, source and line of each document. OLMo-core splits it at line ends and commas without
    looking at quotes, so that no name may hold a line end: it is written as a space. Source:
    dolma's tokens/memmap_writer.py, olmo_core/data/utils.py.
    """

    KEEPS_NAMES = True

    class Writer(base.FlatWriter):
        """One shard."""

        suffix = ".npy"

        def __init__(self, stem: Path, spec: Spec) -> None:
            super().__init__(stem, spec)
            self._table = GzipFile(path_of(stem, OLMO_TABLE), OLMO_TABLE)
            self._outputs.append(self._table)
            self._end = 0

        def _write_ends(self, ends: NDArray[np.int64], rows: Rows | None) -> None:
            starts = np.concatenate([np.array([self._end], np.int64), ends])
            self._end = int(starts[-1])
            rows = rows or Rows()
            for first in range(0, len(ends), _BLOCK_ROWS):
                part = slice(first, min(first + _BLOCK_ROWS, len(ends)))
                if isinstance(rows.sources, str):
                    sources: Iterable[str] = repeat(_on_a_line(rows.sources))
                else:
                    sources = map(_on_a_line, rows.sources[part])
                columns = (
                    starts[part].tolist(),
                    ends[part].tolist(),
                    repeat("") if rows.names is None else map(_on_a_line, rows.names[part]),
                    sources,
                    repeat("") if rows.lines is None else rows.lines[part].tolist(),
                )
                out = io.StringIO()
                # Not strict, since some go on for ever; the first two are as many as the documents.
                csv.writer(out, lineterminator="\n").writerows(zip(*columns, strict=False))
                self._table.write(out.getvalue().encode("utf-8", "replace"))

        def _finish(self) -> list[File]:
            return [self._ids.finish(), self._table.finish()]

    @staticmethod
    def suffixes(spec: Spec) -> tuple[str, ...]:
        """The files of a shard."""
        return (OLMo.Writer.suffix, OLMO_TABLE)

    @staticmethod
    def refuse(spec: Spec) -> str | None:
        """Nothing is refused."""
        return None

    class Reader(base.FlatReader):
        """One shard."""

        def _read(self) -> NDArray[np.int64]:
            self._ids = base.read_flat(path_of(self.stem, OLMo.Writer.suffix), self.spec.dtype)
            path = path_of(self.stem, OLMO_TABLE)
            try:
                with gzip.open(path, "rb") as lines:
                    ends = np.fromiter((int(line.split(b",", 2)[1]) for line in lines), np.int64)
            except (OSError, EOFError, zlib.error, ValueError, IndexError) as error:
                raise ShardError(f"{path} is damaged ({error})") from None
            return base.checked_ends(ends, len(self._ids), self.stem)
