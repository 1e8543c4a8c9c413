"""Text → ids, ids → text, files → numbers of tokens: `tokenmill encode`, `decode` and `count`.

`encode` reads blocks and cuts the text only at safe split points (`_native.last_cut`). So the ids
are those of the whole text, and memory does not grow with the text. A tokenizer without safe split
points (Llama 2, or a custom pattern) reads the whole text first.
"""

from __future__ import annotations

import argparse
import codecs
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import IO, Annotated, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments as arguments_checks
from tokenmill.cli.app import REJECTED
from tokenmill.cli.options import add_options, options_of
from tokenmill.cli.output import add_json, count_of, note, say, say_json
from tokenmill.corpus import Source, find, utf8
from tokenmill.corpus.documents import DocumentFailed, DocumentOptions, Segment, read
from tokenmill.corpus.options import UTF8, ReadOptions
from tokenmill.display import printable
from tokenmill.errors import InputError, MissingInputError, OptionError
from tokenmill.native import _native
from tokenmill.options import number, resolve, switch
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.encoder import Encoder
from tokenmill.tokenizing.options import MAX_UNSPLIT_BYTES

DTYPES = {"u16": "<u2", "u32": "<u4"}
TOKENIZER = "o200k_base"

_ENCODE_EXAMPLES = """
tokenmill encode --text 'hello world'
tokenmill encode book.txt --count
tokenmill encode *.txt --count --tokenizer gpt2
cat book.txt | tokenmill encode - | tokenmill decode - > same.txt
tokenmill encode lines.txt --lines --json
tokenmill encode book.txt --tokenizer gpt2 --binary u16 > ids.bin
"""
_ENCODE_EPILOG = """\
decode reads the output of encode with the same options. Bytes that are not UTF-8 are encoded as
they are, and decode restores them (see --utf8). Ids are written while the text is read, in bounded
memory. Tokenizers without safe split points (Llama 2) read the whole text first."""


def add_encode(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "encode",
        help="convert text to token ids",
        description="Prints the token ids of text, separated by spaces, one line per file.",
        examples=_ENCODE_EXAMPLES,
        epilog=_ENCODE_EPILOG,
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="text file, or - for standard input (default: -)"
    )
    parser.add_argument(
        "--text",
        action="append",
        metavar="TEXT",
        help="text to encode instead of a file; repeatable",
    )
    add_tokenizer(parser)
    parser.add_argument(
        "--allow-special",
        action="store_true",
        help="special tokens in the text are special; without it, they are ordinary text",
    )
    parser.add_argument(
        "--utf8",
        choices=UTF8,
        default="bytes",
        metavar="POLICY",
        help="treatment of bytes that are not UTF-8: bytes (encode them as they are), replace "
        "(by U+FFFD) or strict (an error) (default: bytes)",
    )
    parser.add_argument(
        "--lines", action="store_true", help="each line as a text of its own, without its newline"
    )
    form = parser.add_argument_group("output")
    form.add_argument("--count", action="store_true", help="number of ids instead of the ids")
    form.add_argument(
        "--json", action="store_true", help="one JSON object per text: path, ids, tokens, bytes"
    )
    form.add_argument(
        "--binary", choices=DTYPES, help="ids as raw little-endian integers of 2 or 4 bytes"
    )
    parser.set_defaults(run=run_encode)


def add_tokenizer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokenizer",
        default=TOKENIZER,
        metavar="TOKENIZER",
        help=f"name, file or folder of the tokenizer (default: {TOKENIZER})",
    )


def run_encode(options: argparse.Namespace) -> None:
    texts = [os.fsencode(text) for text in options.text or ()]
    has_several = bool(options.files[1:] or texts[1:])
    if options.binary and (options.lines or options.count or options.json or has_several):
        raise OptionError("--binary writes the ids of one text; pass one file and no other form")
    names = inputs_of(options.files, options.text, "--text")
    out = _output(is_binary=bool(options.binary))
    tokenizer = Tokenizer.load(options.tokenizer)
    check_binary(options.binary, tokenizer)
    encode = _Encoding(tokenizer, options, out)
    for text in texts:
        encode(STDIN, under_policy([text], options.utf8, STDIN))
    for name in () if texts else names:
        encode(name, under_policy(blocks_of(name, "text"), options.utf8, name))
    if options.count and not options.json and len(names) > 1:
        out.write(b"%d total\n" % encode.total)


