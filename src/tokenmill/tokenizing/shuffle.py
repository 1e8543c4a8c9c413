"""Documents of all units → shards in an order that a seed decides.

Each document gets a number by hashing the seed, its unit and its place there; shards are ranges of
these numbers, and inside a shard they give the order. So every document's place is known without a
list of all of them, and shards can be mixed one by one, by anybody. Until then the units' ids lie
in pieces/, flat, with the ends of their documents.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.shards.spec import Rows
from tokenmill.tokenizing.ids import Encoded

PIECES = "pieces"
_GATHER_TOKENS = 1 << 20
_GATHER_DOCUMENTS = 1 << 16
_SHARD_DOCUMENTS = 1 << 20
_PIECES_OPEN = 32
_FORGET_TOKENS = 1 << 24


def keys(seed: int, unit: int, count: int) -> NDArray[np.uint64]:
    """A number for each document of a unit, evenly spread (splitmix64)."""
    with np.errstate(over="ignore"):
        start = _mix(np.array([seed], np.uint64)) + np.uint64(unit) * np.uint64(0x9E3779B97F4A7C15)
        return _mix(_mix(start) + np.arange(count, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95))


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def bounds(shard: int, shards: int) -> tuple[int, int]:
    """The numbers that belong to a shard, from the first to before the last."""
    return (shard << 64) // shards, ((shard + 1) << 64) // shards


def shard_count(tokens: int, documents: int, shard_tokens: int) -> int:
    """How many shards a shuffled run has. The order of one is sorted in memory."""
    return max(1, -(-tokens // shard_tokens), -(-documents // _SHARD_DOCUMENTS))


def digest(documents: dict[int, int]) -> str:
    """What shards are mixed of: which units have how many documents."""
    spelled = repr([pair for pair in sorted(documents.items()) if pair[1]])
    return hashlib.blake2b(spelled.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Places:
    """The documents of one shard in their order: unit, and number in the unit."""

    units: NDArray[np.int64]
    numbers: NDArray[np.int64]


def places(seed: int, documents: dict[int, int], shard: int, shards: int) -> Places:
    """Which documents a shard has; `documents` says how many each unit has."""
    low, high = bounds(shard, shards)
    found_keys, found_units, found_numbers = [], [], []
    for unit, count in documents.items():
        all_keys = keys(seed, unit, count)
        chosen = np.flatnonzero((all_keys >= np.uint64(low)) & (all_keys <= np.uint64(high - 1)))
        found_keys.append(all_keys[chosen])
        found_units.append(np.full(len(chosen), unit, np.int64))
        found_numbers.append(chosen.astype(np.int64))
    if not found_keys:
        return Places(np.empty(0, np.int64), np.empty(0, np.int64))
    units, numbers = np.concatenate(found_units), np.concatenate(found_numbers)
    order = np.lexsort((numbers, units, np.concatenate(found_keys)))
    return Places(units[order], numbers[order])


class Order:
    """Where the documents of a unit are in the output."""

    def __init__(self, first: dict[int, int], counts: dict[int, int], seed: int | None) -> None:
        self._first = first
        self._counts = counts
        self._seed = seed
        self._ranks: dict[int, NDArray[np.int64]] | None = None

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> Order:
        """The order of a sealed folder."""
        counts = {row["unit"]: row["documents"] for row in manifest["units"]}
        first, total = {}, 0
        for unit, count in counts.items():
            first[unit] = total
            total += count
        order = cls(first, counts, manifest["options"]["shuffle"])
        if order._seed is not None:
            order._rank(max(1, len(manifest["mixes"])))
        return order

    def _rank(self, shards: int) -> None:
        assert self._seed is not None
        self._ranks = {unit: np.empty(count, np.int64) for unit, count in self._counts.items()}
        base = 0
        for shard in range(shards):
            found = places(self._seed, self._counts, shard, shards)
            for unit, here in by_unit(found.units):
                self._ranks[unit][found.numbers[here]] = here + base
            base += len(found.units)

    def numbers(self, unit: int) -> NDArray[np.int64]:
        """For each document of a unit its number in the output."""
        if self._ranks is not None:
            return self._ranks[unit]
        return np.arange(self._counts[unit], dtype=np.int64) + self._first[unit]


class Piece:
    """The ids of one unit as they lie in pieces/, mapped; and the names of its documents."""

    def __init__(self, folder: Path, unit: int, dtype: str) -> None:
        stem = folder / PIECES / f"{unit:05d}"
        self._maps: list[mmap.mmap] = []
        self.ids = self._map(stem.with_suffix(".ids"), dtype)
        self.ends = self._map(stem.with_suffix(".ends"), "<i8")
        self._names = self._map(stem.with_suffix(".names"), "u1")
        self._name_ends = self._map(stem.with_suffix(".name_ends"), "<i8")

    def _map(self, path: Path, dtype: str) -> NDArray[Any]:
        if not path.exists() or not path.stat().st_size:
            return np.empty(0, dtype)
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        return np.frombuffer(mapped, dtype)

    def bounds(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where documents begin and end among the ids."""
        starts = np.where(numbers > 0, self.ends[np.maximum(numbers - 1, 0)], 0)
        return starts, self.ends[numbers]

    def name(self, number: int) -> str:
        start = int(self._name_ends[number - 1]) if number else 0
        return self._names[start : int(self._name_ends[number])].tobytes().decode()

    def forget(self) -> None:
        """Gives pages back that were read; they count as memory of this process."""
        for mapped in self._maps:
            if hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED)


