"""A folder and settings → the process that does its tasks, with a pipe each way.

A program that is one thread is forked, which takes no time: the child has all modules. Where there
are more, a fork could copy a lock that nobody opens, so a fresh interpreter is started.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

import tokenmill
from tokenmill.tokenizing import worker

# glibc gives memory back after each block and takes it again, page by page: a third of the time.
_KEPT = 1 << 30
_TOP_PAD = 16 << 20
_VARIABLES = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(_KEPT),
    "MALLOC_TRIM_THRESHOLD_": str(_KEPT),
    "MALLOC_TOP_PAD_": str(_TOP_PAD),
}
# The same by the numbers of malloc.h.
_MALLOPT = {-8: 1, -3: _KEPT, -1: _KEPT, -2: _TOP_PAD}


class Process(Protocol):
    """What a crew needs of `subprocess.Popen`."""

    pid: int
    stdin: IO[str] | None
    stdout: IO[str] | None

    def kill(self) -> None: ...

    def wait(self) -> int: ...


def start(folder: Path, settings: dict[str, Any]) -> Process:
    """Starts a process that reads tasks from its input, and ends with it."""
    if sys.platform == "linux" and threading.active_count() == 1:
        return _fork(lambda: worker.serve(folder, settings))
    return _spawn(folder, settings)


def _spawn(folder: Path, settings: dict[str, Any]) -> Process:
    root = str(Path(tokenmill.__file__).parent.parent)
    paths = [root, os.environ.get("PYTHONPATH", "")]
    environment = _VARIABLES | os.environ
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    command = [sys.executable, "-m", "tokenmill.tokenizing.worker", str(folder)]
    lock = settings["lock"]
    return subprocess.Popen(
        [*command, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=environment,
        pass_fds=() if lock is None or os.name != "posix" else (lock,),
    )


@dataclass(slots=True)
class _Forked:
    """A child of ours."""

    pid: int
    stdin: IO[str] | None
    stdout: IO[str] | None
    status: int | None = None

    def kill(self) -> None:
        if self.status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, 9)

    def wait(self) -> int:
        if self.status is None:
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)
        return self.status


def _fork(serve: Callable[[], None]) -> _Forked:
    orders, to_child = os.pipe()
    from_child, messages = os.pipe()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # or the child would say it again
    with warnings.catch_warnings():
        # Python counts threads of numpy's as well, which has its own way through a fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        # An interrupt is the parent's to answer, from the child's first moment on.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    if pid == 0:
        _be_worker(serve, orders, messages, (to_child, from_child))
    os.close(orders)
    os.close(messages)
    return _Forked(
        pid,
        os.fdopen(to_child, "w", encoding="utf-8"),
        os.fdopen(from_child, encoding="utf-8"),
    )


def _be_worker(
    serve: Callable[[], None], orders: int, messages: int, ours: tuple[int, int]
) -> NoReturn:
    """What the child does until it ends; nothing of its parent's is run or cleared away by it."""
    try:
        for handle in ours:
            os.close(handle)
        os.dup2(orders, 0)
        os.dup2(messages, 1)
        os.close(orders)
        os.close(messages)
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        _keep_memory()
        serve()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _keep_memory() -> None:
    with suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for name, value in _MALLOPT.items():
            mallopt(name, value)
