"""Five ways to encode a text → a table: `tokenmill ladder encoding`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import JustifyMethod
from rich.table import Table

from tokenmill.cli import output, values
from tokenmill.cli.inputs import check_outputs, check_plot
from tokenmill.cli.output import add_json, progress_console, say_json
from tokenmill.errors import CommandError, LadderError
from tokenmill.ladder import bars
from tokenmill.ladder.encoding import instances, report, steps, texts, training
from tokenmill.ladder.encoding.claims import claims
from tokenmill.ladder.encoding.results import Results, as_json
from tokenmill.ladder.statistics import RUNS, WARMUP, duration

_BEGIN, _END = "<!-- ladder-encoding:start -->", "<!-- ladder-encoding:end -->"


def add_parser(ladders: Any) -> None:
    parser: argparse.ArgumentParser = ladders.add_parser(
        "encoding",
        help="five ways to turn one text into ids, beside rustbpe and tiktoken",
        description="Encodes one text of 286 bytes again and again, by five steps that differ by "
        "one idea each, in fresh processes; also by rustbpe and tiktoken where they are installed. "
        "Then trains on 15,000 short texts, weighs a second tokenizer, and says which claims hold.",
        epilog="examples:\n  tokenmill ladder encoding\n"
        "  tokenmill ladder encoding --steps 2-3 --runs 20\n"
        "  tokenmill ladder encoding --plot encoding.svg --json > encoding.json\n"
        "  tokenmill ladder encoding --markdown docs/ladder-encoding.md",
    )
    parser.add_argument(
        "--steps",
        type=values.numbers(1, len(steps.STEPS)),
        default=list(range(1, len(steps.STEPS) + 1)),
        help="which, such as 1-3 or 2,5 (1-5)",
    )
    parser.add_argument(
        "--encodes",
        type=values.whole_number(1),
        default=texts.ENCODES,
        help=f"in a run of the fastest; slow steps do fewer ({texts.ENCODES:,})",
    )
    parser.add_argument(
        "--runs", type=values.whole_number(1), default=RUNS, help=f"that count ({RUNS})"
    )
    parser.add_argument(
        "--warmup",
        type=values.whole_number(0),
        default=WARMUP,
        help=f"runs before them, which do not ({WARMUP})",
    )
    add_json(parser, "all figures as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draws the times")
    parser.add_argument(
        "--markdown",
        nargs="?",
        const="-",
        metavar="FILE",
        help="the tables as Markdown: printed, or put between the marks of a document",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    if options.json and options.markdown == "-":
        raise CommandError("--json and --markdown - both print; leave one out")
    document = None if options.markdown in (None, "-") else Path(options.markdown)
    if document is not None:
        _split(document)  # before minutes are spent
    if options.plot is not None:
        check_plot(options.plot)
        check_outputs([options.plot], [])
    results = Results(options.encodes)
    with progress_console().status("") as status:
        climb(results, options, lambda name: status.update(f"{name} …"))
    if options.plot is not None:
        options.plot.write_text(plot(results), encoding="utf-8")
    if document is not None:
        before, after = _split(document)
        block = report.markdown(results)
        text = f"{before}{_BEGIN}\n{block}\n{_END}{after}"
        document.write_text(text, encoding="utf-8")
    if options.json:
        verdicts = [asdict(claim) for claim in claims(results)]
        say_json(as_json(results) | {"claims": verdicts})
    elif options.markdown == "-":
        sys.stdout.write(report.markdown(results) + "\n")
    else:
        show(results)


def climb(results: Results, options: argparse.Namespace, tell: Callable[[str], None]) -> None:
    """Measures one thing after the other."""
    wanted = [step for step in steps.STEPS if step.number in options.steps]
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "ladder.tiktoken"
        tell("the vocabulary")
        steps.write_vocabulary(vocabulary)
        expected = steps.expected_digest(vocabulary)
        for step in steps.installed((*wanted, *steps.MARKERS)):
            tell(step.name)
            runs = (options.encodes, options.runs, options.warmup)
            results.steps.append(steps.measure(step, vocabulary, *runs, expected))
        for name in training.installed():
            tell(f"training by {name}")
            results.training.append(training.measure(name, options.runs, options.warmup))
        tell("one more tokenizer")
        results.instances += instances.measure(vocabulary)


def show(results: Results) -> None:
    console = output.wide_console()
    for sheet in report.sheets(results):
        console.print(sheet.title, style="italic")
        for columns in _fitting(sheet, console.width):
            table = Table(box=None, pad_edge=False)
            for column in columns:
                justify: JustifyMethod = "right" if column else "left"
                table.add_column(sheet.heads[column], justify=justify, no_wrap=True)
            for row in sheet.rows:
                table.add_row(*(row[column] for column in columns))
            console.print(table)
        if sheet.note:
            console.print(sheet.note, style="dim")
        console.print()


def _fitting(sheet: report.Sheet, width: int) -> list[list[int]]:
    """The columns in as many tables as a terminal needs, each with the names of the rows."""
    wide = [
        max(len(head), *(len(row[column]) for row in sheet.rows)) + 2
        for column, head in enumerate(sheet.heads)
    ]
    tables: list[list[int]] = [[0]]
    for column in range(1, len(sheet.heads)):
        if len(tables[-1]) > 1 and sum(wide[c] for c in [*tables[-1], column]) > width + 2:
            tables.append([0])
        tables[-1].append(column)
    return tables


def plot(results: Results) -> str:
    """A bar for the time of one encode by each; others than the steps are grey."""
    rows = [(report.name_of(row), row.each.mean) for row in results.steps]
    others = frozenset(report.name_of(r) for r in results.steps if r.step.number is None)
    labelled = [(name, seconds, duration(seconds)) for name, seconds in rows]
    title = f"One encode of {len(texts.TEXT.encode())} bytes, logarithmic"
    return bars.draw(title, labelled, others)


def _split(document: Path) -> tuple[str, str]:
    """What stands before and behind the marks of a document."""
    text = document.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise LadderError(f"{document} has no lines {_BEGIN} and {_END} for the tables")
    return before, after
