"""What holds for all shards of a run, and what is said of each: the words between the rooms.

Layouts: how the files of a shard hold its documents. One module for each, of the same form.

`Writer(stem, spec)` writes one shard, `Reader(stem, spec)` reads one, `suffixes(spec)` names its
files, and `refuse(spec)` says why a layout cannot hold what is asked. `finish_folder`, where a
layout has one, writes what stands beside all shards; `EOS_FIRST` says that the layout's own
readers expect the end of text in front of documents, `KEEPS_NAMES` that it has room for their ids.

Documents → ids end to end in one file: what the flat layouts share.

A writer puts the ids of each document behind those before it, and its end into whatever the layout
keeps ends in. Nothing is kept for a document in memory. **Invariant**: the bytes of a shard depend
on its documents alone, not on the calls of `append`.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ShardError
from tokenmill.shards.files import File, HashedFile, NpyFile

ENDS_SUFFIX = ".ends.npy"
_NPY_HEAD_MAX = 256
_NPY_HEAD = re.compile(
    rb"\x93NUMPY\x01\0..\{'descr': '([^']{3})', 'fortran_order': False, "
    rb"'shape': \(([0-9]{1,18}(?:,|, [0-9]{1,18}))\), \} *\n",
    re.DOTALL,
)


NARROW_IDS = 1 << 16  # as many ids as fit into uint16

# A side file of packed shards: where documents begin, counted in ids of the shard.
DOCUMENTS_SUFFIX = ".documents.npy"


@dataclass(frozen=True, slots=True)
class Spec:
    """What holds for all shards of a run."""

    dtype: str  # of the ids: "uint16" or "uint32"
    eos: int | None = None
    bos: int | None = None
    vocab_size: int = 0
    tokenizer: str = ""  # its name
    # The length of packed sequences, each of which is then a document to a layout.
    sequence_length: int | None = None


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard as a manifest names it. Documents and ids are those before packing."""

    stem: str
    documents: int
    tokens: int
    files: tuple[File, ...]
    padding: int = 0  # ids that fill the last packed sequence up

    def entries(self, sequence_length: int | None) -> int:
        """How many documents a layout's reader gives: sequences, where they are packed."""
        if sequence_length is None:
            return self.documents
        return (self.tokens + self.padding) // sequence_length

    def to_json(self) -> dict[str, Any]:
        """As a manifest holds it."""
        return {
            "stem": self.stem,
            "documents": self.documents,
            "tokens": self.tokens,
            "files": [file.to_json() for file in self.files],
        } | ({"padding": self.padding} if self.padding else {})

    @staticmethod
    def from_json(row: dict[str, Any]) -> Shard:
        """Back from what `to_json` gave."""
        files = tuple(File(f["suffix"], f["bytes"], f["checksum"]) for f in row["files"])
        padding = row.get("padding", 0)
        return Shard(row["stem"], row["documents"], row["tokens"], files, padding)


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the documents of one `add` come from, for the layouts that have room for it."""

    names: Sequence[str] | None = None  # the id of each
    sources: str | Sequence[str] = ""  # of all of them, or of each
    lines: NDArray[np.int64] | None = None  # from 1

    def slice(self, first: int, last: int) -> Rows:
        """Those of some of the documents."""
        return Rows(
            None if self.names is None else self.names[first:last],
            self.sources if isinstance(self.sources, str) else self.sources[first:last],
            None if self.lines is None else self.lines[first:last],
        )


def path_of(stem: Path, suffix: str) -> Path:
    """The file of a shard with this suffix. A stem may hold dots of its own."""
    return stem.with_name(stem.name + suffix)


class Output(Protocol):
    """What writers put their bytes into: files and spools."""

    def discard(self) -> None:
        """Nothing of it is left."""


class Writer:
    """One shard. A layout says how ids, ends and rows are written (the methods with a `_`)."""

    def __init__(self, stem: Path, spec: Spec) -> None:
        self.stem, self.spec = stem, spec
        self.tokens = self.documents = 0
        self._dtype = np.dtype(spec.dtype).newbyteorder("<")
        self._outputs: list[Output] = []

    def append(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows | None = None) -> None:
        """Write ids. `ends` are the document ends, counted from the first of these ids.

        Ids after the last end are of a document that continues with the next call. `rows` are of
        the documents that end.
        """
        self._write_ids(self._checked(ids))
        if len(ends):
            self._write_ends(ends + self.tokens, rows)
        self.tokens += len(ids)
        self.documents += len(ends)

    def finish(self) -> list[File]:
        """All files are whole and on the disk when this comes back."""
        return self._finish()

    def discard(self) -> None:
        """The files are gone, finished or not."""
        for output in self._outputs:
            output.discard()

    def _checked(self, ids: NDArray[Any]) -> NDArray[Any]:
        if ids.dtype == self._dtype:
            return np.ascontiguousarray(ids)
        if ids.size and int(ids.max()) > np.iinfo(self._dtype).max:
            raise ShardError(
                f"id {int(ids.max())} does not fit into {self.spec.dtype}: the tokenizer has more "
                "ids than its vocab_size says"
            )
        return np.ascontiguousarray(ids, self._dtype)

    def _write_ids(self, ids: NDArray[Any]) -> None:
        raise NotImplementedError

    def _write_ends(self, ends: NDArray[np.int64], rows: Rows | None) -> None:
        """The ends of further documents, counted from the shard's first id."""
        raise NotImplementedError

    def _finish(self) -> list[File]:
        raise NotImplementedError


