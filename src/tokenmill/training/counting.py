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
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tokenmill import arguments, corpus, ray_cluster
from tokenmill.corpus import DocumentOptions, Documents, Rejections, Segment, Source
from tokenmill.corpus.text import refuse_binary
from tokenmill.errors import ClusterError, InputError, TrainingError
from tokenmill.files import write_whole
from tokenmill.native import _native
from tokenmill.options import table
from tokenmill.patterns.schemes import scheme_of
from tokenmill.progress import Progress
from tokenmill.training.checkpoint import Checkpoint, Run
from tokenmill.training.merging import TRAINERS
from tokenmill.training.options import CountOptions, note

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
# Of a run on a cluster.
_TASKS_PER_PROCESSOR = 4
_RUNS_PER_TASK = 8
_WAIT_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Plan:
    """The inputs and the options of counting, as `resolve_options` returns them.

    Documents end at the texts `cut_at`. `prepare` turns the texts of a batch into those that are
    counted.
    """

    sources: list[Source]
    options: Mapping[str, Any]
    pattern: str
    cut_at: tuple[str, ...]
    folder: Path
    checkpoint: Checkpoint | None = None
    prepare: Callable[[list[Any]], list[Any]] | None = None

    @property
    def metadata(self) -> bytes:
        return metadata(self.pattern, self.cut_at)

    @property
    def threads(self) -> int:
        return arguments.thread_count(self.options["threads"])

    @property
    def is_ordered(self) -> bool:
        """Whether the trainer needs the counts in the order of first occurrence."""
        trainer = self.options.get("trainer")
        return trainer is not None and TRAINERS[trainer].needs_order

    @property
    def is_apart(self) -> bool:
        """Whether each source has runs of its own, for the report."""
        return self.options.get("report") is not None

    def progress(self, state: Progress) -> None:
        """Call the function that the user gave."""
        report = self.options["progress"]
        if report is not None:
            report(state)


@dataclass(slots=True)
class Counted:
    """The counts of all sources, in memory or in the file `path`; with `apart`, runs by source."""

    counts: Counts
    path: str | None = None
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def take(self) -> Counts:
        """The counts, which are then the caller's alone: words need their memory."""
        counts = self.counts
        del self.counts
        return counts

    def write(self, path: str, metadata: bytes) -> None:
        """Write the counts into another file."""
        if isinstance(self.counts, _native.Inventory):
            self.counts.write(path, metadata)
        else:
            _native.merge_counts([self.path], np.ones(1), path, metadata)


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


def bytes_seen(counts: Counts) -> set[int]:
    """The bytes that occur."""
    return {byte for part in parts(counts) for byte in np.unique(part.arrays()[0]).tolist()}


