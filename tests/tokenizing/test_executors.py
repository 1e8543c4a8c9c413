"""Workers that send no messages: after a stop of the whole run, and in a hanging process. The
memory of a worker."""

import json
import threading
import time

import pytest

from tokenmill.native import cache_limit
from tokenmill.tokenizing import executors
from tokenmill.tokenizing.executors import Order, ProcessExecutor, Settings, run_orders
from tokenmill.tokenizing.options import MEMORY_MIN
from tokenmill.tokenizing.task import block_bytes_of, cache_bytes_of


class Worker:
    """A process that is ready, sends no messages for a while, and then has done its task."""

    def __init__(self, seconds: float) -> None:
        self.pid = id(self)
        self.stdin = self.stdout = self
        self._seconds = seconds
        self._killed = threading.Event()

    def __iter__(self):
        yield json.dumps({"ready": True}) + "\n"
        if not self._killed.wait(self._seconds):
            yield json.dumps({"order": [0, 0], "entry": {"task": 0}}) + "\n"
            self._killed.wait(10)

    def write(self, _: str) -> None:
        pass

    flush = close = lambda self: None

    def kill(self) -> None:
        self._killed.set()

    def wait(self) -> int:
        return -9


@pytest.fixture
def messages_of(tmp_path, monkeypatch):
    started = []

    def run(*seconds: float) -> list[dict]:
        waits = iter(seconds)

        def start(*_):
            started.append(Worker(next(waits)))
            return started[-1]

        monkeypatch.setattr(executors, "start_process", start)
        with ProcessExecutor(Settings(str(tmp_path), 1, 1 << 30)) as executor:
            return list(run_orders(executor, [Order(0)]))

    yield run
    for worker in started:
        worker.kill()


def test_a_clock_that_leaps_kills_no_worker(messages_of, monkeypatch):
    """After Ctrl-Z and fg, an hour has passed without messages."""
    leaps = iter(range(0, 10**9, 3600))
    monkeypatch.setattr(time, "monotonic", lambda: next(leaps))
    assert messages_of(0.5) == [{"order": Order(0), "entry": {"task": 0}}]


def test_a_worker_that_hangs_is_replaced_and_its_task_given_up_in_the_end(messages_of, monkeypatch):
    monkeypatch.setattr(executors, "_SILENCE_SECONDS", 0.3)
    restart = {"restart": "signal 9", "orders": [Order(0)]}
    assert messages_of(60, 0) == [restart, {"order": Order(0), "entry": {"task": 0}}]
    *restarts, given_up = messages_of(60, 60)
    assert restarts == [restart, restart]
    assert "the worker process died (signal 9), 2 times" in given_up["given_up"]


@pytest.mark.parametrize("threads", [1, 2, 16, 64])
def test_the_cache_and_the_blocks_of_a_worker_fit_into_the_memory_limit(threads):
    assert cache_bytes_of(MEMORY_MIN) == cache_limit()  # MEMORY_MIN includes the usual cache
    for memory in (512 << 20, 2 << 30, 16 << 30):
        cache = cache_bytes_of(memory) - cache_limit()
        blocks = 16 * threads * block_bytes_of(memory, threads)
        assert MEMORY_MIN + cache + blocks <= memory
