"""Four ways to write shards → a table: `tokenmill ladder corpus`."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from rich.table import Table

import tokenmill
from tokenmill.cli import values
from tokenmill.cli.output import add_json, console, progress_console, say_json
from tokenmill.errors import CommandError, InputError, TokenizeError
from tokenmill.ladder.corpus.steps import STEPS, Measured, as_json, measure
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.options import make_options

_PACKAGE = Path(tokenmill.__file__).parent
_FILES = 8
_OWN_BYTES = 50_000_000


def add_parser(ladders: Any) -> None:
    corpus: argparse.ArgumentParser = ladders.add_parser(
        "corpus",
        help="four ways to turn documents into ids on the disk",
        epilog="examples:\n  tokenmill ladder corpus --max-mb 1\n"
        "  tokenmill ladder corpus data/part.jsonl --tokenizer o200k_base --json",
    )
    corpus.add_argument(
        "inputs", nargs="*", type=Path, metavar="FILE.jsonl", help="JSON lines with a field text"
    )
    corpus.add_argument(
        "--max-mb",
        type=values.megabytes,
        metavar="MB",
        help="of our own text, if none is given (50)",
    )
    corpus.add_argument("--tokenizer", default="gpt2", help="a name or a file (gpt2)")
    corpus.add_argument("--eos", default="auto", help="the id that ends a document")
    add_json(corpus, "the table as JSON")
    corpus.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    if options.inputs and options.max_mb is not None:
        raise CommandError("--max-mb is of our own text, and files were given; leave one out")
    tokenizer = Tokenizer.load(options.tokenizer)
    eos = end_of_text(tokenizer, options.eos)
    with tempfile.TemporaryDirectory() as folder:
        inputs = options.inputs or write_corpus(Path(folder), options.max_mb or _OWN_BYTES)
        if not sum(len(texts_of(path)) for path in inputs):  # each line of each is looked at
            raise InputError("the inputs hold no documents; give others")
        rows: list[Measured] = []
        with progress_console().status("") as status:
            for name in STEPS:
                status.update(f"{name} …")
                rows += measure(inputs, options.tokenizer, eos, (name,))
    if options.json:
        say_json(as_json(rows))
    else:
        console().print(table(rows))


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


def texts_of(path: Path) -> list[str]:
    """The documents of a file, or an error that names the line which is none."""
    texts = []
    # Not splitlines, which ends lines at U+2028 as well.
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}, line {number:,} is not JSON: {error}") from None
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            raise InputError(f"{path}, line {number:,} has no text in a field 'text'")
        texts.append(row["text"])
    return texts
