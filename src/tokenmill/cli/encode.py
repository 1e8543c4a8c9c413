"""Documents → ids, ids → text, documents → numbers of tokens: `encode`, `decode` and `count`.

`encode` writes ids while a text is read. It cuts the text only at safe split points
(`_native.last_cut`). So the ids are those of the whole text, and memory does not grow with the
text. A tokenizer without safe split points (Llama 2, or a custom pattern) reads the whole text
first.
"""

from __future__ import annotations

import argparse
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

from tokenmill.arguments import thread_count
from tokenmill.cli.app import REJECTED
from tokenmill.cli.options import add_options, options_of
from tokenmill.cli.output import add_json, count_of, note, say, say_json
from tokenmill.corpus import (
    STDIN,
    DocumentOptions,
    Documents,
    Problem,
    Rejections,
    Segment,
    Source,
    find,
    read,
    read_once,
    utf8,
)
from tokenmill.corpus.documents import DocumentFailed
from tokenmill.corpus.options import ReadOptions
from tokenmill.display import printable
from tokenmill.errors import InputError, MissingInputError, OptionError
from tokenmill.native import _native
from tokenmill.options import number, resolve, switch
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.encoder import Encoder
from tokenmill.tokenizing.options import MAX_UNSPLIT_BYTES

DTYPES = {"u16": "<u2", "u32": "<u4"}
TOKENIZER = "o200k_base"
INPUTS = (
    "file, folder, glob or URL of .txt, .jsonl, .json, .parquet, .arrow, .csv, .tsv or .wet files, "
    "also compressed; other files are text; - for standard input"
)

_ENCODE_EXAMPLES = """
tokenmill encode --text 'hello world'
tokenmill encode book.txt --count
tokenmill encode *.txt --count --tokenizer gpt2
tokenmill encode data/*.jsonl --field text --json
cat book.txt | tokenmill encode - | tokenmill decode - > same.txt
tokenmill encode lines.txt --lines --json
tokenmill encode book.txt --tokenizer gpt2 --binary u16 > ids.bin
"""
_ENCODE_EPILOG = """\
A text file is one document, or several with --separator or --lines. Each record of a .jsonl, .csv
or .parquet file is a document. --input-format text encodes such a file as it is. Ids are written
while a text is read, in bounded memory. Tokenizers without safe split points (Llama 2) read the
whole text first. decode reads the output of encode with the same options. Exit code 3: some records
were rejected and have no ids."""


class EncodeOptions(ReadOptions, total=False):
    """How documents are read and encoded."""

    allow_special: Annotated[
        bool, switch("special tokens in the text are special; without it, they are ordinary text")
    ]


_ENCODE_DEFAULTS = {"utf8": "bytes", "on_error": "fail"}


def add_encode(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "encode",
        help="convert text to token ids",
        description="Prints the token ids of documents, separated by spaces, one line each.",
        examples=_ENCODE_EXAMPLES,
        epilog=_ENCODE_EPILOG,
    )
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help=f"{INPUTS} (default: -)")
    parser.add_argument(
        "--text",
        action="append",
        metavar="TEXT",
        help="text to encode instead of a file; repeatable",
    )
    add_tokenizer(parser)
    parser.add_argument(
        "--lines",
        action="store_true",
        help="each line of a text is a document, the same as --separator '\\n'",
    )
    form = parser.add_argument_group("output")
    form.add_argument("--count", action="store_true", help="number of ids instead of the ids")
    form.add_argument(
        "--json",
        action="store_true",
        help="one JSON object per document: path, ids, tokens, bytes; its number if the input has "
        "several (document, or line with --lines)",
    )
    form.add_argument(
        "--binary", choices=DTYPES, help="ids as raw little-endian integers of 2 or 4 bytes"
    )
    add_options(parser, EncodeOptions, **_ENCODE_DEFAULTS)
    parser.set_defaults(run=run_encode)


