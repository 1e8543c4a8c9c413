"""Fifteen ways to learn the same merges → a table and a picture: `tokenmill ladder training`."""

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
from rich.table import Table

from tokenmill.cli import output, values
from tokenmill.cli.ending import BUG
from tokenmill.cli.inputs import check_outputs, check_plot
from tokenmill.cli.output import add_json, progress_console, say_json
from tokenmill.errors import LadderError
from tokenmill.ladder.training import plot, texts
from tokenmill.ladder.training.observations import RULE, Observation, observe
from tokenmill.ladder.training.steps import (
    STEPS,
    Learned,
    Measured,
    Skipped,
    Task,
    estimate,
    learn,
    measure,
    middle,
)
from tokenmill.schemes import pattern_of

_VOCAB_SIZE_MAX = 1 << 21

_EXAMPLES = """
tokenmill ladder training
tokenmill ladder training --max-mb 1 --vocab-size 500 --plot ladder.svg
tokenmill ladder training corpus.txt --max-mb 40 --vocab-size 10000 --steps 9-15 --runs 3
tokenmill ladder training --steps 6,10,14-15 --json
"""
_EPILOG = """\
Each step is a file in src/tokenmill/ladder/training, made to be read. A step that walks through all
of the text for each merge (1-5) is left out, with a note, if --limit is not enough for it. A step
that learns other merges than the core is a bug, and the exit code says so."""


def add_parser(ladders: Any) -> None:
    parser: argparse.ArgumentParser = ladders.add_parser(
        "training",
        help="fifteen ways to learn the same merges, from naive to native",
        description="Learns the same vocabulary by fifteen steps that differ by one idea each, in\n"
        "fresh processes, and says what each takes, and whether its merges are the core's.",
        examples=_EXAMPLES,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "input",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="text, or -; Python's own documents if none",
    )
    number = values.whole_number
    parser.add_argument(
        "--max-mb", type=values.megabytes, default=1_000_000, metavar="MB", help="of the text (1)"
    )
    parser.add_argument(
        "--vocab-size", type=number(257), default=500, help="bytes and merges (500)"
    )
    parser.add_argument(
        "--steps",
        type=values.numbers(1, len(STEPS)),
        default=[step.number for step in STEPS],
        help="which, such as 6,10,14-15 (1-15)",
    )
    parser.add_argument(
        "--pattern", default="gpt2", help="a scheme's name or a regular expression (gpt2)"
    )
    parser.add_argument("--runs", type=number(1), default=1, help="of which the medians count (1)")
    parser.add_argument(
        "--limit",
        type=number(0),
        default=60,
        metavar="SECONDS",
        help="a step of 1-5 that would take longer is skipped; 0 is no limit (60)",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draws time and memory")
    add_json(parser, "the table as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
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
                    f"Python's own documents have {size / 1e6:.1f} MB; give a FILE for more"
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
        options.plot.write_text(plot.draw(rows, skipped, subtitle), encoding="utf-8")
    observations = observe({row.step: row for row in rows})
    if options.json:
        say_json(as_json(rows, skipped, observations, learned))
    else:
        _print(rows, skipped, observations, subtitle)
    return 0 if all(row.merges_equal for row in rows) else BUG


def _check(options: argparse.Namespace) -> None:
    """What would fail after minutes fails now."""
    if options.plot:
        check_plot(options.plot)
        check_outputs([options.plot], [str(options.input or "")])
    if options.vocab_size > _VOCAB_SIZE_MAX:
        raise LadderError(
            f"a vocabulary of {options.vocab_size:,} is too large for the ladder, whose steps pack "
            f"two ids into one number; {_VOCAB_SIZE_MAX:,} is the most"
        )


def _measure_all(
    options: argparse.Namespace, task: Task, learned: Learned, show: Callable[[str, int], None]
) -> tuple[list[Measured], list[Skipped]]:
    """All runs, in rounds, so that what disturbs the machine disturbs every step."""
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
    steps = [step for step in wanted if step.number not in left_out]
    runs: dict[int, list[Measured]] = {step.number: [] for step in steps}
    for _ in range(options.runs):
        for step in steps:
            show(f"{step.number} {step.name}", 0)
            runs[step.number].append(measure(step, task, learned))
            show("", 1)
    return [middle(found) for found in runs.values()], skipped


@contextmanager
def _progress(console: Console, total: int) -> Iterator[Callable[[str, int], None]]:
    """Shows the step that runs, in a terminal alone."""
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
    rows: list[Measured],
    skipped: list[Skipped],
    observations: list[Observation],
    learned: Learned,
) -> dict[str, Any]:
    """The table for programs."""
    return {
        "steps": [asdict(row) for row in rows],
        "skipped": [asdict(row) for row in skipped],
        "observations": [asdict(row) for row in observations],
        "text_bytes": learned.text_bytes,
        "merges": learned.merges,
        "python": platform.python_version(),
    }


def _print(
    rows: list[Measured], skipped: list[Skipped], observations: list[Observation], subtitle: str
) -> None:
    console = output.wide_console()
    console.print(subtitle, markup=False)
    console.print(table(rows))
    for row in skipped:
        console.print(
            f"{row.step} {row.name}: skipped, it would take about {row.estimated_seconds:,.0f} s "
            "(--limit)"
        )
    if observations:
        shown = Table(box=None, pad_edge=False)
        for head in ("steps", "observed before", "here", ""):
            shown.add_column(head)
        for claim in observations:
            shown.add_row(claim.steps, claim.said, claim.here, claim.verdict)
        console.print()
        console.print(shown)
        console.print(f"\n{RULE} Time is the processor's.")


def table(rows: list[Measured]) -> Table:
    shown = Table(box=None, pad_edge=False)
    shown.add_column("step", no_wrap=True)
    for head in ("time", "on the last", "on step 1", "peak", "added", "merges"):
        shown.add_column(head, justify="right")
    by_number = {row.step: row for row in rows}
    for row in rows:
        shown.add_row(
            f"{row.step:>2} {row.name}",
            plot.seconds(row.seconds),
            _speed_up(by_number.get(row.step - 1), row),
            _speed_up(by_number.get(1), row),
            f"{row.peak_mb:,.0f} MB",
            f"{row.added_mb:,.1f} MB",
            "equal" if row.merges_equal else "[red]DIFFERENT[/]",
        )
    return shown


def _speed_up(other: Measured | None, row: Measured) -> str:
    if other is None or not row.merges_equal:
        return "–"
    ratio = other.seconds / row.seconds
    return f"{ratio:,.0f} ×" if ratio >= 100 else f"{ratio:.2f} ×"


def _subtitle(learned: Learned) -> str:
    return (
        f"{learned.text_bytes / 1e6:.1f} MB of text, {learned.merges:,} merges, "
        f"Python {platform.python_version()}"
    )
