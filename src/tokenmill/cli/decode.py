"""Ids → text, through files and pipes: `tokenmill decode`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tokenmill.cli import streams
from tokenmill.cli.encode import DTYPES, add_tokenizer, check_binary, inputs_of
from tokenmill.cli.id_text import ids_of, separator_end
from tokenmill.errors import CommandError, InputError
from tokenmill.tokenizer import Tokenizer

_EXAMPLES = """
tokenmill decode --ids 24912 2375
tokenmill encode book.txt | tokenmill decode - > same.txt
tokenmill encode lines.txt --lines | head -2 | tokenmill decode - --lines
tokenmill decode ids.json --json
tokenmill decode ids.bin --binary u16 --tokenizer gpt2
"""
_EPILOG = """\
Ids are numbers with blanks, commas, brackets or newlines between them. Text is written as soon as
its ids are there, byte for byte as it was encoded. Tokenizers with a decoder of their own (Llama 2)
look at all ids of a text together, and wait for its end."""


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "decode",
        help="ids into text, from files or a pipe",
        description="Turns ids back into text.",
        examples=_EXAMPLES,
        epilog=_EPILOG,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="ids; - or none: standard input")
    parser.add_argument("--ids", nargs="+", metavar="ID", help="these ids instead of a file")
    add_tokenizer(parser)
    parser.add_argument(
        "--lines", action="store_true", help="each line has the ids of a line of text"
    )
    form = parser.add_argument_group("what is read").add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="what encode --json wrote, or lists")
    form.add_argument("--binary", choices=DTYPES, help="what encode --binary wrote")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    if options.binary and options.lines:
        raise CommandError("--binary has no lines; leave --lines out")
    if options.ids and (options.binary or options.json):
        raise CommandError("--ids are numbers on the command line; leave the other form out")
    names = inputs_of(options.files, options.ids, "--ids")
    out = streams.output()
    tokenizer = Tokenizer.load(options.tokenizer)
    check_binary(options.binary, tokenizer)
    for name in names:
        given = [" ".join(options.ids).encode()] if options.ids else None
        blocks = given or streams.blocks_of(name, "ids")
        for text in _texts(tokenizer, blocks, options):
            out.write(text)
            out.flush()


def _texts(
    tokenizer: Tokenizer, blocks: Iterable[bytes], options: argparse.Namespace
) -> Iterator[bytes]:
    """The bytes of a text, as many as can be given at a time."""
    decode = _decoder(tokenizer)
    if options.json or options.lines:
        read: Callable[[bytes], Any] = _ids_of_json if options.json else ids_of
        ends = b"\n" if options.lines else b""
        done = 0
        for piece in streams.pieces(blocks, streams.line_end):
            lines = streams.lines_of(piece)
            numbered = enumerate(lines, done + 1)
            yield b"".join(decode(_read_line(read, *line)) + ends for line in numbered)
            done += len(lines)
        return
    sequences = _binary(blocks, DTYPES[options.binary]) if options.binary else _numbers(blocks)
    if tokenizer._decodes_bytes:
        yield from map(decode, sequences)
    else:
        yield decode([id_ for ids in sequences for id_ in ids])


def _decoder(tokenizer: Tokenizer) -> Callable[[Any], bytes]:
    if tokenizer._decodes_bytes:
        return tokenizer.decode_bytes
    return lambda ids: tokenizer.decode(ids).encode()


def _numbers(blocks: Iterable[bytes]) -> Iterator[list[int]]:
    return map(ids_of, streams.pieces(blocks, separator_end))


def _binary(blocks: Iterable[bytes], dtype: str) -> Iterator[Any]:
    width = np.dtype(dtype).itemsize
    for piece in streams.pieces(blocks, lambda raw: len(raw) - len(raw) % width):
        if len(piece) % width:
            raise InputError(
                f"the ids end in the middle of one, which has {width} bytes; is it --binary "
                f"{next(name for name in DTYPES if DTYPES[name] != dtype)}?"
            )
        yield np.frombuffer(piece, dtype)


def _ids_of_json(line: bytes) -> list[int]:
    """The ids of an object of `encode --json`, or of a list."""
    if not line.strip():
        return []
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON: {error}") from None
    if isinstance(found, dict):
        found = found.get("ids")
    is_ids = isinstance(found, list) and all(type(id_) is int for id_ in found)
    if not is_ids:
        raise InputError('has no ids; an object {"ids": [1, 2]} or a list of them is read')
    return list(found)


def _read_line(read: Callable[[bytes], Any], number: int, line: bytes) -> Any:
    try:
        return read(line)
    except InputError as error:
        raise InputError(f"line {number:,}: {error}") from None
