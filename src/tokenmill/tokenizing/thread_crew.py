"""Tasks that wait → messages of those who do them: threads of this process.

For files that no other process has, as those of memory:// are. A task that kills takes all along.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tokenmill.tokenizing.crew import Settings, Task, Waiting
from tokenmill.tokenizing.progress import memory_bytes
from tokenmill.tokenizing.worker import Hand

_WAIT_SECONDS = 0.2


class ThreadCrew:
    """Does tasks until there are none; a context, behind which no thread is left."""

    def __init__(self, folder: Path, settings: Settings, waiting: Waiting) -> None:
        self._hand = Hand(folder, asdict(settings))
        self._waiting = waiting
        self._workers = settings.workers
        self._pool = ThreadPoolExecutor(settings.workers)

    def __enter__(self) -> ThreadCrew:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the tasks say: rows, progress, what was given up, what to stop the run for."""
        running: dict[Future[dict[str, Any]], Task] = {}
        while running or self._waiting:
            while self._waiting and len(running) < self._workers:
                task = self._waiting.pop()
                running[self._pool.submit(self._hand.do, asdict(task))] = task
            for future in wait(running, _WAIT_SECONDS, FIRST_COMPLETED).done:
                task, message = running.pop(future), future.result()
                if "failed" in message:
                    why = message["failed"]
                    message = {"task": task.number, "given_up": why, "is_mix": task.of > 0}
                yield message
            now = list(self._hand.done.items())
            done = {str(number): list(counts) for number, counts in now}
            yield {"progress": done, "memory": memory_bytes()}
