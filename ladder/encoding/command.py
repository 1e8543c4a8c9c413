"""Five ways to encode a text → a table: `python -m ladder encoding`."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ladder import runner, values
from ladder.encoding import steps, texts
from ladder.encoding.steps import Measurement
from ladder.errors import LadderError
from ladder.runner import RUNS, WARMUP, duration, speed_up
from tokenmill.cli.output import add_json, check_outputs, progress_console, say_json
from tokenmill.errors import OptionError

_BEGIN, _END = "<!-- ladder-encoding:start -->", "<!-- ladder-encoding:end -->"
_HEADS = (
    "step", "one encode", "min … max", "CPU time", "encodes", "over previous", "over first",
    "long pretoken", "memory", "ids",
)  # fmt: skip
# Wall time above this multiple of CPU time means that other programs used the cores.
_BUSY = 1.2


def add_parser(ladders: Any) -> None:
    parser: argparse.ArgumentParser = ladders.add_parser(
        "encoding",
        help="five ways to encode one text",
        description="Encodes one text of 286 bytes in five steps that differ by one idea each. "
        "Each step runs in a fresh process, and its ids are compared with the reference.",
        epilog="examples:\n  python -m ladder encoding\n"
        "  python -m ladder encoding --steps 2-3 --runs 20\n"
        "  python -m ladder encoding --plot encoding.svg --json > encoding.json\n"
        "  python -m ladder encoding --markdown docs/ladder-encoding.md",
    )
    parser.add_argument(
        "--steps",
        type=values.numbers(1, len(steps.STEPS)),
        default=list(range(1, len(steps.STEPS) + 1)),
        help="steps to run, such as 1-3 or 2,5 (default: 1-5)",
    )
    parser.add_argument(
        "--encodes",
        type=values.whole_number(1),
        default=texts.ENCODES,
        help=f"encodes per run of the fastest step (default: {texts.ENCODES:,})",
    )
    parser.add_argument(
        "--runs",
        type=values.whole_number(1),
        default=RUNS,
        help=f"number of timed runs (default: {RUNS})",
    )
    parser.add_argument(
        "--warmup",
        type=values.whole_number(0),
        default=WARMUP,
        help=f"number of untimed warm-up runs (default: {WARMUP})",
    )
    add_json(parser, "print all figures as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="file for a plot of times")
    parser.add_argument(
        "--markdown",
        nargs="?",
        const="-",
        metavar="FILE",
        help="print the table as Markdown, or write it between the marks of a document",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    if options.json and options.markdown == "-":
        raise OptionError("--json and --markdown - both print to standard output; remove one")
    document = None if options.markdown in (None, "-") else Path(options.markdown)
    if document is not None:
        _split(document)  # fail before the measurement
    if options.plot is not None:
        runner.check_plot(options.plot)
        check_outputs([options.plot], [])
    with progress_console().status("") as status:
        rows = measure_all(options, lambda name: status.update(f"{name} …"))
    if options.plot is not None:
        options.plot.write_text(plot(rows), encoding="utf-8")
    if document is not None:
        before, after = _split(document)
        block = markdown(rows, options.encodes)
        document.write_text(f"{before}{_BEGIN}\n{block}\n{_END}{after}", encoding="utf-8")
    if options.json:
        say_json({"encodes": options.encodes, "steps": [row.as_json() for row in rows]})
    elif options.markdown == "-":
        sys.stdout.write(markdown(rows, options.encodes) + "\n")
    else:
        console = runner.wide_console()
        runner.print_table(console, _HEADS, cells(rows))
        console.print(note(rows, options.encodes), style="dim")


def measure_all(options: argparse.Namespace, show: Callable[[str], None]) -> list[Measurement]:
    """Measure the chosen steps one after another."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "ladder.tiktoken"
        show("vocabulary")
        steps.write_vocabulary(vocabulary)
        expected = steps.expected_digest(vocabulary)
        for step in steps.STEPS:
            if step.number in options.steps:
                show(step.name)
                runs = (options.encodes, options.runs, options.warmup)
                rows.append(steps.measure(step, vocabulary, *runs, expected))
    return rows


def cells(rows: list[Measurement]) -> list[list[str]]:
    """Return the rows of the table."""
    found = []
    for index, row in enumerate(rows):
        each = row.each
        gain = speed_up(rows[index - 1].each.mean, each.mean) if index else ""
        found.append(
            [
                name_of(row), each.spread(), each.span(), duration(each.cpu), f"{row.encodes:,}",
                gain, speed_up(rows[0].each.mean, each.mean), duration(row.long_seconds),
                f"{row.peak_mb:,.0f} MB", "equal",
            ]
        )  # fmt: skip
    return found


def name_of(row: Measurement) -> str:
    return f"{row.step.number} {row.step.name}"


def note(rows: list[Measurement], encodes: int) -> str:
    """Return the text below the table."""
    run = rows[0].run
    text = (
        f"Mean ± σ of {run.runs} runs after {run.warmup} warm-up runs, each step in a fresh "
        f"process. A run is {encodes:,} encodes of {len(texts.TEXT.encode())} bytes, or fewer for "
        f"slow steps. The long pretoken has {len(texts.LONG):,} bytes and is never in the cache; "
        "its time is the best of three in CPU time. Memory is the peak. Ids are compared with the "
        "reference before the runs."
    )
    if any(row.run.mean > _BUSY * row.run.cpu for row in rows):
        text += " Other programs used the cores during the runs: compare the CPU times."
    return text


def markdown(rows: list[Measurement], encodes: int) -> str:
    """Return the table for a document."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    rule = ["---", *("---:" for _ in _HEADS[1:])]
    lines = ["| " + " | ".join(line) + " |" for line in (_HEADS, rule, *cells(rows))]
    head = f"Measured by `python -m ladder encoding` on {python}, {platform.machine()}, {_cpu()}."
    return "\n\n".join([head, "\n".join(lines), note(rows, encodes)])


def plot(rows: list[Measurement]) -> str:
    """Return the plot of the time of one encode."""
    names = {row.step.number: name_of(row) for row in rows}
    times = {row.step.number: row.each.mean for row in rows}
    long = {row.step.number: row.long_seconds for row in rows}
    return runner.draw(
        "The same ids, one idea more per step",
        f"one encode of {len(texts.TEXT.encode())} bytes, and of one pretoken of "
        f"{len(texts.LONG):,} bytes",
        names,
        [
            runner.Panel("time", "time", times, duration),
            runner.Panel("time of the long pretoken", "memory", long, duration),
        ],
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    found = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(found)} × {found[0]}" if found else "an unknown CPU"


def _split(document: Path) -> tuple[str, str]:
    """Return the text before and after the marks of a document."""
    text = document.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise LadderError(f"{document} has no lines {_BEGIN} and {_END}; add them for the table")
    return before, after
