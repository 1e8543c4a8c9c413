"""Results → lines, JSON or tables, in the same way in every command.

Results go to stdout. Progress, notes and errors go to stderr. Only terminals get colours and bars.
NO_COLOR removes every style. FORCE_COLOR adds colours to files and pipes, but no bars.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.display import json_line, printable
from tokenmill.errors import OptionError

if TYPE_CHECKING:
    from rich.console import Console

# pathlib changes s3:// to s3:/.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def console(**more: Any) -> Console:
    """The console for tables and coloured text, on stdout."""
    from rich.console import Console  # 40 ms that encode and decode do not need

    class QuietConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would exit here with a code of its own

    color_system: Any = None if os.environ.get("NO_COLOR") else "auto"
    return QuietConsole(highlight=False, color_system=color_system, **more)


def progress_console() -> Console:
    """The console for progress, on stderr. It is interactive only in a terminal."""
    return console(stderr=True, force_terminal=sys.stderr.isatty())


def report(arguments: argparse.Namespace, figures: dict[str, Any], *lines: str) -> None:
    """Print a result: its figures with --json, otherwise lines of text."""
    if arguments.json:
        say_json(figures | ({"skipped": arguments.skipped} if arguments.skipped else {}))
    else:
        for line in lines:
            say(line)


def say(text: str) -> None:
    """Print one line of a result, with control characters escaped."""
    sys.stdout.write(printable(text) + "\n")


def note(text: str) -> None:
    """Print a note on stderr. A closed stderr is ignored."""
    with suppress(OSError, ValueError):
        sys.stderr.write(f"tokenmill: note: {printable(text)}\n")


def say_json(figures: dict[str, Any]) -> None:
    """Print a result as JSON on one line, in the encoding of stdout."""
    text = json_line(figures)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(figures)
    say(text)


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: 1 file, 2,000 files."""
    return f"{number:,} {noun}{'s'[: number != 1]}"


def first(lines: Sequence[str], most: int, others: str) -> list[str]:
    """The first lines, and one line with the number of others."""
    more = len(lines) - most
    return [*lines[:most], f"and {more:,} more {others}"] if more > 0 else list(lines)


def add_json(parser: Any, help: str = "result as one JSON object on stdout") -> None:
    parser.add_argument("--json", action="store_true", help=help)


def check_outputs(
    outputs: Iterable[str | Path], inputs: Iterable[str], folders: Collection[str] = ()
) -> None:
    """Raise if an output cannot be written, or would replace an input or another output.

    Those in `folders` may be folders, which are made.
    """
    from tokenmill.formats.save import is_folder  # slow to import

    used = {os.path.realpath(name): "also an input" for name in inputs if Path(name).exists()}
    for output in outputs:
        name, path = str(output), Path(output)
        if name == "-":
            raise OptionError("output must be a file, got '-'; pass a name such as tokenizer.json")
        if _URL.match(name):
            raise OptionError(f"output {name!r} is a URL; write a local file and copy it there")
        if is_folder(name):
            if name not in folders:
                raise OptionError(f"output {name!r} is a folder; pass a file inside it")
        elif not path.parent.is_dir():
            raise OptionError(f"folder of output {name!r} not found; create it first")
        elif path.exists() and not path.is_file():  # a device or a pipe
            continue
        elif not os.access(path.parent, os.W_OK):
            raise OptionError(f"output {name!r} is in a read-only folder; pass another folder")
        target = os.path.realpath(path)
        if target in used:
            raise OptionError(f"output {name!r} is {used[target]}; pass another path")
        used[target] = "given twice"
