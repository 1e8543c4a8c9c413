"""Documents of all tasks → shards in an order that a seed decides.

Each document gets a key, which is a hash of the seed, its task and its number there. A shard is a
range of keys, and its documents are sorted by them. So a shard can be written without a list of all
documents, by any worker. Tasks write their ids and document ends to shuffle-tmp/ before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.shards.files import read_flat
from tokenmill.shards.samples import mix_bits
from tokenmill.shards.shard_format import Rows
from tokenmill.tokenizing.journal import SHUFFLE, Entries
from tokenmill.tokenizing.output import LocalOutput
from tokenmill.tokenizing.split import sets_of
from tokenmill.tokenizing.task import Job
from tokenmill.tokenizing.writer import ENDS, IDS, NAME_ENDS, NAMES

_GATHER_TOKENS = 1 << 20
_GATHER_DOCUMENTS = 1 << 16
_SHARD_DOCUMENTS = 1 << 20
_NO_BOUND = 1 << 62


def keys(seed: int, task: int, count: int) -> NDArray[np.uint64]:
    """The key of each document of a task, evenly distributed (splitmix64)."""
    with np.errstate(over="ignore"):
        start = mix_bits(np.array([seed], np.uint64)) + np.uint64(task) * np.uint64(
            0x9E3779B97F4A7C15
        )
        return mix_bits(
            mix_bits(start) + np.arange(count, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)
        )


def shard_count(tokens: int, documents: int, shard_tokens: int) -> int:
    """The number of shards of a shuffled run. Each shard is sorted in memory."""
    return max(1, -(-tokens // shard_tokens), -(-documents // _SHARD_DOCUMENTS))


def shard_counts(entries: Entries, options: Mapping[str, Any]) -> dict[str, int]:
    """The number of shards of each set. Without sets, the only name is empty."""
    found = {}
    for name in sets_of(options) or ("",):
        tasks = entries.of_set(name).tasks.values()
        tokens = sum(entry["tokens"] for entry in tasks)
        documents = sum(entry["documents"] for entry in tasks)
        found[name] = shard_count(tokens, documents, options["shard_tokens"])
    return found


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
    low, high = (shard << 64) // shards, ((shard + 1) << 64) // shards
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


def gather(
    folder: Path, dtype: str, found: ShardOrder
) -> Iterator[tuple[slice, NDArray[Any], NDArray[np.int64]]]:
    """Yield the documents of a shard in order, in batches: their slice of the order, ids and ends.

    A document longer than a batch comes in several parts. Only the last part has its end.
    """
    for first in range(0, len(found.tasks), _GATHER_DOCUMENTS):
        some = slice(first, first + _GATHER_DOCUMENTS)
        tasks, numbers = found.tasks[some], found.numbers[some]
        starts, lengths = _places(folder, tasks, numbers)
        sums = np.cumsum(lengths)
        index = 0
        while index < len(lengths):
            before = int(sums[index] - lengths[index])
            last = int(np.searchsorted(sums, before + _GATHER_TOKENS, side="right"))
            here = slice(index, max(last, index + 1))
            part = slice(first + here.start, first + here.stop)
            if last > index:
                ids = _copy(folder, dtype, tasks[here], starts[here], lengths[here])
                yield part, ids, sums[here] - before
            else:
                for start in range(0, int(lengths[index]), _GATHER_TOKENS):
                    length = min(_GATHER_TOKENS, int(lengths[index]) - start)
                    ids = _copy(
                        folder, dtype, tasks[here], starts[here] + start, np.array([length])
                    )
                    is_last = start + length == lengths[index]
                    yield part, ids, np.array([length] * is_last, np.int64)
            index = here.stop


# The files of a task are mapped again for each batch, because each map needs a file descriptor, and
# the pages of a map count as memory of this process.


def _map(folder: Path, task: int, suffix: str, dtype: str = "<i8") -> NDArray[Any]:
    """The items of a file of a task in shuffle-tmp/, mapped."""
    return read_flat(folder / SHUFFLE / f"{task:05d}{suffix}", dtype)


def _bounds(ends: NDArray[Any], numbers: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The starts and ends of items with these numbers."""
    return np.where(numbers > 0, ends[np.maximum(numbers - 1, 0)], 0), ends[numbers]


def _places(
    folder: Path, tasks: NDArray[np.int64], numbers: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The starts of documents in the ids of their tasks, and their lengths."""
    starts, ends = np.empty_like(numbers), np.empty_like(numbers)
    for task, here in by_task(tasks):
        starts[here], ends[here] = _bounds(_map(folder, task, ENDS), numbers[here])
    return starts, ends - starts


def by_task(tasks: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each task with its positions in `tasks`, in order."""
    order = np.argsort(tasks, kind="stable")
    values, firsts = np.unique(tasks[order], return_index=True)
    yield from zip(values.tolist(), np.split(order, firsts[1:]), strict=True)


def _copy(
    folder: Path,
    dtype: str,
    tasks: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> NDArray[Any]:
    """Concatenate ids. The file of each task is opened once."""
    out = np.empty(int(lengths.sum()), dtype)
    targets = np.cumsum(lengths) - lengths
    for task, here in by_task(tasks):
        ids = _map(folder, task, IDS, dtype)
        columns = (targets[here].tolist(), starts[here].tolist(), lengths[here].tolist())
        for target, start, length in zip(*columns, strict=True):
            out[target : target + length] = ids[start : start + length]
    return out


def run_shuffle(job: Job, entries: Entries, number: int, count: int) -> dict[str, Any]:
    """Write one of all shards. The seed alone decides its documents and their order."""
    options = job.options
    assert isinstance(job.output, LocalOutput)
    shard = number
    for name, shards in shard_counts(entries, options).items():  # noqa: B007 (used below)
        if shard < shards:
            break
        shard -= shards
    part = entries.of_set(name)
    folder = job.output.folder / name
    found = shard_order(options["shuffle"], part.documents(), shard, shards)
    in_set = f"{name}/" if name else ""
    writer = job.make_shards_writer(shard, _NO_BOUND, in_set)
    has_names = options["id_field"] is not None
    try:
        for some, ids, ends in gather(folder, options["dtype"], found):
            rows = None
            if len(ends):
                chosen = ShardOrder(found.tasks[some], found.numbers[some])
                rows = _rows(folder, chosen, part, has_names)
            writer.append(ids, ends, rows)
        written = writer.finish_entry()
        job.commit(written, in_set)
    except BaseException:
        writer.discard()
        raise
    entry = {"shuffled": number, "of": count, "tasks": digest(entries.documents())}
    return entry | ({"shards": [], "sets": {name: written}} if name else written)


def _rows(folder: Path, chosen: ShardOrder, entries: Entries, has_names: bool) -> Rows:
    """The sources of documents, and their names if the tasks have kept them."""
    names = [""] * len(chosen.tasks)
    sources = [""] * len(chosen.tasks)
    for task, here in by_task(chosen.tasks):
        numbers = chosen.numbers[here]
        segments = entries.tasks[task]["segments"]
        ends = np.cumsum([segment["documents"] for segment in segments])
        found = np.searchsorted(ends, numbers, side="right").tolist()
        for index, segment in zip(here.tolist(), found, strict=True):
            sources[index] = segments[segment]["source"]
        if has_names:
            text = _map(folder, task, NAMES, "u1")
            spans = zip(*_bounds(_map(folder, task, NAME_ENDS), numbers), strict=True)
            for index, (start, end) in zip(here.tolist(), spans, strict=True):
                names[index] = text[start:end].tobytes().decode()
    return Rows(names=names if has_names else None, sources=sources)