def add_tokenizer(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokenizer",
        default=TOKENIZER,
        metavar="TOKENIZER",
        help=f"name, file or folder of the tokenizer (default: {TOKENIZER})",
    )


def run_encode(arguments: argparse.Namespace) -> int:
    texts = [os.fsencode(text) for text in arguments.text or ()]
    if texts and arguments.inputs:
        raise OptionError("pass a file or --text, not both")
    if arguments.lines and arguments.separator is not None:
        raise OptionError("--lines is the same as --separator '\\n'; pass one of them")
    if arguments.lines:
        arguments.separator = "\n"
    options = _resolve(EncodeOptions, arguments, **_ENCODE_DEFAULTS)
    reading = replace(_reading(options), block_bytes=_BLOCK_BYTES)
    sources = [] if texts else _find(arguments.inputs or [STDIN], options["input_format"])
    if arguments.binary:
        has_documents = reading.separator is not None or any(map(_has_records, sources))
        if has_documents or arguments.count or arguments.json or len(sources + texts) > 1:
            raise OptionError(
                "--binary writes the ids of one text; pass one text file and no other form"
            )
    out = _output(is_binary=bool(arguments.binary))
    tokenizer = Tokenizer.load(arguments.tokenizer)
    check_binary(arguments.binary, tokenizer)
    rejections = Rejections(options["on_error"], options["max_errors"])
    encoding = _Encoding(tokenizer, arguments, out, rejections)
    for text in texts:
        encoding.encode(STDIN, [_split(text, reading)], has_several=bool(reading.separator))
    for source in sources:
        if source.is_stdin and sys.stdin.isatty():
            _prompt("text")
        has_several = bool(reading.separator) or _has_records(source)
        # Ids that are written cannot be taken back. So texts that may be rejected are read first.
        is_streamed = options["on_error"] == "fail" or source.size is None
        blocks = read_once(Segment(source), replace(reading, low_latency=is_streamed))
        encoding.encode(source.name, blocks, has_several=has_several, is_named=len(sources) > 1)
    if arguments.count and not arguments.json and len(sources) > 1:
        out.write(b"%d total\n" % encoding.tokens)
    return _end(rejections, encoding.documents, "encoded")


def _resolve(kind: type, arguments: argparse.Namespace, **defaults: Any) -> dict[str, Any]:
    options = resolve(kind, options_of(arguments, kind), **defaults)
    if options["on_error"] == "quarantine":
        raise OptionError(
            f"{arguments.command} keeps no records; pass --on-error skip or --on-error fail"
        )
    return options


def _reading(options: Mapping[str, Any]) -> DocumentOptions:
    separator = options["separator"]
    return DocumentOptions(
        field=options["field"],
        separator=None if separator is None else separator.encode(),
        utf8=options["utf8"],
    )


def _find(names: Sequence[str], input_format: str | None) -> list[Source]:
    """Return the sources of inputs. Named pipes are sources, too, since each is read once."""
    check_stdin(names)

    def is_pipe(name: str) -> bool:
        return Path(name).exists() and not Path(name).is_file() and not Path(name).is_dir()

    return find(
        [Source(name, input_format or "text") if is_pipe(name) else name for name in names],
        input_format,
    )


def _has_records(source: Source) -> bool:
    return source.kind != "text"


def _split(text: bytes, reading: DocumentOptions) -> Documents:
    """Return the documents of a text of the command line."""
    if reading.utf8 != "bytes" and utf8.first_bad(text) >= 0:
        if reading.utf8 == "strict":
            raise InputError(f"the text {utf8.reason(text, 0)}")
        text = text.decode("utf-8", "replace").encode()
    found, _ = _native.split_documents(text, reading.separator or b"", True)
    return Documents(text, np.array(found).reshape(-1, 2))


def _end(rejections: Rejections, documents: int, verb: str) -> int:
    """Report rejected records. Return the exit code."""
    if not rejections.count:
        return 0
    if not documents:
        raise InputError(f"the inputs contain no documents: {rejections.first}")
    rejected = count_of(rejections.count, "record")
    note(f"{rejected} rejected and not {verb}; the first: {rejections.first}")
    return REJECTED


