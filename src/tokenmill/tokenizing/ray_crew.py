"""Tasks that wait → messages of those who do them: Ray tasks on the machines of a cluster.

Only orders and rows travel, a few hundred bytes each: tasks read and write storage themselves,
which all machines must have under the same names. A few more tasks are handed out than there are
processors, whatever the number of units. Each is a generator: how far it is, again and again, and
in the end what came of it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
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
_TELL_SECONDS = 1.0
_TELLS_A_SECOND = 100  # of all tasks, which may be thousands
_LOOK_SECONDS = 1.0
_PER_PROCESSOR = 2


class RayCrew:
    """Does tasks until there are none; a context, behind which tasks that are left end soon."""

    def __init__(self, folder: Path, settings: Settings, waiting: Waiting) -> None:
        self._settings = settings
        # A task is one thread, and a machine has about as many as this one would have.
        each = {"workers": 1, "memory": max(MEMORY_MIN, settings.memory // settings.workers)}
        self._order: dict[str, Any] = {
            "crew": secrets.token_hex(8),
            "folder": str(folder.resolve()),
            "cwd": cluster.here() if settings.shares_files else None,
            "settings": asdict(settings) | each,
            "tell_seconds": _TELL_SECONDS,
        }
        self._waiting = waiting
        self._running: dict[Any, Task] = {}
        # By number of the task: how often its process died, and how often it failed by itself.
        self._deaths: dict[int, int] = {}
        self._failures: dict[int, int] = {}
        self._told: dict[str, list[int]] = {}
        self._most = 0
        self._looked_at = -_LOOK_SECONDS

    def __enter__(self) -> RayCrew:
        settings = self._settings
        with ExitStack() as stack:
            address, workers = settings.engine.address, settings.workers
            self._ray = stack.enter_context(
                cluster.connected(address, workers, lambda: self._running)
            )
            cluster.refuse_client(self._ray)
            as_it_goes = {"num_returns": "streaming", "max_retries": 0}
            self._do = self._ray.remote(num_cpus=1, **as_it_goes)(_do)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._running.clear()

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the tasks say: rows, progress, what was given up, what to stop the run for."""
        while self._waiting or self._running:
            if time.monotonic() - self._looked_at >= _LOOK_SECONDS:
                self._looked_at = time.monotonic()
                self._look()
                yield {"progress": self._told, "memory": memory_bytes()}
            self._hand_out()
            running = list(self._running)
            self._ray.wait(running, timeout=_WAIT_SECONDS)  # for one, and then for all there are
            ready, _ = self._ray.wait(running, num_returns=len(running), timeout=0)
            for said in ready:
                yield from self._hear(said)

    def _look(self) -> None:
        """How many tasks the cluster takes, and how often they say how far they are."""
        processors = cluster.processors(self._ray)  # nodes come and go
        self._most = _PER_PROCESSOR * processors
        self._order["tell_seconds"] = max(_TELL_SECONDS, processors / _TELLS_A_SECOND)

    def _hand_out(self) -> None:
        while self._waiting and len(self._running) < self._most:
            task = self._waiting.pop()
            self._running[self._do.remote(self._order, asdict(task))] = task

    def _hear(self, said: Any) -> Iterator[dict[str, Any]]:
        """The next message of a task, which is its last if it does not say how far it is."""
        task = self._running[said]
        try:
            message = self._ray.get(next(said))
        except self._ray.exceptions.RayTaskError as error:
            # What a task does wrong it says itself: this one could not begin.
            yield {"stop": cluster.cannot_run(error)}
            return
        except self._ray.exceptions.RayError as error:
            message = {"died": f"the process that did it died ({type(error).__name__})"}
        if "done" in message:
            self._told[str(task.number)] = message["done"]
            return
        del self._running[said]
        self._told.pop(str(task.number), None)
        if "died" in message:
            yield from self._try_again(task, message["died"], self._deaths, _TRIES_MAX)
        elif "failed" in message:
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


# A process does many tasks of a run, and loads its plan and tokenizer once. They are done in one
# thread, which remembers pieces, while the other says how far it is.
_hands: dict[str, tuple[Hand, ThreadPoolExecutor]] = {}


def _do(order: dict[str, Any], task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Does one task where Ray has put it."""
    try:
        if order["cwd"] is not None:
            cluster.enter(order["cwd"])
        if order["crew"] not in _hands:
            _hands.clear()
            made = Hand(_folder(order), order["settings"])
            _hands[order["crew"]] = made, ThreadPoolExecutor(1)
        hand, thread = _hands[order["crew"]]
    except (OSError, TokenmillError) as error:
        yield {"stop": str(error)}
        return
    try:
        coming = thread.submit(hand.do, task)
    except RuntimeError as error:  # no thread can be started here now, and the task waits for it
        del _hands[order["crew"]]
        yield {"failed": repr(error)}
        return
    while not wait([coming], timeout=order["tell_seconds"]).done:
        yield {"done": list(hand.done.get(task["number"], (0, 0, 0)))}
    yield coming.result()


def _folder(order: dict[str, Any]) -> Path:
    """The output's folder; for an output at an address, a desk of this process."""
    address = order["settings"]["address"]
    return Path(order["folder"]) if address is None else desk.borrowed(address)
