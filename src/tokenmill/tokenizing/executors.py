"""Orders → messages, through processes, threads or a Ray cluster, with one retry for all.

An executor starts orders and returns messages. `run_orders` gives it the orders, counts deaths and
failures, and tries again. Every process that does orders has a `ThreadExecutor`. Executors of
other engines are modules of their own, in the table `EXECUTORS` of `options.py`.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol, Self

import tokenmill
from tokenmill import object_store
from tokenmill.errors import TokenizeError, TokenmillError
from tokenmill.native import cache_limit
from tokenmill.progress import memory_bytes
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import journal, plan
from tokenmill.tokenizing.output import Output, open_output
from tokenmill.tokenizing.shuffle import run_shuffle
from tokenmill.tokenizing.task import Job, block_bytes_of, cache_bytes_of, run_task

_FAILURES_MAX = 2
_WAIT_SECONDS = 0.2
_SILENCE_SECONDS = 120.0
_TRACE_LINES = 3
# glibc returns memory to the system after each block and takes it again: a third of the time. The
# keys are M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD and M_TOP_PAD of malloc.h.
_MALLOPT = {-8: 1, -3: 1 << 30, -1: 1 << 30, -2: 16 << 20}

Message = dict[str, Any]


class Order(NamedTuple):
    """A task to do. With `of`, a shard of the shuffle pass, which has `of` shards."""

    number: int
    of: int = 0


class Settings(NamedTuple):
    """The settings of a worker."""

    output: str
    threads: int
    memory: int
    max_errors: float | None = None
    stdin: str | None = None  # the copy of standard input
    staging: str | None = None  # the staging directory of the driver, on the same machine
    cwd: str | None = None  # the working directory of the driver, for other machines


class Executor(Protocol):
    """Does orders. A context manager that ends its threads and processes.

    `messages` returns new messages, after a short wait if there are none. Their keys are `order`
    with `entry`, `failed` or `died`; `progress` with `memory`; `restart`, the death of a process,
    with the `orders` that it did; or `stop`, perhaps with `errno`.
    """

    deaths_max: int = 1  # processes that an order may kill before it is given up
    is_shared: bool = False  # whether an order that kills its process takes other orders with it
    capacity: int  # the number of orders that may run at the same time

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...
    def start(self, order: Order) -> None: ...
    def messages(self) -> Iterable[Message]: ...


def make_executor(settings: Settings, _: str | None, names: Iterable[str]) -> Executor:
    """An executor of this machine. Inputs that only this process can read need threads."""
    in_process = object_store.is_of_process([settings.output, *names])
    return ThreadExecutor(settings) if in_process else ProcessExecutor(settings)


def run_orders(executor: Executor, orders: Iterable[Order]) -> Iterator[Message]:
    """Do orders. Yield all messages but failures, and `given_up` for an order that failed twice.

    After a death, the orders that ran are suspects. Suspects of a shared process run alone, to find
    the one that kills it.
    """
    waiting = list(orders)[::-1]
    suspects: list[Order] = []
    running: set[Order] = set()
    tries: Counter[tuple[Order, str]] = Counter()
    while waiting or suspects or running:
        while left := suspects or waiting:
            has_suspects = suspects or any(order in running for order, _ in tries)
            is_alone = executor.is_shared and has_suspects
            if len(running) >= (1 if is_alone else executor.capacity):
                break
            running.add(left[-1])
            executor.start(left.pop())
        for message in executor.messages():
            order: Any = message.get("order")
            running.discard(order)
            kind = next((kind for kind in ("failed", "died") if kind in message), None)
            if kind is None:
                yield message
                continue
            tries[order, kind] += 1
            count = tries[order, kind]
            if count < (executor.deaths_max if kind == "died" else _FAILURES_MAX):
                suspects.append(order)
            else:
                yield {"order": order, "given_up": f"{message[kind]}, {count} times"}


# ── threads of this process ──────────────────────────────────────────────────────────────────


def load_tokenizer(output: Output, planned: plan.Plan) -> Tokenizer:
    """Load the tokenizer of a run: an embedded one by name, others from the output."""
    described = planned.tokenizer
    if described["embedded"]:
        tokenizer = Tokenizer.load(described["name"])
    else:
        data = output.read(journal.TOKENIZER)
        if data is None:
            raise TokenizeError(f"file not found: '{output.name}/{journal.TOKENIZER}'")
        with output.staging() as folder:
            (folder / journal.TOKENIZER).write_bytes(data)
            tokenizer = Tokenizer.load(folder / journal.TOKENIZER)
    if tokenizer._fingerprint != described["sha256"]:
        raise TokenizeError(
            f"the tokenizer {described['name']} of {output.name!r} differs from the plan; all "
            "machines need the same version of tokenmill and the tokenizer file of the output"
        )
    return tokenizer


class ThreadExecutor(Executor):
    """Threads of this process. The other executors use one in each of their processes."""

    def __init__(self, settings: Settings) -> None:
        self._output = open_output(settings.output)
        self._plan = plan.require(self._output, settings.stdin)
        if settings.staging is None:
            stack = ExitStack()
            staging = stack.enter_context(self._output.staging())
            atexit.register(stack.close)
        else:
            staging = Path(tempfile.mkdtemp(dir=settings.staging))
        self._job = Job(
            self._output,
            staging,
            self._plan.options,
            load_tokenizer(self._output, self._plan),
            block_bytes_of(settings.memory, settings.threads),
            settings.max_errors,
        )
        self._entries: journal.Entries | None = None
        self._lock = threading.Lock()
        # Bytes of files, tokens and documents of each running order.
        self._counts: dict[int, list[int]] = {}
        self._pool = ThreadPoolExecutor(settings.threads)
        self._done: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self.capacity = settings.threads
        self.wait_seconds = _WAIT_SECONDS

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def start(self, order: Order) -> None:
        self._pool.submit(lambda: self._done.put(self._do(order)))

    def messages(self) -> Iterator[Message]:
        with suppress(queue.Empty):
            yield self._done.get(timeout=self.wait_seconds)
        running = {str(number): list(counts) for number, counts in list(self._counts.items())}
        yield {"progress": running, "memory": memory_bytes()}

    def _do(self, order: Order) -> Message:
        """Do one order. Return its message."""
        counts = self._counts[order.number] = [0, 0, 0]

        def report(*more: int) -> None:
            for index, count in enumerate(more):
                counts[index] += count

        try:
            if order.of:
                entry = run_shuffle(self._job, self._all_entries(), order.number, order.of)
            else:
                task = self._plan.tasks[order.number]
                entry = run_task(self._job, task, threads=self._threads_each, report=report)
            journal.write_entry(self._output, entry)
            return {"order": order, "entry": entry}
        except OSError as error:
            return {"stop": str(error), "errno": error.errno}
        except TokenmillError as error:
            return {"stop": str(error)}
        except BaseException:  # the driver needs a message for every order
            lines = traceback.format_exc().strip().splitlines()
            return {"order": order, "failed": " · ".join(lines[-_TRACE_LINES:])}
        finally:
            self._counts.pop(order.number, None)

    def _threads_each(self) -> int:
        """The number of threads for each of the running orders."""
        return max(1, self.capacity // max(1, len(self._counts)))

    def _all_entries(self) -> journal.Entries:
        """The entries of all tasks, which are done when the shuffle pass begins."""
        with self._lock:
            if self._entries is None:
                self._entries = journal.read_entries(self._output, self._plan)
            return self._entries


# ── a worker process ─────────────────────────────────────────────────────────────────────────


class ProcessExecutor(Executor):
    """One process with a thread per order. If it dies, another one is started."""

    deaths_max = 2
    is_shared = True

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.capacity = settings.threads
        self._running: dict[int, Order] = {}
        self._process: subprocess.Popen[str] | ForkedProcess | None = None
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()  # None at the end
        self._is_ready = False
        self._silences = 0

    def __exit__(self, *_: object) -> None:
        self._end_process()

    def start(self, order: Order) -> None:
        if self._process is None:
            self._process = start_process(self._settings)
            self._lines = queue.SimpleQueue()
            self._is_ready = False
            pipes = (self._process.stdout, self._lines)
            threading.Thread(target=_listen, args=pipes, daemon=True).start()
        assert self._process.stdin is not None
        self._running[order.number] = order
        with suppress(OSError):  # the process died, and its output ends
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()

    def messages(self) -> Iterator[Message]:
        try:
            line = self._lines.get(timeout=_WAIT_SECONDS)
        except queue.Empty:
            # Timeouts are counted, because the clock also runs while this process is stopped.
            self._silences += 1
            is_silent = self._silences * _WAIT_SECONDS > _SILENCE_SECONDS
            if is_silent and self._is_ready and self._process is not None:
                self._process.kill()  # it hangs: a worker sends five messages per second
            return
        self._silences = 0
        if line is None:
            yield from self._report_death()
            return
        message = json.loads(line)
        if "order" in message:
            message["order"] = self._running.pop(message["order"][0])
        if "ready" in message:
            self._is_ready = True
        else:
            yield message

    def _report_death(self) -> Iterator[Message]:
        status = self._end_process()
        death = f"signal {-status}" if status < 0 else f"exit code {status}"
        if not self._is_ready:
            raise TokenizeError(
                f"worker process cannot be started ({death}); its output is shown above"
            )
        orders = sorted(self._running.values())
        self._running.clear()
        yield {"restart": death, "orders": orders}
        for order in orders:
            yield {"order": order, "died": f"the worker process died ({death})"}

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


def _listen(pipe: Iterable[str], lines: queue.SimpleQueue[str | None]) -> None:
    with suppress(ValueError):  # the pipe is closed
        for line in pipe:
            if line.endswith("\n"):  # otherwise the process died while it wrote
                lines.put(line)
    lines.put(None)


def prepare_process(memory: int) -> None:
    """Set the allocator and the cache of a process that does nothing but tasks."""
    with suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for name, value in _MALLOPT.items():
            mallopt(name, value)
    cache_limit(cache_bytes_of(memory))


def serve(settings: Settings, orders: int, messages: int) -> NoReturn:
    """Run a worker process: orders and messages are lines of these file descriptors."""
    # The driver handles an interrupt and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    prepare_process(settings.memory)
    out = os.fdopen(messages, "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries print to stderr

    def send(message: Message) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    try:
        executor = ThreadExecutor(settings)
    except TokenmillError as error:
        send({"stop": str(error)})
        os._exit(0)
    send({"ready": True})

    def send_messages() -> None:
        with suppress(OSError):  # the driver has ended
            while True:
                for message in executor.messages():
                    send(message)

    threading.Thread(target=send_messages, daemon=True).start()
    for line in os.fdopen(orders, encoding="utf-8"):
        executor.start(Order(*json.loads(line)))
    # The driver has ended.
    os._exit(0)


def start_process(settings: Settings) -> subprocess.Popen[str] | ForkedProcess:
    """Start a worker process. It ends when its standard input is closed.

    A fork has all modules already, which saves 0.2 s. It is safe if no other thread can have a
    lock. A native library with threads must support forks, as numpy does.
    """
    if sys.platform == "linux" and threading.active_count() == 1 and "pyarrow" not in sys.modules:
        return ForkedProcess(settings)
    paths = [str(Path(tokenmill.__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    code = "import json, os, sys; from tokenmill.tokenizing.executors import Settings, serve; "
    code += "serve(Settings(*json.loads(sys.argv[1])), 0, os.dup(1))"
    return subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )


class ForkedProcess:
    """A fork of this process, with the methods of `subprocess.Popen` that an executor calls."""

    def __init__(self, settings: Settings) -> None:
        orders, to_child = os.pipe()
        from_child, messages = os.pipe()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()  # otherwise the child has a copy of its buffer
        # An interrupt is for the driver, from the first moment of the child.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python counts numpy's threads
            self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(to_child)
                os.close(from_child)
                serve(settings, orders, messages)
            except BaseException:  # it keeps the pipe open, at whose end the driver kills the child
                try:
                    traceback.print_exc()
                finally:
                    os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(orders)
        os.close(messages)
        self.stdin = os.fdopen(to_child, "w", encoding="utf-8")
        self.stdout = os.fdopen(from_child, encoding="utf-8")
        self._status: int | None = None

    def kill(self) -> None:
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status