def check_binary(width: str | None, tokenizer: Tokenizer) -> None:
    if width == "u16" and tokenizer.vocab_size > 1 << 16:
        raise OptionError(
            f"ids of {tokenizer.name} go up to {tokenizer.vocab_size - 1:,} and do not fit u16; "
            "pass --binary u32"
        )


class _Encoding:
    """Documents → ids in the form that the command line asks for."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        arguments: argparse.Namespace,
        out: BinaryIO,
        rejections: Rejections,
    ) -> None:
        self.tokens = self.documents = 0
        self._tokenizer = tokenizer
        self._specials = bool(arguments.allow_special)
        self._arguments = arguments
        self._out = out
        self._rejections = rejections
        self._text_of = IdText(tokenizer.vocab_size)
        self._threads = thread_count(None)
        # The input, the number of its documents so far, and the document that comes in parts.
        self._name = ""
        self._has_several = self._is_named = False
        self._number = 0
        self._document: _Document | None = None
        names = tokenizer._cut_names(self._specials)
        self._place: Callable[[bytearray], int | None] = (
            (lambda _: None) if names is None else lambda text: _native.last_cut(text, list(names))
        )

    def encode(
        self, name: str, blocks: Iterable[Documents], *, has_several: bool, is_named: bool = False
    ) -> None:
        """Write the ids of the documents of one input. Without `has_several` it is one document."""
        self._name, self._has_several, self._is_named = name, has_several, is_named
        self._number = 0
        rejected = self._rejections.count
        for block in blocks:
            self._reject(block.problems)
            view, spans = memoryview(block.data), block.spans
            if len(spans) and (self._document is not None or not has_several):
                is_over = len(spans) > 1 or not block.goes_on
                self._add(view[spans[0, 0] : spans[0, 1]], is_over=is_over)
                spans = spans[1:]
            is_open = len(spans) > 0 and block.goes_on
            if len(whole := spans[:-1] if is_open else spans):
                self._add_all(view, whole)
            if is_open:
                self._add(view[spans[-1, 0] : spans[-1, 1]], is_over=False)
            self._out.flush()
        if not has_several and self._number == 0 and self._rejections.count == rejected:
            self._add(memoryview(b""), is_over=True)  # an empty text has a line, too
            self._out.flush()

    def _reject(self, problems: list[Problem]) -> None:
        problems = [_name_stdin(problem) for problem in problems]
        if self._document is not None and problems:  # some of its ids are written
            raise InputError(str(problems[0]))
        self._rejections.add(problems)

    def _add(self, part: memoryview, *, is_over: bool) -> None:
        """Encode the next part of a document that comes in parts."""
        document = self._document = self._document or self._begin()
        document.bytes += len(part)
        for chunk in document.chunks.add(bytes(part), is_over=is_over):
            self._chunk(document, chunk)
        if is_over:
            self._finish(document)
            self._document = None

    def _add_all(self, view: memoryview, spans: NDArray[np.int64]) -> None:
        """Encode whole documents together, in parallel."""
        ids, ends = self._tokenizer._encode_spans(
            view, spans, self._specials, threads=self._threads
        )
        offsets = np.concatenate([np.zeros(1, np.int64), ends])
        if self._arguments.json:
            sizes = (spans[:, 1] - spans[:, 0]).tolist()
            for size, (start, end) in zip(sizes, pairwise(offsets.tolist()), strict=True):
                document = self._begin()
                document.bytes = size
                self._ids(document, ids[start:end])
                self._finish(document)
            return
        self._number += len(spans)
        self.tokens += len(ids)
        self.documents += len(spans)
        if self._arguments.count:
            self._out.write(b"".join(b"%d\n" % count for count in np.diff(offsets).tolist()))
        else:
            self._out.write(self._text_of.lines(ids, offsets))

    def _begin(self) -> _Document:
        self._number += 1
        if self._arguments.json:
            key = b"line" if self._arguments.lines else b"document"
            number = b', "%b": %d' % (key, self._number) if self._has_several else b""
            ids = b"" if self._arguments.count else b', "ids": ['
            self._out.write(b'{"path": ' + json.dumps(self._name).encode() + number + ids)
        return _Document(self._place)

    def _chunk(self, document: _Document, chunk: bytes) -> None:
        if self._arguments.count:
            document.tokens += self._tokenizer.count(chunk, allowed_special=self._specials)
        else:
            ids = self._tokenizer.encode_array(chunk, allowed_special=self._specials)
            self._ids(document, ids)

    def _ids(self, document: _Document, ids: NDArray[np.uint32]) -> None:
        """Write some ids of a document."""
        is_first, arguments = document.tokens == 0, self._arguments
        document.tokens += len(ids)
        if not len(ids) or arguments.count:
            return
        if arguments.binary:
            self._out.write(ids.astype(DTYPES[arguments.binary]).tobytes())
            return
        text = self._text_of(ids).removesuffix(b" ")
        if arguments.json:
            self._out.write((b"" if is_first else b", ") + text.replace(b" ", b", "))
        else:
            self._out.write((b"" if is_first else b" ") + text)

    def _finish(self, document: _Document) -> None:
        """Write the end of a document's line."""
        self.tokens += document.tokens
        self.documents += 1
        if self._arguments.json:
            ends = b"" if self._arguments.count else b"]"
            figures = (ends, document.tokens, document.bytes)
            self._out.write(b'%b, "tokens": %d, "bytes": %d}\n' % figures)
        elif self._arguments.count:
            name = b" " + printable(self._name).encode() if self._is_named else b""
            self._out.write(b"%d%b\n" % (document.tokens, name))
        elif not self._arguments.binary:
            self._out.write(b"\n")