def inputs_of(files: list[str], text: object, option: str) -> list[str]:
    """Return the names of the inputs, or one name for texts or ids of the command line."""
    if text is not None and files:
        raise OptionError(f"pass a file or {option}, not both")
    names = files or [STDIN]
    if text is None:
        check_inputs(names)
    return names


def check_binary(width: str | None, tokenizer: Tokenizer) -> None:
    if width == "u16" and tokenizer.vocab_size > 1 << 16:
        raise OptionError(
            f"ids of {tokenizer.name} go up to {tokenizer.vocab_size - 1:,} and do not fit u16; "
            "pass --binary u32"
        )


class _Encoding:
    """Texts in blocks → ids in the form that the options ask for."""

    def __init__(self, tokenizer: Tokenizer, options: argparse.Namespace, out: BinaryIO) -> None:
        self.total = 0
        self._tokenizer = tokenizer
        self._specials = bool(options.allow_special)
        self._options = options
        self._out = out
        self._text_of = IdText(tokenizer.vocab_size)
        names = tokenizer._cut_names(self._specials)
        self._place: Callable[[bytearray], int | None] = (
            (lambda _: None) if names is None else lambda text: _native.last_cut(text, list(names))
        )

    def __call__(self, name: str, blocks: Iterator[bytes]) -> None:
        (self._lines if self._options.lines else self._whole)(name, blocks)

    def _whole(self, name: str, blocks: Iterator[bytes]) -> None:
        """Write the ids of one text, and the end of the line."""
        options, count, size = self._options, 0, 0
        if options.json:
            self._write(b'{"path": %b' % _json(name) + (b"" if options.count else b', "ids": ['))
        for piece in chunks_of(blocks, self._place):
            size += len(piece)
            if options.count:
                count += self._tokenizer.count(piece, allowed_special=self._specials)
                continue
            ids = self._tokenizer.encode_array(piece, allowed_special=self._specials)
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
        """Write a line of ids for each line of text."""
        number = 0
        for piece in chunks_of(blocks, line_end):
            lines = lines_of(piece)
            found = self._tokenizer.encode_ragged(lines, allowed_special=self._specials)
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


_DECODE_EXAMPLES = """
tokenmill decode --ids 24912 2375
tokenmill encode book.txt | tokenmill decode - > same.txt
tokenmill encode lines.txt --lines | head -2 | tokenmill decode - --lines
tokenmill decode ids.json --json
tokenmill decode ids.bin --binary u16 --tokenizer gpt2
"""
_DECODE_EPILOG = """\
Ids are separated by spaces, commas, brackets or newlines. Text is written while ids are read, byte
for byte as it was encoded. Tokenizers with a decoder (Llama 2) read all ids of a text first."""


def add_decode(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "decode",
        help="convert token ids to text",
        description="Prints the text of token ids.",
        examples=_DECODE_EXAMPLES,
        epilog=_DECODE_EPILOG,
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="file of ids, or - for standard input (default: -)"
    )
    parser.add_argument("--ids", nargs="+", metavar="ID", help="ids to decode instead of a file")
    add_tokenizer(parser)
    parser.add_argument("--lines", action="store_true", help="a line of text for each line of ids")
    form = parser.add_argument_group("input").add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help="ids as written by encode --json, or as JSON lists"
    )
    form.add_argument("--binary", choices=DTYPES, help="ids as written by encode --binary")
    parser.set_defaults(run=run_decode)


def run_decode(options: argparse.Namespace) -> None:
    if options.binary and options.lines:
        raise OptionError("--binary has no lines; omit --lines")
    if options.ids and (options.binary or options.json):
        raise OptionError("--ids are numbers on the command line; omit --json and --binary")
    names = inputs_of(options.files, options.ids, "--ids")
    out = _output()
    tokenizer = Tokenizer.load(options.tokenizer)
    check_binary(options.binary, tokenizer)
    for name in names:
        given = [" ".join(options.ids).encode()] if options.ids else None
        blocks = given or blocks_of(name, "ids")
        for text in _texts(tokenizer, blocks, options):
            out.write(text)
            out.flush()


