"""Fifteen ways to learn the same merges → a table and a plot: `python -m ladder training`."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax

from ladder import runner, values
from ladder.errors import LadderError
from ladder.runner import Panel, duration, megabytes, speed_up
from ladder.training import texts
from ladder.training.steps import (
    STEPS,
    Learned,
    Measurement,
    Skipped,
    Step,
    Task,
    estimate,
    learn,
    measure,
)
from tokenmill.cli.app import BUG
from tokenmill.cli.output import add_json, check_outputs, progress_console, say_json
from tokenmill.patterns.schemes import pattern_of

_VOCAB_SIZE_MAX = 1 << 21
_HEADS = ("step", "CPU time", "over previous", "over step 1", "peak", "added", "rebuilds", "merges")

_EPILOG = """\
examples:
  python -m ladder training
  python -m ladder training --max-mb 1 --vocab-size 500 --plot ladder.svg
  python -m ladder training corpus.txt --max-mb 40 --vocab-size 10000 --steps 9-15 --runs 3
  python -m ladder training --steps 6,10,14-15 --json
  python -m ladder training --diff 9

Each step is a file in ladder/training, made to be read. Steps 1-5 traverse all of the
text for each merge. They are skipped with a note if they would exceed --limit. A step that learns
other merges than the core is a bug, with an exit code of its own."""


def add_parser(ladders: Any) -> None:
    parser: argparse.ArgumentParser = ladders.add_parser(
        "training",
        help="fifteen ways to learn the same merges, from naive to native",
        description="Learns the same vocabulary in fifteen steps that differ by one idea\n"
        "each. Each step runs in a fresh process. Its merges are compared with the core's.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "input",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="text file, or - for standard input (default: Python's own documents)",
    )
    number = values.whole_number
    parser.add_argument(
        "--max-mb",
        type=values.megabytes,
        default=1_000_000,
        metavar="MB",
        help="megabytes of text (default: 1)",
    )
    parser.add_argument(
        "--vocab-size", type=number(257), default=500, help="size of the vocabulary (default: 500)"
    )
    parser.add_argument(
        "--steps",
        type=values.numbers(1, len(STEPS)),
        default=[step.number for step in STEPS],
        help="steps to run, such as 6,10,14-15 (default: 1-15)",
    )
    parser.add_argument(
        "--pattern",
        default="gpt2",
        help="name of a pattern or a regular expression (default: gpt2)",
    )
    parser.add_argument(
        "--runs",
        type=number(1),
        default=runner.RUNS,
        help=f"number of runs; medians are shown (default: {runner.RUNS})",
    )
    parser.add_argument(
        "--limit",
        type=number(0),
        default=60,
        metavar="SECONDS",
        help="skip steps 1-5 that would take longer; 0 turns this off (default: 60)",
    )
    parser.add_argument(
        "--diff",
        type=int,
        choices=[step.number for step in STEPS],
        metavar="STEP",
        help="show how a step changes the step that it builds on, and measure nothing",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.svg", help="file for a plot of time and memory"
    )
    add_json(parser, "print the table as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.diff:
        _print_changes(STEPS[options.diff - 1])
        return 0
    _check(options)
    pattern = pattern_of(options.pattern)
    bytes_max = options.max_mb
    errors = progress_console()
    with tempfile.TemporaryDirectory() as folder:
        path = options.input
        if path is None:
            path = Path(folder) / "prose.txt"
            size = path.write_bytes(texts.prose(bytes_max))
            if size < bytes_max:
                errors.print(
                    f"Python's own documents have {size / 1e6:.1f} MB; pass a FILE for more"
                )
        elif str(path) == "-":
            path = Path(folder) / "stdin.txt"
            path.write_bytes(sys.stdin.buffer.read(bytes_max))
        task = Task(path, bytes_max, options.vocab_size, pattern)
        learned = learn(task)
        with _progress(errors, len(options.steps) * options.runs) as show:
            rows, skipped = _measure_all(options, task, learned, show)
    subtitle = _subtitle(learned)
    if options.plot:
        options.plot.write_text(plot(rows, skipped, subtitle), encoding="utf-8")
    if options.json:
        say_json(as_json(rows, skipped, learned))
    else:
        _print(rows, skipped, subtitle)
    return 0 if all(row.merges_equal for row in rows) else BUG


def _print_changes(step: Step) -> None:
    console = runner.wide_console()
    text = "\n".join(step.changes())
    console.print(Syntax(text, "diff", background_color="default", word_wrap=True))


def _check(options: argparse.Namespace) -> None:
    """Raise errors before the measurement."""
    if options.plot:
        runner.check_plot(options.plot)
        check_outputs([options.plot], [str(options.input or "")])
    if options.vocab_size > _VOCAB_SIZE_MAX:
        raise LadderError(
            f"--vocab-size {options.vocab_size:,} is too large; the ladder packs two ids into one "
            f"number, so use at most {_VOCAB_SIZE_MAX:,}"
        )


def _measure_all(
    options: argparse.Namespace, task: Task, learned: Learned, show: Callable[[str, int], None]
) -> tuple[list[Measurement], list[Skipped]]:
    """Measure the steps that the limit allows."""
    skipped: list[Skipped] = []
    wanted = [step for step in STEPS if step.number in options.steps]
    for step in wanted:
        if options.limit and step.walks:
            show(f"{step.number} {step.name}: trying a few merges", 0)
            seconds = estimate(step, task, learned)
            if seconds > options.limit:
                skipped.append(Skipped(step.number, step.name, seconds))
                show("", options.runs)
    left_out = {row.step for row in skipped}
    found: dict[Step, list[Measurement]] = {
        step: [] for step in wanted if step.number not in left_out
    }

    def run(step: Step) -> Measurement:
        show(f"{step.number} {step.name}", 0)
        return measure(step, task, learned)

    runner.measure_rounds(found, run, options.runs, lambda: show("", 1))
    return [runner.median_of(rows) for rows in found.values()], skipped


@contextmanager
def _progress(console: Console, total: int) -> Iterator[Callable[[str, int], None]]:
    """Show the current step, in a terminal only."""
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(),
        TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_interactive
    ) as bars:
        task = bars.add_task("", total=total)

        def show(text: str, done: int) -> None:
            bars.update(task, advance=done, description=text or None)

        yield show


def as_json(
    rows: list[Measurement],
    skipped: list[Skipped],
    learned: Learned,
) -> dict[str, Any]:
    """Return the table as JSON values."""
    return {
        "steps": [asdict(row) for row in rows],
        "skipped": [asdict(row) for row in skipped],
        "text_bytes": learned.text_bytes,
        "merges": learned.merges,
        "python": platform.python_version(),
    }


def _print(rows: list[Measurement], skipped: list[Skipped], subtitle: str) -> None:
    console = runner.wide_console()
    console.print(subtitle, markup=False)
    runner.print_table(console, _HEADS, cells(rows))
    if any(row.compactions == 0 for row in rows):
        console.print(
            "A step with 0 rebuilds found no list long and stale enough: its compaction was never "
            "used at this size."
        )
    for row in skipped:
        console.print(
            f"{row.step} {row.name}: skipped, it would take about {row.estimated_seconds:,.0f} s "
            "(--limit)"
        )


def cells(rows: list[Measurement]) -> list[list[str]]:
    """Return the rows of the table."""
    by_number = {row.step: row for row in rows}
    return [
        [
            f"{row.step:>2} {row.name}",
            runner.spread(row.cpu_seconds, row.cpu_min, row.cpu_max),
            _speed_up(by_number.get(STEPS[row.step - 1].base), row),
            _speed_up(by_number.get(1), row),
            f"{row.peak_mb:,.0f} MB",
            f"{row.added_mb:,.1f} MB",
            "–" if row.compactions is None else f"{row.compactions:,}",
            "equal" if row.merges_equal else "DIFFERENT",
        ]
        for row in rows
    ]


def plot(rows: list[Measurement], skipped: list[Skipped], subtitle: str) -> str:
    """Return the plot of time and memory."""
    numbers = sorted({row.step for row in rows} | {row.step for row in skipped})
    names = {number: f"{number} {STEPS[number - 1].name}" for number in numbers}
    times = {row.step: row.cpu_seconds for row in rows}
    memory = {row.step: row.added_mb for row in rows if row.added_mb > 0}
    notes = {row.step: f"skipped: about {duration(row.estimated_seconds)}" for row in skipped}
    panels = [
        Panel("CPU time", "time", times, duration),
        Panel("memory added by training", "memory", memory, megabytes),
    ]
    return runner.draw("The same merges, one idea more per step", subtitle, names, panels, notes)


def _speed_up(other: Measurement | None, row: Measurement) -> str:
    if other is None or not row.merges_equal:
        return "–"
    return speed_up(other.cpu_seconds, row.cpu_seconds)


def _subtitle(learned: Learned) -> str:
    return (
        f"{learned.text_bytes / 1e6:.1f} MB of text, {learned.merges:,} merges, "
        f"Python {platform.python_version()}"
    )