class Pieces:
    """The pieces of all units, of which a few are open: each holds descriptors."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self._folder = folder
        self.dtype = dtype
        self._open: OrderedDict[int, Piece] = OrderedDict()

    def __getitem__(self, unit: int) -> Piece:
        found = self._open.pop(unit, None)
        if found is None:
            if len(self._open) >= _PIECES_OPEN:
                self._open.popitem(last=False)
            found = Piece(self._folder, unit, self.dtype)
        self._open[unit] = found
        return found

    def forget(self) -> None:
        for piece in self._open.values():
            piece.forget()


class PieceWriter:
    """Ids of a unit → its piece. Takes what `Series` takes."""

    def __init__(self, folder: Path, unit: int, dtype: str, *, keeps_names: bool) -> None:
        self._stem = folder / f"{unit:05d}"
        self._dtype = np.dtype(dtype)
        suffixes = (".ids", ".ends") + ((".names", ".name_ends") if keeps_names else ())
        self._files = {suffix: self._stem.with_suffix(suffix).open("wb") for suffix in suffixes}
        self._tokens = self._name_bytes = 0
        self._open_at: int | None = None

    def add(self, encoded: Encoded, rows: Rows | None) -> None:
        ids = self._files[".ids"]
        if encoded.withdrawn:
            if self._open_at is not None:
                self._tokens, self._open_at = self._open_at, None
                ids.seek(self._tokens * self._dtype.itemsize)
                ids.truncate()
            return
        if encoded.is_open and self._open_at is None:
            self._open_at = self._tokens
        ids.write(np.ascontiguousarray(encoded.ids, self._dtype).data)
        ends = encoded.ends + self._tokens
        self._tokens += len(encoded.ids)
        if encoded.is_closed:
            self._open_at = None
            ends = np.array([self._tokens], np.int64)
        self._files[".ends"].write(ends.tobytes())
        if ".names" in self._files and len(ends):
            names = None if rows is None else rows.names
            self._add_names([""] * len(ends) if names is None else list(names))

    def _add_names(self, names: list[str]) -> None:
        spelled = [name.encode("utf-8", "replace") for name in names]
        ends = np.cumsum([len(name) for name in spelled], dtype=np.int64) + self._name_bytes
        self._files[".names"].write(b"".join(spelled))
        self._files[".name_ends"].write(ends.tobytes())
        self._name_bytes = int(ends[-1])

    def finish(self) -> list[dict[str, Any]]:
        """The files of the piece, whole and on the disk."""
        rows = []
        for suffix, file in self._files.items():
            file.flush()
            os.fsync(file.fileno())
            rows.append({"name": self._stem.name + suffix, "bytes": file.tell()})
            file.close()
        return rows

    def discard(self) -> None:
        for suffix, file in self._files.items():
            file.close()
            self._stem.with_suffix(suffix).unlink(missing_ok=True)


def gather(pieces: Pieces, found: Places) -> Iterator[tuple[slice, Encoded]]:
    """The documents of a shard in their order, some at a time, and which of them they are.

    One that is longer than what is taken at a time comes in pieces.
    """
    since = 0
    for first in range(0, len(found.units), _GATHER_DOCUMENTS):
        some = slice(first, first + _GATHER_DOCUMENTS)
        chosen = Places(found.units[some], found.numbers[some])
        starts, ends = _bounds(pieces, chosen)
        lengths = ends - starts
        place = 0
        while place < len(lengths):
            sums = np.cumsum(lengths[place:])
            last = place + max(1, int(np.searchsorted(sums, _GATHER_TOKENS, side="right")))
            part = slice(first + place, first + last)
            if lengths[place] > _GATHER_TOKENS:
                ids = pieces[int(chosen.units[place])].ids[starts[place] : ends[place]]
                for encoded in _in_parts(ids):
                    yield part, encoded
                    pieces.forget()
            else:
                here = slice(place, last)
                ids = _copy(pieces, chosen.units[here], starts[here], lengths[here])
                yield part, Encoded(ids, np.cumsum(lengths[here], dtype=np.int64), 0)
            since += int(lengths[place:last].sum())
            place = last
            if since >= _FORGET_TOKENS:
                since = 0
                pieces.forget()


def _bounds(pieces: Pieces, chosen: Places) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts = np.empty(len(chosen.units), np.int64)
    ends = np.empty(len(chosen.units), np.int64)
    for unit, here in by_unit(chosen.units):
        starts[here], ends[here] = pieces[unit].bounds(chosen.numbers[here])
    return starts, ends


def by_unit(units: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each unit with the places where it stands, in order."""
    order = np.argsort(units, kind="stable")
    values, firsts = np.unique(units[order], return_index=True)
    yield from zip(values.tolist(), np.split(order, firsts[1:]), strict=True)


def _copy(
    pieces: Pieces,
    units: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> NDArray[Any]:
    """The ids of documents end to end, in their order, each piece opened once."""
    out = np.empty(int(lengths.sum()), pieces.dtype)
    targets = np.cumsum(lengths) - lengths
    for unit, here in by_unit(units):
        ids = pieces[unit].ids
        columns = (targets[here].tolist(), starts[here].tolist(), lengths[here].tolist())
        for target, start, length in zip(*columns, strict=True):
            out[target : target + length] = ids[start : start + length]
    return out


def _in_parts(ids: NDArray[Any]) -> Iterator[Encoded]:
    none = np.empty(0, np.int64)
    for start in range(0, len(ids), _GATHER_TOKENS):
        end = start + _GATHER_TOKENS
        yield Encoded(ids[start:end], none, 0, is_open=True, is_closed=end >= len(ids))
