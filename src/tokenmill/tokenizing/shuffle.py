"""Documents of all tasks → shards in an order that a seed decides.

Each document gets a key, which is a hash of the seed, its task and its number there. A shard is a
range of keys, and its documents are sorted by them. So a shard can be written without a list of all
documents, by any worker. Tasks write their ids and document ends to shuffle-tmp/ before.
"""

from __future__ import annotations

import hashlib
import mmap
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.shards.shard_format import Rows
from tokenmill.tokenizing.journal import SHUFFLE, Entries
from tokenmill.tokenizing.output import LocalOutput
from tokenmill.tokenizing.task import Job

_GATHER_TOKENS = 1 << 20
_GATHER_DOCUMENTS = 1 << 16
_SHARD_DOCUMENTS = 1 << 20
_OPEN_MAX = 32
_NO_BOUND = 1 << 62
_FORGET_TOKENS = 1 << 24


def keys(seed: int, task: int, count: int) -> NDArray[np.uint64]:
    """The key of each document of a task, evenly distributed (splitmix64)."""
    with np.errstate(over="ignore"):
        start = _mix(np.array([seed], np.uint64)) + np.uint64(task) * np.uint64(0x9E3779B97F4A7C15)
        return _mix(_mix(start) + np.arange(count, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95))


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def bounds(shard: int, shards: int) -> tuple[int, int]:
    """The first key of a shard, and the first key after it."""
    return (shard << 64) // shards, ((shard + 1) << 64) // shards


