"""A complete output of `tokenize` → its documents, by number, over all shards."""

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
from tokenmill.shards.files import path_of, read_digest
from tokenmill.shards.shard_format import DOCUMENTS_SUFFIX, Shard, ShardReader, Spec, get_format

MANIFEST = "manifest.json"
FORMAT, VERSION = "tokenmill.shards", 1
RESTORE = "run tokenmill repair, or delete the file and run the same tokenize command again"
# The names of files in a manifest, which can be a foreign one, must not contain folders.
STEM = re.compile(r"[0-9]{5,}-[0-9]{3,}")
SUFFIX = re.compile(r"[^/\\\0]*")
# Each open shard needs file descriptors. The limit of a process is 1,024 on many systems.
_READERS_MAX = 64


class Shards:
    """The documents of a corpus, in the order of its plan. Files are opened when they are needed.

    `tokenmill.shards.open` returns it, and a `with` statement closes it. `shards[i]` has the ids of
    document i, or of packed sequence i. The array is read-only and remains valid when the shards
    are closed. A wrong number raises an IndexError. A file that differs from the manifest raises a
    ShardError.
    """

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path, self.manifest = path, manifest
        try:
            self.format: str = manifest["shard_format"]
            self.spec = _spec(manifest)
            entries = [*manifest["tasks"], *manifest.get("shuffled", [])]
            rows = [row for entry in entries for row in entry["shards"]]
            self.shards = tuple(Shard.from_json(row) for row in rows)
            self.totals: dict[str, int] = manifest["totals"]
        except (KeyError, TypeError) as error:
            raise ShardError(
                f"{path / MANIFEST} is not a manifest of tokenmill ({error!r})"
            ) from None
        self._format = get_format(self.format)
        self._check_files()
        sequence = self.spec.sequence_length
        self._ends = list(accumulate(shard.entries(sequence) for shard in self.shards))
        self._original_ends = list(accumulate(shard.documents for shard in self.shards))
        self._readers: OrderedDict[int, ShardReader] = OrderedDict()

    @property
    def documents(self) -> int:
        """The number of documents, or of packed sequences."""
        return self._ends[-1] if self._ends else 0

    @property
    def tokens(self) -> int:
        """The number of ids."""
        return sum(shard.tokens for shard in self.shards)

    def __len__(self) -> int:
        return self.documents

    def __getitem__(self, index: int) -> NDArray[Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"document {index} does not exist; the shards have {len(self)}")
        return self.document(index % len(self))

    def __iter__(self) -> Iterator[NDArray[Any]]:
        for index in range(len(self.shards)):
            reader = self.reader(index)
            for document in range(len(reader)):
                yield reader.document(document)

    def __repr__(self) -> str:
        return (
            f"<Shards {str(self.path)!r}: {self.documents:,} documents, {self.tokens:,} ids in "
            f"{len(self.shards)} shards of {self.format}>"
        )

    def document(self, index: int) -> NDArray[Any]:
        """Return the ids of a document, 0 ≤ index < len."""
        shard = bisect_right(self._ends, index)
        first = self._ends[shard - 1] if shard else 0
        return self.reader(shard).document(index - first)

    def ids(self, shard: int) -> NDArray[Any]:
        """Return all ids of a shard, 0 ≤ shard < len(shards.shards)."""
        return self.reader(shard).ids

    def sequences(self, shard: int) -> NDArray[Any]:
        """Return the packed sequences of a shard as rows of a matrix.

        Shards that are not packed raise a ShardError.
        """
        if self.spec.sequence_length is None:
            raise ShardError(
                f"{self.path} is not packed, and its documents have different lengths; use ids(), "
                "or tokenize with --sequence-length"
            )
        return self.ids(shard).reshape(-1, self.spec.sequence_length)

    def document_starts(self, shard: int) -> NDArray[Any]:
        """Return the starts of documents in a packed shard. Other shards raise a ShardError."""
        if not any(file.suffix == DOCUMENTS_SUFFIX for file in self.shards[shard].files):
            raise ShardError(f"{self.shards[shard].stem} is not packed; use document_ends()")
        return self.reader(shard).document_starts

    def document_ends(self, shard: int) -> NDArray[Any]:
        """Return the ends of documents in a shard, packed or not."""
        if self.spec.sequence_length is None:
            return self.reader(shard).ends
        starts = self.document_starts(shard)
        return np.append(starts[1:], self.shards[shard].tokens).astype(np.int64)

    def original(self, index: int) -> NDArray[Any]:
        """Return the ids of a document before packing."""
        shard, start, end = self.original_span(index)
        return self.reader(shard).stretch(start, end)

    def original_span(self, index: int) -> tuple[int, int, int]:
        """Return the shard of a document before packing, and its start and end there."""
        shard = bisect_right(self._original_ends, index)
        number = index - (self._original_ends[shard - 1] if shard else 0)
        if self.spec.sequence_length is None:
            return shard, *self.reader(shard).span(number)
        starts = self.document_starts(shard)
        is_last = number + 1 == len(starts)
        end = self.shards[shard].tokens if is_last else int(starts[number + 1])
        return shard, int(starts[number]), end

    def reader(self, shard: int) -> ShardReader:
        """Return the reader of a shard. The readers that were used last remain open."""
        found = self._readers.pop(shard, None)
        if found is None:
            if len(self._readers) >= _READERS_MAX:
                self._readers.popitem(last=False)
            found = self._format.Reader(self.path / self.shards[shard].stem, self.spec)
            expected = self.shards[shard].entries(self.spec.sequence_length)
            if len(found) != expected:
                raise ShardError(
                    f"{self.shards[shard].stem} has {len(found)} documents, but its manifest has "
                    f"{expected}"
                )
        self._readers[shard] = found
        return found

    def __enter__(self) -> Shards:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files. They are opened again when they are needed."""
        self._readers.clear()

    def __getstate__(self) -> dict[str, Any]:
        # The workers of a data loader open the files again.
        return self.__dict__ | {"_readers": OrderedDict()}

    def _check_files(self) -> None:
        """Compare the size of each file with the manifest. `verify` also reads the files."""
        manifest = self.path / MANIFEST
        for shard in self.shards:
            if not isinstance(shard.stem, str) or not STEM.fullmatch(shard.stem):
                raise ShardError(f"{manifest} has a shard {shard.stem!r}, not one as 00000-000")
            for file in shard.files:
                if not isinstance(file.suffix, str) or not SUFFIX.fullmatch(file.suffix):
                    raise ShardError(
                        f"{manifest} has the suffix {file.suffix!r}, which contains a folder"
                    )
                path = path_of(self.path / shard.stem, file.suffix)
                if reason := wrong_size(path, file.bytes):
                    raise ShardError(f"{path} {reason}; {RESTORE}")


def wrong_size(path: Path, expected: int) -> str | None:
    """Return the difference of a file from the size in the manifest, or None."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return f"is missing; expected {expected:,} bytes"
    return None if size == expected else f"has {size:,} bytes; expected {expected:,}"


