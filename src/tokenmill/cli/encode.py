"""Text → ids, through files and pipes: `tokenmill encode`.

A text is encoded piece by piece, cut only where no pretoken can go on (`corpus/cuts.py`): the ids
are those of the whole, and the memory does not grow with it. A session would hold all of the text,
since a pattern may look back as far as it likes. For the same reason a tokenizer whose texts can
be cut nowhere (Llama 2's, or one with a pattern of one's own) reads a text to its end first.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tokenmill.cli import streams
from tokenmill.cli.id_text import IdText
from tokenmill.corpus.cuts import last_cut
from tokenmill.errors import CommandError
from tokenmill.printable import printable
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.ids import names_to_keep_whole
from tokenmill.tokenizing.options import UTF8

DTYPES = {"u16": "<u2", "u32": "<u4"}
TOKENIZER = "o200k_base"

_EXAMPLES = """
tokenmill encode --text 'hello world'
tokenmill encode book.txt --count
tokenmill encode *.txt --count --tokenizer gpt2
cat book.txt | tokenmill encode - | tokenmill decode - > same.txt
tokenmill encode lines.txt --lines --json
tokenmill encode book.txt --tokenizer gpt2 --binary u16 > ids.bin
"""
_EPILOG = """\
What encode wrote, decode reads with the same options. Any bytes are text: those that are not UTF-8
come back from decode as they were, unless --utf8 says otherwise. Ids come while text still goes in,
in bounded memory; only tokenizers whose texts can be cut nowhere (Llama 2) wait for its end."""


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "encode",
        help="text into ids, from files or a pipe",
        description="Turns text into ids: numbers with blanks between them, a line for each file.",
        examples=_EXAMPLES,
        epilog=_EPILOG,
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="texts; - or none: standard input")
    parser.add_argument("--text", metavar="TEXT", help="this text instead of a file")
    add_tokenizer(parser)
    parser.add_argument(
        "--specials", action="store_true", help="names of specials in the text are specials"
    )
    parser.add_argument(
        "--utf8",
        choices=UTF8,
        default="bytes",
        help="bytes that are not UTF-8 are encoded as they are (bytes), replaced or refused",
    )
    parser.add_argument(
        "--lines", action="store_true", help="each line is a text of its own, without its newline"
    )
    form = parser.add_argument_group("what is written")
    form.add_argument("--count", action="store_true", help="only how many ids there are")
    form.add_argument(
        "--json", action="store_true", help="an object for each text: path, ids, tokens, bytes"
    )
    form.add_argument(
        "--binary", choices=DTYPES, help="ids as raw little-endian numbers of 2 or 4 bytes"
    )
    parser.set_defaults(run=run)


def add_tokenizer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokenizer",
        default=TOKENIZER,
        metavar="TOKENIZER",
        help=f"a name, a file or a folder ({TOKENIZER})",
    )


def run(options: argparse.Namespace) -> None:
    if options.binary and (options.lines or options.count or options.json or options.files[1:]):
        raise CommandError("--binary has no ends of texts: give it one file, and no other form")
    names = inputs_of(options.files, options.text, "--text")
    out = streams.output(is_binary=bool(options.binary))
    tokenizer = Tokenizer.load(options.tokenizer)
    check_binary(options.binary, tokenizer)
    encode = _Encoding(tokenizer, options, out)
    for name in names:
        given = None if options.text is None else [streams.given(options.text)]
        blocks = given or streams.blocks_of(name, "text")
        encode(name, streams.under_policy(blocks, options.utf8, name))
    if options.count and not options.json and len(names) > 1:
        out.write(b"%d total\n" % encode.total)


def inputs_of(files: list[str], text: object, option: str) -> list[str]:
    """The names of the inputs; one that stands for what was given as an option."""
    if text is not None and files:
        raise CommandError(f"give a file or {option}, not both")
    names = files or [streams.STDIN]
    if text is None:
        streams.check_inputs(names)
    return names


def check_binary(width: str | None, tokenizer: Tokenizer) -> None:
    if width == "u16" and tokenizer.vocab_size > 1 << 16:
        raise CommandError(
            f"the ids of {tokenizer.name} go up to {tokenizer.vocab_size - 1:,} and do not fit "
            "u16; take --binary u32"
        )


class _Encoding:
    """Texts in blocks → what is written of their ids."""

    def __init__(self, tokenizer: Tokenizer, options: argparse.Namespace, out: BinaryIO) -> None:
        self.total = 0
        self._tokenizer = tokenizer
        self._specials = bool(options.specials)
        self._options = options
        self._out = out
        self._text_of = IdText(tokenizer.vocab_size)
        names = names_to_keep_whole(tokenizer, specials=self._specials)
        self._place: Callable[[bytearray], int | None] = (
            (lambda _: None) if names is None else lambda text: last_cut(text, names)
        )

    def __call__(self, name: str, blocks: Iterator[bytes]) -> None:
        (self._lines if self._options.lines else self._whole)(name, blocks)

    def _whole(self, name: str, blocks: Iterator[bytes]) -> None:
        """One text: its ids piece by piece, and the end of the line."""
        options, count, size = self._options, 0, 0
        if options.json:
            self._write(b'{"path": %b' % _json(name) + (b"" if options.count else b', "ids": ['))
        for piece in streams.pieces(blocks, self._place):
            size += len(piece)
            if options.count:
                count += self._tokenizer.count(piece, specials=self._specials)
                continue
            ids = self._tokenizer.encode_array(piece, specials=self._specials)
            self._ids(ids, is_first=count == 0)
            count += len(ids)
        self.total += count
        if options.json:
            ends = b"" if options.count else b"]"
            self._write(b'%b, "tokens": %d, "bytes": %d}\n' % (ends, count, size))
        elif options.count:
            named = b" " + printable(name).encode() if options.files[1:] else b""
            self._write(b"%d%b\n" % (count, named))
        elif not options.binary:
            self._write(b"\n")

    def _ids(self, ids: NDArray[np.uint32], *, is_first: bool) -> None:
        if not len(ids):
            return
        if self._options.binary:
            self._write(ids.astype(DTYPES[self._options.binary]).tobytes())
            return
        text = self._text_of(ids).removesuffix(b" ")
        if self._options.json:
            self._write((b"" if is_first else b", ") + text.replace(b" ", b", "))
        else:
            self._write((b"" if is_first else b" ") + text)

    def _lines(self, name: str, blocks: Iterator[bytes]) -> None:
        """A line for each line."""
        number = 0
        for piece in streams.pieces(blocks, streams.line_end):
            lines = streams.lines_of(piece)
            found = self._tokenizer.encode_ragged(lines, specials=self._specials)
            ids, offsets = np.asarray(found.ids), np.asarray(found.offsets).astype(np.int64)
            if self._options.json:
                self._write(self._json_lines(name, number, lines, ids.tolist(), offsets.tolist()))
            elif self._options.count:
                counts = np.diff(offsets).tolist()
                self._write(b"".join(b"%d\n" % count for count in counts))
            else:
                self._write(self._text_of.lines(ids, offsets))
            number += len(lines)
            self.total += len(ids)

    def _json_lines(
        self, name: str, number: int, lines: list[bytes], ids: list[int], offsets: list[int]
    ) -> bytes:
        rows = []
        for index, line in enumerate(lines):
            start, end = offsets[index], offsets[index + 1]
            row: dict[str, Any] = {"path": name, "line": number + index + 1}
            if not self._options.count:
                row["ids"] = ids[start:end]
            rows.append(json.dumps({**row, "tokens": end - start, "bytes": len(line)}) + "\n")
        return "".join(rows).encode()

    def _write(self, data: bytes) -> None:
        self._out.write(data)
        self._out.flush()


def _json(text: str) -> bytes:
    return json.dumps(text).encode()
