"""Documents → a table of batch sizes: `python -m ladder batches`.

A call of tokenmill costs about a microsecond, so a batch saves little on one thread. Its gain is
that the texts of a batch are encoded on all CPU cores. The same holds for the library tokenizers.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from ladder import runner, values
from ladder.corpus import encoders
from ladder.corpus.command import texts_of, write_corpus
from ladder.corpus.encoders import LIBRARIES, Encoder
from ladder.runner import WARMUP, Statistics, Times, measure_rounds, statistics_of, time_call
from tokenmill.cli.output import add_json, say_json
from tokenmill.errors import InputError, TokenizeError

METHODS = (
    "single", "batch_32", "batch_64", "batch_100", "batch_100, 1 thread", "batch_all", "arrays",
)  # fmt: skip
_CORPUS_BYTES = 1_000_000
Encode = Callable[[list[str]], int]


@dataclass(frozen=True, slots=True)
class Method:
    """One way to encode all documents."""

    name: str
    documents: int
    tokens: int
    run: Statistics

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.run.seconds


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
    parser.add_argument(
        "--runs",
        type=values.whole_number(1),
        default=runner.RUNS,
        help=f"number of runs; medians are shown (default: {runner.RUNS})",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        inputs = options.inputs or write_corpus(Path(folder), _CORPUS_BYTES)
        texts = [text for path in inputs for text in texts_of(path)]
    if not options.inputs:
        texts = list(islice(cycle(texts), options.num_docs))
    if not texts:
        raise InputError("the inputs contain no documents; pass other files")
    methods = measure(texts[: options.num_docs], options.encoder, options.tokenizer, options.runs)
    if options.json:
        say_json({"methods": [asdict(method) for method in methods]})
        return
    single = methods[0].run.seconds
    rows = [
        [
            method.name,
            runner.spread(method.run.seconds, method.run.seconds_min, method.run.seconds_max),
            f"{method.documents / method.run.seconds:,.0f}",
            f"{method.tokens_per_second:,.0f}",
            runner.speed_up(single, method.run.seconds),
        ]
        for method in methods
    ]
    heads = ("method", "time", "documents/s", "tokens/s", "speed-up")
    runner.print_table(runner.wide_console(), heads, rows)


def measure(
    texts: list[str], library: str, tokenizer: str, runs: int = runner.RUNS
) -> list[Method]:
    """Measure all methods of a library in a fresh process, in rounds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.json"
        path.write_text(json.dumps(texts))
        arguments = [library, tokenizer, str(runs), str(path)]
        row, _ = runner.run_fresh("ladder.corpus.batches", arguments, "batches")
    return [Method(**method | {"run": Statistics(**method["run"])}) for method in row["methods"]]


def main(library: str, tokenizer: str, runs: str, path: str) -> None:
    texts = json.loads(Path(path).read_text())
    encoder = encoders.load(library, tokenizer)
    methods = {name: method_of(name, encoder) for name in methods_of(library)}
    tokens = count_tokens(methods, texts)
    found: dict[str, list[Times]] = {name: [] for name in methods}

    def time_method(name: str) -> Times:
        return time_call(lambda: methods[name](texts))

    measure_rounds(found, time_method, WARMUP + int(runs))
    rows = [
        asdict(Method(name, len(texts), tokens, statistics_of(times, WARMUP)))
        for name, times in found.items()
    ]
    sys.stdout.write(json.dumps({"methods": rows}) + "\n")


def count_tokens(methods: Mapping[str, Encode], texts: list[str]) -> int:
    """Return the number of tokens, which all methods must return."""
    tokens = {name: encode(texts) for name, encode in methods.items()}
    [first, *others] = tokens
    for name in others:
        if tokens[name] != tokens[first]:
            raise TokenizeError(
                f"{name} returns {tokens[name]:,} tokens but {first} {tokens[first]:,}; their "
                "times cannot be compared"
            )
    return tokens[first]


def methods_of(library: str) -> tuple[str, ...]:
    return METHODS if library == "tokenmill" else METHODS[:-1]


def method_of(name: str, encoder: Encoder) -> Encode:
    """Return a function from texts to the number of their tokens."""
    if name == "single":
        return lambda texts: sum(len(encoder.encode(text)) for text in texts)
    if name == "arrays":
        return lambda texts: len(encoder.tokenizer.encode_ragged(texts).ids)
    size, _, threads = name.removeprefix("batch_").partition(", ")
    step = sys.maxsize if size == "all" else int(size)
    return _in_batches(encoder, step, 1 if threads else None)


def _in_batches(encoder: Encoder, size: int, threads: int | None) -> Encode:
    def run(texts: list[str]) -> int:
        starts = range(0, len(texts), size)
        batches = (encoder.encode_batch(texts[start : start + size], threads) for start in starts)
        return sum(sum(map(len, batch)) for batch in batches)

    return run


if __name__ == "__main__":
    main(*sys.argv[1:])