class _Document:
    """Figures of a document whose ids are being written."""

    def __init__(self, place: Callable[[bytearray], int | None]) -> None:
        self.chunks = _Chunks(place)
        self.tokens = self.bytes = 0


def _name_stdin(problem: Problem) -> Problem:
    return replace(problem, source="standard input") if problem.source == STDIN else problem


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
    if options.ids and options.files:
        raise OptionError("pass a file or --ids, not both")
    names = options.files or [STDIN]
    if not options.ids:
        _check_files(names)
    out = _output()
    tokenizer = Tokenizer.load(options.tokenizer)
    check_binary(options.binary, tokenizer)
    for name in names:
        blocks = [" ".join(options.ids).encode()] if options.ids else _blocks_of(name)
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
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help=INPUTS)
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
    options = _resolve(CountOptions, arguments, on_error="skip")
    check_stdin(arguments.inputs)
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
    code = _end(counting.rejections, total.documents, "counted")
    if arguments.json:
        say_json(asdict(total) | ({"files": files} if is_per_file else {}))
    else:
        say(f"{total.tokens} total" if is_per_file else f"{total.tokens}")
    return code


class _Counting:
    """Inputs → numbers of tokens, a block at a time."""

    def __init__(self, tokenizer: Tokenizer, options: Mapping[str, Any]) -> None:
        self.rejections = Rejections(options["on_error"], options["max_errors"])
        self._tokenizer = tokenizer
        self._allows_special = bool(options["allow_special"])
        self._reading = _reading(options)
        self._threads = thread_count(options["threads"])

    def count(self, source: Source) -> _Count:
        skip: dict[Any, str] = {}
        before = self.rejections.count
        while True:
            try:
                found = self._count(source, skip)
            except DocumentFailed as failed:
                if source.is_stdin:  # cannot be read again
                    raise InputError(f"standard input {failed.reason}") from None
                skip[failed.key] = failed.reason
                self.rejections.count = before
            else:
                found.rejected = self.rejections.count - before
                return found

    def _count(self, source: Source, skip: dict[Any, str]) -> _Count:
        total = _Count()
        encoder = Encoder(
            self._tokenizer,
            before=(),
            after=(),
            dtype="uint32",
            allowed_special=self._allows_special,
            max_unsplit_bytes=MAX_UNSPLIT_BYTES,
            chunk_bytes=_BLOCK_BYTES,
        )
        for block in read(Segment(source), replace(self._reading, skip=skip)):
            for encoded in encoder.encode(block, self._threads):
                if encoded.rejected is not None:
                    self.rejections.add([Problem(source.name, -1, 0, 0, encoded.rejected)])
                    continue
                total.tokens += len(encoded.ids)
                total.documents += len(encoded.ends)
                total.bytes += encoded.bytes
            self.rejections.add([_name_stdin(problem) for problem in block.problems])
        return total


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


