"""Documents → counts: how often each pretoken occurs in all sources together.

The caller's thread reads the sources, because an iterator may not be thread-safe. A second thread
counts a batch while the next one is read. Sources of one weight are counted together. Counts that
exceed the memory limit go to a folder as sorted runs, which are added up at the end. So do weighted
counts, because only sums can be weighted exactly.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tokenmill import arguments, corpus
from tokenmill.corpus import DocumentOptions, Documents, Rejections, Segment, Source
from tokenmill.corpus.text import refuse_binary
from tokenmill.errors import InputError, TrainingError
from tokenmill.files import write_whole
from tokenmill.native import _native
from tokenmill.progress import Progress, Report, silent
from tokenmill.ray_cluster import Engine
from tokenmill.training.checkpoint import Checkpoint, Run

Counts: TypeAlias = "_native.Inventory | _native.CountsFile"

# Of the memory that is allowed, the tables may take this share before they are spilled; sorting
# them, the batches and Python take the rest.
_TABLES_SHARE = 0.4
# A larger inventory is not kept in memory together with its unique pretokens.
_KEPT_SHARE = 0.2
_BATCHES_IN_MEMORY = 16
# A batch has enough bytes for all threads, and few enough that three of them fit into memory.
_BATCH_BYTES = 16 << 20
_BATCH_BYTES_MIN = 1 << 16
_PART_ENTRIES = 1 << 16
_LOOK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Plan:
    """The inputs, the options and the limits of counting.

    Documents end at `special_tokens`. `sample` is the share of documents that is counted, chosen by
    a hash of each and `seed`. A rejected record is an error, or with `on_error="skip"` a warning.
    `note` receives warnings. With `ordered`, counts are in the order of first occurrence. With
    `apart`, each source has runs of its own. `prepare` turns the texts of a batch into those that
    are counted.
    """

    sources: list[Source]
    scheme: str | bytes
    special_tokens: tuple[str, ...]
    metadata: bytes
    folder: Path
    threads: int
    memory: int | None = None
    field: str = "text"
    utf8: str = "bytes"
    sample: float | None = None
    seed: int = 0
    on_error: str = "fail"
    max_errors: int | None = None
    note: Callable[[str], None] = print
    ordered: bool = False
    apart: bool = False
    progress: Report = silent
    checkpoint: Checkpoint | None = None
    prepare: Callable[[list[Any]], list[Any]] | None = None
    engine: Engine | None = None


@dataclass(slots=True)
class Counted:
    """The counts of all sources, in memory or in the file `path`; with `apart`, runs by source."""

    counts: Counts | None
    path: str | None = None
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def take(self) -> Counts:
        """The counts, which are then the caller's alone: words need their memory."""
        assert self.counts is not None
        counts, self.counts = self.counts, None
        return counts


def count_documents(plan: Plan) -> Counted:
    """The counts of all sources of a plan."""
    return _Counting(plan).run()


def metadata(pattern: str, special_tokens: tuple[str, ...]) -> bytes:
    """The metadata of a file of counts: the options that the counts depend on."""
    document = {"pattern": pattern, "specials": sorted(special_tokens)}
    return json.dumps(document, ensure_ascii=False).encode()


def inventory_of(counts: Mapping[Any, Any]) -> _native.Inventory:
    """The counts of a mapping, in its order."""
    keys, values = [], []
    for key, value in counts.items():
        if not isinstance(key, str | bytes):
            raise TypeError(f"counts map pretokens, str or bytes, to ints, not {key!r}")
        number = arguments.whole_number(value, f"the count of {key!r}", 0)
        if number >= 1 << 64:
            raise TrainingError(f"the count of {key!r} must be below 2^64, not {number}")
        if number and key:
            keys.append(key.encode() if isinstance(key, str) else key)
            values.append(number)
    if len(set(keys)) < len(keys):
        raise TrainingError("counts have a pretoken both as str and as bytes; use one of the two")
    lengths = np.fromiter(map(len, keys), np.uint32, len(keys))
    return _native.Inventory(b"".join(keys), lengths, np.array(values, np.uint64))


