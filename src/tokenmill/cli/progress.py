"""Progress of a long command → a bar in a terminal, lines of text or JSON elsewhere, on stderr.

Styles: "auto" is a bar if stderr is a terminal and "plain" otherwise, "plain" a line every five
seconds and at the end of each phase, "json" the same as JSON every second, "none" no output.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.table import Column

from tokenmill.cli.output import add_json, progress_console
from tokenmill.display import printable
from tokenmill.errors import InputWarning
from tokenmill.progress import Progress, memory_bytes

STYLES = ("auto", "plain", "json", "none")
_SECONDS = {"plain": 5.0, "json": 1.0, "none": math.inf}
# Seconds after which a command that is usually short shows its progress.
AFTER = 2.0
_BAR_WIDTH = 16
_PHASE_WIDTH = 9


def add_flags(parser: Any) -> None:
    """Add --progress, its short form -q, and --json for the result."""
    parser.add_argument(
        "--progress",
        choices=STYLES,
        default="auto",
        metavar="STYLE",
        help="progress on stderr: plain, json, none, or auto, a bar in a terminal and else plain "
        "(default: auto)",
    )
    parser.add_argument(
        *("-q", "--quiet"), action="store_const", const="none", dest="progress",
        help="short form of --progress none",
    )  # fmt: skip
    add_json(parser)


@contextmanager
def show(style: str, *, late: bool = False) -> Iterator[Display]:
    """A display on stderr. It also shows warnings, as notes. Short commands begin it `late`."""
    with (
        Display(progress_console(), style, AFTER if late else 0.0) as shown,
        warnings.catch_warnings(),
    ):
        before = warnings.showwarning

        def show_warning(message: Warning | str, *more: Any, **named: Any) -> None:
            if isinstance(message, InputWarning):  # it comes before the display starts
                before(message, *more, **named)
            else:
                shown.note(str(message))

        warnings.simplefilter("always")
        warnings.showwarning = show_warning
        yield shown


class Display:
    """Shows one phase after the other, with rate, time left and memory."""

    def __init__(self, console: Console, style: str, after: float = 0.0) -> None:
        self._console = console
        self._style = "plain" if style == "auto" else style
        self._begin = time.monotonic() + after
        self._started = self._printed = time.monotonic()
        self._last: Progress | None = None
        self._bars = _make_bars(console) if style == "auto" and console.is_interactive else None
        self._task = TaskID(0)

    def __enter__(self) -> Display:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._end_phase(is_done=kind is None)
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now < self._begin:
            return
        if self._last is None or progress.phase != self._last.phase:
            self._end_phase(is_done=True)
            self._started = self._printed = now
            if self._bars is not None:
                self._task = self._bars.add_task(progress.phase, total=None, figures="")
        self._last = progress
        if self._bars is not None:
            self._update(self._bars, progress)
            # Its thread starts with the first progress, when a run has started its processes.
            self._bars.start()
        elif now - self._printed >= _SECONDS[self._style]:
            self._printed = now
            self._print(progress)

    def note(self, text: str) -> None:
        """Print a note in every style, as JSON among lines of JSON."""
        if self._style == "json":
            self._write(json.dumps({"note": text}))
            return
        self._console.print(f"tokenmill: note: {printable(text)}", markup=False, soft_wrap=True)

    def _end_phase(self, *, is_done: bool) -> None:
        last, self._last = self._last, None
        if last is None:
            return
        if self._bars is None:
            self._print(last)
        # Merging may end before the total if the text has no more pairs.
        elif is_done and last.total is not None and last.phase not in ("merging", "tokenizing"):
            self._update(self._bars, replace(last, done=last.total))

    def _update(self, bars: Bars, progress: Progress) -> None:
        width = self._console.width - max(_PHASE_WIDTH, len(progress.phase)) - _BAR_WIDTH - 3
        figures = _figures(self._measured(progress))
        while len(", ".join(figures)) > width and len(figures) > 1:
            figures.pop()
        text = ", ".join(figures)
        bars.update(self._task, completed=progress.done, total=progress.total, figures=text)

    def _print(self, progress: Progress) -> None:
        if self._style == "none":
            return
        progress = self._measured(progress)
        text = f"{progress.phase}: {', '.join(_figures(progress))}"
        self._write(json.dumps(_row(progress)) if self._style == "json" else text)

    def _write(self, line: str) -> None:
        # The run continues if stderr cannot be written.
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    def _measured(self, progress: Progress) -> Progress:
        """The progress with the time of its phase and the memory, which training does not set."""
        if progress.phase == "tokenizing":
            return progress
        return replace(progress, seconds=time.monotonic() - self._started, memory=memory_bytes())


def _make_bars(console: Console) -> Bars:
    phase, figures = Column(min_width=_PHASE_WIDTH, no_wrap=True), Column(no_wrap=True)
    return Bars(
        TextColumn("{task.description}", table_column=phase),
        BarColumn(bar_width=_BAR_WIDTH),
        TextColumn("{task.fields[figures]}", table_column=figures),
        console=console,
    )


_TRAINING_FIGURES = ("phase", "done", "total", "unique", "best_count", "min_tracked_count")
_RUN_FIGURES = ("tokens", "documents", "tasks", "tasks_total", "quarantined")


def _row(progress: Progress) -> dict[str, Any]:
    """The figures of one JSON line."""
    measured = {"seconds": round(progress.seconds, 3), "memory": progress.memory}
    if progress.phase != "tokenizing":
        return {name: getattr(progress, name) for name in _TRAINING_FIGURES} | measured
    row = {"phase": progress.phase, "bytes": progress.done, "bytes_total": progress.total}
    left = progress.seconds_left
    return row | {name: getattr(progress, name) for name in _RUN_FIGURES} | measured | {
        "bytes_per_second": round(progress.bytes_per_second),
        "tokens_per_second": round(progress.tokens_per_second),
        "seconds_left": None if left is None else round(left, 1),
    }  # fmt: skip


def _figures(progress: Progress) -> list[str]:
    """The figures of one line, the important ones first."""
    has_bytes = progress.phase not in ("adding up", "merging", "reporting", "reading shards")
    amount = decimal if has_bytes else "{:,}".format
    total = "" if progress.total is None else f" of {amount(progress.total)}"
    parts = [f"{amount(progress.done)}{total}"]
    if has_bytes:
        parts.append(f"{decimal(round(progress.bytes_per_second))}/s of input")
    parts.append(str(timedelta(seconds=round(progress.seconds))))
    left = progress.seconds_left
    if left is not None and 0 < progress.done < (progress.total or 0):
        parts.append(f"{timedelta(seconds=round(left))} left")
    if progress.phase == "tokenizing":
        parts.append(f"{progress.tokens_per_second:,.0f} tokens/s")
    if progress.quarantined:
        parts.append(f"{progress.quarantined:,} quarantined")
    if progress.memory:
        parts.append(f"{decimal(progress.memory)} memory")
    if progress.unique:  # a cluster does not report it
        parts.append(f"up to {progress.unique:,} unique pretokens")
    if progress.best_count:
        parts.append(f"count of the last pair {progress.best_count:,}")
    if progress.min_tracked_count is not None:
        parts.append(f"minimum tracked count {progress.min_tracked_count:,}")
    return parts
