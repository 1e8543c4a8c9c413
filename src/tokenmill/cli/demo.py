"""A bundled text → coloured pieces with their ids, and figures: `tokenmill demo`."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

import tokenmill
from tokenmill.cli.inspect import show
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

_STYLES = tuple(f"black on {colour}" for colour in ("#a6d8ff", "#ffd8a6", "#b9e8b0", "#e6c6f5"))
_TIMED_BYTES = 4 << 20
_PACKAGE = Path(tokenmill.__file__).parent
_TRAINED_SIZE = 1_500


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo", help="encode, count and decode a small text, and train on another"
    )
    names = ", ".join(EMBEDDED)
    parser.add_argument(
        "--tokenizer", default="o200k_base", choices=EMBEDDED, metavar="NAME", help=names
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    console = Console(highlight=False)
    started = time.perf_counter()
    tokenizer = Tokenizer.load(options.tokenizer)
    loaded = time.perf_counter() - started
    ids = tokenizer.encode(_TEXT)
    console.print(f"[bold]{tokenizer.name}[/] loaded in {loaded * 1e3:.0f} ms\n")
    for line in _pieces(tokenizer, ids, console.width):
        console.print(line, soft_wrap=True)
    console.print(_figures(tokenizer, ids))
    trained, shown = _training()
    console.print(shown)
    _corpus(trained, console)


def _training() -> tuple[Tokenizer, Text]:
    """A small vocabulary, learned from the source of this package, and what it makes of a line."""
    source = [path.read_text(encoding="utf-8") for path in sorted(_PACKAGE.rglob("*.py"))]
    started = time.perf_counter()
    tokenizer = train(source, vocab_size=_TRAINED_SIZE, specials=["<|endoftext|>"])
    seconds = time.perf_counter() - started
    size = sum(map(len, source))
    line = "tokenizer = tokenizer.train(documents)"
    pieces = [_shown(tokenizer.id_to_bytes(id_)) for id_ in tokenizer.encode(line)]
    shown = Text(
        f"\n{_TRAINED_SIZE:,} entries learned from {size / 1e3:.0f} KB of Python, this package's "
        f"own, in {seconds * 1e3:.0f} ms:\n"
    )
    for index, piece in enumerate(pieces):
        shown.append(piece, _STYLES[index % len(_STYLES)])
    return tokenizer, shown


def _corpus(tokenizer: Tokenizer, console: Console) -> None:
    """The same source as shards: written, compared with the files, and looked at."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "shards"
        started = time.perf_counter()
        pattern = str(_PACKAGE / "**" / "*.py")
        result = tokenize(pattern, output, tokenizer, format="datatrove")
        seconds = time.perf_counter() - started
        verdict = verify(output, decode=1.0)
        console.print(
            f"\n{result.documents} of its files as shards, {result.tokens:,} tokens, in "
            f"{seconds * 1e3:.0f} ms; read back: {verdict.documents} documents "
            + ("as they were written" if verdict.is_good else "[red]NOT AS WRITTEN[/]")
        )
        show(inspect(output).as_json(), console, sources=3)


def _pieces(tokenizer: Tokenizer, ids: list[int], width: int) -> list[Text]:
    """Rows of pieces, each above its id, wrapped to the width and at the text's own lines."""
    lines: list[Text] = []
    pieces, numbers = Text(), Text()
    for index, id_ in enumerate(ids):
        piece = _shown(tokenizer.id_to_bytes(id_))
        number = str(id_)
        cells = max(cell_len(piece), len(number))
        if pieces.cell_len + cells + 1 > width:
            lines += [pieces, numbers]
            pieces, numbers = Text(), Text()
        pieces.append(piece, _STYLES[index % len(_STYLES)])
        pieces.append(" " * (cells - cell_len(piece) + 1))
        numbers.append(number.ljust(cells + 1), "dim")
        if tokenizer.id_to_bytes(id_).endswith(b"\n"):
            lines += [pieces, numbers, Text()]
            pieces, numbers = Text(), Text()
    return [*lines, pieces, numbers] if pieces else lines


def _shown(token: bytes) -> str:
    """A token as one line of text; bytes that are part of a character as hexadecimal."""
    try:
        return token.decode().replace("\n", "⏎").replace(" ", "·")
    except UnicodeDecodeError:
        return token.hex(" ")


def _figures(tokenizer: Tokenizer, ids: list[int]) -> Table:
    data = _TEXT.encode()
    text = _TEXT * (_TIMED_BYTES // len(data))
    started = time.perf_counter()
    count = len(tokenizer.encode_array(text))
    seconds = time.perf_counter() - started
    whole = tokenizer.decode(ids) == _TEXT and tokenizer.count(_TEXT) == len(ids)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("text", f"{len(_TEXT)} characters, {len(data)} bytes")
    table.add_row("tokens", f"{len(ids)}, {len(data) / len(ids):.2f} bytes a token")
    table.add_row("decoded", "the same text" if whole else "[red]ANOTHER TEXT[/]")
    table.add_row(
        "encoding",
        f"{len(text.encode()) / seconds / 1e6:.0f} MB/s, {count / seconds / 1e6:.1f} M tokens/s",
    )
    for name in ("gpt2", "cl100k_base", "o200k_base"):
        table.add_row(f"with {name}", f"{Tokenizer.load(name).count(_TEXT)} tokens")
    return table
