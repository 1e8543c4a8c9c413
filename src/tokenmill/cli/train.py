"""Inputs → a vocabulary in files: `tokenmill train`."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from tokenmill import formats
from tokenmill.cli import inputs, values
from tokenmill.cli.output import add_json, say, say_json
from tokenmill.cli.progress import display, peak_bytes
from tokenmill.errors import TrainingError
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.merging import TIES
from tokenmill.training.pieces import vocabulary as pieces
from tokenmill.training.train import train

_EXAMPLES = """
tokenmill train book.txt --vocab-size 1000 --output mine.json
tokenmill train data/*.jsonl --vocab-size 500,1000 --output 'mine-{size}.tokenmill'
tokenmill train book.txt --vocab-size 1000 --ties rustbpe --special '<s>' --output ranks.tiktoken
cat book.txt | tokenmill train - --vocab-size 1000 --output mine.json --quiet --json
tokenmill train book.txt --extend mine.tokenmill --vocab-size 1100 --output more.json
"""
_SIZE = "{size}"
_SOURCES_SHOWN = 10


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "train",
        help="learn a vocabulary from text, JSON lines, Parquet or counts",
        description="Learns a vocabulary and writes it into files.",
        examples=_EXAMPLES,
    )
    inputs.add_options(parser)
    parser.add_argument(
        "--vocab-size",
        required=True,
        type=values.sizes,
        metavar="50000",
        help="bytes, merges and specials together; several from one run with commas",
    )
    parser.add_argument(
        "--output",
        required=True,
        action="append",
        metavar="tokenizer.json",
        help="also vocab.json, .tokenmill or .tiktoken; .model or .vocab of sentencepiece; "
        "repeat it; {size} stands for the size",
    )
    parser.add_argument(
        "--ties", choices=tuple(TIES), default="huggingface", help="whose rules to follow"
    )
    parser.add_argument(
        "--min-frequency", type=values.whole_number(0), default=0, help="the least count of a merge"
    )
    parser.add_argument(
        "--max-token-length",
        type=values.whole_number(1),
        help="tokens have fewer bytes than this; of sentencepiece no more characters (16)",
    )
    parser.add_argument(
        "--initial-alphabet",
        choices=("bytes", "seen"),
        default="bytes",
        help="all 256 bytes, or only those in the inputs",
    )
    parser.add_argument(
        "--character-coverage",
        type=values.share,
        metavar="0.9995",
        help="of sentencepiece: how much of the text has characters that are not rare",
    )
    parser.add_argument("--resume", metavar="DIR", help="keeps work in DIR, and goes on from there")
    parser.add_argument(
        "--extend", metavar="TOKENIZER", help="grow this vocabulary, whose ids stay"
    )
    parser.add_argument("--trace", type=Path, metavar="FILE", help="every merge, as JSON lines")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="compression and tokens by source, as JSON"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    outputs = [_outputs(name, options.vocab_size) for name in options.output]
    every = [path for paths in outputs for path in paths]
    others = [path for path in (options.trace, options.report) if path is not None]
    inputs.check_outputs([*every, *others], options.inputs)
    for path in every:
        (pieces.check_name if options.ties == "sentencepiece" else formats.check_bytes_name)(path)
    started = time.monotonic()
    with display(options.quiet) as shown:
        trained = train(
            vocab_size=options.vocab_size,
            ties=options.ties,
            min_frequency=options.min_frequency,
            max_token_length=options.max_token_length,
            initial_alphabet=options.initial_alphabet,
            character_coverage=options.character_coverage,
            resume=options.resume,
            extend=options.extend,
            trace=options.trace,
            report=options.report,
            progress=shown,
            **inputs.arguments_of(options),
        )
    written = []
    for paths in outputs:
        for path, tokenizer in zip(paths, trained, strict=True):
            tokenizer.save(path)
            written.append((path, tokenizer))
            if not options.json:
                say(f"{path}: {_described(tokenizer)}")
    seconds = time.monotonic() - started
    if options.json:
        say_json(_figures(written, seconds, options.report))
    else:
        _show(seconds, options.report)


def _figures(
    written: list[tuple[Path, Tokenizer | pieces.Pieces]], seconds: float, report: Path | None
) -> dict[str, Any]:
    outputs = [
        {"path": str(path), "vocab_size": made.vocab_size, "specials": len(made.specials)}
        for path, made in written
    ]
    figures = {
        "outputs": outputs,
        "seconds": round(seconds, 3),
        "peak_mb": round(peak_bytes() / 1e6, 1) or None,
    }
    if report is not None:
        figures["report"] = json.loads(report.read_text(encoding="utf-8"))
    return figures


def _show(seconds: float, report: Path | None) -> None:
    peak = f", {peak_bytes() / 1e6:,.0f} MB at most" if peak_bytes() else ""
    say(f"{seconds:.1f} s{peak}")
    if report is not None:
        _show_report(report)


def _outputs(name: str, sizes: list[int]) -> list[Path]:
    """Where each size goes: {size} is replaced, or the size is put before the suffix."""
    if _SIZE in name:
        return [Path(name.replace(_SIZE, str(size))) for size in sizes]
    path = Path(name)
    if len(sizes) == 1:
        return [path]
    if path.name in ("vocab.json", "merges.txt"):
        raise TrainingError(
            f"{name!r} is one name for {len(sizes)} sizes; write '{{size}}/{path.name}', with a "
            "folder for each"
        )
    return [path.with_name(f"{path.stem}-{size}{path.suffix}") for size in sizes]


def _described(tokenizer: Tokenizer | pieces.Pieces) -> str:
    specials = len(tokenizer.specials)
    return f"{tokenizer.vocab_size:,} entries, {specials} special{'s'[: specials != 1]}"


def _show_report(path: Path) -> None:
    report = json.loads(path.read_text(encoding="utf-8"))
    sources = list(report["sources"].items())
    for name, figures in sources[:_SOURCES_SHOWN]:
        say(
            f"{name}: {figures['bytes']:,} bytes, {figures['tokens']:,} tokens, "
            f"{figures['bytes_per_token']:.2f} bytes a token"
        )
    if len(sources) > _SOURCES_SHOWN:
        say(f"and {len(sources) - _SOURCES_SHOWN} more sources in {path}")
