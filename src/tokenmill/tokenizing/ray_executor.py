"""Orders → messages, through tasks on the machines of a Ray cluster."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any, Self

from tokenmill import ray_cluster
from tokenmill.errors import TokenmillError
from tokenmill.native import cache_limit
from tokenmill.progress import memory_bytes
from tokenmill.tokenizing.executors import Executor, Message, Order, Settings, ThreadExecutor
from tokenmill.tokenizing.options import MEMORY_MIN
from tokenmill.tokenizing.task import cache_bytes_of

_WAIT_SECONDS = 0.2


def make_executor(settings: Settings, address: str | None, _: Iterable[str]) -> Executor:
    """The executor of a cluster, or without an address of a new one on this machine."""
    return RayExecutor(settings, address)


class RayExecutor(Executor):
    """Ray tasks on the machines of a cluster.

    The driver sends orders and gets entries. Tasks read and write the files themselves, so all
    machines need the same file system or object store.
    """

    # Machines may leave a cluster, so one death is not the fault of the order.
    deaths_max = 4
    _PER_CPU = 2
    _REPORT_SECONDS = 1.0
    _REPORTS_PER_SECOND = 100  # of all tasks, which may be thousands
    _UPDATE_SECONDS = 1.0

    def __init__(self, settings: Settings, address: str | None) -> None:
        self._address = address
        self._threads = settings.threads
        # An order is one thread. Machines are assumed to have as many cores as this one.
        memory = max(MEMORY_MIN, settings.memory // settings.threads)
        self.order: dict[str, Any] = {
            "run": secrets.token_hex(8),
            "settings": settings._replace(threads=1, memory=memory, staging=None),
            "report_seconds": self._REPORT_SECONDS,
        }
        self._running: dict[Any, Order] = {}
        self._counts: dict[str, list[int]] = {}
        self.capacity = 0
        self._updated = -self._UPDATE_SECONDS

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._ray = stack.enter_context(
                ray_cluster.connected(self._address, self._threads, lambda: self._running)
            )
            ray_cluster.refuse_client(self._ray)
            remote = self._ray.remote(num_cpus=1, num_returns="streaming", max_retries=0)
            self._remote = remote(do_remotely)
            self._stack = stack.pop_all()
        self._update_capacity()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._running.clear()

    def start(self, order: Order) -> None:
        self._running[self._remote.remote(self.order, order)] = order

    def messages(self) -> Iterator[Message]:
        if time.monotonic() - self._updated >= self._UPDATE_SECONDS:
            self._update_capacity()
            yield {"progress": self._counts, "memory": memory_bytes()}
        running = list(self._running)
        self._ray.wait(running, timeout=_WAIT_SECONDS)  # for one of them
        ready, _ = self._ray.wait(running, num_returns=len(running), timeout=0)
        for stream in ready:
            yield from self._next(stream)

    def _update_capacity(self) -> None:
        """Ask for the CPUs of the cluster, whose nodes come and go."""
        self._updated = time.monotonic()
        cpus = ray_cluster.processors(self._ray)
        self.capacity = self._PER_CPU * cpus
        self.order["report_seconds"] = max(self._REPORT_SECONDS, cpus / self._REPORTS_PER_SECOND)

    def _next(self, stream: Any) -> Iterator[Message]:
        """The next message of an order. It is the last one unless it has counts."""
        order = self._running[stream]
        try:
            message = self._ray.get(next(stream))
        except self._ray.exceptions.RayTaskError as error:
            # Workers report failures as messages, so this order could not start.
            yield {"stop": ray_cluster.cannot_run(error)}
            return
        except self._ray.exceptions.RayError as error:
            death = type(error).__name__
            yield {"restart": death, "orders": [order]}
            message = {"order": order, "died": f"the worker process died ({death})"}
        if "counts" in message:
            self._counts[str(order.number)] = message["counts"]
            return
        del self._running[stream]
        self._counts.pop(str(order.number), None)
        yield message if "stop" in message else message | {"order": order}


# A Ray process does many orders of a run, one at a time, and loads plan and tokenizer once.
_workers: dict[str, ThreadExecutor] = {}


def do_remotely(common: dict[str, Any], order: Order) -> Iterator[Message]:
    """Do one order on a machine of a cluster. Yield its counts until it ends, then its message."""
    run = common["run"]
    try:
        settings = Settings(*common["settings"])
        if settings.cwd is not None:
            ray_cluster.enter(settings.cwd)
        if run not in _workers:
            _workers.clear()
            cache_limit(cache_bytes_of(settings.memory))
            _workers[run] = ThreadExecutor(settings)
        executor = _workers[run]
        executor.wait_seconds = common["report_seconds"]
        executor.start(Order(*order))
    except (OSError, TokenmillError) as error:
        yield {"stop": str(error)}
        return
    except RuntimeError as error:  # no thread can be started, and the pool would do the order later
        del _workers[run]
        yield {"failed": repr(error)}
        return
    while True:
        for message in executor.messages():
            if "progress" not in message:
                yield message
                return
            yield {"counts": message["progress"].get(str(order[0]), [0, 0, 0])}
