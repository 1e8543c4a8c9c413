"""Arguments of the command line → one command."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import tokenmill
from tokenmill.cli import bench, convert, count, demo, inspect, ladder, tokenize, train, verify
from tokenmill.errors import TokenmillError


def main(arguments: Sequence[str] | None = None) -> int:
    _fill_streams()
    parser = argparse.ArgumentParser(prog="tokenmill", description="Byte-pair encoding.")
    parser.add_argument("--version", action="version", version=f"tokenmill {tokenmill.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    train.add_parser(commands)
    count.add_parser(commands)
    tokenize.add_parser(commands)
    verify.add_parser(commands)
    inspect.add_parser(commands)
    convert.add_parser(commands)
    ladder.add_parser(commands)
    bench.add_parser(commands)
    demo.add_parser(commands)
    options = parser.parse_args(arguments)
    # A terminal that cannot show a character shows a question mark.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    code: int | None
    try:
        with _terminable():
            code = options.run(options)
        sys.stdout.flush()
    except TokenmillError as error:
        sys.stderr.write(f"tokenmill: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has gone, as `head` does; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        sys.stderr.write(f"tokenmill: {error}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code or 0


def _fill_streams() -> None:
    """What is said to a stream that the caller has closed is said to nobody, and the work is done.

    The number is taken, too: a file of ours that got it would be written to by others.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


@contextmanager
def _terminable() -> Iterator[None]:
    """Inside, SIGTERM ends the program as an interrupt does, and what it was at is cleared away."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
