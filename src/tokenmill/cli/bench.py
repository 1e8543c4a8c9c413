"""Benchmarks that need nothing but the package → tables: `tokenmill bench`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tokenmill.cli import values
from tokenmill.cli.ladder import write_corpus
from tokenmill.ladder.corpus.batches import Method, measure
from tokenmill.tokenizer import Tokenizer

_CORPUS_BYTES = 1_000_000


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "bench", help="measure on this machine, with nothing else installed"
    )
    benches = parser.add_subparsers(dest="bench", metavar="BENCH", required=True)
    corpus: argparse.ArgumentParser = benches.add_parser(
        "corpus",
        help="documents one by one and in batches",
        epilog="examples:\n  tokenmill bench corpus --num-docs 1000\n"
        "  tokenmill bench corpus data.jsonl --tokenizer o200k_base --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    corpus.add_argument(
        "inputs", nargs="*", type=Path, metavar="FILE.jsonl", help="JSON lines with a field text"
    )
    corpus.add_argument(
        "--num-docs", type=values.whole_number(1), default=1000, help="how many of them (1000)"
    )
    corpus.add_argument("--tokenizer", default="gpt2", help="a name or a file (gpt2)")
    corpus.add_argument("--json", action="store_true", help="the table as JSON")
    corpus.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    tokenizer = Tokenizer.load(options.tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        inputs = options.inputs or write_corpus(Path(folder), _CORPUS_BYTES)
        texts = [
            json.loads(line)["text"]
            for path in inputs
            # Not splitlines, which ends lines at U+2028 as well.
            for line in path.read_text(encoding="utf-8").split("\n")
            if line.strip()
        ]
    if not options.inputs:
        texts = list(islice(cycle(texts), options.num_docs))
    rows = measure(texts[: options.num_docs], tokenizer)
    if options.json:
        sys.stdout.write(json.dumps({"methods": [asdict(row) for row in rows]}) + "\n")
    else:
        Console(highlight=False).print(table(rows))


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
