"""A folder that a run has sealed → its documents, by number, over all shards."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import weakref
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import object_store
from tokenmill.errors import MissingInputError, ShardError
from tokenmill.object_store import ObjectStore
from tokenmill.shards.shard_format import (
    DOCUMENTS_SUFFIX,
    Reader,
    Shard,
    Spec,
    get_format,
    path_of,
    read_npy,
)

MANIFEST = "manifest.json"
# A manifest may come from elsewhere: what it names lies beside it.
STEM = re.compile(r"[0-9]{5,}-[0-9]{3,}")
SUFFIX = re.compile(r"[^/\\\0]*")
# Each open shard holds file descriptors, of which a process has 1,024 on many systems.
_READERS_MAX = 64


class Shards:
    """The documents of a corpus, in the order of its plan. Files are opened when they are needed.

    `tokenmill.shards.open` makes one; it is closed at the end of a `with`. `shards[i]` are the ids
    of document i (of sequence i, where they are packed) as they lie in the file; the array is
    read-only and stays good when the shards are closed. A number that there is not is an
    IndexError, and a file that is not what the manifest says a ShardError.
    """

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path, self.manifest = path, manifest
        try:
            self.layout: str = manifest["shard_format"]
            self.spec = _spec(manifest)
            entries = [*manifest["tasks"], *manifest.get("shuffled", [])]
            rows = [row for entry in entries for row in entry["shards"]]
            self.shards = tuple(Shard.from_json(row) for row in rows)
            self.totals: dict[str, int] = manifest["totals"]
        except (KeyError, TypeError) as error:
            raise ShardError(f"{path / MANIFEST} is no manifest of tokenmill ({error!r})") from None
        self._layout = get_format(self.layout)
        self._check_files()
        sequence = self.spec.sequence_length
        self._ends = list(accumulate(shard.entries(sequence) for shard in self.shards))
        self._original_ends = list(accumulate(shard.documents for shard in self.shards))
        self._readers: OrderedDict[int, Reader] = OrderedDict()
        # Of packed shards with an open reader: the files of their beginnings, which are not copied.
        self._starts: dict[int, NDArray[Any]] = {}

    @property
    def documents(self) -> int:
        """How many documents there are; of packed shards, how many sequences."""
        return self._ends[-1] if self._ends else 0

    @property
    def tokens(self) -> int:
        """How many ids there are."""
        return sum(shard.tokens for shard in self.shards)

    def __len__(self) -> int:
        return self.documents

    def __getitem__(self, index: int) -> NDArray[Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no document {index}: there are {len(self)}")
        return self.document(index % len(self))

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for index in range(len(self.shards)):
            reader = self.reader(index)
            for document in range(len(reader)):
                yield reader.document(document)

    def __repr__(self) -> str:
        return (
            f"<Shards {str(self.path)!r}: {self.documents:,} documents, {self.tokens:,} ids in "
            f"{len(self.shards)} shards of {self.layout}>"
        )

    def document(self, index: int) -> NDArray[Any]:
        """The ids of a document, 0 ≤ index < len."""
        shard = bisect_right(self._ends, index)
        first = self._ends[shard - 1] if shard else 0
        return self.reader(shard).document(index - first)

    def ids(self, shard: int) -> NDArray[Any]:
        """All ids of a shard, 0 ≤ shard < len(shards.shards), end to end."""
        return self.reader(shard).ids

    def sequences(self, shard: int) -> NDArray[Any]:
        """The packed sequences of a shard, the rows of a matrix; a ShardError if not packed."""
        if self.spec.sequence_length is None:
            raise ShardError(
                f"{self.path} is not packed: its documents have lengths of their own. Take ids() "
                "and cut them, or tokenize with --sequence-length"
            )
        return self.ids(shard).reshape(-1, self.spec.sequence_length)

    def document_starts(self, shard: int) -> NDArray[Any]:
        """Where documents begin among the ids of a packed shard; a ShardError if not packed."""
        if not any(file.suffix == DOCUMENTS_SUFFIX for file in self.shards[shard].files):
            raise ShardError(f"{self.shards[shard].stem} is not packed: its reader has the ends")
        return read_npy(path_of(self.path / self.shards[shard].stem, DOCUMENTS_SUFFIX), "int64")

    def document_ends(self, shard: int) -> NDArray[Any]:
        """Where each document ends among the ids of a shard, packed or not."""
        if self.spec.sequence_length is None:
            return self.reader(shard).ends
        starts = self.document_starts(shard)
        return np.append(starts[1:], self.shards[shard].tokens).astype(np.int64)

    def original(self, index: int) -> NDArray[Any]:
        """The ids of a document as it was before it was packed."""
        shard, start, end = self.original_span(index)
        return self.reader(shard).stretch(start, end)

    def original_span(self, index: int) -> tuple[int, int, int]:
        """The shard of a document, and where it began and ended there before it was packed."""
        shard = bisect_right(self._original_ends, index)
        number = index - (self._original_ends[shard - 1] if shard else 0)
        reader = self.reader(shard)
        if self.spec.sequence_length is None:
            return shard, *reader.span(number)
        starts = self._starts.get(shard)
        if starts is None:
            starts = self._starts[shard] = self.document_starts(shard)
        is_last = number + 1 == len(starts)
        end = self.shards[shard].tokens if is_last else int(starts[number + 1])
        return shard, int(starts[number]), end

    def reader(self, shard: int) -> Reader:
        """The reader of a shard. The last ones used stay open."""
        found = self._readers.pop(shard, None)
        if found is None:
            if len(self._readers) >= _READERS_MAX:
                gone, _ = self._readers.popitem(last=False)
                self._starts.pop(gone, None)
            found = self._layout.Reader(self.path / self.shards[shard].stem, self.spec)
            expected = self.shards[shard].entries(self.spec.sequence_length)
            if len(found) != expected:
                raise ShardError(
                    f"{self.shards[shard].stem} has {len(found)} documents, and its manifest says "
                    f"{expected}"
                )
        self._readers[shard] = found
        return found

    def __enter__(self) -> Shards:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of all files; they are opened again when they are needed."""
        self._readers.clear()
        self._starts.clear()

    def __getstate__(self) -> dict[str, Any]:
        # A data loader sends it to its workers, where files are opened again.
        return self.__dict__ | {"_layout": None, "_readers": None, "_starts": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._layout, self._readers = get_format(self.layout), OrderedDict()

    def _check_files(self) -> None:
        """Each file is there with the size that the manifest says; `verify` reads them, too."""
        for shard in self.shards:
            if not isinstance(shard.stem, str) or not STEM.fullmatch(shard.stem):
                raise ShardError(
                    f"{self.path / MANIFEST} names a shard {shard.stem!r}: names are as 00000-000"
                )
            for file in shard.files:
                if not isinstance(file.suffix, str) or not SUFFIX.fullmatch(file.suffix):
                    raise ShardError(
                        f"{self.path / MANIFEST} names a file with the suffix {file.suffix!r}: a "
                        "suffix leads into no folder"
                    )
                path = path_of(self.path / shard.stem, file.suffix)
                try:
                    size = path.stat().st_size
                except FileNotFoundError:
                    raise ShardError(
                        f"{path} is gone: the manifest names it. Run the same tokenize command "
                        "again, with an empty folder as its output"
                    ) from None
                if size != file.bytes:
                    raise ShardError(
                        f"{path} has {size:,} bytes and the manifest says {file.bytes:,}: it was "
                        "cut off or changed since"
                    )


def open(path: str | Path) -> Shards:
    """The shards in a folder that `tokenmill tokenize` has sealed, or in a copy of an address.

    A folder that does not exist is a MissingInputError. One that is incomplete or damaged is a
    ShardError.

    Examples:
        >>> with open("shards/") as shards:  # doctest: +SKIP
        ...     print(len(shards), shards[0])
    """
    if isinstance(path, str) and object_store.is_address(path):
        return _open_address(path)
    folder = Path(path)
    if not folder.is_dir():
        raise MissingInputError(f"{folder} is no folder of shards")
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        raise ShardError(
            f"{folder} has no {MANIFEST}: "
            + (
                "its run is not complete. Run the same tokenize command again to go on"
                if (folder / "plan.json").exists()
                else "it is no output of tokenmill tokenize"
            )
        ) from None
    except ValueError as error:
        raise ShardError(f"{folder / MANIFEST} is no JSON ({error})") from None
    if not isinstance(manifest, dict) or manifest.get("format") != "tokenmill.shards":
        raise ShardError(f"{folder / MANIFEST} is no manifest of tokenmill")
    if manifest.get("version") != 1:
        raise ShardError(
            f"{folder / MANIFEST} has version {manifest.get('version')!r}, and this tokenmill "
            "reads version 1: get a newer one"
        )
    return Shards(folder, manifest)


def _open_address(address: str) -> Shards:
    """The same of a copy, which goes with the shards: files are mapped, and objects cannot be."""
    mirror = ObjectStore(address)
    if MANIFEST not in mirror.sizes():
        raise ShardError(
            f"{address} has no {MANIFEST}: it is no output of tokenmill tokenize, or its run is "
            "not complete"
        )
    folder = Path(tempfile.mkdtemp(prefix="tokenmill-"))
    try:
        mirror.fetch_all(folder)
        shards = open(folder)
    except BaseException:
        _remove(folder, os.getpid())
        raise
    weakref.finalize(shards, _remove, folder, os.getpid())
    return shards


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not a fork of it, that ends before it
        shutil.rmtree(folder, ignore_errors=True)


def _spec(manifest: dict[str, Any]) -> Spec:
    tokenizer = manifest["tokenizer"]
    return Spec(
        dtype=manifest["dtype"],
        eos=manifest["eos"],
        bos=manifest["bos"],
        vocab_size=tokenizer["vocab_size"],
        tokenizer=tokenizer["name"],
        sequence_length=manifest["sequence_length"],
    )
