"""The options that `train` and `count` share → arguments of the functions."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from tokenmill.cli import values
from tokenmill.corpus.sources import FORMATS
from tokenmill.errors import CommandError, TrainingError

_STDOUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="text, .jsonl, .parquet, each also .gz, .zst, .xz or .bz2; .tmc counts; a glob; "
        "- for stdin",
    )
    parser.add_argument(
        "--pattern", help="what cuts text into pretokens: o200k, r50k, … or a regular expression"
    )
    parser.add_argument(
        "--special", action="append", default=[], metavar="NAME", help="a special token; repeat it"
    )
    parser.add_argument(
        "--field", default="text", help="where records have their text; a.b leads into a (text)"
    )
    parser.add_argument(
        "--separator", metavar="TEXT", help="a document ends where this stands, as <|endoftext|>"
    )
    parser.add_argument(
        "--format", choices=FORMATS, help="what the inputs are, whatever their names"
    )
    parser.add_argument(
        "--weight",
        action="append",
        default=[],
        type=values.weight,
        metavar="FILE=2.5",
        help="counts of this input are multiplied; a glob is fine; repeat it",
    )
    parser.add_argument(
        "--sample", type=values.share, metavar="0.1", help="only this share of the documents"
    )
    parser.add_argument("--seed", type=values.whole_number(0), default=0, help="another sample (0)")
    parser.add_argument("--threads", type=values.whole_number(1), help="all processors otherwise")
    parser.add_argument(
        "--memory", type=values.memory, metavar="2GB", help="a bound; what is over it goes to disk"
    )
    values.add_engine(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")


def arguments_of(options: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of `train` and `count` alike."""
    weights: dict[str, float] = {}
    for name, value in options.weight:
        if name in weights:
            raise TrainingError(f"the weight of {name!r} is given twice")
        weights[name] = value
    return {
        "source": [Path(name) for name in options.inputs],
        "pattern": options.pattern,
        "specials": options.special,
        "field": options.field,
        "format": options.format,
        "separator": options.separator,
        "weights": weights,
        "sample": options.sample,
        "seed": options.seed,
        "threads": options.threads,
        "memory": options.memory,
        "engine": options.engine,
        "ray_address": options.ray_address,
    }


def check_plot(path: Path) -> None:
    """Refuses a picture of another kind than those that are drawn."""
    if path.suffix.lower() != ".svg" and (path.is_file() or not path.exists()):
        raise CommandError(f"a plot is an SVG: give it a name such as plot.svg, not {str(path)!r}")


def check_outputs(paths: list[Path], inputs: list[str]) -> None:
    """Refuses what could not be written, or would be written over, before hours of work."""
    read = {os.path.realpath(name) for name in inputs if Path(name).exists()}
    written: set[str] = set()
    for path in paths:
        if str(path) == "-":
            raise TrainingError("an output is a file; for standard output give /dev/stdout")
        if sys.__stdout__ is None and str(path) in _STDOUT:
            raise TrainingError(f"standard output is closed, so nothing can be written to {path}")
        if path.is_dir():
            raise TrainingError(f"{str(path)!r} is a folder; give the name of a file in it")
        if not path.parent.is_dir():
            raise TrainingError(f"the folder of {str(path)!r} is not there; make it first")
        if path.exists() and not path.is_file():
            continue
        if not os.access(path.parent, os.W_OK):
            raise TrainingError(f"nothing can be written beside {str(path)!r}; give another folder")
        place = os.path.realpath(path)
        if place in read:
            raise TrainingError(f"{str(path)!r} is an input, and would be gone; give another name")
        if place in written:
            raise TrainingError(f"{str(path)!r} would be written twice; give another name")
        written.add(place)
