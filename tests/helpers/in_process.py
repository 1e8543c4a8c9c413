"""A command line → its exit code and its output, without a process of its own.

A Python process takes 0.3 s to start. Tests of signals, pipes, terminals and closed streams need
one: `corpus_cases.run` starts it.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import FUZZ
from terminal import LOOKS

from tokenmill.cli import main
from tokenmill.tokenizing import executors, options, task, verify


@dataclass(frozen=True)
class Completed:
    """The exit code of a command, and all bytes that it wrote."""

    returncode: int
    output: bytes
    errors: bytes

    @property
    def stdout(self) -> str:
        return self.output.decode()

    @property
    def stderr(self) -> str:
        return self.errors.decode()


def run_main(
    *arguments: str | Path,
    given: bytes = b"",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    program: Callable[[list[str]], int] = main,
) -> Completed:
    """Runs `program ARGUMENTS`; `given` is its standard input, `env` adds variables."""
    variables = {"COLUMNS": "80"} | (env or {})  # a program without a terminal assumes 80
    output, errors = io.BytesIO(), io.BytesIO()
    with _state_kept(), threaded(), tempfile.TemporaryFile() as file:
        file.write(given)
        file.seek(0)
        for name in LOOKS:
            os.environ.pop(name, None)
        os.environ.update(variables)
        if cwd is not None:
            os.chdir(cwd)
        # As Python opens the streams of a program.
        sys.stdin = io.TextIOWrapper(file, "utf-8")
        sys.stdout = io.TextIOWrapper(output, "utf-8")
        sys.stderr = io.TextIOWrapper(errors, "utf-8", "backslashreplace", write_through=True)
        try:
            code = program([str(argument) for argument in arguments])
        except SystemExit as ended:  # of the parser
            assert isinstance(ended.code, int), ended.code
            code = ended.code
        sys.stdout.flush()
        return Completed(code, output.getvalue(), errors.getvalue())


def make_threads(settings: Any, *_: object) -> Any:
    """An executor with threads of this process, so that a run starts no interpreter."""
    return executors.ThreadExecutor(settings)


@contextlib.contextmanager
def threaded() -> Iterator[None]:
    """Inside, runs do their tasks in threads of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors, "make_executor", make_threads)
        yield


@pytest.fixture(scope="module", autouse=True)
def threaded_runs() -> Iterator[None]:
    """All runs of a module that imports this fixture do their tasks in threads of this process."""
    with threaded():
        yield


def least_unsplit_bytes(patch: pytest.MonkeyPatch) -> int:
    """The least `max_unsplit_bytes` that a run takes: 4 MB in `make test-all`, less by default.

    A document without a safe split point is searched again with each block.
    """
    least = options.MAX_UNSPLIT_BYTES_MIN if FUZZ >= 100 else 1 << 19
    patch.setattr(options, "MAX_UNSPLIT_BYTES_MIN", least)
    for module, name in ((task, "_BLOCK_BYTES_MAX"), (verify, "_BLOCK_BYTES")):
        patch.setattr(module, name, least)
    return least


@contextlib.contextmanager
def _state_kept() -> Iterator[None]:
    """Restores the state of this process that a command may change."""
    streams = sys.stdin, sys.stdout, sys.stderr
    variables, folder = dict(os.environ), Path.cwd()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with warnings.catch_warnings():
            yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        if os.environ != variables:
            os.environ.clear()
            os.environ.update(variables)
        os.chdir(folder)
        for number, handler in handlers.items():
            signal.signal(number, handler)