def _texts(
    tokenizer: Tokenizer, blocks: Iterable[bytes], options: argparse.Namespace
) -> Iterator[bytes]:
    """Yield the bytes of a text as soon as they are decoded."""
    decode = _decoder(tokenizer)
    if options.json or options.lines:
        read: Callable[[bytes], Any] = _ids_of_json if options.json else ids_of
        ends = b"\n" if options.lines else b""
        done = 0
        for piece in chunks_of(blocks, line_end):
            lines = lines_of(piece)
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
    return map(ids_of, chunks_of(blocks, separator_end))


def _binary(blocks: Iterable[bytes], dtype: str) -> Iterator[Any]:
    width = np.dtype(dtype).itemsize
    for piece in chunks_of(blocks, lambda raw: len(raw) - len(raw) % width):
        if len(piece) % width:
            raise InputError(
                f"the input ends inside of an id of {width} bytes; did you mean --binary "
                f"{next(name for name in DTYPES if DTYPES[name] != dtype)}?"
            )
        yield np.frombuffer(piece, dtype)


def _ids_of_json(line: bytes) -> list[int]:
    """Return the ids of an object of `encode --json`, or of a list."""
    if not line.strip():
        return []
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid JSON: {error}") from None
    if isinstance(found, dict):
        found = found.get("ids")
    is_ids = isinstance(found, list) and all(type(id_) is int for id_ in found)
    if not is_ids:
        raise InputError('no ids found; expected {"ids": [1, 2]} or [1, 2]')
    return list(found)


def _read_line(read: Callable[[bytes], Any], number: int, line: bytes) -> Any:
    try:
        return read(line)
    except InputError as error:
        raise InputError(f"line {number:,}: {error}") from None


_COUNT_EXAMPLES = """
tokenmill count book.txt
tokenmill count data/ book.txt --tokenizer gpt2
tokenmill count data/*.jsonl --field text --json
cat lines.txt | tokenmill count - --input-format lines
"""
_COUNT_EPILOG = """\
Documents are read as tokenize reads them: .jsonl, .parquet, .csv, .wet and so on by the names of
the files, each also compressed. Exit code 3: some records were rejected and are not counted."""


class CountOptions(ReadOptions, total=False):
    """How documents are read and counted."""

    allow_special: Annotated[
        bool, switch("special tokens in the text count as one token; without it, as ordinary text")
    ]
    threads: Annotated[int | None, number(None, "number of threads; without it, one per core")]


@dataclass(slots=True)
class _Count:
    """Figures of one input, or of all."""

    tokens: int = 0
    documents: int = 0
    bytes: int = 0
    rejected: int = 0

    def add(self, other: _Count) -> None:
        self.tokens += other.tokens
        self.documents += other.documents
        self.bytes += other.bytes
        self.rejected += other.rejected


def add_count(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "count",
        help="count the tokens of files",
        description="Prints the number of tokens: one line per file and one for all.",
        examples=_COUNT_EXAMPLES,
        epilog=_COUNT_EPILOG,
    )
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="documents: files, folders, globs, URLs, or - for standard input",
    )
    add_tokenizer(parser)
    parser.add_argument(
        "--per-file",
        action=argparse.BooleanOptionalAction,
        help="a line for each file (default: if there are several files)",
    )
    add_json(parser, "tokens, documents, bytes and rejected records as JSON")
    add_options(parser, CountOptions, on_error="skip")
    parser.set_defaults(run=run_count)


