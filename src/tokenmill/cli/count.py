"""Inputs → a file of counts: `tokenmill count`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tokenmill.cli import inputs
from tokenmill.cli.output import add_json, say, say_json
from tokenmill.cli.progress import display
from tokenmill.errors import TrainingError
from tokenmill.training.train import count

_EXAMPLES = """
tokenmill count book.txt --output book.tmc
tokenmill count data/*.jsonl --pattern cl100k --output data.tmc --json
tokenmill train book.tmc --vocab-size 1000 --output mine.json
"""


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "count",
        help="count the pretokens of inputs into a file that train takes",
        description="Counts pretokens into a file, which train takes as often as it is wanted.",
        examples=_EXAMPLES,
    )
    inputs.add_options(parser)
    parser.add_argument(
        "--output", required=True, type=Path, metavar="counts.tmc", help="a file of counts"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    if options.output.suffix != ".tmc":
        raise TrainingError(
            f"counts are written to a .tmc file, by which train knows them, not to "
            f"{str(options.output)!r}"
        )
    inputs.check_outputs([options.output], options.inputs)
    with display(options.quiet) as shown:
        summary = count(output=options.output, progress=shown, **inputs.arguments_of(options))
    if options.json:
        say_json({"path": str(options.output), "unique": summary.unique, "total": summary.total})
    else:
        say(f"{options.output}: {summary.unique:,} different pretokens, {summary.total:,} in all")
