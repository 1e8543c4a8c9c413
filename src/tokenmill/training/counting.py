"""Documents → counts: how often each pretoken occurs in all sources together.

The sources are read in the caller's thread, since an iterator may not like another, and counted in
one beside it: while a batch is counted the next is read. Sources of one weight are counted
together. What does not fit the memory goes to a folder as sorted runs, which are added up at the
end; so does what is weighed, since only sums can be weighed exactly.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tokenmill import arguments
from tokenmill.cluster import Engine
from tokenmill.corpus import Batch, ReadOptions, Source, read
from tokenmill.errors import InputError, TrainingError
from tokenmill.files import write_whole
from tokenmill.native import _native
from tokenmill.training.journal import Journal, Run
from tokenmill.training.progress import Progress, Report, silent

Counts: TypeAlias = "_native.Inventory | _native.CountsFile"

# Of the memory that is allowed, the tables may take this share before they are spilled; sorting
# them, the batches and Python take the rest.
_TABLES_SHARE = 0.4
# An inventory that takes more than this is not kept beside the words that it becomes.
_KEPT_SHARE = 0.2
_BATCHES_IN_MEMORY = 16
_BATCH_BYTES_MIN = 1 << 16
_PART_ENTRIES = 1 << 16


@dataclass(frozen=True, slots=True)
class Plan:
    """What is counted, and within which bounds. With `apart` each source has runs of its own;
    `prepare` gives the texts that stand for those of a batch."""

    sources: list[Source]
    options: ReadOptions
    scheme: str | bytes
    specials: tuple[str, ...]
    metadata: bytes
    folder: Path
    threads: int
    memory: int | None = None
    ordered: bool = False
    apart: bool = False
    progress: Report = silent
    journal: Journal | None = None
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


def metadata(pattern: str, specials: tuple[str, ...]) -> bytes:
    """What a file of counts says about them; it depends on nothing that the counts do not."""
    document = {"pattern": pattern, "specials": sorted(specials)}
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


class _Counting:
    """One run of counting."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._runs: list[Run] = list(plan.journal.runs) if plan.journal else []
        sizes = [source.size for source in plan.sources]
        self._bytes_total = None if None in sizes else sum(size or 0 for size in sizes)
        self._bytes_done = 0
        self._unique = 0
        self._batch_bytes = plan.options.batch_bytes
        if plan.memory is not None:
            fitting = plan.memory // (3 * _BATCHES_IN_MEMORY)
            self._batch_bytes = max(_BATCH_BYTES_MIN, min(self._batch_bytes, fitting))

    def run(self) -> Counted:
        groups = self._groups()
        for index, sources in enumerate(groups):
            if self._plan.journal is not None and index < self._plan.journal.group:
                self._bytes_done += sum(source.size or 0 for source in sources)
                continue
            alone = len(groups) == 1 and not self._plan.apart and self._plan.journal is None
            kept = self._count_group(index, sources, alone)
            if kept is not None:
                path = sources[0].name if isinstance(kept, _native.CountsFile) else None
                return Counted(kept, path)
            if self._plan.journal is not None:
                self._plan.journal.record(self._runs, index + 1)
        counted = self._add_up()
        count = len(self._runs)
        self._plan.progress(Progress("adding up", count, count, unique=self._unique))
        return counted

    def _groups(self) -> list[list[Source]]:
        """Sources that are counted together: those of one weight, or each alone."""
        groups: dict[object, list[Source]] = {}
        for index, source in enumerate(self._plan.sources):
            alone = self._plan.apart or source.kind in ("counts", "mapping")
            groups.setdefault(index if alone else ("weight", source.weight), []).append(source)
        return list(groups.values())

    def _count_group(self, index: int, sources: list[Source], alone: bool) -> Counts | None:
        """Counts one group into runs; or gives its counts back where nothing has to be added."""
        first = sources[0]
        name = first.name if self._plan.apart else ""
        if first.kind == "counts":
            if alone and first.weight == 1:
                return _native.CountsFile(first.name)
            self._runs.append(Run(first.name, first.weight, name, given=True))
            return None
        if first.kind == "mapping":
            inventory = inventory_of(first.given)
            if alone and first.weight == 1:
                return inventory
            path = self._run_path()
            inventory.write(path, self._plan.metadata)
            self._runs.append(Run(path, first.weight, name))
            return None
        if self._plan.engine is not None:
            self._count_on(self._plan.engine, index, sources, name)
            return None
        counter = _native.Counter(
            self._plan.scheme, list(self._plan.specials), secrets.randbits(64), self._plan.ordered
        )
        with ThreadPoolExecutor(1, "tokenmill-count") as pool:
            self._pump(pool, counter, index, sources, name)
        fits = self._plan.memory is None or counter.memory() <= self._plan.memory * _KEPT_SHARE
        is_whole = not any(run.group == index for run in self._runs)
        if self._plan.ordered or (alone and first.weight == 1 and is_whole and fits):
            return counter.take()
        self._spill(counter, index, first.weight, name)
        return None

    def _count_on(self, engine: Engine, index: int, sources: list[Source], name: str) -> None:
        """The same on a cluster."""
        from tokenmill.training.ray_counting import count_on_ray

        def tell(count: int) -> None:
            self._bytes_done += count
            self._plan.progress(Progress("counting", self._bytes_done, self._bytes_total))

        for run in count_on_ray(self._plan, sources, engine, tell):
            path = self._run_path()
            write_whole(Path(path), run)
            self._runs.append(Run(path, sources[0].weight, name, group=index))

    def _pump(
        self,
        pool: ThreadPoolExecutor,
        counter: _native.Counter,
        index: int,
        sources: list[Source],
        name: str,
    ) -> None:
        """Reads a batch while the one before it is counted."""
        pending: Future[None] | None = None
        place = (0, 0)
        for batch, next_place in self._batches(index, sources):
            if pending is not None:
                pending.result()
                self._settle(counter, index, sources[0].weight, name, place)
            prepare = self._plan.prepare
            texts = _as_utf8(batch.texts) if prepare is None else prepare(batch.texts)
            pending = pool.submit(arguments.read_all, counter.add, texts, self._plan.threads)
            place = next_place
        if pending is not None:
            pending.result()
            self._tell(counter)

    def _batches(
        self, index: int, sources: list[Source]
    ) -> Iterator[tuple[Batch, tuple[int, int]]]:
        """Batches of about equal size across the sources, each with the place behind it."""
        journal = self._plan.journal
        first, start = journal.place if journal is not None and journal.group == index else (0, 0)
        self._bytes_done += sum(source.size or 0 for source in sources[:first])
        texts: list[Any] = []
        size = 0
        options = self._plan.options.with_batch_bytes(self._batch_bytes)
        for number, source in enumerate(sources[first:], first):
            before = self._bytes_done
            position = start if number == first else 0
            for batch in read(source, options, position):
                texts += batch.texts
                size += batch.bytes
                self._bytes_done = before + batch.bytes_read
                if size >= self._batch_bytes:
                    yield Batch(texts, size, batch.position, 0), (number, batch.position)
                    texts, size = [], 0
            self._bytes_done = before + source.size if source.size else self._bytes_done
        yield Batch(texts, size, 0, 0), (len(sources), 0)

    def _settle(
        self,
        counter: _native.Counter,
        index: int,
        weight: float,
        name: str,
        place: tuple[int, int],
    ) -> None:
        """What is done between two batches, while the counter is idle."""
        self._tell(counter)
        journal, memory = self._plan.journal, self._plan.memory
        is_full = memory is not None and counter.memory() > memory * _TABLES_SHARE
        if self._plan.ordered:
            if is_full:
                raise TrainingError(
                    f"the counts take more than {_TABLES_SHARE:.0%} of memory={memory:_}, and "
                    "minbpe's ties need all of them in order; allow more, or use other ties"
                )
            return
        if is_full or (journal is not None and journal.is_due()):
            self._spill(counter, index, weight, name)
            if journal is not None:
                journal.record(self._runs, index, place)

    def _spill(self, counter: _native.Counter, index: int, weight: float, name: str) -> None:
        if counter.unique() == 0:
            return
        path = self._run_path()
        counter.spill(path)
        self._runs.append(Run(path, weight, name, group=index))

    def _run_path(self) -> str:
        return str(self._plan.folder / f"run-{len(self._runs):06}.tmc")

    def _tell(self, counter: _native.Counter) -> None:
        self._unique = counter.unique()
        self._plan.progress(
            Progress("counting", self._bytes_done, self._bytes_total, unique=self._unique)
        )

    def _add_up(self) -> Counted:
        """One file of all runs."""
        apart: dict[str, list[Run]] = {}
        for run in self._runs:
            apart.setdefault(run.source, []).append(run)
        if not self._runs:
            raise InputError("the inputs hold no text; give others, or another field or sample")
        self._plan.progress(Progress("adding up", 0, len(self._runs), unique=self._unique))
        [*runs] = self._runs
        if len(runs) == 1 and runs[0].weight == 1:
            return Counted(_native.CountsFile(runs[0].path), runs[0].path, apart)
        output = str(self._plan.folder / "counts.tmc")
        if self._plan.journal is not None and Path(output).exists():
            return Counted(_native.CountsFile(output), output, apart)  # under its name it is whole
        # Sums are weighed, not parts of them: runs of one weight and group are added up first.
        merged = self._add_up_groups(runs)
        paths, weights = [run.path for run in merged], [run.weight for run in merged]
        _native.merge_counts(paths, np.array(weights), output, self._plan.metadata)
        if not self._plan.apart and self._plan.journal is None:
            for run in merged:
                if not run.given:
                    Path(run.path).unlink(missing_ok=True)
        return Counted(_native.CountsFile(output), output, apart)

    def _add_up_groups(self, runs: list[Run]) -> list[Run]:
        merged: list[Run] = []
        for weight in sorted({run.weight for run in runs}):
            equals = [run for run in runs if run.weight == weight]
            if weight == 1 or len(equals) == 1:
                merged += equals
                continue
            path = str(self._plan.folder / f"sum-{len(merged):06}.tmc")
            paths, ones = [run.path for run in equals], np.ones(len(equals))
            _native.merge_counts(paths, ones, path, self._plan.metadata)
            merged.append(Run(path, weight, ""))
        return merged


def _as_utf8(texts: list[Any]) -> list[Any]:
    """The same texts, of which none keeps its UTF-8: CPython would leave it in every str, where it
    takes as much memory again; and it is made while the core counts the texts before."""
    try:
        if all(map(str.isascii, texts)):
            return texts
    except TypeError:  # bytes are among them
        pass
    return [_encoded(t) if isinstance(t, str) and not t.isascii() else t for t in texts]


def _encoded(text: str) -> str | bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate, for which `arguments.read_all` has an answer
        return text
