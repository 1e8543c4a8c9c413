"""Tasks that wait → messages of those who do them: Ray tasks on the machines of a cluster.

Only orders and rows travel, a few hundred bytes each: tasks read and write storage themselves,
which all machines must have under the same names. A few more tasks are handed out than there are
processors, whatever the number of units.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tokenmill import cluster
from tokenmill.errors import TokenmillError
from tokenmill.tokenizing import desk
from tokenmill.tokenizing.crew import MEMORY_MIN, Settings, Task, Waiting
from tokenmill.tokenizing.progress import memory_bytes
from tokenmill.tokenizing.worker import Hand

# A task whose machine went away did nothing wrong, but one that takes its machine along does.
_TRIES_MAX = 4
_FAILURES_MAX = 2
_WAIT_SECONDS = 0.2
_TELL_SECONDS = 0.5
_READ_SECONDS = 1.0
_PER_PROCESSOR = 2
_SAME = "all machines need the same versions of Python and tokenmill"


class RayCrew:
    """Does tasks until there are none; a context, behind which no task is left."""

    def __init__(self, folder: Path, settings: Settings, waiting: Waiting) -> None:
        self._settings = settings
        # A task is one thread, and a machine has about as many as this one would have.
        each = {"workers": 1, "memory": max(MEMORY_MIN, settings.memory // settings.workers)}
        self._order = {
            "crew": secrets.token_hex(8),
            "folder": str(folder.resolve()),
            "cwd": cluster.here() if settings.shares_files else None,
            "settings": asdict(settings) | each,
        }
        self._waiting = waiting
        self._running: dict[Any, Task] = {}
        # By number of the task: how often its process died, and how often it failed by itself.
        self._deaths: dict[int, int] = {}
        self._failures: dict[int, int] = {}
        self._told: dict[str, list[int]] = {}
        self._reading: Any = None
        self._read_at = time.monotonic()
        self._most = 0
        self._counted_at = -_READ_SECONDS

    def __enter__(self) -> RayCrew:
        settings = self._settings
        with ExitStack() as stack:
            self._ray = stack.enter_context(
                cluster.connected(settings.engine.address, settings.workers)
            )
            # It only counts, so it needs no processor of its own.
            self._board = self._ray.remote(num_cpus=0)(_Board).remote()
            self._do = self._ray.remote(num_cpus=1, max_retries=0)(_do)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._stack:
            for reference in self._running:
                with suppress(Exception):  # whatever it is, it is over
                    self._ray.cancel(reference, force=True)
            self._running.clear()
            with suppress(Exception):
                self._ray.kill(self._board)

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the tasks say: rows, progress, what was given up, what to stop the run for."""
        while self._waiting or self._running:
            self._hand_out()
            running = list(self._running)
            self._ray.wait(running, timeout=_WAIT_SECONDS)  # for one, and then for all there are
            ready, _ = self._ray.wait(running, num_returns=len(running), timeout=0)
            for reference in ready:
                yield from self._hear(reference, self._running.pop(reference))
            yield from self._look()

    def _hand_out(self) -> None:
        if time.monotonic() - self._counted_at >= _READ_SECONDS:  # nodes come and go
            self._counted_at = time.monotonic()
            self._most = _PER_PROCESSOR * cluster.processors(self._ray)
        while self._waiting and len(self._running) < self._most:
            task = self._waiting.pop()
            reference = self._do.remote(self._order, asdict(task), self._board)
            self._running[reference] = task

    def _hear(self, reference: Any, task: Task) -> Iterator[dict[str, Any]]:
        try:
            message = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            # What a task does wrong it says itself: this one could not begin.
            yield {"stop": f"a task cannot run on the cluster: {error.cause!r}; {_SAME}"}
            return
        except self._ray.exceptions.RayError as error:
            why = f"the process that did it died ({type(error).__name__})"
            yield from self._try_again(task, why, self._deaths, _TRIES_MAX)
            return
        if "failed" in message:
            yield from self._try_again(task, message["failed"], self._failures, _FAILURES_MAX)
        else:
            yield message

    def _try_again(
        self, task: Task, why: str, counts: dict[int, int], most: int
    ) -> Iterator[dict[str, Any]]:
        tries = counts[task.number] = counts.get(task.number, 0) + 1
        if tries < most:
            self._waiting.put_back(task)
        else:
            why = f"{why}, {tries} times"
            yield {"task": task.number, "given_up": why, "is_mix": task.of > 0}

    def _look(self) -> Iterator[dict[str, Any]]:
        """How far the running tasks are, if the board has answered."""
        if self._reading is None:
            if time.monotonic() - self._read_at >= _READ_SECONDS:
                self._reading = self._board.read.remote()
            return
        ready, _ = self._ray.wait([self._reading], timeout=0)
        if not ready:
            return
        with suppress(self._ray.exceptions.RayError):
            self._told |= self._ray.get(self._reading)
            running = {str(task.number) for task in self._running.values()}
            self._told = {number: row for number, row in self._told.items() if number in running}
            yield {"progress": self._told, "memory": memory_bytes()}
        self._reading, self._read_at = None, time.monotonic()


class _Board:
    """What the running tasks have done so far, as they told it."""

    def __init__(self) -> None:
        self._done: dict[str, list[int]] = {}

    def tell(self, number: int, counts: list[int]) -> None:
        self._done[str(number)] = counts

    def read(self) -> dict[str, list[int]]:
        """All that was told since the last time; what is over is told no more."""
        done, self._done = self._done, {}
        return done


# A process does many tasks of a run, and loads its plan and tokenizer once.
_hands: dict[str, Hand] = {}


def _do(order: dict[str, Any], task: dict[str, Any], board: Any) -> dict[str, Any]:
    """Does one task where Ray has put it."""
    try:
        if order["cwd"] is not None:
            cluster.enter(order["cwd"])
        hand = _hands.get(order["crew"])
        if hand is None:
            _hands.clear()
            hand = _hands[order["crew"]] = Hand(_folder(order), order["settings"])
    except (OSError, TokenmillError) as error:
        return {"stop": str(error)}
    told = time.monotonic()

    def tell(done: list[int]) -> None:
        nonlocal told
        if time.monotonic() - told >= _TELL_SECONDS:
            told = time.monotonic()
            board.tell.remote(task["number"], list(done))

    return hand.do(task, tell)


def _folder(order: dict[str, Any]) -> Path:
    """The output's folder; for an output at an address, a desk of this process."""
    address = order["settings"]["address"]
    return Path(order["folder"]) if address is None else desk.borrowed(address)
