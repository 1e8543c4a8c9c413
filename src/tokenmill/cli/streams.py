"""Files and standard input → blocks of bytes, and pieces that end where they may be cut.

A piece is as long as what one read gives, so ids come out of a pipe while text still goes in, and
no more is held than what lies between two places where it can be cut.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, BinaryIO

from tokenmill.corpus import utf8
from tokenmill.errors import CommandError, InputError, MissingInputError

STDIN = "-"
_BLOCK_BYTES = 4 << 20
_ALWAYS_LOOKED_AT = 1 << 12


def check_inputs(names: Sequence[str]) -> None:
    """Refuses what cannot be read before anything is written."""
    for name in names:
        if name == STDIN:
            if sys.__stdin__ is None:
                raise CommandError("standard input is closed; give a file, or open it")
        elif Path(name).is_dir():
            raise InputError(f"{name!r} is a folder; give the files in it")
        elif not Path(name).exists():
            raise MissingInputError(f"{name!r} is not there")
    if names.count(STDIN) > 1:
        raise CommandError("standard input can be read once; give - once")


def blocks_of(name: str, what: str) -> Iterator[bytes]:
    """What each read of a file gives; `what` is what is expected of someone at a terminal."""
    if name == STDIN:
        if sys.stdin.isatty():
            sys.stderr.write(f"tokenmill: reading {what} from the terminal; Ctrl-D ends it\n")
        yield from _read(sys.stdin.buffer)
        return
    with Path(name).open("rb") as file:
        yield from _read(file)


def _read(file: IO[bytes]) -> Iterator[bytes]:
    read: Callable[[int], bytes] = file.read1 if hasattr(file, "read1") else file.read
    while block := read(_BLOCK_BYTES):
        yield block


def pieces(blocks: Iterable[bytes], place: Callable[[bytearray], int | None]) -> Iterator[bytes]:
    """The same bytes in pieces that end where `place` says that what is there may be cut."""
    kept = bytearray()
    wanted = 0
    for block in blocks:
        kept += block
        if len(kept) < wanted:
            continue
        if cut := place(kept):
            yield bytes(kept[:cut])
            del kept[:cut]
        # Where there is no place, it is looked for again in twice as much: in linear time.
        wanted = 2 * len(kept) if not cut and len(kept) > _ALWAYS_LOOKED_AT else 0
    if kept:
        yield bytes(kept)


def line_end(text: bytearray) -> int:
    """Where the last whole line ends."""
    return text.rfind(b"\n") + 1


def lines_of(piece: bytes) -> list[bytes]:
    """The lines of a piece that ends with one, without their newlines."""
    return piece.removesuffix(b"\n").split(b"\n")


def under_policy(blocks: Iterable[bytes], policy: str, name: str) -> Iterator[bytes]:
    """Blocks of a file, with bytes that are not UTF-8 kept, replaced or refused, as it says."""
    if policy == "bytes":
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder("utf-8")(policy)
    done = 0
    for block in blocks:
        yield _decoded(decoder, block, done, name)
        done += len(block)
    yield _decoded(decoder, b"", done, name, final=True)


def _decoded(
    decoder: codecs.IncrementalDecoder, block: bytes, done: int, name: str, *, final: bool = False
) -> bytes:
    start = done - len(decoder.getstate()[0])
    try:
        return decoder.decode(block, final).encode()
    except UnicodeDecodeError as error:
        bad = error.object[error.start]
        what = "the text" if name == STDIN else repr(name)
        raise InputError(f"{what} {utf8.said(start + error.start, bad)}") from None


def output(*, is_binary: bool = False) -> BinaryIO:
    """Standard output, for bytes."""
    if sys.__stdout__ is None:
        raise CommandError("standard output is closed, so nothing can be written to it")
    if is_binary and sys.stdout.isatty():
        raise CommandError("a terminal cannot show binary ids; write them to a file with > FILE")
    return sys.stdout.buffer


def given(text: str) -> bytes:
    """A text of the command line, byte for byte as it was given."""
    return os.fsencode(text)
