"""Benchmarks that need nothing but the package → tables: `tokenmill bench`."""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from rich.table import Table

from tokenmill.cli import values
from tokenmill.cli.ladder_corpus import texts_of, write_corpus
from tokenmill.cli.output import add_json, console, say_json
from tokenmill.errors import InputError
from tokenmill.ladder.corpus.batches import Method, measure
from tokenmill.tokenizer import Tokenizer

_CORPUS_BYTES = 1_000_000


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "bench",
        help="measure on this machine, with nothing else installed",
        description="Measures what this machine does with this package.",
        examples="tokenmill bench corpus --num-docs 100",
    )
    benches = parser.add_subparsers(dest="bench", metavar="BENCH", required=True)
    corpus: argparse.ArgumentParser = benches.add_parser(
        "corpus",
        help="documents one by one and in batches",
        description="Measures documents one by one and in batches.",
        examples="""
        tokenmill bench corpus --num-docs 100
        tokenmill bench corpus data/part.jsonl --num-docs 20 --json
        """,
    )
    corpus.add_argument(
        "inputs", nargs="*", type=Path, metavar="FILE.jsonl", help="JSON lines with a field text"
    )
    corpus.add_argument(
        "--num-docs", type=values.whole_number(1), default=1000, help="how many of them (1000)"
    )
    corpus.add_argument("--tokenizer", default="gpt2", help="a name or a file (gpt2)")
    add_json(corpus)
    corpus.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    tokenizer = Tokenizer.load(options.tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        inputs = options.inputs or write_corpus(Path(folder), _CORPUS_BYTES)
        texts = [text for path in inputs for text in texts_of(path)]
    if not options.inputs:
        texts = list(islice(cycle(texts), options.num_docs))
    if not texts:
        raise InputError("the inputs hold no documents; give others")
    rows = measure(texts[: options.num_docs], tokenizer)
    if options.json:
        say_json({"methods": [asdict(row) for row in rows]})
    else:
        console().print(table(rows))


def table(rows: list[Method]) -> Table:
    shown = Table(box=None, pad_edge=False)
    shown.add_column("method")
    for head in ("time", "documents/s", "tokens/s", "speed-up"):
        shown.add_column(head, justify="right")
    slowest = rows[-1].seconds
    for row in rows:
        shown.add_row(
            row.name,
            f"{row.seconds:.4f} s",
            f"{row.documents / row.seconds:,.0f}",
            f"{row.tokens / row.seconds:,.0f}",
            f"{slowest / row.seconds:.1f} ×",
        )
    return shown