def run_count(arguments: argparse.Namespace) -> int:
    options = resolve(CountOptions, options_of(arguments, CountOptions), on_error="skip")
    if options["on_error"] == "quarantine":
        raise OptionError("count keeps no records; pass --on-error skip or --on-error fail")
    sources = find(arguments.inputs, options["input_format"])
    counting = _Counting(Tokenizer.load(arguments.tokenizer), options)
    is_per_file = len(sources) > 1 if arguments.per_file is None else arguments.per_file
    total, files = _Count(), []
    for source in sources:
        found = counting.count(source)
        total.add(found)
        if is_per_file and arguments.json:
            files.append({"path": source.name, **asdict(found)})
        elif is_per_file:
            say(f"{found.tokens} {source.name}")
    if counting.first_problem and not total.documents:
        raise InputError(f"the inputs contain no documents: {counting.first_problem}")
    if arguments.json:
        say_json(asdict(total) | ({"files": files} if is_per_file else {}))
    else:
        say(f"{total.tokens} total" if is_per_file else f"{total.tokens}")
    if total.rejected:
        rejected = count_of(total.rejected, "record")
        note(f"{rejected} rejected and not counted; the first: {counting.first_problem}")
    return REJECTED if total.rejected else 0


class _Counting:
    """Inputs → numbers of tokens, a block at a time."""

    def __init__(self, tokenizer: Tokenizer, options: Mapping[str, Any]) -> None:
        self.first_problem = ""
        self._rejected = 0
        self._tokenizer = tokenizer
        self._options = options
        separator = options["separator"]
        self._reading = DocumentOptions(
            field=options["field"],
            separator=None if separator is None else separator.encode(),
            utf8=options["utf8"],
        )
        self._threads = arguments_checks.thread_count(options["threads"])

    def count(self, source: Source) -> _Count:
        skip: dict[Any, str] = {}
        while True:
            try:
                found = self._count(source, skip)
            except DocumentFailed as failed:
                if source.is_stdin:  # cannot be read again
                    raise InputError(f"standard input {failed.reason}") from None
                skip[failed.key] = failed.reason
            else:
                self._rejected += found.rejected
                return found

    def _count(self, source: Source, skip: dict[Any, str]) -> _Count:
        total = _Count()
        encoder = Encoder(
            self._tokenizer,
            before=(),
            after=(),
            dtype="uint32",
            allowed_special=bool(self._options["allow_special"]),
            max_unsplit_bytes=MAX_UNSPLIT_BYTES,
            chunk_bytes=_BLOCK_BYTES,
        )
        for block in read(Segment(source), replace(self._reading, skip=skip)):
            for encoded in encoder.encode(block, self._threads):
                if encoded.rejected is not None:
                    self._reject(total, f"{source.name} {encoded.rejected}")
                    continue
                total.tokens += len(encoded.ids)
                total.documents += len(encoded.ends)
                total.bytes += encoded.bytes
            for problem in block.problems:
                line = f", line {problem.line:,}" if problem.line else ""
                self._reject(total, f"{problem.source}{line} {problem.reason}")
        return total

    def _reject(self, total: _Count, reason: str) -> None:
        self.first_problem = self.first_problem or reason
        total.rejected += 1
        if self._options["on_error"] == "fail":
            raise InputError(f"{reason}; with --on-error skip it is not counted")
        most = self._options["max_errors"]
        if most is not None and self._rejected + total.rejected > most:
            raise InputError(
                f"more than {count_of(most, 'record')} rejected; the first: {self.first_problem}"
            )


_TABLE_IDS_MAX = 1 << 20
_SEPARATORS = b" \t\r\n\v\f,[]"
_TO_SPACES = bytes.maketrans(_SEPARATORS, b" " * len(_SEPARATORS))
_DIGITS_MAX = 20
_NOT_AN_ID = re.compile(rb"[^ ]*[^ 0-9][^ ]*|[0-9]{%d,}" % (_DIGITS_MAX + 1))
_CHARS_MAX = 40


