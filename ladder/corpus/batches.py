"""Documents → a table of batch sizes: `python -m ladder batches`.

A call costs about a microsecond here. A batch therefore saves little, except by threads and arrays.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from ladder import runner, values
from ladder.corpus.command import texts_of, write_corpus
from tokenmill.cli.output import add_json, say_json
from tokenmill.errors import InputError, TokenizeError
from tokenmill.tokenizer import Tokenizer

SIZES = (32, 64, 100)
_ROUNDS = 3
_CORPUS_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Method:
    """One way to encode all documents, and its best time."""

    name: str
    seconds: float
    documents: int
    tokens: int


def add_parser(ladders: Any) -> None:
    parser: argparse.ArgumentParser = ladders.add_parser(
        "batches",
        help="documents one by one and in batches",
        description="Measures documents one by one and in batches.",
        epilog="examples:\n  python -m ladder batches --num-docs 100\n"
        "  python -m ladder batches data/part.jsonl --num-docs 20 --json",
    )
    parser.add_argument(
        "inputs", nargs="*", type=Path, metavar="FILE.jsonl", help="JSON lines with a field text"
    )
    parser.add_argument(
        "--num-docs",
        type=values.whole_number(1),
        default=1000,
        help="number of documents (default: 1000)",
    )
    parser.add_argument("--tokenizer", default="gpt2", help="name or file (default: gpt2)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    tokenizer = Tokenizer.load(options.tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        inputs = options.inputs or write_corpus(Path(folder), _CORPUS_BYTES)
        texts = [text for path in inputs for text in texts_of(path)]
    if not options.inputs:
        texts = list(islice(cycle(texts), options.num_docs))
    if not texts:
        raise InputError("the inputs contain no documents; pass other files")
    methods = measure(texts[: options.num_docs], tokenizer)
    if options.json:
        say_json({"methods": [asdict(method) for method in methods]})
        return
    slowest = methods[-1].seconds
    rows = [
        [
            method.name,
            f"{method.seconds:.4f} s",
            f"{method.documents / method.seconds:,.0f}",
            f"{method.tokens / method.seconds:,.0f}",
            f"{slowest / method.seconds:.1f} ×",
        ]
        for method in methods
    ]
    heads = ("method", "time", "documents/s", "tokens/s", "speed-up")
    runner.print_table(runner.wide_console(), heads, rows)


def measure(texts: list[str], tokenizer: Tokenizer) -> list[Method]:
    """Time all methods in interleaved rounds. All must return the same number of tokens."""
    methods = dict(_methods(tokenizer))
    best: dict[str, float] = {}
    tokens: dict[str, int] = {}
    for _ in range(_ROUNDS):
        for name, encode in methods.items():
            start = time.perf_counter()
            tokens[name] = encode(texts)
            seconds = time.perf_counter() - start
            best[name] = min(best.get(name, seconds), seconds)
    [first, *others] = tokens
    for name in others:
        if tokens[name] != tokens[first]:
            raise TokenizeError(
                f"{name} returns {tokens[name]:,} tokens but {first} {tokens[first]:,}; their "
                "times cannot be compared"
            )
    found = [Method(name, best[name], len(texts), tokens[name]) for name in methods]
    return sorted(found, key=lambda method: method.seconds)


def _methods(tokenizer: Tokenizer) -> Iterator[tuple[str, Callable[[list[str]], int]]]:
    yield "single", lambda texts: sum(len(tokenizer.encode(text)) for text in texts)
    for size in SIZES:
        yield f"batch_{size}", _in_batches(tokenizer, size)
    yield "batch_all", _in_batches(tokenizer, 1 << 60)
    yield "arrays", lambda texts: len(tokenizer.encode_ragged(texts).ids)


def _in_batches(tokenizer: Tokenizer, size: int) -> Callable[[list[str]], int]:
    def run(texts: list[str]) -> int:
        starts = range(0, len(texts), size)
        batches = (tokenizer.encode_batch(texts[start : start + size]) for start in starts)
        return sum(sum(map(len, batch)) for batch in batches)

    return run
