"""Inputs → a vocabulary, or counts of pretokens: `tokenmill train` and `count-pretokens`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from tokenmill.cli import progress
from tokenmill.cli.app import Parser
from tokenmill.cli.options import INPUTS, add_options, options_of, reader
from tokenmill.cli.output import add_json, check_outputs, report, save_tokenizer, saved_line
from tokenmill.errors import TrainingError, VocabularyError
from tokenmill.formats import save
from tokenmill.options import number
from tokenmill.training.options import READ_DEFAULTS, CountOptions, TrainOptions
from tokenmill.training.train import count_pretokens, train_sizes

_TRAIN_HELP = """
Train a tokenizer and write it to files.

examples:
  tokenmill train book.txt --vocab-size 999 --output a.json
  tokenmill train data/*.jsonl --vocab-size 500,999 \\
    --output 'mine-{size}.tokenmill'
  tokenmill train book.txt --vocab-size 999 \\
    --special-token '<s>' --output a.json
  cat book.txt | tokenmill train - --vocab-size 999 \\
    --output a.json --quiet --json
  tokenmill train book.txt --vocab-size 1100 \\
    --extend mine.tokenmill --output more.json
"""
_COUNT_HELP = """
Count pretokens into a file, from which train learns any vocabulary size.

examples:
  tokenmill count-pretokens book.txt --output book.tmc
  tokenmill count-pretokens data/*.jsonl --json \\
    --pattern cl100k --output data.tmc
  tokenmill train book.tmc --vocab-size 999 --output a.json
"""
_SKIP = ("progress",)
_SIZE = "{size}"
_SENTENCEPIECE_SUFFIXES = (".model", ".vocab", ".json", ".tokenmill")
_SOURCES_SHOWN = 10


def add_train(parser: Parser) -> None:
    parser.explain(_TRAIN_HELP)
    _add_inputs(parser)
    size = reader(number(None, "vocabulary size"))
    parser.add_argument(
        "--vocab-size",
        required=True,
        type=lambda word: [size(part) for part in word.split(",")],
        metavar="50000",
        help="number of bytes, merges and special tokens together; commas separate several sizes",
    )
    parser.add_argument(
        "--output",
        required=True,
        action="append",
        metavar="tokenizer.json",
        help="output file: a .json, vocab.json, .tokenmill or .tiktoken, for sentencepiece a "
        ".model, .vocab, .json or .tokenmill; {size} is replaced by the size (repeatable)",
    )
    add_options(parser, TrainOptions, _SKIP, **READ_DEFAULTS)
    parser.set_defaults(run=_run_train)


def add_count_pretokens(parser: Parser) -> None:
    parser.explain(_COUNT_HELP)
    _add_inputs(parser)
    parser.add_argument(
        "--output", required=True, type=Path, metavar="counts.tmc", help="output file, a .tmc"
    )
    add_options(parser, CountOptions, _SKIP, **READ_DEFAULTS)
    parser.set_defaults(run=_run_count_pretokens)


def _add_inputs(parser: Parser) -> None:
    help = f"{INPUTS}, or .tmc files of pretoken counts"
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help=help)
    progress.add_flags(parser)
    add_json(parser)


def _run_train(arguments: argparse.Namespace) -> None:
    groups = [_outputs(name, arguments.vocab_size) for name in arguments.output]
    paths = [path for group in groups for path in group]
    others = [Path(path) for path in (arguments.trace, arguments.report) if path is not None]
    check_outputs([*paths, *others], arguments.inputs)
    for path in paths:
        _check_name(path, is_sentencepiece=arguments.trainer == "sentencepiece")
    started = time.monotonic()
    with progress.show(arguments.progress) as shown:
        trained = train_sizes(
            arguments.inputs,
            arguments.vocab_size,
            progress=shown,
            **options_of(arguments, TrainOptions, _SKIP),
        )
    outputs = [
        save_tokenizer(tokenizer, path)
        for group in groups
        for path, tokenizer in zip(group, trained, strict=True)
    ]
    seconds, peak = time.monotonic() - started, progress.peak_bytes() / 1e6
    figures = {"outputs": outputs, "seconds": round(seconds, 3), "peak_mb": round(peak, 1) or None}
    lines = [*map(saved_line, outputs), f"{seconds:.1f} s"]
    if peak:
        lines[-1] += f", {peak:,.0f} MB peak memory"
    if arguments.report is not None:
        written = json.loads(Path(arguments.report).read_text(encoding="utf-8"))
        figures["report"] = written
        lines += [
            f"{name}: {source['bytes']:,} bytes, {source['tokens']:,} tokens, "
            f"{source['bytes_per_token']:.2f} bytes per token"
            for name, source in list(written["sources"].items())[:_SOURCES_SHOWN]
        ]
        if (more := len(written["sources"]) - _SOURCES_SHOWN) > 0:
            lines.append(f"and {more:,} more inputs in {arguments.report}")
    report(arguments, figures, *lines)


def _run_count_pretokens(arguments: argparse.Namespace) -> None:
    output = arguments.output
    if output.suffix != ".tmc":
        raise TrainingError(
            f"output must end in .tmc, got {str(output)!r}; train detects pretoken counts from the "
            "suffix"
        )
    check_outputs([output], arguments.inputs)
    with progress.show(arguments.progress) as shown:
        given = options_of(arguments, CountOptions, _SKIP)
        found = count_pretokens(arguments.inputs, output, progress=shown, **given)
    report(
        arguments,
        {"path": str(output), "unique": found.unique, "total": found.total},
        f"{output}: {found.unique:,} unique pretokens, {found.total:,} in total",
    )


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
