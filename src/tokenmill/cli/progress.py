"""Progress of a long command → a bar in a terminal, lines of text or JSON elsewhere, on stderr.

Styles: "auto" is a bar if stderr is a terminal and "plain" otherwise, "plain" a line every five
seconds and at the end of each phase, "json" the same as JSON every second, "none" no output.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.table import Column

from tokenmill.cli.output import progress_console
from tokenmill.display import printable
from tokenmill.progress import Progress, memory_bytes

STYLES = ("auto", "plain", "json", "none")
_SECONDS = {"plain": 5.0, "json": 1.0}
_BAR_WIDTH = 16
_PHASE_WIDTH = 9


def add_options(parser: Any) -> None:
    """Add --progress and its short form -q."""
    parser.add_argument(
        "--progress",
        choices=STYLES,
        default="auto",
        help="style of progress on stderr (default: auto, a bar in a terminal, else plain)",
    )
    parser.add_argument(
        "-q",
        "--quiet",
        action="store_const",
        const="none",
        dest="progress",
        help="short form of --progress none",
    )


class Display:
    """Shows one phase after the other, with rate, time left and memory."""

    def __init__(self, console: Console, style: str) -> None:
        if style == "auto" and not console.is_interactive:
            style = "plain"
        self._style = style
        self._console = console
        self._phase: str | None = None
        self._started = self._printed = time.monotonic()
        self._last: Progress | None = None
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        if style == "auto":
            self._bars = Bars(
                TextColumn(
                    "{task.description}", table_column=Column(min_width=_PHASE_WIDTH, no_wrap=True)
                ),
                BarColumn(bar_width=_BAR_WIDTH),
                TextColumn("{task.fields[figures]}", table_column=Column(no_wrap=True)),
                console=console,
            )

    def __enter__(self) -> Display:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._end_phase(is_done=kind is None)
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, progress: Progress) -> None:
        if self._style == "none":
            return
        now = time.monotonic()
        if progress.phase != self._phase:
            self._end_phase(is_done=True)
            self._phase, self._started, self._printed = progress.phase, now, now
            if self._bars is not None:
                self._task = self._bars.add_task(progress.phase, total=None, figures="")
        self._last = progress
        if self._bars is not None and self._task is not None:
            self._update(progress, now)
            # Its thread starts with the first progress, when a run has started its processes.
            self._bars.start()
        elif now - self._printed >= _SECONDS[self._style]:
            self._printed = now
            self._print(progress, now)

    def note(self, text: str) -> None:
        """Print a note in every style."""
        self._console.print(f"tokenmill: note: {printable(text)}", markup=False, soft_wrap=True)

    def _end_phase(self, *, is_done: bool) -> None:
        last, now = self._last, time.monotonic()
        self._last = None
        if last is None:
            return
        if self._bars is None:
            self._print(last, now)
        # Merging may end before the total if the text has no more pairs.
        elif is_done and last.phase not in ("merging", "tokenizing"):
            self._update(last if last.total is None else replace(last, done=last.total), now)

    def _update(self, progress: Progress, now: float) -> None:
        assert self._bars is not None
        assert self._task is not None
        width = self._console.width - max(_PHASE_WIDTH, len(self._phase or "")) - _BAR_WIDTH - 3
        figures = self._figures(progress, now)
        while len(", ".join(figures)) > width and len(figures) > 1:
            figures.pop()
        text = ", ".join(figures)
        self._bars.update(self._task, completed=progress.done, total=progress.total, figures=text)

    def _print(self, progress: Progress, now: float) -> None:
        if self._style == "json":
            line = json.dumps(_row(progress, now - self._started))
        else:
            line = f"{self._phase}: {', '.join(self._figures(progress, now))}"
        # The run continues if stderr cannot be written.
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    def _figures(self, progress: Progress, now: float) -> list[str]:
        if progress.phase == "tokenizing":
            return _run_figures(progress)
        seconds = max(now - self._started, 1e-6)
        return _training_figures(progress, seconds, is_brief=self._bars is not None)


_TRAINING_FIGURES = ("phase", "done", "total", "unique", "best_count", "min_tracked_count")
_RUN_FIGURES = ("tokens", "documents", "tasks", "tasks_total", "quarantined")


def _row(progress: Progress, seconds: float) -> dict[str, Any]:
    """The figures of one JSON line."""
    if progress.phase != "tokenizing":
        fields = {name: getattr(progress, name) for name in _TRAINING_FIGURES}
        return fields | {"seconds": round(seconds, 3), "memory": memory_bytes()}
    fields = {"phase": progress.phase, "bytes": progress.done, "bytes_total": progress.total}
    left = progress.seconds_left
    return fields | {name: getattr(progress, name) for name in _RUN_FIGURES} | {
        "seconds": round(progress.seconds, 3),
        "memory": progress.memory,
        "bytes_per_second": round(progress.bytes_per_second),
        "tokens_per_second": round(progress.tokens_per_second),
        "seconds_left": None if left is None else round(left, 1),
    }  # fmt: skip


def _training_figures(progress: Progress, seconds: float, *, is_brief: bool) -> list[str]:
    """Figures of `train`. Next to a bar only those that fit a narrow terminal."""
    parts = []
    if progress.phase == "counting":
        total = "" if progress.total is None else f" of {amount(progress.total)}"
        parts.append(f"{amount(progress.done)}{total}")
        parts.append(f"{amount(progress.done / seconds)}/s")
        if progress.unique and not is_brief:  # a cluster does not report it
            parts.append(f"up to {progress.unique:,} unique pretokens")
    else:
        total = "" if progress.total is None else f" of {progress.total:,}"
        parts.append(f"{progress.done:,}{total}")
        if progress.best_count and not is_brief:
            parts.append(f"count of the last pair {progress.best_count:,}")
        if progress.min_tracked_count is not None and not is_brief:
            parts.append(f"minimum tracked count {progress.min_tracked_count:,}")
    parts.append(_clock(seconds))
    if progress.total and 0 < progress.done < progress.total:
        left = seconds / progress.done * (progress.total - progress.done)
        parts.append(f"{_clock(left)} left")
    memory = memory_bytes()
    if memory:
        parts.append(amount(memory) + ("" if is_brief else " memory"))
    return parts


def _run_figures(progress: Progress) -> list[str]:
    """Figures of `tokenize`."""
    parts = [
        f"{amount(progress.done)} of {amount(progress.total or 0)}",
        f"{amount(progress.bytes_per_second)}/s",
        f"{_short(progress.tokens_per_second)} tokens/s",
    ]
    if progress.quarantined:
        parts.append(f"{progress.quarantined:,} quarantined")
    left = progress.seconds_left
    if left is not None and progress.done < (progress.total or 0):
        parts.append(f"{_clock(left)} left")
    else:
        parts.append(_clock(progress.seconds))
    if progress.memory:
        parts.append(amount(progress.memory))
    return parts


@contextmanager
def show(style: str) -> Iterator[Display]:
    """A display on stderr. It also shows warnings, as notes."""
    with Display(progress_console(), style) as shown, warnings.catch_warnings():

        def show_warning(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            shown.note(str(message))

        warnings.simplefilter("always")
        warnings.showwarning = show_warning
        yield shown


def peak_bytes() -> int:
    """The peak memory of this process. 0 if the system does not report it."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def amount(count: float) -> str:
    """A number of bytes with three digits."""
    units = ("B", "KB", "MB", "GB", "TB")
    power = 0
    while count >= 999.5 and power < len(units) - 1:
        count /= 1000
        power += 1
    return f"{count:.3g} {units[power]}"


def _short(count: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0f}"


def _clock(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
