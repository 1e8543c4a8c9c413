"""Results → lines, JSON or tables, in the same way in every command.

Results go to stdout. Progress, notes and errors go to stderr. Only terminals get colours and bars.
NO_COLOR removes every style. FORCE_COLOR adds colours to files and pipes, but no bars.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tokenmill.display import json_line, printable

if TYPE_CHECKING:
    from rich.console import Console

_FILE_COLUMNS = 140


def console() -> Console:
    """The console for tables and coloured text, on stdout."""
    return _console()


def wide_console() -> Console:
    """The console for wide tables. A file or a pipe has 140 columns."""
    made = console()
    if not made.is_terminal:
        made.width = _FILE_COLUMNS
    return made


def progress_console() -> Console:
    """The console for progress, on stderr. It is interactive only in a terminal."""
    return _console(stderr=True, force_terminal=sys.stderr.isatty())


def _console(**more: Any) -> Console:
    from rich.console import Console  # 40 ms that encode and decode do not need

    class QuietConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would exit here with a code of its own

    color_system: Any = None if os.environ.get("NO_COLOR") else "auto"
    return QuietConsole(highlight=False, color_system=color_system, **more)


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


def add_json(parser: Any, help: str = "result as one JSON object on stdout") -> None:
    parser.add_argument("--json", action="store_true", help=help)
