"""Figures → lines, JSON or tables, the same way in every command.

Results go to stdout, progress and notes to stderr. Colours and bars are for terminals: NO_COLOR
leaves out every style, FORCE_COLOR styles what goes elsewhere, and neither moves a cursor there.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from rich.console import Console

from tokenmill.printable import json_line, printable

_FILE_COLUMNS = 140


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would end the program here, with a code of its own


def console() -> Console:
    """Where tables and coloured text go: stdout."""
    return _Console(highlight=False, color_system=_color_system())


def wide_console() -> Console:
    """The same for wide tables, which a file has room for."""
    made = console()
    if not made.is_terminal:
        made.width = _FILE_COLUMNS
    return made


def progress_console() -> Console:
    """Where progress goes: stderr. It is interactive only if that is a terminal that can be."""
    return _Console(
        stderr=True,
        highlight=False,
        color_system=_color_system(),
        force_terminal=sys.stderr.isatty(),
    )


def _color_system() -> Any:
    return None if os.environ.get("NO_COLOR") else "auto"


def say(text: str) -> None:
    """One line of a result, in which names cannot do more than be seen."""
    sys.stdout.write(printable(text) + "\n")


def count_of(number: int, noun: str) -> str:
    """A number and what it counts: 1 file, 2,000 files."""
    return f"{number:,} {noun}{'s'[: number != 1]}"


def say_json(figures: dict[str, Any]) -> None:
    """A result as JSON on one line, in any encoding that the output may have."""
    text = json_line(figures)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(figures)
    say(text)


def add_json(parser: Any, help: str = "the figures as JSON on stdout") -> None:
    parser.add_argument("--json", action="store_true", help=help)