def shard_count(tokens: int, documents: int, shard_tokens: int) -> int:
    """The number of shards of a shuffled run. Each shard is sorted in memory."""
    return max(1, -(-tokens // shard_tokens), -(-documents // _SHARD_DOCUMENTS))


def digest(documents: dict[int, int]) -> str:
    """A hash of the number of documents of each task, which decides the content of all shards."""
    spelled = repr([pair for pair in sorted(documents.items()) if pair[1]])
    return hashlib.blake2b(spelled.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class ShardOrder:
    """The documents of one shard in order: task, and number in the task."""

    tasks: NDArray[np.int64]
    numbers: NDArray[np.int64]


def shard_order(seed: int, documents: dict[int, int], shard: int, shards: int) -> ShardOrder:
    """The documents of a shard. `documents` is the number of documents of each task."""
    low, high = bounds(shard, shards)
    found_keys, found_tasks, found_numbers = [], [], []
    for task, count in documents.items():
        all_keys = keys(seed, task, count)
        chosen = np.flatnonzero((all_keys >= np.uint64(low)) & (all_keys <= np.uint64(high - 1)))
        found_keys.append(all_keys[chosen])
        found_tasks.append(np.full(len(chosen), task, np.int64))
        found_numbers.append(chosen.astype(np.int64))
    if not found_keys:
        return ShardOrder(np.empty(0, np.int64), np.empty(0, np.int64))
    tasks, numbers = np.concatenate(found_tasks), np.concatenate(found_numbers)
    order = np.lexsort((numbers, tasks, np.concatenate(found_keys)))
    return ShardOrder(tasks[order], numbers[order])


def output_numbers(manifest: dict[str, Any]) -> Iterator[NDArray[np.int64]]:
    """For each task of a complete output, the numbers of its documents in the output."""
    counts = {entry["task"]: entry["documents"] for entry in manifest["tasks"]}
    seed, first = manifest["options"]["shuffle"], 0
    if seed is None:
        for count in counts.values():
            yield np.arange(first, first + count, dtype=np.int64)
            first += count
        return
    numbers = {task: np.empty(count, np.int64) for task, count in counts.items()}
    shards = max(1, len(manifest["shuffled"]))
    for shard in range(shards):
        order = shard_order(seed, counts, shard, shards)
        for task, here in by_task(order.tasks):
            numbers[task][order.numbers[here]] = here + first
        first += len(order.tasks)
    yield from numbers.values()


class TaskFiles:
    """The ids of one task in shuffle-tmp/, mapped into memory, and the names of its documents."""

    def __init__(self, folder: Path, task: int, dtype: str) -> None:
        stem = folder / SHUFFLE / f"{task:05d}"
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
        """The first and last offsets of documents in the ids."""
        starts = np.where(numbers > 0, self.ends[np.maximum(numbers - 1, 0)], 0)
        return starts, self.ends[numbers]

    def name(self, number: int) -> str:
        start = int(self._name_ends[number - 1]) if number else 0
        return self._names[start : int(self._name_ends[number])].tobytes().decode()

    def forget(self) -> None:
        """Release pages that were read, which count as memory of this process."""
        for mapped in self._maps:
            if hasattr(mmap, "MADV_DONTNEED"):
                mapped.madvise(mmap.MADV_DONTNEED)


class AllFiles:
    """The files of all tasks. Only a few are open, because each uses file descriptors."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self._folder = folder
        self.dtype = dtype
        self._open: OrderedDict[int, TaskFiles] = OrderedDict()

    def __getitem__(self, task: int) -> TaskFiles:
        found = self._open.pop(task, None)
        if found is None:
            if len(self._open) >= _OPEN_MAX:
                self._open.popitem(last=False)
            found = TaskFiles(self._folder, task, self.dtype)
        self._open[task] = found
        return found

    def forget(self) -> None:
        for files in self._open.values():
            files.forget()


def gather(
    files: AllFiles, found: ShardOrder
) -> Iterator[tuple[slice, NDArray[Any], NDArray[np.int64]]]:
    """Yield the documents of a shard in order, in batches: their slice of the order, ids and ends.

    A document longer than a batch comes in several parts. Only the last part has its end.
    """
    since = 0
    for first in range(0, len(found.tasks), _GATHER_DOCUMENTS):
        some = slice(first, first + _GATHER_DOCUMENTS)
        chosen = ShardOrder(found.tasks[some], found.numbers[some])
        starts, ends = _bounds(files, chosen)
        lengths = ends - starts
        place = 0
        while place < len(lengths):
            sums = np.cumsum(lengths[place:])
            last = place + max(1, int(np.searchsorted(sums, _GATHER_TOKENS, side="right")))
            part = slice(first + place, first + last)
            if lengths[place] > _GATHER_TOKENS:
                ids = files[int(chosen.tasks[place])].ids[starts[place] : ends[place]]
                for start in range(0, len(ids), _GATHER_TOKENS):
                    some_ids = ids[start : start + _GATHER_TOKENS]
                    is_last = start + _GATHER_TOKENS >= len(ids)
                    yield part, some_ids, np.array([len(some_ids)] * is_last, np.int64)
                    files.forget()
            else:
                here = slice(place, last)
                ids = _copy(files, chosen.tasks[here], starts[here], lengths[here])
                yield part, ids, np.cumsum(lengths[here], dtype=np.int64)
            since += int(lengths[place:last].sum())
            place = last
            if since >= _FORGET_TOKENS:
                since = 0
                files.forget()


def _bounds(files: AllFiles, chosen: ShardOrder) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    starts = np.empty(len(chosen.tasks), np.int64)
    ends = np.empty(len(chosen.tasks), np.int64)
    for task, here in by_task(chosen.tasks):
        starts[here], ends[here] = files[task].bounds(chosen.numbers[here])
    return starts, ends


def by_task(tasks: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each task with its positions in `tasks`, in order."""
    order = np.argsort(tasks, kind="stable")
    values, firsts = np.unique(tasks[order], return_index=True)
    yield from zip(values.tolist(), np.split(order, firsts[1:]), strict=True)


def _copy(
    files: AllFiles,
    tasks: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> NDArray[Any]:
    """Concatenate the ids of documents. The file of each task is opened once."""
    out = np.empty(int(lengths.sum()), files.dtype)
    targets = np.cumsum(lengths) - lengths
    for task, here in by_task(tasks):
        ids = files[task].ids
        columns = (targets[here].tolist(), starts[here].tolist(), lengths[here].tolist())
        for target, start, length in zip(*columns, strict=True):
            out[target : target + length] = ids[start : start + length]
    return out


def run_shuffle(job: Job, entries: Entries, shard: int, shards: int) -> dict[str, Any]:
    """Write one shard of the shuffle pass. The seed alone decides its documents and their order."""
    options = job.options
    assert isinstance(job.output, LocalOutput)
    counts = entries.documents()
    found = shard_order(options["shuffle"], counts, shard, shards)
    files = AllFiles(job.output.folder, options["dtype"])
    writer = job.make_shards_writer(shard, _NO_BOUND)
    sources = {task: _sources(entries.tasks[task]) for task in np.unique(found.tasks).tolist()}
    has_names = options["id_field"] is not None
    try:
        for part, ids, ends in gather(files, found):
            chosen = ShardOrder(found.tasks[part], found.numbers[part])
            origins = _rows(chosen, files if has_names else None, sources) if len(ends) else None
            writer.append(ids, ends, origins)
        written = writer.finish()
        job.commit(written)
    except BaseException:
        writer.discard()
        raise
    return {"shuffled": shard, "of": shards, "tasks": digest(counts)} | written


def _sources(entry: dict[str, Any]) -> tuple[NDArray[np.int64], list[str]]:
    """The document ends of each segment of a task, and the names of their sources."""
    counts = [segment["documents"] for segment in entry["segments"]]
    return np.cumsum(counts, dtype=np.int64), [segment["source"] for segment in entry["segments"]]


def _rows(
    chosen: ShardOrder,
    files: AllFiles | None,
    sources: dict[int, tuple[NDArray[np.int64], list[str]]],
) -> Rows:
    pairs = list(zip(chosen.tasks.tolist(), chosen.numbers.tolist(), strict=True))
    named = []
    for task, number in pairs:
        ends, names = sources[task]
        named.append(names[int(np.searchsorted(ends, number, side="right"))])
    documents = None if files is None else [files[task].name(number) for task, number in pairs]
    return Rows(names=documents, sources=named)
