"""Inputs → a vocabulary, or counts of pretokens: `tokenmill train` and `count-pretokens`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from tokenmill.cli import progress, values
from tokenmill.cli.inputs import check_outputs
from tokenmill.cli.options import add_options, options_of
from tokenmill.cli.output import add_json, count_of, say, say_json
from tokenmill.errors import TrainingError, VocabularyError
from tokenmill.formats import save
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.options import READ_DEFAULTS, CountOptions, TrainOptions
from tokenmill.training.train import count_pretokens, train_sizes

_TRAIN_EXAMPLES = """
tokenmill train book.txt --vocab-size 1000 --output mine.json
tokenmill train data/*.jsonl --vocab-size 500,1000 --output 'mine-{size}.tokenmill'
tokenmill train book.txt --vocab-size 1000 --special-token '<s>' --output mine.json
cat book.txt | tokenmill train - --vocab-size 1000 --output mine.json --quiet --json
tokenmill train book.txt --extend mine.tokenmill --vocab-size 1100 --output more.json
"""
_COUNT_EXAMPLES = """
tokenmill count-pretokens book.txt --output book.tmc
tokenmill count-pretokens data/*.jsonl --pattern cl100k --output data.tmc --json
tokenmill train book.tmc --vocab-size 1000 --output mine.json
"""
_INPUTS = (
    "file, folder, glob or URL with .txt, .jsonl, .json, .parquet, .arrow, .csv, .tsv or .wet, "
    "also compressed; .tmc file of pretoken counts; - for standard input"
)
_SKIP = ("progress",)
_SIZE = "{size}"
_SENTENCEPIECE_SUFFIXES = (".model", ".vocab", ".json", ".tokenmill")
_SOURCES_SHOWN = 10


def add_train(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "train",
        help="train a tokenizer on text, JSON lines, Parquet or pretoken counts",
        description="Train a tokenizer and write it to files.",
        examples=_TRAIN_EXAMPLES,
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help=_INPUTS)
    parser.add_argument(
        "--vocab-size",
        required=True,
        type=values.sizes,
        metavar="50000",
        help="number of bytes, merges and special tokens together; commas separate several sizes",
    )
    parser.add_argument(
        "--output",
        required=True,
        action="append",
        metavar="tokenizer.json",
        help="output file: a .json, vocab.json, .tokenmill or .tiktoken, for sentencepiece a "
        ".model, .vocab, .json or .tokenmill; {size} is replaced by the size; may be repeated",
    )
    add_options(parser, TrainOptions, _SKIP, **READ_DEFAULTS)
    progress.add_options(parser)
    add_json(parser)
    parser.set_defaults(run=_run_train)


def add_count_pretokens(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "count-pretokens",
        help="count the pretokens of inputs into a file for train",
        description="Count pretokens into a file, from which train learns any vocabulary size.",
        examples=_COUNT_EXAMPLES,
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help=_INPUTS)
    parser.add_argument(
        "--output", required=True, type=Path, metavar="counts.tmc", help="output file, a .tmc"
    )
    add_options(parser, CountOptions, _SKIP, **READ_DEFAULTS)
    progress.add_options(parser)
    add_json(parser)
    parser.set_defaults(run=_run_count_pretokens)


def _run_train(options: argparse.Namespace) -> None:
    outputs = [_outputs(name, options.vocab_size) for name in options.output]
    paths = [path for group in outputs for path in group]
    others = [Path(path) for path in (options.trace, options.report) if path is not None]
    check_outputs([*paths, *others], options.inputs)
    for path in paths:
        _check_name(path, is_sentencepiece=options.trainer == "sentencepiece")
    started = time.monotonic()
    with progress.show(options.progress) as shown:
        trained = train_sizes(
            options.inputs,
            options.vocab_size,
            progress=shown,
            **options_of(options, TrainOptions, _SKIP),
        )
    written = []
    for group in outputs:
        for path, tokenizer in zip(group, trained, strict=True):
            tokenizer.save(path)
            written.append((path, tokenizer))
            if not options.json:
                special_tokens = count_of(len(tokenizer.special_tokens), "special token")
                say(f"{path}: {count_of(tokenizer.vocab_size, 'token')}, {special_tokens}")
    seconds = time.monotonic() - started
    report = None
    if options.report is not None:
        report = json.loads(Path(options.report).read_text(encoding="utf-8"))
    if options.json:
        say_json(_figures(written, seconds, report))
    else:
        _show(seconds, report, options.report)


def _run_count_pretokens(options: argparse.Namespace) -> None:
    if options.output.suffix != ".tmc":
        raise TrainingError(
            f"output must end in .tmc, got {str(options.output)!r}; train detects pretoken counts "
            "from the suffix"
        )
    check_outputs([options.output], options.inputs)
    with progress.show(options.progress) as shown:
        summary = count_pretokens(
            options.inputs,
            options.output,
            progress=shown,
            **options_of(options, CountOptions, _SKIP),
        )
    if options.json:
        say_json({"path": str(options.output), "unique": summary.unique, "total": summary.total})
    else:
        say(f"{options.output}: {summary.unique:,} unique pretokens, {summary.total:,} in total")


def _check_name(path: Path, *, is_sentencepiece: bool) -> None:
    """Raise before the training if the vocabulary cannot be saved in the format of a name."""
    if not is_sentencepiece:
        save.check_bytes_name(path)
        return
    save.check_name(path)
    if path.suffix not in _SENTENCEPIECE_SUFFIXES or path.name == "vocab.json":
        raise VocabularyError(
            f"cannot save a SentencePiece vocabulary to {path.name!r}; use .model, .vocab, "
            "tokenizer.json or .tokenmill"
        )


def _outputs(name: str, sizes: list[int]) -> list[Path]:
    """The file of each size: {size} is replaced, or the size is added before the suffix."""
    if _SIZE in name:
        return [Path(name.replace(_SIZE, str(size))) for size in sizes]
    path = Path(name)
    if len(sizes) == 1:
        return [path]
    if path.name in ("vocab.json", "merges.txt"):
        raise TrainingError(
            f"output {name!r} is one file for {len(sizes)} sizes; pass '{{size}}/{path.name}', "
            "with a folder per size"
        )
    return [path.with_name(f"{path.stem}-{size}{path.suffix}") for size in sizes]


def _figures(
    written: list[tuple[Path, Tokenizer]], seconds: float, report: dict[str, Any] | None
) -> dict[str, Any]:
    outputs = [
        {
            "path": str(path),
            "vocab_size": tokenizer.vocab_size,
            "special_tokens": len(tokenizer.special_tokens),
        }
        for path, tokenizer in written
    ]
    figures = {
        "outputs": outputs,
        "seconds": round(seconds, 3),
        "peak_mb": round(progress.peak_bytes() / 1e6, 1) or None,
    }
    return figures if report is None else {**figures, "report": report}


def _show(seconds: float, report: dict[str, Any] | None, path: str | None) -> None:
    peak = f", {progress.peak_bytes() / 1e6:,.0f} MB peak memory" if progress.peak_bytes() else ""
    say(f"{seconds:.1f} s{peak}")
    sources = [] if report is None else list(report["sources"].items())
    for name, figures in sources[:_SOURCES_SHOWN]:
        say(
            f"{name}: {figures['bytes']:,} bytes, {figures['tokens']:,} tokens, "
            f"{figures['bytes_per_token']:.2f} bytes per token"
        )
    if len(sources) > _SOURCES_SHOWN:
        say(f"and {len(sources) - _SOURCES_SHOWN} more inputs in {path}")
