"""Inputs → files of tokenizers or counts: `tokenmill train`, `count-pretokens` and `convert`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from tokenmill.cli import progress
from tokenmill.cli.app import Parser
from tokenmill.cli.libraries import memory_bytes
from tokenmill.cli.options import INPUTS, PATTERN, TOKENIZER, add_options, options_of, reader
from tokenmill.cli.output import add_json, check_outputs, count_of, first, report
from tokenmill.errors import TrainingError
from tokenmill.formats import save
from tokenmill.options import number
from tokenmill.tokenizer import Tokenizer
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
Count pretokens, the parts of texts that tokens do not cross, into a file. train reads it instead
of the texts and learns vocabularies of any size from it.

examples:
  tokenmill count-pretokens book.txt --output book.tmc
  tokenmill count-pretokens data/*.jsonl --json \\
    --pattern cl100k --output data.tmc
  tokenmill train book.tmc --vocab-size 999 --output a.json
"""
_CONVERT_HELP = """
Convert a tokenizer to another file format.

FROM is a tokenizer.json, a SentencePiece .model, a tekken.json, a GGUF file, a vocab.json next to a
merges.txt, a tiktoken rank file, a .tokenmill file, a folder that transformers saved, an embedded
name such as gpt2, or org/name in the local Hugging Face cache.

The name of TO selects the format: .json (tokenizer.json), vocab.json (with merges.txt), .model,
.tokenmill, .tiktoken (ranks), or a folder/ (tokenizer.json and tokenizer_config.json). If the
format cannot represent the tokenizer, the command fails and writes no file.

examples:
  tokenmill convert gpt2 tokenizer.json
  tokenmill convert gpt2 folder/
  tokenmill convert tokenizer.json mine.tokenmill
  tokenmill convert ranks.tiktoken a.json --pattern cl100k
"""
_INPUTS = f"{INPUTS}; .tmc files are outputs of count-pretokens"
_SKIP = ("progress",)
_SIZE = "{size}"
_SOURCES_SHOWN = 10


def add_train(parser: Parser) -> None:
    parser.explain(_TRAIN_HELP)
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help=_INPUTS)
    size = reader(number(None, "vocabulary size"))
    parser.add_argument(
        "--vocab-size",
        required=True,
        type=lambda word: [size(part) for part in word.split(",")],
        metavar="50000",
        help="number of all tokens: bytes, learned and special ones; commas separate several sizes",
    )
    parser.add_argument(
        "--output",
        required=True,
        action="append",
        metavar="tokenizer.json",
        help="file to write; its name selects the format: .json, vocab.json (with merges.txt), "
        ".tokenmill, .tiktoken (with sentencepiece .model or .vocab) or folder/; "
        "{size} becomes the size (repeatable)",
    )
    add_options(parser, TrainOptions, _SKIP, **READ_DEFAULTS)
    progress.add_flags(parser)
    parser.set_defaults(run=_run_train)


def add_count_pretokens(parser: Parser) -> None:
    parser.explain(_COUNT_HELP)
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help=_INPUTS)
    parser.add_argument(
        "--output", required=True, type=Path, metavar="counts.tmc", help="file to write, a .tmc"
    )
    add_options(parser, CountOptions, _SKIP, **READ_DEFAULTS)
    progress.add_flags(parser)
    parser.set_defaults(run=_run_count_pretokens)


def _run_train(arguments: argparse.Namespace) -> None:
    groups = [_outputs(name, arguments.vocab_size) for name in arguments.output]
    names = [name for group in groups for name in group]
    others = [path for path in (arguments.trace, arguments.report) if path is not None]
    check_outputs([*names, *others], arguments.inputs, names)
    for name in names:  # before the training
        save.check_name(name, "characters" if arguments.trainer == "sentencepiece" else "bytes")
    started = time.monotonic()
    with progress.show(arguments.progress) as shown:
        trained = train_sizes(
            arguments.inputs,
            arguments.vocab_size,
            progress=shown,
            **options_of(arguments, TrainOptions, _SKIP),
        )
    outputs = [
        _save(tokenizer, name)
        for group in groups
        for name, tokenizer in zip(group, trained, strict=True)
    ]
    seconds, peak = time.monotonic() - started, memory_bytes() / 1e6
    figures = {"outputs": outputs, "seconds": round(seconds, 3), "peak_mb": round(peak, 1) or None}
    lines = [*map(_saved_line, outputs), f"{seconds:.1f} s"]
    if peak:
        lines[-1] += f", {peak:,.0f} MB peak memory"
    if arguments.report is not None:
        written = json.loads(Path(arguments.report).read_text(encoding="utf-8"))
        figures["report"] = written
        rows = [
            f"{name}: {source['bytes']:,} bytes, {source['tokens']:,} tokens, "
            f"{source['bytes_per_token']:.2f} bytes per token"
            for name, source in written["sources"].items()
        ]
        lines += first(rows, _SOURCES_SHOWN, f"inputs in {arguments.report}")
    report(arguments, figures, *lines)


def _save(tokenizer: Tokenizer, name: str) -> dict[str, Any]:
    """Save a tokenizer and return the figures of the file."""
    tokenizer.save(name)
    count = len(tokenizer.special_tokens)
    return {"path": name, "vocab_size": tokenizer.vocab_size, "special_tokens": count}


def _saved_line(figures: dict[str, Any]) -> str:
    """Return the figures of `_save` as text."""
    special_tokens = count_of(figures["special_tokens"], "special token")
    return f"{figures['path']}: {count_of(figures['vocab_size'], 'token')}, {special_tokens}"


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


def _outputs(name: str, sizes: list[int]) -> list[str]:
    """The output of each size: {size} is replaced, or the size is added before the suffix."""
    if _SIZE in name:
        return [name.replace(_SIZE, str(size)) for size in sizes]
    path = Path(name)
    if len(sizes) == 1:
        return [name]
    if path.name in ("vocab.json", "merges.txt"):
        raise TrainingError(
            f"output {name!r} is one file for {len(sizes)} sizes; pass '{{size}}/{path.name}', "
            "with a folder per size"
        )
    end = "/" if save.is_folder(name) else ""
    return [str(path.with_name(f"{path.stem}-{size}{path.suffix}")) + end for size in sizes]


def add_convert(parser: Parser) -> None:
    parser.explain(_CONVERT_HELP)
    parser.add_argument("source", metavar="FROM", help=TOKENIZER)
    parser.add_argument("target", metavar="TO", help="file or folder/ to write")
    parser.add_argument("--pattern", help=PATTERN.help)
    add_json(parser)
    parser.set_defaults(run=_run_convert)


def _run_convert(arguments: argparse.Namespace) -> None:
    check_outputs([arguments.target], [arguments.source], [arguments.target])
    save.check_name(arguments.target)
    tokenizer = Tokenizer.load(arguments.source, pattern=arguments.pattern)
    figures = _save(tokenizer, arguments.target)
    report(arguments, figures, _saved_line(figures))
