"""The progress of a long run, as a `progress` function gets it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Phase: TypeAlias = Literal[
    "counting", "adding up", "merging", "reporting", "tokenizing",
    "comparing inputs", "checking files", "comparing", "reading shards",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a phase of `train`, `count_pretokens`, `tokenize` or `finalize`.

    `done` of `total` are bytes of input files in the phases "counting" and "tokenizing", merges in
    "merging". `total` is None if it is unknown, for example for a pipe.

    Training has three figures. `unique` is about the number of unique pretokens so far.
    `best_count` is the count of the last merge. At the end of merging, `min_tracked_count` is the
    count below which pairs were not tracked. No merge has a lower count.

    `tokenize` and `finalize` have the others. `resumed` and `tokens_resumed` are the bytes and
    tokens of tasks that were done before. `seconds` is the time since the start of the run,
    `memory` the bytes of memory that its process uses.
    """

    phase: Phase
    done: int
    total: int | None
    unique: int = 0
    best_count: int = 0
    min_tracked_count: int | None = None
    tokens: int = 0
    documents: int = 0
    tasks: int = 0
    tasks_total: int = 0
    quarantined: int = 0
    seconds: float = 0.0
    resumed: int = 0
    tokens_resumed: int = 0
    memory: int = 0

    @property
    def bytes_per_second(self) -> float:
        """The average speed of this run, in bytes of input files."""
        return (self.done - self.resumed) / max(self.seconds, 1e-6)

    @property
    def tokens_per_second(self) -> float:
        """The average speed of this run, in tokens."""
        return (self.tokens - self.tokens_resumed) / max(self.seconds, 1e-6)

    @property
    def seconds_left(self) -> float | None:
        """The time to the end of the phase at that speed. None if it is unknown."""
        rate = self.bytes_per_second
        return (self.total - self.done) / rate if self.total is not None and rate > 0 else None


Report: TypeAlias = Callable[[Progress], object]


def silent(_: Progress) -> None:
    """Ignore the progress."""


def memory_bytes() -> int:
    """The memory of this process. 0 on systems without /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


class Tracker:
    """Journal entries of finished tasks and counts of running tasks → `Progress`.

    `sizes` are the bytes of all tasks, `entries` those of finished tasks, and `share` the numbers
    of the tasks of this rank. `finished` is the progress of finished tasks.
    """

    def __init__(
        self,
        sizes: NDArray[np.int64],
        entries: Iterable[dict[str, Any]],
        report: Report | None,
        share: range | None = None,
    ) -> None:
        self.sizes = sizes
        self.text_bytes = 0  # of the tasks that this run did
        self._report = report
        self._started = time.monotonic()
        self._running: dict[str, list[int]] = {}
        numbers = range(len(sizes)) if share is None else share
        total = int(sizes[numbers.start :: numbers.step].sum())
        self.finished = Progress("tokenizing", 0, total, tasks_total=len(numbers))
        for entry in entries:
            self._count(entry)
        before = self.finished
        self.finished = replace(before, resumed=before.done, tokens_resumed=before.tokens)

    @property
    def input_bytes(self) -> int:
        """The bytes of input files of the tasks that this run did."""
        return self.finished.done - self.finished.resumed

    def finish_task(self, entry: dict[str, Any]) -> None:
        """Add a finished task."""
        self._count(entry)
        self.text_bytes += entry["bytes"]
        self._running.pop(str(entry["task"]), None)
        self._send()

    def update(self, running: dict[str, list[int]], memory: int) -> None:
        """Replace the counts of running tasks: bytes, tokens and documents by task number."""
        self._running = running
        self.finished = replace(self.finished, memory=memory)
        self._send()

    def end(self) -> None:
        """Report the end of the run."""
        self._running = {}
        self._send()

    def _count(self, entry: dict[str, Any]) -> None:
        before = self.finished
        self.finished = replace(
            before,
            done=before.done + int(self.sizes[entry["task"]]),
            tokens=before.tokens + entry["tokens"],
            documents=before.documents + entry["documents"],
            quarantined=before.quarantined + entry["quarantined"],
            tasks=before.tasks + 1,
        )

    def _send(self) -> None:
        if self._report is None:
            return
        state = self.finished
        done, tokens, documents = state.done, state.tokens, state.documents
        for number, counts in self._running.items():
            if any(counts):  # shards of the shuffle pass have numbers and no counts
                done += min(counts[0], int(self.sizes[int(number)]))
                tokens += counts[1]
                documents += counts[2]
        seconds = time.monotonic() - self._started
        self._report(replace(state, done=done, tokens=tokens, documents=documents, seconds=seconds))