def parts(counts: Counts) -> Iterator[_native.Inventory]:
    """The counts in parts that fit any memory."""
    if isinstance(counts, _native.Inventory):
        yield counts
        return
    counts.rewind()
    while (part := counts.read(_PART_ENTRIES)) is not None:
        yield part


def bytes_seen(counts: Counts | None) -> set[int]:
    """The bytes that occur."""
    assert counts is not None
    seen = np.zeros(256, bool)
    for part in parts(counts):
        seen[np.unique(np.asarray(part.arrays()[0]))] = True
    return set(np.flatnonzero(seen).tolist())


@dataclass(frozen=True, slots=True)
class _Group:
    """Sources of one weight, which are counted together, or one source with its `name`."""

    index: int
    sources: list[Source]
    name: str

    @property
    def weight(self) -> float:
        return self.sources[0].weight


class _Counting:
    """One run of counting."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._checkpoint = plan.checkpoint
        self._runs: list[Run] = list(plan.checkpoint.runs) if plan.checkpoint else []
        sizes = [source.size for source in plan.sources]
        self._bytes_total = None if None in sizes else sum(size or 0 for size in sizes)
        self._bytes_done = 0
        self._unique = 0
        self._batch_bytes = _BATCH_BYTES
        self._rejections = Rejections(plan.on_error, plan.max_errors)
        if plan.memory is not None:
            fitting = plan.memory // (3 * _BATCHES_IN_MEMORY)
            self._batch_bytes = max(_BATCH_BYTES_MIN, min(self._batch_bytes, fitting))

    def run(self) -> Counted:
        self._check_field()
        groups = self._groups()
        is_alone = len(groups) == 1 and groups[0].weight == 1
        is_alone = is_alone and not self._plan.apart and self._checkpoint is None
        for group in groups:
            if self._checkpoint is not None and group.index < self._checkpoint.group:
                self._bytes_done += sum(source.size or 0 for source in group.sources)
                continue
            counts = self._count_group(group, is_alone)
            if counts is not None:
                is_file = isinstance(counts, _native.CountsFile)
                return Counted(counts, group.sources[0].name if is_file else None)
            if self._checkpoint is not None:
                self._checkpoint.record(self._runs, group.index + 1)
        counted = self._add_up()
        count = len(self._runs)
        self._plan.progress(Progress("adding up", count, count, unique=self._unique))
        return counted

    def _check_field(self) -> None:
        """Raise before hours of work if the records have no text in the field."""
        options = DocumentOptions(self._plan.field, utf8=self._plan.utf8)
        error = corpus.find_wrong_field(self._plan.sources, options)
        if error is not None:
            raise InputError(error)

    def _groups(self) -> list[_Group]:
        """Sources that are counted together: those of one weight, or each alone."""
        groups: dict[object, list[Source]] = {}
        for index, source in enumerate(self._plan.sources):
            alone = self._plan.apart or source.kind in ("counts", "mapping")
            groups.setdefault(index if alone else ("weight", source.weight), []).append(source)
        return [
            _Group(index, sources, sources[0].name if self._plan.apart else "")
            for index, sources in enumerate(groups.values())
        ]

    def _count_group(self, group: _Group, is_alone: bool) -> Counts | None:
        """Count one group into runs. Return its counts instead if no others are added."""
        first = group.sources[0]
        if first.kind == "counts":
            if is_alone:
                return _native.CountsFile(first.name)
            self._runs.append(Run(first.name, first.weight, group.name, given=True))
            return None
        if first.kind == "mapping":
            inventory = inventory_of(first.given)
            if is_alone:
                return inventory
            inventory.write(self._add_run(group), self._plan.metadata)
            return None
        if self._plan.engine is not None:
            self._count_on(self._plan.engine, group)
            return None
        plan = self._plan
        names = list(plan.special_tokens)
        counter = _native.Counter(plan.scheme, names, secrets.randbits(64), plan.ordered)
        with ThreadPoolExecutor(1, "tokenmill-count") as pool:
            self._pump(pool, counter, group)
        fits = plan.memory is None or counter.memory() <= plan.memory * _KEPT_SHARE
        is_whole = not any(run.group == group.index for run in self._runs)
        if plan.ordered or (is_alone and is_whole and fits):
            return counter.take()
        self._spill(counter, group)
        return None

    def _count_on(self, engine: Engine, group: _Group) -> None:
        """The same on a cluster."""
        from tokenmill.training.ray_counting import count_on_ray

        def report(count: int) -> None:
            self._bytes_done += count
            self._plan.progress(Progress("counting", self._bytes_done, self._bytes_total))

        for run in count_on_ray(self._plan, group.sources, engine, report):
            write_whole(Path(self._add_run(group)), run)

    def _pump(self, pool: ThreadPoolExecutor, counter: _native.Counter, group: _Group) -> None:
        """Read a batch while the one before it is counted."""
        pending: Future[None] | None = None
        position = (0, 0)
        for blocks, next_position in self._batches(group):
            if pending is not None:
                pending.result()
                self._report(counter)
                self._save(counter, group, position)
            pending = pool.submit(self._count, counter, blocks)
            position = next_position
        if pending is not None:
            pending.result()
            self._report(counter)
        if rejected := self._rejections.count:
            self._plan.note(
                f"{rejected:,} record{'s'[: rejected != 1]} gave no document, the first: "
                f"{self._rejections.first}"
            )

    def _count(self, counter: _native.Counter, blocks: list[Documents]) -> None:
        prepare = self._plan.prepare
        if prepare is not None:
            texts = prepare([text for block in blocks for text in _texts(block)])
            arguments.read_all(counter.add, texts, self._plan.threads)
            return
        spans = [(block.data, np.ascontiguousarray(block.spans), block.goes_on) for block in blocks]
        counter.add_blocks(spans, self._plan.threads)

    def _batches(self, group: _Group) -> Iterator[tuple[list[Documents], tuple[int, int]]]:
        """Blocks of documents in batches of about equal size, and the position after each.

        A position is the number of a source, and the number of bytes of its documents that were
        read.
        """
        first, start = (0, 0)
        if self._checkpoint is not None and self._checkpoint.group == group.index:
            first, start = self._checkpoint.place
        self._bytes_done += sum(source.size or 0 for source in group.sources[:first])
        blocks: list[Documents] = []
        size = 0
        for number, source in enumerate(group.sources[first:], first):
            before = self._bytes_done
            position = start if number == first else 0
            is_open = False
            for documents in self._read(source, position):
                bytes_ = int((documents.spans[:, 1] - documents.spans[:, 0]).sum())
                position += bytes_
                size += bytes_
                blocks.append(self._sampled(documents))
                is_open = documents.goes_on
                self._bytes_done = before + documents.bytes_read
                if size >= self._batch_bytes:
                    yield blocks, (number, position)
                    blocks, size = [], 0
            if is_open:  # the file failed in a document
                blocks.append(Documents(spans=np.zeros((1, 2), np.int64)))
            self._bytes_done = before + source.size if source.size else self._bytes_done
        yield blocks, (len(group.sources), 0)

    def _read(self, source: Source, start: int) -> Iterator[Documents]:
        """The documents of a source, without the first `start` bytes of them."""
        plan = self._plan
        needs_whole = plan.prepare is not None or plan.sample is not None
        if source.kind == "text" and needs_whole:
            source = replace(source, kind="lines")  # a text file has no other parts to choose from
        options = DocumentOptions(
            plan.field, utf8=plan.utf8, block_bytes=self._batch_bytes, keep_newlines=True
        )
        is_first = source.kind in ("text", "lines")
        documents = corpus.read_once(Segment(source), options)
        documents = corpus.join_parts(documents) if needs_whole else documents
        for block in _without_start(documents, start):
            # Records with null are skipped: they are common in tables.
            self._rejections.add([one for one in block.problems if one.cause != "null"])
            if is_first and len(block.spans):
                is_first = False
                warning = refuse_binary(bytes(memoryview(block.data)[:_LOOK_BYTES]), source.name)
                if warning is not None:
                    plan.note(warning)
            if len(block.spans):
                yield block

    def _sampled(self, documents: Documents) -> Documents:
        """The documents of the sample: those with a low hash.

        The hash is of the bytes alone. So the choice depends neither on the order nor on threads,
        and copies of a document are chosen together.
        """
        share = self._plan.sample
        if share is None:
            return documents
        limit = int(share * 2**64)
        key = self._plan.seed.to_bytes(8, "little")
        chosen = [_hash(text, key) < limit for text in _texts(documents)]
        return Documents(documents.data, documents.spans[np.array(chosen, bool)])

    def _save(self, counter: _native.Counter, group: _Group, place: tuple[int, int]) -> None:
        """Spill the counts and record the position if it is time, while the counter is idle."""
        memory = self._plan.memory
        is_full = memory is not None and counter.memory() > memory * _TABLES_SHARE
        if self._plan.ordered and is_full:
            raise TrainingError(
                f"the counts take more than {_TABLES_SHARE:.0%} of memory={memory:_}, and this "
                "trainer needs all of them in order; raise memory or choose another trainer"
            )
        if is_full or (self._checkpoint is not None and self._checkpoint.is_due()):
            # The end of an open document is in the counter, and not in the runs.
            place = (place[0], place[1] - counter.open_bytes())
            self._spill(counter, group)
            if self._checkpoint is not None:
                self._checkpoint.record(self._runs, group.index, place)

    def _spill(self, counter: _native.Counter, group: _Group) -> None:
        if counter.unique():
            counter.spill(self._add_run(group))

    def _add_run(self, group: _Group) -> str:
        """The path of a new run, which the caller writes."""
        path = str(self._plan.folder / f"run-{len(self._runs):06}.tmc")
        self._runs.append(Run(path, group.weight, group.name, group=group.index))
        return path

    def _report(self, counter: _native.Counter) -> None:
        self._unique = counter.unique()
        self._plan.progress(
            Progress("counting", self._bytes_done, self._bytes_total, unique=self._unique)
        )

    def _add_up(self) -> Counted:
        """One file of all runs."""
        runs, plan = self._runs, self._plan
        if not runs:
            return Counted(None)
        apart: dict[str, list[Run]] = {}
        for run in runs:
            apart.setdefault(run.source, []).append(run)
        plan.progress(Progress("adding up", 0, len(runs), unique=self._unique))
        path = str(plan.folder / "counts.tmc")
        if len(runs) == 1 and runs[0].weight == 1:
            path = runs[0].path
        # A file of this name is complete.
        elif self._checkpoint is None or not Path(path).exists():
            merged = [
                run for weight in sorted({r.weight for r in runs}) for run in self._sum(weight)
            ]
            weights = np.array([run.weight for run in merged])
            _native.merge_counts([run.path for run in merged], weights, path, plan.metadata)
            if not plan.apart and self._checkpoint is None:
                for run in merged:
                    if not run.given:
                        Path(run.path).unlink(missing_ok=True)
        return Counted(_native.CountsFile(path), path, apart)

    def _sum(self, weight: float) -> list[Run]:
        """The runs of a weight, added up: a weight multiplies sums, not parts of them."""
        runs = [run for run in self._runs if run.weight == weight]
        if weight == 1 or len(runs) == 1:
            return runs
        path = str(self._plan.folder / f"sum-{weight}.tmc")
        paths = [run.path for run in runs]
        _native.merge_counts(paths, np.ones(len(runs)), path, self._plan.metadata)
        return [Run(path, weight, "")]


def _texts(documents: Documents) -> Iterator[memoryview]:
    view = memoryview(documents.data)
    return (view[start:end] for start, end in documents.spans.tolist())


def _hash(text: memoryview, key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, key=key).digest(), "little")


def _without_start(blocks: Iterator[Documents], size: int) -> Iterator[Documents]:
    """The documents after their first `size` bytes."""
    for block in blocks:
        ends = np.cumsum(block.spans[:, 1] - block.spans[:, 0])
        if size == 0 or not len(ends):
            yield block
            continue
        first = int(np.searchsorted(ends, size, side="right"))
        before = int(ends[first - 1]) if first else 0
        spans = block.spans[first:].copy()
        if len(spans):
            spans[0, 0] += size - before
        yield replace(block, spans=spans)
        size = max(0, size - int(ends[-1]))