_BLOCK_BYTES = 4 << 20
_ALWAYS_SEARCHED = 1 << 12


def check_stdin(names: Sequence[str]) -> None:
    """Raise an error if standard input is an input and cannot be read."""
    if STDIN in names and sys.__stdin__ is None:
        raise OptionError("standard input is closed; pass a file or open it")
    if names.count(STDIN) > 1:
        raise OptionError("standard input can be read only once; pass - once")


def _check_files(names: Sequence[str]) -> None:
    """Raise an error for a file of ids that cannot be read, before anything is written."""
    check_stdin(names)
    for name in names:
        if name != STDIN and Path(name).is_dir():
            raise InputError(f"{name!r} is a folder; pass the files in it")
        if name != STDIN and not Path(name).exists():
            raise MissingInputError(f"file not found: {name!r}")


def _prompt(what: str) -> None:
    sys.stderr.write(f"tokenmill: reading {what} from the terminal; Ctrl-D ends it\n")


def _blocks_of(name: str) -> Iterator[bytes]:
    """Yield the blocks of a file of ids."""
    if name == STDIN:
        if sys.stdin.isatty():
            _prompt("ids")
        yield from _read(sys.stdin.buffer)
        return
    with Path(name).open("rb") as file:
        yield from _read(file)


def _read(file: IO[bytes]) -> Iterator[bytes]:
    read: Callable[[int], bytes] = file.read1 if hasattr(file, "read1") else file.read
    while block := read(_BLOCK_BYTES):
        yield block


class _Chunks:
    """The same bytes in chunks. `place` returns the offset where a chunk may end."""

    def __init__(self, place: Callable[[bytearray], int | None]) -> None:
        self._place = place
        self._rest = bytearray()
        self._wanted = 0

    def add(self, block: bytes, *, is_over: bool = False) -> Iterator[bytes]:
        """Yield the chunk that ends in the block, if there is one."""
        rest = self._rest
        rest += block
        if is_over:
            if rest:
                yield bytes(rest)
            return
        if len(rest) < self._wanted:
            return
        if cut := self._place(rest):
            yield bytes(rest[:cut])
            del rest[:cut]
        # Without a cut, the next search waits for twice as much text. So time stays linear.
        self._wanted = 2 * len(rest) if not cut and len(rest) > _ALWAYS_SEARCHED else 0


def chunks_of(blocks: Iterable[bytes], place: Callable[[bytearray], int | None]) -> Iterator[bytes]:
    """Yield the same bytes in chunks."""
    chunks = _Chunks(place)
    for block in blocks:
        yield from chunks.add(block)
    yield from chunks.add(b"", is_over=True)


def line_end(text: bytearray) -> int:
    """Return the end of the last complete line."""
    return text.rfind(b"\n") + 1


def lines_of(piece: bytes) -> list[bytes]:
    """Return the lines of a chunk of complete lines, without their newlines."""
    return piece.removesuffix(b"\n").split(b"\n")


def _output(*, is_binary: bool = False) -> BinaryIO:
    """Standard output, for bytes."""
    if is_binary and sys.stdout.isatty():
        raise OptionError("binary ids cannot be shown in a terminal; redirect them with > FILE")
    return sys.stdout.buffer
