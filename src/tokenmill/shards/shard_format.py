"""Ids of documents ↔ files of one shard: the interface of all shard formats, and their table.

A shard format is a subclass of `ShardFormat` with a writer and a reader. Flat formats have the ids
of all documents in one file, without gaps.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ShardError
from tokenmill.shards.files import File, HashedFile, Spool, path_of, read_npy

# A file next to a packed shard: the starts of its documents, in ids from the first of the shard.
DOCUMENTS_SUFFIX = ".documents.npy"

Output = TypeVar("Output", bound=HashedFile | Spool)


@dataclass(frozen=True, slots=True)
class Spec:
    """The properties of all shards of a run."""

    dtype: str  # of the ids: "uint16" or "uint32"
    eos: int | None = None
    bos: int | None = None
    vocab_size: int = 0
    tokenizer: str = ""  # its name
    # The length of packed sequences. A shard format gets each of them as a document.
    sequence_length: int | None = None


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard of a manifest. Documents and tokens are counted before packing."""

    stem: str
    documents: int
    tokens: int
    files: tuple[File, ...]
    padding: int = 0  # ids after the last document, which complete a packed sequence

    def entries(self, sequence_length: int | None) -> int:
        """Return the number of documents of the reader. Packed sequences count as documents."""
        if sequence_length is None:
            return self.documents
        return (self.tokens + self.padding) // sequence_length

    def to_json(self) -> dict[str, Any]:
        """Return the entry of a manifest. It has no padding of 0."""
        row = asdict(self)
        return row if self.padding else {key: row[key] for key in row if key != "padding"}

    @staticmethod
    def from_json(row: dict[str, Any]) -> Shard:
        """Return the shard of an entry of a manifest."""
        return Shard(**row | {"files": tuple(File(**file) for file in row["files"])})


@dataclass(frozen=True, slots=True)
class Rows:
    """Labels of documents, for the shard formats that store them."""

    names: Sequence[str] | None = None  # the id of each document
    sources: str | Sequence[str] | None = None  # of all documents, or of each

    def slice(self, first: int, last: int) -> Rows:
        """Return the labels of some of the documents."""
        names, sources = self.names, self.sources
        return Rows(
            None if names is None else names[first:last],
            sources if sources is None or isinstance(sources, str) else sources[first:last],
        )


class ShardWriter:
    """A writer of one shard. A shard format implements the methods that begin with `_`.

    **Invariant**: the bytes of a shard depend on its documents, not on the calls of `append`.
    Memory does not grow with the number of documents.
    """

    def __init__(self, stem: Path, spec: Spec) -> None:
        self.stem, self.spec = stem, spec
        self.tokens = self.documents = 0
        self._dtype = np.dtype(spec.dtype).newbyteorder("<")
        self._outputs: list[HashedFile | Spool] = []
        self._open()

    def append(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows | None = None) -> None:
        """Write ids. `ends` are the document ends, counted from the first of these ids.

        Ids after the last end are of a document that continues with the next call. `rows` are of
        the documents that end.
        """
        if ids.dtype != self._dtype and ids.size and int(ids.max()) > np.iinfo(self._dtype).max:
            raise ShardError(
                f"id {int(ids.max())} does not fit into {self.spec.dtype}: the tokenizer has more "
                "ids than its vocab_size"
            )
        self._write(np.ascontiguousarray(ids, self._dtype), ends, rows or Rows())
        self.tokens += len(ids)
        self.documents += len(ends)

    def finish(self) -> list[File]:
        """Complete all files and flush them to the disk."""
        self._complete()
        files = [output.finish() for output in self._outputs if isinstance(output, HashedFile)]
        for output in self._outputs:
            if isinstance(output, Spool):
                output.discard()
        return files

    def discard(self) -> None:
        """Remove the files, finished or not."""
        for output in self._outputs:
            output.discard()

    def _add(self, output: Output) -> Output:
        """Let `finish` and `discard` include a file or a spool."""
        self._outputs.append(output)
        return output

    def _open(self) -> None:
        """Create the files and spools."""
        raise NotImplementedError

    def _write(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows) -> None:
        raise NotImplementedError

    def _complete(self) -> None:
        """Write the parts that need the number of documents or ids."""


class ShardReader:
    """A reader of one shard, memory-mapped. Its arrays remain valid when it is closed."""

    def __init__(self, stem: Path, spec: Spec) -> None:
        self.stem, self.spec = stem, spec
        self.ends = self._read()

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def ids(self) -> NDArray[Any]:
        """All ids of the shard. Flat formats do not copy them."""
        raise NotImplementedError

    @cached_property
    def document_starts(self) -> NDArray[Any]:
        """The starts of the documents of a packed shard, in ids from its first."""
        return read_npy(path_of(self.stem, DOCUMENTS_SUFFIX), "int64")

    def document(self, index: int) -> NDArray[Any]:
        """Return the ids of a document."""
        raise NotImplementedError

    def stretch(self, start: int, end: int) -> NDArray[Any]:
        """Return the ids from one position to another. Flat formats do not copy them."""
        first = int(np.searchsorted(self.ends, start, "right"))
        last = int(np.searchsorted(self.ends, end, "left"))
        parts = [np.empty(0, self.spec.dtype)]
        for index in range(first, last + 1) if start < end else ():
            begin = self._start(index)
            parts.append(self.document(index)[max(0, start - begin) : end - begin])
        return np.concatenate(parts)

    def span(self, index: int) -> tuple[int, int]:
        """Return the start and the end of a document, in ids of the shard."""
        return self._start(index), int(self.ends[index])

    def _start(self, index: int) -> int:
        return int(self.ends[index - 1]) if index else 0

    def close(self) -> None:
        """Release the files. Arrays of the reader keep them open until they are deleted."""
        self.__dict__ = {"stem": self.stem, "spec": self.spec, "ends": np.empty(0, np.int64)}

    def _read(self) -> NDArray[np.int64]:
        """Open the files. Return the end of each document."""
        raise NotImplementedError


class ShardFormat:
    """A shard format. It is used as a class and does not have instances."""

    Writer: type[ShardWriter]
    Reader: type[ShardReader]
    eos_first = False  # the EOS token is before each document
    keeps_names = False  # the ids of documents are stored

    @staticmethod
    def refuse(spec: Spec) -> str | None:
        """Return the reason that shards with these properties are not supported, or None."""
        return None

    @staticmethod
    def make_index(shards: Sequence[Shard], spec: Spec) -> tuple[str, bytes] | None:
        """Return the name and the content of a file about all shards, or None."""
        return None


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


def get_format(name: str) -> type[ShardFormat]:
    """Return the class of a shard format."""
    if name not in FORMATS:
        raise ShardError(f"{name!r} is not a shard format; use one of {', '.join(FORMATS)}")
    module, _, class_name = FORMATS[name].partition(".")
    found: Any = getattr(importlib.import_module(f"tokenmill.shards.{module}"), class_name)
    return found  # type: ignore[no-any-return]
