"""A command → how it ends: exit codes, and errors as one line or with their traceback."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tokenmill.errors import TokenmillError
from tokenmill.printable import printable

SYSTEM = 1
MISTAKE = 2
QUARANTINED = 3
DIFFERENT = 4
BUG = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 128 + 2
READER_GONE = 128 + 13
TERMINATED = 128 + 15
# A name that is wrong is a mistake, whoever finds it out.
_NOT_THERE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)

CODES = {
    0: "all is done",
    SYSTEM: "the system refused: a disk, a permission, memory",
    MISTAKE: "a mistake in the command or in what it was given",
    QUARANTINED: "tokenize: all is done, and some records were put aside",
    DIFFERENT: "verify: the shards are not what was written",
    BUG: "a bug in tokenmill; --debug shows where",
    INTERRUPTED: "Ctrl-C",
    READER_GONE: "who read the output has gone, as head does",
    TERMINATED: "SIGTERM",
}


def wants_debug() -> bool:
    """Whether the environment asks for tracebacks."""
    return os.environ.get("TOKENMILL_DEBUG", "") not in ("", "0")


def run(command: Callable[[], int | None], *, debug: bool) -> int:
    """The exit code of a command. What it wrote is out when this returns."""
    try:
        try:
            with _terminable():
                code = command() or 0
        except SystemExit:  # of the parser, or SIGTERM
            sys.stdout.flush()
            raise
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = READER_GONE
    except Exception as error:
        code, said = _described(error, debug=debug)
        with suppress(OSError, ValueError):  # where nobody can be told, the code says it
            if debug:
                traceback.print_exc()
            sys.stderr.write(f"tokenmill: {printable(said)}\n")
    _flush_or_drop()
    return code


def _described(error: Exception, *, debug: bool) -> tuple[int, str]:
    """The code of an error and its line."""
    if isinstance(error, TokenmillError):
        return MISTAKE, str(error)
    if isinstance(error, OSError):
        said = error.strerror or str(error)
        code = MISTAKE if isinstance(error, _NOT_THERE) else SYSTEM
        return code, said if error.filename is None else f"{error.filename}: {said}"
    if isinstance(error, MemoryError):
        return SYSTEM, "there is not enough memory"
    line = str(error).partition("\n")[0]
    way_out = "please report what stands above" if debug else "see where with --debug"
    return BUG, f"unexpected {type(error).__name__}: {line}; this is a bug, {way_out}"


def _flush_or_drop() -> None:
    """What was written before an error gets out; where it cannot, Python does not complain."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _terminable() -> Iterator[None]:
    """Inside, SIGTERM ends the program as an interrupt does, and what it was at is cleared away."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
