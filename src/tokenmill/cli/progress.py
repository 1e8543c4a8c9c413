"""Progress → a bar in a terminal, and plain lines elsewhere; always on stderr."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.table import Column

from tokenmill.cli.output import progress_console
from tokenmill.printable import printable
from tokenmill.tokenizing.progress import memory_bytes
from tokenmill.training.progress import Progress

_LINE_SECONDS = 5.0


class Display:
    """Shows one phase after the other, with rate, time left and memory."""

    def __init__(self, console: Console, quiet: bool) -> None:
        self._console = console
        self._quiet = quiet
        self._phase = ""
        self._started = self._printed = time.monotonic()
        self._last: Progress | None = None
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        if console.is_interactive and not quiet:
            self._bars = Bars(
                TextColumn("{task.description}", table_column=Column(min_width=9, no_wrap=True)),
                BarColumn(bar_width=16),
                TextColumn("{task.fields[figures]}"),
                console=console,
            )

    def __enter__(self) -> Display:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._end_phase(is_done=kind is None)
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, progress: Progress) -> None:
        if self._quiet:
            return
        now = time.monotonic()
        if progress.phase != self._phase:
            self._end_phase(is_done=True)
            self._phase, self._started, self._printed = progress.phase, now, now
            if self._bars is not None:
                self._task = self._bars.add_task(progress.phase, total=progress.total, figures="")
        self._last = progress
        if self._bars is not None and self._task is not None:
            figures = self._figures(progress, now)
            self._bars.update(
                self._task, completed=progress.done, total=progress.total, figures=figures
            )
        elif now - self._printed >= _LINE_SECONDS:
            self._printed = now
            self._print(progress, now)

    def note(self, text: str) -> None:
        """Something that the user should know, quiet or not."""
        self._console.print(f"tokenmill: note: {printable(text)}", markup=False, soft_wrap=True)

    def _end_phase(self, *, is_done: bool) -> None:
        last, now = self._last, time.monotonic()
        self._last = None
        if last is None:
            return
        if self._bars is None or self._task is None:
            self._print(last, now)
        elif is_done and last.phase != "merging":  # of which there may be fewer than were wanted
            done = last if last.total is None else replace(last, done=last.total)
            self._bars.update(self._task, completed=done.done, figures=self._figures(done, now))

    def _print(self, progress: Progress, now: float) -> None:
        text = f"{progress.phase}: {self._figures(progress, now)}"
        self._console.print(text, markup=False, soft_wrap=True)

    def _figures(self, progress: Progress, now: float) -> str:
        """All that is known; beside a bar only what fits into a narrow terminal."""
        seconds = max(now - self._started, 1e-6)
        is_brief = self._bars is not None
        parts = []
        if progress.phase == "counting":
            total = "" if progress.total is None else f" of {amount(progress.total)}"
            parts.append(f"{amount(progress.done)}{total}, {amount(progress.done / seconds)}/s")
            if progress.unique and not is_brief:  # which a cluster does not tell
                parts.append(f"up to {progress.unique:,} different")
        else:
            total = "" if progress.total is None else f" of {progress.total:,}"
            parts.append(f"{progress.done:,}{total}")
            if progress.best_count and not is_brief:
                parts.append(f"the last with count {progress.best_count:,}")
            if progress.floor is not None and not is_brief:
                parts.append(f"exact since no pair below {progress.floor:,} was needed")
        parts.append(f"{seconds:.0f} s")
        if progress.total and 0 < progress.done < progress.total:
            left = seconds / progress.done * (progress.total - progress.done)
            parts.append(f"about {left:.0f} s left")
        memory = memory_bytes()
        if memory:
            parts.append(amount(memory) + ("" if is_brief else " memory"))
        return ", ".join(parts)


@contextmanager
def display(quiet: bool) -> Iterator[Display]:
    """A display on stderr that also shows warnings, as notes."""
    with Display(progress_console(), quiet) as shown, warnings.catch_warnings():

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            shown.note(str(message))

        warnings.simplefilter("always")
        warnings.showwarning = show
        yield shown


def peak_bytes() -> int:
    """The most that this process ever had in memory; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def amount(count: float) -> str:
    """A number of bytes with three digits."""
    units: list[Any] = ["B", "KB", "MB", "GB", "TB"]
    power = 0
    while count >= 999.5 and power < len(units) - 1:
        count /= 1000
        power += 1
    return f"{count:.3g} {units[power]}"
