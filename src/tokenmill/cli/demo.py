"""A bundled text → coloured pieces with their ids, and figures: `tokenmill demo`."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import tokenmill
from tokenmill.cli.inspect_shards import show
from tokenmill.cli.output import add_json, console, say_json
from tokenmill.cli.pieces import STYLES, rows_of_pieces
from tokenmill.shown import shown
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.inspect import inspect
from tokenmill.tokenizing.run import tokenize
from tokenmill.tokenizing.verify import verify
from tokenmill.training.train import train
from tokenmill.vocabularies import EMBEDDED

_TEXT = """\
Byte-pair encoding doesn't know words: it knows which neighbours met most often.
def mill(grain: str) -> list[int]:
    return tokenizer.encode(grain)  # 1234567 grains
谷物进，词元出。 Зерно внутрь, токены наружу. 곡물이 들어가면 토큰이 나온다. 🌾➡️🧮
"""

_TIMED_BYTES = 4 << 20
_PACKAGE = Path(tokenmill.__file__).parent
_TRAINED_SIZE = 1_500


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo",
        help="encode, count and decode a small text, and train on another",
        description="Shows on small texts of its own what the package does.",
        examples="""
        tokenmill demo
        tokenmill demo --tokenizer gpt2 --json
        """,
    )
    names = ", ".join(EMBEDDED)
    parser.add_argument(
        "--tokenizer", default="o200k_base", choices=EMBEDDED, metavar="NAME", help=names
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    started = time.perf_counter()
    tokenizer = Tokenizer.load(options.tokenizer)
    loaded = time.perf_counter() - started
    ids = tokenizer.encode(_TEXT)
    if options.json:
        figures = {"tokenizer": tokenizer.name, "load_seconds": round(loaded, 4)}
        figures |= _figures(tokenizer, ids)
        trained, figures["training"] = _training()
        figures["shards"] = _corpus(trained, None)
        say_json(figures)
        return
    page = console()
    page.print(f"[bold]{tokenizer.name}[/] loaded in {loaded * 1e3:.0f} ms\n")
    tokens = [tokenizer.id_to_bytes(id_) for id_ in ids]
    for line in rows_of_pieces(tokens, ids, page):
        page.print(line, soft_wrap=True)
    page.print(_table(_figures(tokenizer, ids)))
    trained, training = _training()
    page.print(_learned(trained, training))
    _corpus(trained, page)


def _training() -> tuple[Tokenizer, dict[str, Any]]:
    """A small vocabulary, learned from the source of this package."""
    source = [path.read_text(encoding="utf-8") for path in sorted(_PACKAGE.rglob("*.py"))]
    started = time.perf_counter()
    tokenizer = train(source, vocab_size=_TRAINED_SIZE, specials=["<|endoftext|>"])
    seconds = time.perf_counter() - started
    size = sum(map(len, source))
    return tokenizer, {"vocab_size": _TRAINED_SIZE, "bytes": size, "seconds": round(seconds, 4)}


def _learned(tokenizer: Tokenizer, training: dict[str, Any]) -> Text:
    """What it makes of a line."""
    line = "tokenizer = tokenizer.train(documents)"
    pieces = [shown(tokenizer.id_to_bytes(id_)) for id_ in tokenizer.encode(line)]
    text = Text(
        f"\n{training['vocab_size']:,} entries learned from {training['bytes'] / 1e3:.0f} KB of "
        f"Python, this package's own, in {training['seconds'] * 1e3:.0f} ms:\n"
    )
    for index, piece in enumerate(pieces):
        text.append(piece, STYLES[index % len(STYLES)])
    return text


def _corpus(tokenizer: Tokenizer, console: Console | None) -> dict[str, Any]:
    """The same source as shards: written, compared with the files, and looked at."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "shards"
        started = time.perf_counter()
        pattern = str(_PACKAGE / "**" / "*.py")
        result = tokenize(pattern, output, tokenizer, format="datatrove")
        seconds = time.perf_counter() - started
        verdict = verify(output, decode=1.0)
        if console is not None:
            console.print(
                f"\n{result.documents} of its files as shards, {result.tokens:,} tokens, in "
                f"{seconds * 1e3:.0f} ms; read back: {verdict.documents} documents "
                + ("as they were written" if verdict.is_good else "[red]NOT AS WRITTEN[/]")
            )
            show(inspect(output).as_json(), console, sources=3)
    return {
        "documents": result.documents,
        "tokens": result.tokens,
        "seconds": round(seconds, 4),
        "good": verdict.is_good,
    }


def _figures(tokenizer: Tokenizer, ids: list[int]) -> dict[str, Any]:
    data = _TEXT.encode()
    text = _TEXT * (_TIMED_BYTES // len(data))
    started = time.perf_counter()
    count = len(tokenizer.encode_array(text))
    seconds = time.perf_counter() - started
    names = ("gpt2", "cl100k_base", "o200k_base")
    return {
        "characters": len(_TEXT),
        "bytes": len(data),
        "tokens": len(ids),
        "same_text": tokenizer.decode(ids) == _TEXT and tokenizer.count(_TEXT) == len(ids),
        "bytes_per_second": round(len(text.encode()) / seconds),
        "tokens_per_second": round(count / seconds),
        "tokens_with": {name: Tokenizer.load(name).count(_TEXT) for name in names},
    }


def _table(figures: dict[str, Any]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("text", f"{figures['characters']} characters, {figures['bytes']} bytes")
    tokens = figures["tokens"]
    table.add_row("tokens", f"{tokens}, {figures['bytes'] / tokens:.2f} bytes a token")
    table.add_row("decoded", "the same text" if figures["same_text"] else "[red]ANOTHER TEXT[/]")
    table.add_row(
        "encoding",
        f"{figures['bytes_per_second'] / 1e6:.0f} MB/s, "
        f"{figures['tokens_per_second'] / 1e6:.1f} M tokens/s",
    )
    for name, count in figures["tokens_with"].items():
        table.add_row(f"with {name}", f"{count} tokens")
    return table
