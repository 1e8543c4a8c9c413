"""Progress of a run → a bar in a terminal, plain lines or JSON lines elsewhere; on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars

from tokenmill.cli.output import progress_console
from tokenmill.cli.progress import amount
from tokenmill.tokenizing.progress import Progress

STYLES = ("auto", "plain", "json", "none")
_LINE_SECONDS = 5.0
_JSON_SECONDS = 1.0


@contextmanager
def shown(style: str) -> Iterator[Callable[[Progress], None] | None]:
    """What takes the progress of a run and shows it in a style."""
    console = progress_console()
    if style == "none":
        yield None
    elif style == "json":
        yield _every(_JSON_SECONDS, _print_json)
    elif style == "plain" or not console.is_interactive:
        yield _every(_LINE_SECONDS, _print_line)
    else:
        bars = Bars(BarColumn(bar_width=20), TextColumn("{task.fields[figures]}"), console=console)
        task = bars.add_task("", total=None, figures="")

        def show(progress: Progress) -> None:
            bars.update(
                task,
                completed=progress.bytes,
                total=progress.bytes_total,
                figures=figures(progress),
            )
            bars.start()  # its thread begins when the work has, and not before its process

        try:
            yield show
        finally:
            bars.stop()


def _every(seconds: float, show: Callable[[Progress], None]) -> Callable[[Progress], None]:
    """Shows the first, the last once, and one in a while between them."""
    last = -seconds
    is_over = False

    def maybe(progress: Progress) -> None:
        nonlocal last, is_over
        now = time.monotonic()
        ends = progress.units == progress.units_total and not is_over
        if ends or (now - last >= seconds and not is_over):
            last, is_over = now, ends
            show(progress)

    return maybe


def _print_line(progress: Progress) -> None:
    _say(figures(progress))


def _say(line: str) -> None:
    """Where nobody can be told, the run goes on all the same."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def _print_json(progress: Progress) -> None:
    row = {
        "bytes": progress.bytes,
        "bytes_total": progress.bytes_total,
        "tokens": progress.tokens,
        "documents": progress.documents,
        "units": progress.units,
        "units_total": progress.units_total,
        "quarantined": progress.quarantined,
        "seconds": round(progress.seconds, 3),
        "bytes_per_second": round(progress.bytes_per_second),
        "tokens_per_second": round(progress.tokens_per_second),
        "seconds_left": None if progress.seconds_left is None else round(progress.seconds_left, 1),
        "memory": progress.memory,
    }
    _say(json.dumps(row))


def figures(progress: Progress) -> str:
    """One line with all that is known."""
    parts = [
        f"{amount(progress.bytes)} of {amount(progress.bytes_total)}",
        f"{amount(progress.bytes_per_second)}/s",
        f"{_short(progress.tokens_per_second)} tokens/s",
    ]
    if progress.quarantined:
        parts.append(f"{progress.quarantined:,} put aside")
    left = progress.seconds_left
    if left is not None and progress.bytes < progress.bytes_total:
        parts.append(f"{_clock(left)} left")
    else:
        parts.append(_clock(progress.seconds))
    if progress.memory:
        parts.append(amount(progress.memory))
    return ", ".join(parts)


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
