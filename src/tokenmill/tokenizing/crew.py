"""Tasks that wait → messages of those who do them: one process with a thread for each worker.

Should it die, the tasks that it had are done again one at a time, so that the one that kills is
known; it is given up when it has killed twice.
"""

from __future__ import annotations

import json
import queue
import threading
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tokenmill.cluster import Engine
from tokenmill.errors import TokenizeError
from tokenmill.tokenizing import processes
from tokenmill.tokenizing.processes import Process

_TRIES_MAX = 2
_WAIT_SECONDS = 0.2
_SILENCE_SECONDS = 120.0
MEMORY_MIN = 64 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """What changes how a run goes and not what comes out."""

    workers: int
    memory: int
    max_errors: int | None = None
    lock: int | None = None  # a file that workers keep open
    engine: Engine = field(default_factory=Engine)
    address: str | None = None  # of the output, whose folder is then a desk
    is_inside: bool = False  # files live in this process, so tasks are done in it
    shares_files: bool = True  # inputs or output lie in a file system that all machines need

    def check(self) -> None:
        """Raises if nothing could be done with them."""
        for name, value, least in (
            ("workers", self.workers, 1),
            ("memory", self.memory, MEMORY_MIN),
            ("max_errors", 0 if self.max_errors is None else self.max_errors, 0),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise TokenizeError(
                    f"{name} must be a whole number from {least:,} on, not {value!r}"
                )
        self.engine.check()


@dataclass(frozen=True, slots=True)
class Task:
    """A unit, or a shard to mix (`of` how many)."""

    number: int
    of: int = 0


class Waiting:
    """Tasks in the order of their turn; kept as numbers, since there may be a million."""

    def __init__(self, numbers: Iterable[int], of: int = 0) -> None:
        self._numbers = array("q", numbers)
        self._numbers.reverse()
        self._of = of
        self._again: list[Task] = []

    def __len__(self) -> int:
        return len(self._numbers) + len(self._again)

    def pop(self) -> Task:
        """The next one, which is then in somebody's hands."""
        return self._again.pop() if self._again else Task(self._numbers.pop(), self._of)

    def put_back(self, task: Task) -> None:
        """It is the next one again."""
        self._again.append(task)


class Crew:
    """Does tasks until there are none; a context, behind which no process is left."""

    def __init__(self, folder: Path, settings: Settings, waiting: Waiting) -> None:
        self._folder = folder
        self._settings = settings
        self._waiting = waiting
        self._suspects: list[Task] = []
        self._running: dict[int, Task] = {}
        self._tries: dict[int, int] = {}
        self._process: Process | None = None
        self._is_ready = False
        self._inbox: queue.SimpleQueue[tuple[int, str | None]] = queue.SimpleQueue()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_process()

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the workers say: rows, progress, what was given up, what to stop the run for."""
        silences = 0  # not seconds: who was stopped with the worker did not wait for it
        while self._waiting or self._suspects or self._running:
            self._hand_out()
            try:
                sender, line = self._inbox.get(timeout=_WAIT_SECONDS)
            except queue.Empty:
                silences += 1
                is_silent = silences * _WAIT_SECONDS > _SILENCE_SECONDS
                if is_silent and self._is_ready and self._process is not None:
                    self._process.kill()  # a worker says something five times a second
                continue
            silences = 0
            if self._process is None or sender != self._process.pid:
                continue  # of one that is gone
            if line is None:
                yield from self._bury()
                continue
            yield from self._hear(json.loads(line))

    def _hear(self, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if "ready" in message:
            self._is_ready = True
            return
        if "row" in message:
            self._running.pop(message["task"], None)
        elif "failed" in message:
            task = self._running.pop(message["task"])
            yield from self._try_again(task, message["failed"])
            return
        yield message

    def _hand_out(self) -> None:
        """Gives each free worker a unit; suspects come one at a time, with nobody beside them."""
        if self._suspects:
            if not self._running:
                self._give(self._suspects.pop())
            return
        if any(number in self._tries for number in self._running):
            return
        while self._waiting and len(self._running) < self._settings.workers:
            self._give(self._waiting.pop())

    def _give(self, task: Task) -> None:
        if self._process is None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        self._running[task.number] = task
        with suppress(OSError):  # it is gone, which its output says too
            self._process.stdin.write(json.dumps(asdict(task)) + "\n")
            self._process.stdin.flush()

    def _start(self) -> None:
        self._process = processes.start(self._folder, asdict(self._settings))
        self._is_ready = False
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: Process) -> None:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.endswith("\n"):  # one that was torn is a death, which comes next
                    self._inbox.put((process.pid, line))
        except ValueError:
            pass  # closed by us
        self._inbox.put((process.pid, None))

    def _bury(self) -> Iterator[dict[str, Any]]:
        """The process has died: what it was at has one try less."""
        status = self._end_process()
        tasks = sorted(self._running.values(), key=lambda task: task.number)
        self._running.clear()
        if not self._is_ready:
            raise TokenizeError(
                f"a worker cannot be started ({_death(status)}); what it said stands above"
            )
        for task in tasks:
            yield from self._try_again(task, f"the worker that did it died ({_death(status)})")

    def _try_again(self, task: Task, why: str) -> Iterator[dict[str, Any]]:
        tries = self._tries[task.number] = self._tries.get(task.number, 0) + 1
        if tries < _TRIES_MAX:
            self._suspects.append(task)
        else:
            why = f"{why}, {tries} times"
            yield {"task": task.number, "given_up": why, "is_mix": task.of > 0}

    def _end_process(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.kill()
        status = process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        return status


def _death(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit code {status}"