class _Counting:
    """One run of counting. Sources of a group have one weight and are counted together."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._checkpoint = plan.checkpoint
        self._runs: list[Run] = list(plan.checkpoint.runs) if plan.checkpoint else []
        is_known = all(source.size is not None for source in plan.sources)
        self._bytes_total = _size(plan.sources) if is_known else None
        self._bytes_done = 0
        self._unique = 0
        self._batch_bytes = _BATCH_BYTES
        self._rejections = Rejections(plan.options["on_error"], plan.options["max_errors"])
        self._memory: int | None = plan.options["memory"]
        if self._memory is not None:
            fitting = self._memory // (3 * _BATCHES_IN_MEMORY)
            self._batch_bytes = max(_BATCH_BYTES_MIN, min(self._batch_bytes, fitting))

    def run(self) -> Counted:
        plan, checkpoint = self._plan, self._checkpoint
        options = DocumentOptions(plan.options["field"], utf8=plan.options["utf8"])
        if (error := corpus.find_wrong_field(plan.sources, options)) is not None:
            raise InputError(error)  # before hours of work
        groups = self._groups()
        is_alone = len(groups) == 1 and groups[0][0].weight == 1
        is_alone = is_alone and not plan.is_apart and checkpoint is None
        for index, sources in enumerate(groups):
            if checkpoint is not None and index < checkpoint.group:
                self._bytes_done += _size(sources)
                continue
            counts = self._count_group(index, sources, is_alone)
            if counts is not None:
                is_file = isinstance(counts, _native.CountsFile)
                return Counted(counts, sources[0].name if is_file else None)
            if checkpoint is not None:
                checkpoint.record(self._runs, index + 1)
        counted = self._add_up()
        count = len(self._runs)
        plan.progress(Progress("adding up", count, count, unique=self._unique))
        return counted

    def _groups(self) -> list[list[Source]]:
        groups: dict[object, list[Source]] = {}
        for index, source in enumerate(self._plan.sources):
            alone = self._plan.is_apart or source.kind in ("counts", "mapping")
            groups.setdefault(index if alone else ("weight", source.weight), []).append(source)
        return list(groups.values())

    def _count_group(self, index: int, sources: list[Source], is_alone: bool) -> Counts | None:
        """Count one group into runs. Return its counts instead if no others are added."""
        plan, first = self._plan, sources[0]
        if first.kind == "counts":
            if is_alone:
                return _native.CountsFile(first.name)
            self._add_run(first, first.name)
            return None
        if first.kind == "mapping":
            inventory = inventory_of(first.given)
            if is_alone:
                return inventory
            inventory.write(self._add_run(first), plan.metadata)
            return None
        if plan.options["engine"] == ray_cluster.RAY:
            self._count_on_ray(sources)
            return None
        separator = plan.options["separator"]
        names = [*plan.cut_at, separator] if separator else [*plan.cut_at]
        scheme, seed = scheme_of(plan.pattern), secrets.randbits(64)
        counter = _native.Counter(scheme, names, seed, plan.is_ordered)
        self._count_documents(counter, index, sources)
        fits = self._memory is None or counter.memory() <= self._memory * _KEPT_SHARE
        if plan.is_ordered or (is_alone and fits and not self._runs):
            return counter.take()
        self._spill(counter, first)
        return None

    def _count_on_ray(self, sources: list[Source]) -> None:
        """Count the files of a group on a cluster."""

        def report(count: int) -> None:
            self._bytes_done += count
            self._plan.progress(Progress("counting", self._bytes_done, self._bytes_total))

        run = count_on_ray(self._plan, sources, report)
        write_whole(Path(self._add_run(sources[0])), run)

    def _count_documents(self, counter: _native.Counter, index: int, sources: list[Source]) -> None:
        """Read a batch while the one before it is counted."""
        pending: Future[None] | None = None
        position = (0, 0)
        with ThreadPoolExecutor(1, "tokenmill-count") as pool:
            for blocks, next_position in self._batches(index, sources):
                if pending is not None:
                    self._finish(pending, counter)
                    self._save(counter, index, sources[0], position)
                pending = pool.submit(self._count, counter, blocks)
                position = next_position
            if pending is not None:
                self._finish(pending, counter)
        if rejected := self._rejections.count:
            note(
                f"{rejected:,} record{'s'[: rejected != 1]} gave no document, the first: "
                f"{self._rejections.first}"
            )

    def _finish(self, pending: Future[None], counter: _native.Counter) -> None:
        """Wait until a batch is counted."""
        pending.result()
        self._unique = counter.unique()
        self._plan.progress(
            Progress("counting", self._bytes_done, self._bytes_total, unique=self._unique)
        )

    def _count(self, counter: _native.Counter, blocks: list[Documents]) -> None:
        prepare = self._plan.prepare
        if prepare is not None:
            texts = prepare([text for block in blocks for text in _texts(block)])
            counter.add(texts, self._plan.threads)
            return
        spans = [(block.data, np.ascontiguousarray(block.spans), block.goes_on) for block in blocks]
        counter.add_blocks(spans, self._plan.threads)

    def _batches(
        self, index: int, sources: list[Source]
    ) -> Iterator[tuple[list[Documents], tuple[int, int]]]:
        """Blocks of documents in batches of about equal size, and the position after each.

        A position is the number of a source, and the number of bytes of its documents that were
        read.
        """
        first, start = (0, 0)
        if self._checkpoint is not None and self._checkpoint.group == index:
            first, start = self._checkpoint.place
        self._bytes_done += _size(sources[:first])
        blocks: list[Documents] = []
        size = 0
        for number, source in enumerate(sources[first:], first):
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
        yield blocks, (len(sources), 0)

    def _read(self, source: Source, start: int) -> Iterator[Documents]:
        """The documents of a source, without the first `start` bytes of them."""
        plan = self._plan
        needs_whole = plan.prepare is not None or plan.options["sample"] is not None
        if source.kind == "text" and needs_whole:
            source = replace(source, kind="lines")  # a text file has no other parts to choose from
        options = DocumentOptions(
            plan.options["field"],
            utf8=plan.options["utf8"],
            block_bytes=self._batch_bytes,
            keep_newlines=True,
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
                    note(warning)
            if len(block.spans):
                yield block

    def _sampled(self, documents: Documents) -> Documents:
        """The documents of the sample: those with a low hash.

        The hash is of the bytes alone. So the choice depends neither on the order nor on threads,
        and copies of a document are chosen together.
        """
        share = self._plan.options["sample"]
        if share is None:
            return documents
        limit = int(share * 2**64)
        key = self._plan.options["seed"].to_bytes(8, "little")
        hashes = (hashlib.blake2b(t, digest_size=8, key=key).digest() for t in _texts(documents))
        chosen = [int.from_bytes(one, "little") < limit for one in hashes]
        return Documents(documents.data, documents.spans[np.array(chosen, bool)])

    def _save(
        self, counter: _native.Counter, index: int, first: Source, place: tuple[int, int]
    ) -> None:
        """Spill the counts and record the position if it is time, while the counter is idle."""
        memory = self._memory
        is_full = memory is not None and counter.memory() > memory * _TABLES_SHARE
        if self._plan.is_ordered and is_full:
            raise TrainingError(
                f"the counts take more than {_TABLES_SHARE:.0%} of memory={memory:_}, and this "
                "trainer needs all of them in order; raise memory or choose another trainer"
            )
        if is_full or (self._checkpoint is not None and self._checkpoint.is_due()):
            # The end of an open document is in the counter, and not in the runs.
            place = (place[0], place[1] - counter.open_bytes())
            self._spill(counter, first)
            if self._checkpoint is not None:
                self._checkpoint.record(self._runs, index, place)

    def _spill(self, counter: _native.Counter, first: Source) -> None:
        if counter.unique():
            counter.spill(self._add_run(first))

    def _add_run(self, first: Source, given: str | None = None) -> str:
        """The path of a new run of the group that begins with a source. The caller writes it."""
        path = given or str(self._plan.folder / f"run-{len(self._runs):06}.tmc")
        name = first.name if self._plan.is_apart else ""
        self._runs.append(Run(path, first.weight, name, given is not None))
        return path

    def _add_up(self) -> Counted:
        """One file of all runs."""
        runs, plan = self._runs, self._plan
        if not runs:
            return Counted(inventory_of({}))
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
            if not plan.is_apart and self._checkpoint is None:
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


def _size(sources: Iterable[Source]) -> int:
    return sum(source.size or 0 for source in sources)


def _texts(documents: Documents) -> Iterator[memoryview]:
    view = memoryview(documents.data)
    return (view[start:end] for start, end in documents.spans.tolist())


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


def count_on_ray(plan: Plan, sources: list[Source], report: Callable[[int], None]) -> bytes:
    """The counts of files as a run, on a Ray cluster.

    A task counts some of the files and returns a run. Other tasks add up a few runs each, in
    several rounds, until one is left. `report` is called with numbers of bytes of files that are
    counted.
    """
    for source in sources:
        if not source.is_file:
            raise TrainingError(
                f"the engine ray counts files, which its machines can read, not {source.name!r}; "
                "count it on this machine into a .tmc file, and give that"
            )
    running: dict[Any, list[Source]] = {}
    address = plan.options["ray_address"]
    with ray_cluster.connected(address, plan.threads, lambda: running) as ray:
        processors = ray_cluster.processors(ray)
        # Sums are weighed, not parts of them.
        plain = [replace(source, weight=1.0) for source in sources]
        # Objects of this process are not sent.
        options = {name: plan.options[name] for name in table(CountOptions)}
        options |= {"threads": 1, "progress": None, "engine": ray_cluster.LOCAL}
        lean = replace(plan, sources=[], options=options, checkpoint=None)
        count = ray.remote(num_cpus=1, num_returns=2)(_count)
        add_up = ray.remote(num_cpus=1)(_add_up)
        runs = []
        for chunk in _chunks(plain, _TASKS_PER_PROCESSOR * processors):
            run, end = count.remote(lean, chunk, str(Path.cwd()))
            runs.append(run)
            running[end] = chunk
        while len(runs) > 1:
            starts = range(0, len(runs), _RUNS_PER_TASK)
            groups = [runs[start : start + _RUNS_PER_TASK] for start in starts]
            runs = [add_up.remote(plan.metadata, *group) for group in groups]
        while running:
            ready, _ = ray.wait(list(running), timeout=_WAIT_SECONDS)
            for reference in ready:
                _get(ray, reference)
                report(sum(source.size or 0 for source in running.pop(reference)))
        found: bytes = _get(ray, runs[0])
        return found


def _chunks(sources: list[Source], most: int) -> list[list[Source]]:
    """The files in groups of about as many bytes: each goes to the one that has the fewest."""
    groups: list[list[Source]] = [[] for _ in range(min(most, len(sources)))]
    sizes = [0] * len(groups)
    for source in sorted(sources, key=lambda source: -(source.size or 0)):
        least = sizes.index(min(sizes))
        groups[least].append(source)
        sizes[least] += (source.size or 0) + 1
    return groups


def _get(ray: Any, reference: Any) -> Any:
    """The output of a task, or its error."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause or error
        if isinstance(cause, RuntimeError) and "failed to import" in str(cause):  # as Ray says it
            raise ClusterError(ray_cluster.cannot_run(error)) from None
        raise cause from None  # the error of the task itself
    except ray.exceptions.RayError as error:
        raise ClusterError(
            f"a part of the counting was lost with its machine, more often than Ray tries again "
            f"({type(error).__name__}); give tasks more memory, or begin again"
        ) from None


def _count(plan: Plan, sources: list[Source], folder: str) -> tuple[bytes, bool]:
    """Count files on a machine of the cluster: the run, and True at the end."""
    ray_cluster.enter(folder)
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as temporary:
        mine = replace(plan, sources=sources, folder=Path(temporary))
        path = Path(temporary) / "run.tmc"
        count_documents(mine).write(str(path), plan.metadata)
        return path.read_bytes(), True


def _add_up(metadata: bytes, *runs: bytes) -> bytes:
    """One run with the sums of several."""
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as temporary:
        paths = [Path(temporary) / f"{index}.tmc" for index in range(len(runs))]
        for path, run in zip(paths, runs, strict=True):
            path.write_bytes(run)
        output = Path(temporary) / "sum.tmc"
        _native.merge_counts(list(map(str, paths)), np.ones(len(runs)), str(output), metadata)
        return output.read_bytes()
