"""Documents → a table of batch sizes: `python -m ladder batches`.

A call of tokenmill costs about a microsecond, so a batch saves little on one thread. Its gain is
that the texts of a batch are encoded on all CPU cores. The same holds for the library tokenizers.
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
from ladder.corpus import encoders
from ladder.corpus.command import texts_of, write_corpus
from ladder.corpus.encoders import LIBRARIES, Encoder
from tokenmill.cli.output import add_json, say_json
from tokenmill.errors import InputError, TokenizeError

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
        "  python -m ladder batches --encoder tokenizers\n"
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
    parser.add_argument(
        "--encoder",
        choices=LIBRARIES,
        default=LIBRARIES[0],
        help="library that encodes (default: tokenmill)",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    encoder = encoders.load(options.encoder, options.tokenizer)
    with tempfile.TemporaryDirectory() as folder:
        inputs = options.inputs or write_corpus(Path(folder), _CORPUS_BYTES)
        texts = [text for path in inputs for text in texts_of(path)]
    if not options.inputs:
        texts = list(islice(cycle(texts), options.num_docs))
    if not texts:
        raise InputError("the inputs contain no documents; pass other files")
    methods = measure(texts[: options.num_docs], encoder)
    if options.json:
        say_json({"methods": [asdict(method) for method in methods]})
        return
    single = next(method.seconds for method in methods if method.name == "single")
    rows = [
        [
            method.name,
            f"{method.seconds:.4f} s",
            f"{method.documents / method.seconds:,.0f}",
            f"{method.tokens / method.seconds:,.0f}",
            f"{single / method.seconds:.1f} ×",
        ]
        for method in methods
    ]
    heads = ("method", "time", "documents/s", "tokens/s", "speed-up")
    runner.print_table(runner.wide_console(), heads, rows)


def measure(texts: list[str], encoder: Encoder) -> list[Method]:
    """Time all methods in interleaved rounds. All must return the same number of tokens."""
    methods = dict(_methods(encoder))
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


def _methods(encoder: Encoder) -> Iterator[tuple[str, Callable[[list[str]], int]]]:
    yield "single", lambda texts: sum(len(encoder.encode(text)) for text in texts)
    for size in SIZES:
        yield f"batch_{size}", _in_batches(encoder, size, None)
    yield "batch_100, 1 thread", _in_batches(encoder, 100, 1)
    yield "batch_all", _in_batches(encoder, 1 << 60, None)
    if type(encoder) is Encoder:
        yield "arrays", lambda texts: len(encoder.tokenizer.encode_ragged(texts).ids)


def _in_batches(encoder: Encoder, size: int, threads: int | None) -> Callable[[list[str]], int]:
    def run(texts: list[str]) -> int:
        starts = range(0, len(texts), size)
        batches = (encoder.encode_batch(texts[start : start + size], threads) for start in starts)
        return sum(sum(map(len, batch)) for batch in batches)

    return run
