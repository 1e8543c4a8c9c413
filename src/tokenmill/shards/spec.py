"""What holds for all shards of a run, and what is said of each: the words between the rooms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
class File:
    """One file of a shard: its name is the shard's stem and this suffix."""

    suffix: str
    bytes: int
    checksum: str  # XXH3-64 in 16 hexadecimal digits

    def to_json(self) -> dict[str, Any]:
        """As a manifest holds it."""
        return {"suffix": self.suffix, "bytes": self.bytes, "checksum": self.checksum}


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
