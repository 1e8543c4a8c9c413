"""The ladders → tables: `tokenmill ladder`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import tokenmill
from tokenmill.cli import values
from tokenmill.errors import TokenizeError
from tokenmill.ladder.corpus.steps import STEPS, Measured, as_json, measure
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.options import make_options

_PACKAGE = Path(tokenmill.__file__).parent
_FILES = 8


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "ladder", help="the same result by one idea more a step, measured side by side"
    )
    ladders = parser.add_subparsers(dest="ladder", metavar="LADDER", required=True)
    corpus: argparse.ArgumentParser = ladders.add_parser(
        "corpus",
        help="four ways to turn documents into ids on the disk",
        epilog="examples:\n  tokenmill ladder corpus\n"
        "  tokenmill ladder corpus data/*.jsonl --tokenizer o200k_base --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    corpus.add_argument(
        "inputs", nargs="*", type=Path, metavar="FILE.jsonl", help="JSON lines with a field text"
    )
    corpus.add_argument(
        "--max-mb",
        type=values.whole_number(1),
        default=50,
        help="of our own text, if none is given (50)",
    )
    corpus.add_argument("--tokenizer", default="gpt2", help="a name or a file (gpt2)")
    corpus.add_argument("--eos", default="auto", help="the id that ends a document")
    corpus.add_argument("--json", action="store_true", help="the table as JSON")
    corpus.set_defaults(run=run_corpus)


def run_corpus(options: argparse.Namespace) -> None:
    tokenizer = Tokenizer.load(options.tokenizer)
    eos = end_of_text(tokenizer, options.eos)
    with tempfile.TemporaryDirectory() as folder:
        inputs = options.inputs or write_corpus(Path(folder), options.max_mb * 1_000_000)
        console = Console(stderr=True)
        rows: list[Measured] = []
        with console.status("") as status:
            for name in STEPS:
                status.update(f"{name} …")
                rows += measure(inputs, options.tokenizer, eos, (name,))
    if options.json:
        sys.stdout.write(json.dumps(as_json(rows)) + "\n")
    else:
        Console(highlight=False).print(table(rows))


def end_of_text(tokenizer: Tokenizer, asked: str) -> int:
    found = make_options(
        tokenizer,
        layout="datatrove",
        eos=asked,
        bos=None,
        dtype=None,
        on_error="fail",
        utf8="strict",
    ).eos
    if found is None:
        raise TokenizeError("every step puts the end of text behind documents; give --eos ID")
    return found


def table(rows: list[Measured]) -> Table:
    shown = Table(box=None, pad_edge=False)
    heads = ("time", "documents/s", "tokens/s", "MB/s", "speed-up", "memory", "bytes")
    shown.add_column("method")
    for head in heads:
        shown.add_column(head, justify="right")
    for row in rows:
        shown.add_row(
            f"{row.step} {row.name}",
            f"{row.seconds:.2f} s",
            f"{row.documents / row.seconds:,.0f}",
            f"{row.tokens / row.seconds:,.0f}",
            f"{row.bytes / row.seconds / 1e6:,.1f}",
            f"{rows[0].seconds / row.seconds:.1f} ×",
            f"{row.peak_mb:,.0f} MB",
            "the same" if row.digest == rows[0].digest else "DIFFERENT",
        )
    return shown


def write_corpus(folder: Path, bytes_max: int) -> list[Path]:
    """Our own source as documents, again and again, in files of JSON lines."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(_PACKAGE.rglob("*.py"))]
    pieces = [piece for text in texts for piece in text.split("\n\n\n") if piece.strip()]
    lines = [json.dumps({"text": piece}) + "\n" for piece in pieces]
    paths = []
    for number in range(_FILES):
        path = folder / f"{number}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            size, place = 0, number
            while size < bytes_max // _FILES:
                size += file.write(lines[place % len(lines)])
                place += _FILES + 1
        paths.append(path)
    return paths