def open(path: str | Path) -> Shards:
    """Open the complete output of `tokenmill tokenize`: a folder, or a URL, which is copied.

    A folder that does not exist raises a MissingInputError. An output that is incomplete or damaged
    raises a ShardError.

    Examples:
        >>> with open("shards/") as shards:  # doctest: +SKIP
        ...     print(len(shards), shards[0])
    """
    if isinstance(path, str) and object_store.is_address(path):
        return _open_url(path)
    folder = Path(path)
    name = folder / MANIFEST
    if not folder.is_dir():
        raise MissingInputError(
            f"folder of shards not found: {str(folder)!r}; expected an output of tokenize"
        )
    try:
        data = name.read_bytes()
    except FileNotFoundError:
        raise ShardError(
            f"{folder} has no {MANIFEST}: "
            + (
                "its run is not complete; run the same tokenize command again to resume it"
                if (folder / "plan.json").exists()
                else "it is not an output of tokenmill tokenize"
            )
        ) from None
    return Shards(folder, _parse_manifest(data, str(folder)))


def _parse_manifest(data: bytes, name: str) -> dict[str, Any]:
    """The manifest of one set of documents, in a folder or at a URL with this name."""
    try:
        manifest: dict[str, Any] = json.loads(data)
    except ValueError as error:
        raise ShardError(f"{name}/{MANIFEST} is not JSON ({error})") from None
    if reason := refuse_manifest(manifest):
        raise ShardError(f"{name}/{MANIFEST} {reason}")
    if read_digest(data) is None:
        raise ShardError(f"{name}/{MANIFEST} is damaged: its digest differs; {RESTORE}")
    if sets := manifest.get("sets"):
        raise ShardError(
            f"{name} has the sets {', '.join(sets)}; pass the folder of one, such as "
            f"{name}/{min(sets)}"
        )
    return manifest


def refuse_manifest(content: Any) -> str | None:
    """Return the reason that a JSON value is not a manifest of this version, or None."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return "is not a manifest of tokenmill; pass another folder"
    if content.get("version") != VERSION:
        return (
            f"has version {content.get('version')!r}, and this tokenmill reads version {VERSION}; "
            "install a newer tokenmill"
        )
    return None


def _open_url(url: str) -> Shards:
    """Open a temporary copy, because objects cannot be mapped. It is removed with the shards."""
    store = ObjectStore(url)
    data = next(store.read_all([MANIFEST]), None)
    if data is None:
        raise ShardError(
            f"{url} has no {MANIFEST}: it is not an output of tokenmill tokenize, or its "
            "run is not complete"
        )
    manifest = _parse_manifest(data, store.address)
    folder = Path(tempfile.mkdtemp(prefix="tokenmill-"))
    try:
        store.fetch_all(folder)
        shards = Shards(folder, manifest)
    except BaseException as error:
        _remove(folder, os.getpid())
        if isinstance(error, ShardError):
            raise ShardError(str(error).replace(str(folder), store.address)) from None
        raise
    weakref.finalize(shards, _remove, folder, os.getpid())
    return shards


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not a fork, which can end earlier
        shutil.rmtree(folder, ignore_errors=True)


def _spec(manifest: dict[str, Any]) -> Spec:
    tokenizer = manifest["tokenizer"]
    same = {name: manifest[name] for name in ("dtype", "eos", "bos", "sequence_length")}
    return Spec(**same, vocab_size=tokenizer["vocab_size"], tokenizer=tokenizer["name"])