class FlatWriter(Writer):
    """Ids without anything between them in the file `suffix`, perhaps behind a header."""

    suffix = ".bin"

    def __init__(self, stem: Path, spec: Spec) -> None:
        super().__init__(stem, spec)
        self._ids = HashedFile(path_of(stem, self.suffix), self.suffix)
        self._outputs.append(self._ids)
        self._write_head()

    def _write_head(self) -> None:
        """Write the bytes before the ids, which `_finish` fills in."""

    def _write_ids(self, ids: NDArray[Any]) -> None:
        self._ids.write(ids)


class EndsWriter(FlatWriter):
    """With the ends in a side file, for layouts that have no index. Packed shards need none."""

    def __init__(self, stem: Path, spec: Spec) -> None:
        super().__init__(stem, spec)
        self._ends: NpyFile | None = None
        if spec.sequence_length is None:
            self._ends = NpyFile(path_of(stem, ENDS_SUFFIX), ENDS_SUFFIX, "<i8")
            self._outputs.append(self._ends)

    def _write_ends(self, ends: NDArray[np.int64], rows: Rows | None) -> None:
        if self._ends is not None:
            self._ends.write(ends)

    def _finish(self) -> list[File]:
        files = [self._ids.finish()]
        return files if self._ends is None else [*files, self._ends.finish()]


def ends_suffixes(suffix: str, spec: Spec) -> tuple[str, ...]:
    """The files of an `EndsWriter`."""
    return (suffix,) if spec.sequence_length is not None else (suffix, ENDS_SUFFIX)


class Reader:
    """One shard, memory-mapped. Arrays given out stay good when it is closed."""

    def __init__(self, stem: Path, spec: Spec) -> None:
        self.stem, self.spec = stem, spec
        self.ends = self._read()

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def ids(self) -> NDArray[Any]:
        """All ids of the shard, not copied where the layout is flat."""
        raise NotImplementedError

    def document(self, index: int) -> NDArray[Any]:
        """The ids of a document."""
        raise NotImplementedError

    def stretch(self, start: int, end: int) -> NDArray[Any]:
        """The ids from one place to another, whatever documents they are of; a copy where they do
        not lie side by side."""
        first = int(np.searchsorted(self.ends, start, "right"))
        last = int(np.searchsorted(self.ends, end, "left"))
        parts = [np.empty(0, self.spec.dtype)]
        for index in range(first, last + 1) if start < end else ():
            begin = self.span(index)[0]
            parts.append(self.document(index)[max(0, start - begin) : end - begin])
        return np.concatenate(parts)

    def close(self) -> None:
        """Lets go of the files: what was given out of them holds them until it goes."""
        self.__dict__ = {"stem": self.stem, "spec": self.spec, "ends": np.empty(0, np.int64)}

    def span(self, index: int) -> tuple[int, int]:
        """Where a document begins and ends among the ids."""
        return (int(self.ends[index - 1]) if index else 0), int(self.ends[index])

    def _read(self) -> NDArray[np.int64]:
        """Opens the files; where each document ends."""
        raise NotImplementedError