class IdText:
    """Ids → decimal text. After as many ids as the vocabulary has, a table of all numbers is used.

    1,000,000 ids take 14 ms with the table and 168 ms without it (one thread, 200,000 tokens). The
    table itself takes 34 ms. **Invariant**: both ways give the same bytes.
    """

    def __init__(self, vocab_size: int) -> None:
        self._size = vocab_size
        self._left = vocab_size if vocab_size <= _TABLE_IDS_MAX else None
        self._table: NDArray[np.bytes_] | None = None

    def __call__(self, ids: NDArray[np.uint32]) -> bytes:
        """Return the ids, each followed by a space."""
        table = self._table_for(len(ids))
        if table is None:
            return b"".join(b"%d " % id_ for id_ in ids.tolist())
        return table[ids].tobytes().replace(b"\0", b"")

    def lines(self, ids: NDArray[np.uint32], offsets: NDArray[np.int64]) -> bytes:
        """Return a line for the ids between two offsets each, separated by spaces."""
        table = self._table_for(len(ids))
        if table is None:
            words = list(map(str, ids.tolist()))
            ends = offsets.tolist()
            lines = [" ".join(words[a:b]) for a, b in pairwise(ends)]
            return "".join(line + "\n" for line in lines).encode()
        cells = np.insert(table[ids], offsets[1:], b"\n")
        return cells.tobytes().replace(b"\0", b"").replace(b" \n", b"\n")

    def _table_for(self, count: int) -> NDArray[np.bytes_] | None:
        if self._table is None and self._left is not None:
            self._left -= count
            if self._left < 0:
                self._table = np.array([b"%d " % id_ for id_ in range(self._size)])
        return self._table


def separator_end(text: bytearray) -> int:
    """Return the end of the last complete number."""
    return max(text.rfind(bytes([byte])) for byte in _SEPARATORS) + 1


def ids_of(text: bytes) -> list[int]:
    """Return the numbers of a text, separated by spaces, commas, brackets or newlines."""
    plain = text.translate(_TO_SPACES)
    words = plain.split()
    is_plain = not plain.translate(None, b"0123456789 ")
    if not is_plain or max(map(len, words), default=0) > _DIGITS_MAX:
        found = _NOT_AN_ID.search(plain)
        assert found is not None
        shown = found[0][:_CHARS_MAX].decode("utf-8", "backslashreplace")
        more = "…" if len(found[0]) > _CHARS_MAX else ""
        hint = "; pass --json for the output of encode --json" if b"{" in found[0] else ""
        raise InputError(f"'{shown}{more}' is not an id{hint}")
    return list(map(int, words))


STDIN = "-"
_BLOCK_BYTES = 4 << 20
_ALWAYS_SEARCHED = 1 << 12


def check_inputs(names: Sequence[str]) -> None:
    """Raise an error for an input that cannot be read, before anything is written."""
    for name in names:
        if name == STDIN:
            if sys.__stdin__ is None:
                raise OptionError("standard input is closed; pass a file or open it")
        elif Path(name).is_dir():
            raise InputError(f"{name!r} is a folder; pass the files in it")
        elif not Path(name).exists():
            raise MissingInputError(f"file not found: {name!r}")
    if names.count(STDIN) > 1:
        raise OptionError("standard input can be read only once; pass - once")


def blocks_of(name: str, what: str) -> Iterator[bytes]:
    """Yield the blocks of a file. A prompt in the terminal names `what` is expected."""
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


def chunks_of(blocks: Iterable[bytes], place: Callable[[bytearray], int | None]) -> Iterator[bytes]:
    """Yield the same bytes in chunks. `place` returns the offset where a chunk may end."""
    rest = bytearray()
    wanted = 0
    for block in blocks:
        rest += block
        if len(rest) < wanted:
            continue
        if cut := place(rest):
            yield bytes(rest[:cut])
            del rest[:cut]
        # Without a cut, the next search waits for twice as much text. So time stays linear.
        wanted = 2 * len(rest) if not cut and len(rest) > _ALWAYS_SEARCHED else 0
    if rest:
        yield bytes(rest)


def line_end(text: bytearray) -> int:
    """Return the end of the last complete line."""
    return text.rfind(b"\n") + 1


def lines_of(piece: bytes) -> list[bytes]:
    """Return the lines of a chunk of complete lines, without their newlines."""
    return piece.removesuffix(b"\n").split(b"\n")


def under_policy(blocks: Iterable[bytes], policy: str, name: str) -> Iterator[bytes]:
    """Yield blocks in which bytes that are not UTF-8 are kept, replaced or an error."""
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


def _output(*, is_binary: bool = False) -> BinaryIO:
    """Standard output, for bytes."""
    if is_binary and sys.stdout.isatty():
        raise OptionError("binary ids cannot be shown in a terminal; redirect them with > FILE")
    return sys.stdout.buffer
