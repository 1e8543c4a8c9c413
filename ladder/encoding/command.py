"""Ways to encode a text → tables and a checklist: `python -m ladder encoding`."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ladder import runner, values
from ladder.encoding import compiled, steps, texts
from ladder.encoding.criteria import Criterion, checklist
from ladder.encoding.steps import Measurement
from ladder.errors import LadderError
from ladder.runner import RUNS, WARMUP, duration, megabytes, speed_up
from tokenmill.cli.output import add_json, check_outputs, progress_console, say_json
from tokenmill.errors import OptionError

_BEGIN, _END = "<!-- ladder-encoding:start -->", "<!-- ladder-encoding:end -->"
_HEADS = (
    "step", "60,000 encodes", "over previous", "rustbpe = 1", "the source", "long pretoken",
    "memory", "ids",
)  # fmt: skip
_TRIED_HEADS = ("variant", "of step", "60,000 encodes", "the step", "speed, step = 1")
_CRITERIA_HEADS = ("criterion of the source", "measured", "met")
_ENCODES = texts.ENCODES
Table: TypeAlias = tuple[Sequence[str], list[list[str]]]


def add_parser(ladders: Any) -> None:
    parser: argparse.ArgumentParser = ladders.add_parser(
        "encoding",
        help="thirteen ways to encode one text",
        description="Encodes one text of 286 bytes in eleven steps, from naive Python to the core, "
        "and with rustbpe and tiktoken. Each step runs in a fresh process, and its ids are "
        "compared with the reference.",
        epilog="examples:\n  python -m ladder encoding\n"
        "  python -m ladder encoding --steps 5-11 --runs 10 --warmup 3\n"
        "  python -m ladder encoding --plot encoding.svg --json > encoding.json\n"
        "  python -m ladder encoding --markdown docs/ladder-encoding.md",
    )
    parser.add_argument(
        "--steps",
        type=values.numbers(1, len(steps.STEPS)),
        default=list(range(1, len(steps.STEPS) + 1)),
        help="steps to run, such as 1-3 or 2,5 (default: 1-13)",
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
    parser.add_argument(
        "--short", action="store_true", help="omit the variants and the checklist of the source"
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
    criteria = []
    by_step = {row.step: row for row in rows}
    if steps.NATIVE in by_step and steps.RUSTBPE in by_step and not options.short:
        native, peer = (by_step[step].of(_ENCODES) for step in (steps.NATIVE, steps.RUSTBPE))
        criteria = checklist(native, peer, options.runs, options.warmup)
    if options.plot is not None:
        options.plot.write_text(plot(rows), encoding="utf-8")
    report = [(_HEADS, cells(rows)), (_TRIED_HEADS, tried_cells(rows)), *criteria_table(criteria)]
    report = [(heads, body) for heads, body in report if body]
    if document is not None:
        before, after = _split(document)
        block = markdown(report, rows)
        document.write_text(f"{before}{_BEGIN}\n{block}\n{_END}{after}", encoding="utf-8")
    if options.json:
        listed = [criterion._asdict() for criterion in criteria]
        say_json(
            {
                "encodes": options.encodes,
                "steps": [row.as_json() for row in rows],
                "criteria": listed,
            }
        )
    elif options.markdown == "-":
        sys.stdout.write(markdown(report, rows) + "\n")
    else:
        console = runner.wide_console()
        for heads, body in report:
            runner.print_table(console, heads, body)
            console.print()
        console.print(note(rows), style="dim")


def measure_all(options: argparse.Namespace, show: Callable[[str], None]) -> list[Measurement]:
    """Measure the chosen steps one after another, and the variants of those steps."""
    wanted = [step for step in steps.STEPS if step.number in options.steps]
    if not options.short:
        wanted += [step for step, base in steps.TRIED.items() if base in wanted]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "ladder.tiktoken"
        show("vocabulary")
        steps.write_vocabulary(vocabulary)
        expected = steps.expected_digest(vocabulary)
        if any(step.module == "compiled" for step in wanted):
            show("compiling the steps in Zig")
            compiled.load_library()
        for step in wanted:
            show(step.name)
            runs = (options.encodes, options.runs, options.warmup)
            rows.append(steps.measure(step, vocabulary, *runs, expected))
    return rows


def cells(rows: list[Measurement]) -> list[list[str]]:
    """Return the rows of the table of steps."""
    found = []
    times = {row.step.number: row.of(_ENCODES).cpu for row in rows}
    peer = times.get(steps.RUSTBPE.number)
    for row in rows:
        number, source = row.step.number, row.step.source_ms
        if row.step in steps.TRIED:
            continue
        previous = times.get(number - 1) if row.step.language != "Rust" else None
        found.append(
            [
                name_of(row), row.of(_ENCODES).spread(),
                speed_up(previous, times[number]) if previous else "",
                f"{times[number] / peer:.2f}" if peer else "",
                duration(source / 1e3) if source else "", duration(row.long_seconds),
                f"{row.peak_mb:,.0f} MB", "equal",
            ]
        )  # fmt: skip
    return found


def tried_cells(rows: list[Measurement]) -> list[list[str]]:
    """Return the rows of the table of variants, next to the steps that they change."""
    by_step = {row.step: row.of(_ENCODES) for row in rows}
    return [
        [
            step.name, f"{base.number} {base.name}", by_step[step].spread(), by_step[base].spread(),
            f"{by_step[base].cpu / by_step[step].cpu:.2f}",
        ]
        for step, base in steps.TRIED.items()
        if step in by_step and base in by_step
    ]  # fmt: skip


def criteria_table(criteria: list[Criterion]) -> list[Table]:
    marks = {True: "yes", False: "no"}
    rows = [[each.text, each.figure, marks[each.holds]] for each in criteria]
    return [(_CRITERIA_HEADS, rows)]


def name_of(row: Measurement) -> str:
    step = row.step
    if step.language in ("Python", "Zig"):
        return f"{step.number} {step.name}, {step.language}"
    return f"{step.number} {step.name}"


def note(rows: list[Measurement]) -> str:
    """Return the text below the tables."""
    run = rows[0].run
    return (
        f"CPU time, median of {run.runs} runs after {run.warmup} warm-up runs, with the range. "
        f"Each step has a fresh process. It encodes {len(texts.TEXT.encode())} bytes "
        f"{_ENCODES:,} times; slow steps do fewer, and their time is multiplied. The steps in Zig "
        "loop inside one call, and all others are called from Python for each encode. The long "
        f"pretoken has {len(texts.LONG):,} bytes and is never in a cache; its time is the best of "
        "three. Memory is the peak of the process. Ids are compared with the reference first."
    )


def markdown(report: Sequence[Table], rows: list[Measurement]) -> str:
    """Return the tables for a document."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    head = f"Measured by `python -m ladder encoding` on {python}, {platform.machine()}, {_cpu()}."
    tables = [
        "\n".join(
            "| " + " | ".join(line) + " |"
            for line in (heads, ["---", *("---:" for _ in heads[1:])], *linked(body))
        )
        for heads, body in report
    ]
    return "\n\n".join([head, *tables, note(rows)])


def linked(body: list[list[str]]) -> list[list[str]]:
    """Return the rows with a link to the file of each step."""
    paths = {f"{step.number}": step.path() for step in steps.STEPS if step.language != "Rust"}
    found = []
    for first, *others in body:
        number, _, name = first.partition(" ")
        link = f"{number} [{name}](../{paths[number]})" if number in paths else first
        found.append([link, *others])
    return found


def plot(rows: list[Measurement]) -> str:
    """Return the plot of the time of one encode."""
    rows = [row for row in rows if row.step not in steps.TRIED]
    names = {row.step.number: name_of(row) for row in rows}
    times = {row.step.number: row.of(_ENCODES).cpu for row in rows}
    long = {row.step.number: row.long_seconds for row in rows}
    memory = {row.step.number: row.peak_mb for row in rows}
    return runner.draw(
        "The same ids, one idea more per step",
        f"CPU time of {_ENCODES:,} encodes of {len(texts.TEXT.encode())} bytes, of one pretoken of "
        f"{len(texts.LONG):,} bytes, and peak memory",
        names,
        [
            runner.Panel("60,000 encodes", "time", times, duration),
            runner.Panel("long pretoken", "time", long, duration),
            runner.Panel("memory", "memory", memory, megabytes),
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
