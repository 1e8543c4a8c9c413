"""Five ways to write shards → a table: `python -m ladder corpus`."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import tokenmill
from ladder import runner, values
from ladder.corpus.encoders import LIBRARIES
from ladder.corpus.steps import Measurement, as_json, measure, steps_of
from tokenmill.cli.output import add_json, progress_console, say_json
from tokenmill.errors import InputError, OptionError, TokenizeError
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.options import find_token

_PACKAGE = Path(tokenmill.__file__).parent
_FILES = 8
_OWN_BYTES = 50_000_000
_HEADS = (
    "method", "time", "CPU time", "documents/s", "tokens/s", "MB/s", "over streaming", "memory",
    "bytes",
)  # fmt: skip


def add_parser(ladders: Any) -> None:
    corpus: argparse.ArgumentParser = ladders.add_parser(
        "corpus",
        help="five ways to write the ids of documents",
        description="Writes the ids of the same documents by five programs, from a list that grows "
        "to the pipeline of tokenmill. Each runs in a fresh process.",
        epilog="examples:\n  python -m ladder corpus --max-mb 1\n"
        "  python -m ladder corpus --max-mb 1 --encoder tokenizers\n"
        "  python -m ladder corpus data/part.jsonl --tokenizer o200k_base --json",
    )
    corpus.add_argument(
        "inputs", nargs="*", type=Path, metavar="FILE.jsonl", help="JSON lines with a field text"
    )
    corpus.add_argument(
        "--max-mb",
        type=values.megabytes,
        metavar="MB",
        help="megabytes of generated text if no file is given (default: 50)",
    )
    corpus.add_argument("--tokenizer", default="gpt2", help="name or file (default: gpt2)")
    corpus.add_argument(
        "--encoder",
        choices=LIBRARIES,
        default=LIBRARIES[0],
        help="library that encodes in the first four steps (default: tokenmill)",
    )
    corpus.add_argument(
        "--runs",
        type=values.whole_number(1),
        default=runner.RUNS,
        help=f"number of runs; medians are shown (default: {runner.RUNS})",
    )
    corpus.add_argument("--eos", default="auto", help="id after each document (default: auto)")
    add_json(corpus, "print the table as JSON")
    corpus.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    if options.inputs and options.max_mb is not None:
        raise OptionError("--max-mb is for generated text, but files are given; remove one")
    tokenizer = Tokenizer.load(options.tokenizer)
    eos = eos_of(tokenizer, options.eos)
    with tempfile.TemporaryDirectory() as folder:
        inputs = options.inputs or write_corpus(Path(folder), options.max_mb or _OWN_BYTES)
        # This checks each line, and is the warm-up: the steps read files of the page cache.
        if not sum(len(texts_of(path)) for path in inputs):
            raise InputError("the inputs contain no documents; pass other files")
        found: dict[str, list[Measurement]] = {name: [] for name in steps_of(options.encoder)}
        with progress_console().status("") as status:

            def run_step(name: str) -> Measurement:
                status.update(f"{name} …")
                return measure(name, inputs, options.encoder, options.tokenizer, eos)

            runner.measure_rounds(found, run_step, options.runs)
        rows = [runner.median_of(runs) for runs in found.values()]
    if options.json:
        say_json(as_json(rows))
    else:
        runner.print_table(runner.wide_console(), _HEADS, [_cells(row, rows) for row in rows])


def eos_of(tokenizer: Tokenizer, value: str) -> int:
    """Return the id that `tokenize` writes after each document."""
    found = find_token(tokenizer, value, "eos")
    if found is None:
        raise TokenizeError("every step writes an EOS token after each document; pass --eos ID")
    return found


def _cells(row: Measurement, rows: list[Measurement]) -> list[str]:
    original, streaming = rows[:2]
    return [
        f"{row.step} {row.name}",
        runner.spread(row.seconds, row.seconds_min, row.seconds_max),
        runner.spread(row.cpu_seconds, row.cpu_min, row.cpu_max),
        f"{row.documents / row.seconds:,.0f}",
        f"{row.tokens / row.seconds:,.0f}",
        f"{row.bytes / row.seconds / 1e6:,.1f}",
        runner.speed_up(streaming.seconds, row.seconds),
        f"{row.peak_mb:,.0f} MB",
        "equal" if row.digest == original.digest else "DIFFERENT",
    ]


def write_corpus(folder: Path, bytes_max: int) -> list[Path]:
    """Write parts of our own source, repeated, to files of JSON lines."""
    sources = [path.read_text(encoding="utf-8") for path in sorted(_PACKAGE.rglob("*.py"))]
    texts = [text for source in sources for text in source.split("\n\n\n") if text.strip()]
    lines = [json.dumps({"text": text}) + "\n" for text in texts]
    paths = []
    for number in range(_FILES):
        path = folder / f"{number}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            size, index = 0, number
            while size < bytes_max // _FILES:
                size += file.write(lines[index % len(lines)])
                index += _FILES + 1
        paths.append(path)
    return paths


def texts_of(path: Path) -> list[str]:
    """Return the documents of a file, or raise an error with the number of a bad line."""
    texts = []
    # splitlines would also split at U+2028.
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