class FlatReader(Reader):
    """A layout whose ids lie end to end: a layout's `_read` sets `_ids`."""

    _ids: NDArray[Any]

    @property
    def ids(self) -> NDArray[Any]:
        """All ids of the shard, as they lie in the file."""
        return self._ids

    def document(self, index: int) -> NDArray[Any]:
        """The ids of a document, as they lie in the file."""
        start, end = self.span(index)
        return self._ids[start:end]

    def stretch(self, start: int, end: int) -> NDArray[Any]:
        """The ids from one place to another, as they lie in the file."""
        return self._ids[start:end]


def read_flat(path: Path, dtype: str, offset: int = 0) -> NDArray[Any]:
    """The numbers of a file behind its first `offset` bytes, mapped."""
    kind = np.dtype(dtype)
    count, rest = divmod(path.stat().st_size - offset, kind.itemsize)
    if count < 0 or rest:
        raise ShardError(f"{path} is cut off: its size is no whole number of {dtype}")
    if not count:  # nothing can be mapped of an empty file
        return np.empty(0, kind)
    return np.memmap(path, kind, "r", offset, (count,)).view(np.ndarray)


def read_ends(stem: Path, spec: Spec, tokens: int) -> NDArray[np.int64]:
    """What an `EndsWriter` wrote."""
    if spec.sequence_length is not None:
        return (
            np.arange(1, tokens // spec.sequence_length + 1, dtype=np.int64) * spec.sequence_length
        )
    return checked_ends(read_npy(path_of(stem, ENDS_SUFFIX), "int64"), tokens, stem)


def read_npy(path: Path, dtype: str) -> NDArray[Any]:
    """The items of a `.npy` file one after the other, mapped.

    Its header is read here, since numpy maps no empty file, and what it says of a damaged one is
    said in many ways.
    """
    with path.open("rb") as file:
        head = file.read(_NPY_HEAD_MAX)
    match = _NPY_HEAD.match(head)
    if match is None or np.dtype(dtype).newbyteorder("<").str.encode() != match[1]:
        raise ShardError(f"{path} is no array of {dtype}")
    items = read_flat(path, dtype, match.end())
    shape = [int(number) for number in match[2].split(b",") if number.strip()]
    if math.prod(shape) != len(items):
        raise ShardError(f"{path} says that it has {math.prod(shape)} items, and has {len(items)}")
    return items


def checked_ends(ends: NDArray[Any], tokens: int, stem: Path) -> NDArray[np.int64]:
    """The ends, if the last one is where the ids end."""
    last = int(ends[-1]) if len(ends) else 0
    if last != tokens:
        raise ShardError(
            f"{stem}: its documents end at id {last} and its ids at {tokens}: files of two runs?"
        )
    return ends.view(np.int64)


class ShardFormat:
    """A shard format."""

    EOS_FIRST = KEEPS_NAMES = False
    make_index: Any = None
    Writer: Any
    Reader: Any


# The module and the class of each shard format.
FORMATS = {
    "megatron": "flat.Megatron",
    "datatrove": "flat.Datatrove",
    "olmo": "flat.OLMo",
    "nanogpt": "flat.NanoGPT",
    "llmc": "flat.LlmC",
    "parquet": "tables.Parquet",
    "arrow": "tables.Arrow",
    "mds": "mds.MDS",
    "npy": "flat.Npy",
}


def get_format(name: str) -> Any:
    """The class of a shard format."""
    if name not in FORMATS:
        raise ShardError(f"{name!r} is no layout; those are {', '.join(FORMATS)}")
    module, _, class_name = FORMATS[name].partition(".")
    return getattr(importlib.import_module(f"tokenmill.shards.{module}"), class_name)
