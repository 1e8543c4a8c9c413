"""Messages of workers → how far a run is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands. `bytes` are those of the files, so compressed ones where they are.

    What ends in `_resumed` was there when the run began, and `_total` is what there is to do.
    """

    bytes: int
    bytes_total: int
    tokens: int
    documents: int
    tasks: int
    tasks_total: int
    quarantined: int
    seconds: float
    bytes_resumed: int
    tokens_resumed: int
    memory: int

    @property
    def bytes_per_second(self) -> float:
        """How fast it was so far."""
        return (self.bytes - self.bytes_resumed) / max(self.seconds, 1e-6)

    @property
    def tokens_per_second(self) -> float:
        """How fast it was so far."""
        return (self.tokens - self.tokens_resumed) / max(self.seconds, 1e-6)

    @property
    def seconds_left(self) -> float | None:
        """How long it takes at that speed; None if nobody knows yet."""
        rate = self.bytes_per_second
        return (self.bytes_total - self.bytes) / rate if rate > 0 else None


def memory_bytes() -> int:
    """What this process has in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


class Tracker:
    """Adds up rows of tasks that are done and reports of those that run."""

    def __init__(
        self,
        sizes: NDArray[np.int64],
        rows: Iterable[dict[str, Any]],
        show: Callable[[Progress], None] | None,
        share: range | None = None,
    ) -> None:
        """Follows the tasks of a share, whose bytes `sizes` has; those of `rows` are done."""
        self.sizes = sizes
        self._show = show
        self._started = time.monotonic()
        self._bytes = self._tokens = self._documents = self.quarantined = self._tasks = 0
        self._running: dict[str, list[int]] = {}
        self._memory = 0
        numbers = range(len(sizes)) if share is None else share
        self._bytes_total = int(sizes[numbers.start :: numbers.step].sum())
        self._tasks_total = len(numbers)
        for row in rows:
            self._count(row)
        self._bytes_resumed = self._bytes
        self._tokens_resumed = self._tokens

    def finished(self, row: dict[str, Any]) -> None:
        self._count(row)
        self._running.pop(str(row["task"]), None)
        self._tell()

    def running(self, done: dict[str, list[int]], memory: int) -> None:
        self._running = done
        self._memory = memory
        self._tell()

    def end(self) -> None:
        self._running = {}
        self._tell()

    def _count(self, row: dict[str, Any]) -> None:
        self._bytes += int(self.sizes[row["task"]])
        self._tokens += row["tokens"]
        self._documents += row["documents"]
        self.quarantined += row["quarantined"]
        self._tasks += 1

    def _tell(self) -> None:
        if self._show is None:
            return
        running = [
            (min(counts[0], int(self.sizes[int(number)])), counts[1], counts[2])
            for number, counts in self._running.items()
            if any(counts)  # a shard that is being mixed has a number of its own, and says nothing
        ]
        self._show(
            Progress(
                bytes=self._bytes + sum(counts[0] for counts in running),
                bytes_total=self._bytes_total,
                tokens=self._tokens + sum(counts[1] for counts in running),
                documents=self._documents + sum(counts[2] for counts in running),
                tasks=self._tasks,
                tasks_total=self._tasks_total,
                quarantined=self.quarantined,
                seconds=time.monotonic() - self._started,
                bytes_resumed=self._bytes_resumed,
                tokens_resumed=self._tokens_resumed,
                memory=self._memory,
            )
        )
