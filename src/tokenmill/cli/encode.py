"""Documents → ids, ids → text, documents → numbers of tokens: `encode`, `decode` and `count`.

`encode` writes ids while a text is read, or with --json at the end of a document. It cuts the text
only at safe split points (`_native.last_cut`). So the ids are those of the whole text, and memory
does not grow with the text. A tokenizer without safe split points (Llama 2, or a custom pattern)
reads the whole text first.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import corpus
from tokenmill.arguments import thread_count
from tokenmill.cli.app import REJECTED, Parser
from tokenmill.cli.options import (
    INPUTS,
    TOKENIZER,
    add_options,
    check_stdin,
    options_of,
    reading_of,
)
from tokenmill.cli.output import add_json, count_of, note, report, say
from tokenmill.corpus import STDIN, DocumentOptions, Documents, Rejections, Source, utf8
from tokenmill.corpus.documents import DocumentFailed, Problem
from tokenmill.corpus.options import ReadOptions
from tokenmill.display import printable
from tokenmill.errors import InputError, OptionError
from tokenmill.native import _native
from tokenmill.options import number, one_of, resolve, switch
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.encoder import Encoder
from tokenmill.tokenizing.options import MAX_UNSPLIT_BYTES

DTYPES = {"u16": "<u2", "u32": "<u4"}
_DEFAULT_TOKENIZER = "o200k_base"
_BLOCK_BYTES = 4 << 20

_ENCODE_HELP = """
Print the token ids of documents, separated by spaces, one line each.

examples:
  tokenmill encode --text 'hello world'
  tokenmill encode book.txt --count
  tokenmill encode *.txt --count --tokenizer gpt2
  tokenmill encode data/*.jsonl --field text --json
  tokenmill encode - < book.txt | tokenmill decode > a.txt
  tokenmill encode lines.txt --lines --json
  tokenmill encode book.txt --binary u32 > ids.bin

A text file is one document, or several with --separator or --lines. Each record of a .jsonl, .csv
or .parquet file is a document. --input-format text encodes such a file as it is. Ids are written
while a text is read, in bounded memory. --json writes a document at its end. Tokenizers without
safe split points (Llama 2) read the whole text first. decode reads the output of encode with the
same options. Exit code 3: some records were rejected and have no ids.
"""
_DECODE_HELP = """
Print the text of token ids.

examples:
  tokenmill decode --ids 24912 2375
  tokenmill encode book.txt | tokenmill decode - > same.txt
  tokenmill encode *.txt --lines | tokenmill decode --lines
  tokenmill decode ids.json --json
  tokenmill decode ids.bin --binary u16 --tokenizer gpt2

Ids are separated by spaces, commas, brackets or newlines. Text is written while ids are read, byte
for byte as it was encoded. Tokenizers with a decoder (Llama 2) read all ids of a text first.
"""
_COUNT_HELP = """
Print the number of tokens: one line per file and one for all.

examples:
  tokenmill count book.txt
  tokenmill count data/ book.txt --tokenizer gpt2
  tokenmill count data/*.jsonl --field text --json
  cat lines.txt | tokenmill count - --input-format lines

Documents are read as tokenize reads them: .jsonl, .parquet, .csv, .wet and so on by the names of
the files, each also compressed. Exit code 3: some records were rejected and are not counted.
"""


class EncodeOptions(ReadOptions, total=False):
    """How documents are read and encoded. Rejected records cannot be quarantined."""

    on_error: Annotated[
        str,
        one_of(("fail", "skip"), "fail", "treatment of records without a document", group="inputs"),
    ]
    allow_special: Annotated[
        bool, switch("special tokens in the text are special; without it, they are ordinary text")
    ]


class CountOptions(EncodeOptions, total=False):
    """How documents are read and counted."""

    threads: Annotated[int | None, number(None, "number of threads; without it, one per core")]


def _add_tokenizer(parser: Parser) -> None:
    help = f"{TOKENIZER} (default: {_DEFAULT_TOKENIZER})"
    parser.add_argument("--tokenizer", default=_DEFAULT_TOKENIZER, help=help)


def _name_stdin(problems: list[Problem]) -> list[Problem]:
    return [replace(p, source="standard input") if p.source == STDIN else p for p in problems]


def _exit_code(rejections: Rejections, documents: int, verb: str) -> int:
    """Report rejected records, and return the exit code."""
    if not rejections.count:
        return 0
    if not documents:
        raise InputError(f"the inputs contain no documents: {rejections.first}")
    rejected = count_of(rejections.count, "record")
    note(f"{rejected} rejected and not {verb}; the first: {rejections.first}")
    return REJECTED


def _check_binary(width: str | None, tokenizer: Tokenizer) -> None:
    if width == "u16" and tokenizer.vocab_size > 1 << 16:
        raise OptionError(
            f"ids of {tokenizer.name} go up to {tokenizer.vocab_size - 1:,} and do not fit u16; "
            "pass --binary u32"
        )


def _prompt(content: str) -> None:
    if sys.stdin.isatty():
        sys.stderr.write(f"tokenmill: reading {content} from the terminal; Ctrl-D ends it\n")


# Encode


def add_encode(parser: Parser) -> None:
    parser.explain(_ENCODE_HELP)
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help=f"{INPUTS} (default: -)")
    parser.add_argument(
        "--text", action="append", help="text to encode instead of a file (repeatable)"
    )
    _add_tokenizer(parser)
    help = "each line of a text is a document, the same as --separator '\\n'"
    parser.add_argument("--lines", action="store_true", help=help)
    form = parser.add_argument_group("output")
    form.add_argument("--count", action="store_true", help="number of ids instead of the ids")
    add_json(
        form,
        "one JSON object per document: path, ids, tokens, bytes; its number if the input has "
        "several (document, or line with --lines)",
    )
    form.add_argument(
        "--binary", choices=DTYPES, help="ids as raw little-endian integers of 2 or 4 bytes"
    )
    add_options(parser, EncodeOptions, utf8="bytes")
    parser.set_defaults(run=_run_encode)


def _run_encode(arguments: argparse.Namespace) -> int:
    texts = [os.fsencode(text) for text in arguments.text or ()]
    if texts and arguments.inputs:
        raise OptionError("pass a file or --text, not both")
    if arguments.lines and arguments.separator is not None:
        raise OptionError("--lines is the same as --separator '\\n'; pass one of them")
    if arguments.lines:
        arguments.separator = "\n"
    options = resolve(EncodeOptions, options_of(arguments, EncodeOptions), utf8="bytes")
    reading = replace(reading_of(options), block_bytes=_BLOCK_BYTES)
    names = [] if texts else arguments.inputs or [STDIN]
    check_stdin(names)
    kind = options["input_format"] or "text"
    inputs = [Source(name, kind) if _is_pipe(name) else name for name in names]
    sources = corpus.find(inputs, options["input_format"]) if inputs else []
    if arguments.binary:
        has_documents = reading.separator or any(source.kind != "text" for source in sources)
        if has_documents or arguments.count or arguments.json or len(sources + texts) > 1:
            raise OptionError(
                "--binary writes the ids of one text; pass one text file and no other form"
            )
        if sys.stdout.isatty():
            raise OptionError("binary ids cannot be shown in a terminal; redirect them with > FILE")
    tokenizer = Tokenizer.load(arguments.tokenizer)
    _check_binary(arguments.binary, tokenizer)
    rejections = Rejections(options["on_error"], options["max_errors"])
    encoding = _Encoding(tokenizer, arguments, rejections)
    for text in texts:
        encoding.encode(STDIN, [_split(text, reading)], has_several=bool(reading.separator))
    for source in sources:
        if source.is_stdin:
            _prompt("text")
        has_several = bool(reading.separator) or source.kind != "text"
        # Ids that are written cannot be taken back. So texts that may be rejected are read first.
        is_streamed = options["on_error"] == "fail" or source.size is None
        blocks = corpus.read_once(corpus.Segment(source), replace(reading, low_latency=is_streamed))
        is_named = len(sources) > 1 and not has_several
        encoding.encode(source.name, blocks, has_several=has_several, is_named=is_named)
    if arguments.count and not arguments.json and len(sources) > 1:
        sys.stdout.buffer.write(b"%d total\n" % encoding.tokens)
    return _exit_code(rejections, encoding.documents, "encoded")


def _is_pipe(name: str) -> bool:
    """Whether an input is a named pipe or device, which `find` does not accept."""
    return Path(name).is_fifo() or Path(name).is_char_device()


def _split(text: bytes, reading: DocumentOptions) -> Documents:
    """Return the documents of a text of the command line."""
    if reading.utf8 != "bytes" and utf8.first_bad(text) >= 0:
        if reading.utf8 == "strict":
            raise InputError(f"the text {utf8.reason(text, 0)}")
        text = text.decode("utf-8", "replace").encode()
    found, _ = _native.split_documents(text, reading.separator or b"", True)
    return Documents(text, np.array(found).reshape(-1, 2))


class _Encoding:
    """Documents → ids in the form that the command line selects."""

    def __init__(
        self, tokenizer: Tokenizer, arguments: argparse.Namespace, rejections: Rejections
    ) -> None:
        self.tokens = self.documents = 0
        self._tokenizer = tokenizer
        self._specials = bool(arguments.allow_special)
        self._arguments = arguments
        self._out = sys.stdout.buffer
        self._rejections = rejections
        self._text_of = IdText(tokenizer.vocab_size)
        names = tokenizer._cut_names(self._specials)
        self._place: Callable[[bytearray], int | None] = (
            (lambda _: None) if names is None else lambda text: _native.last_cut(text, list(names))
        )
        # The input, and its document that comes in parts.
        self._name = ""
        self._has_several = self._is_named = False
        self._chunks: _Chunks | None = None
        # The number of documents of the input, and the current document: its figures, and its ids
        # for JSON, which is written at once.
        self._number = self._tokens = self._bytes = 0
        self._ids: list[int] = []

    def encode(
        self, name: str, blocks: Iterable[Documents], *, has_several: bool, is_named: bool = False
    ) -> None:
        """Write the ids of the documents of one input. Without `has_several` it is one document."""
        self._name, self._has_several, self._is_named = name, has_several, is_named
        self._number = 0
        rejected = self._rejections.count
        for block in blocks:
            if self._chunks is not None and block.problems:  # some of its ids are written
                raise InputError(str(_name_stdin(block.problems)[0]))
            self._rejections.add(_name_stdin(block.problems))
            view, spans = memoryview(block.data), block.spans
            if self._chunks is not None and len(spans):
                self._add_part(view[slice(*spans[0])], len(spans) > 1 or not block.goes_on)
                spans = spans[1:]
            whole = spans[:-1] if block.goes_on else spans
            if len(whole):
                self._add_all(view, whole)
            if len(whole) < len(spans):
                self._chunks = _Chunks(self._place)
                self._add_part(view[slice(*spans[-1])], False)
            self._out.flush()
        if not has_several and self._number == 0 and self._rejections.count == rejected:
            self._finish()  # an empty text has a line, too
            self._out.flush()

    def _add_part(self, part: memoryview, is_over: bool) -> None:
        """Encode the next part of a document that comes in parts."""
        assert self._chunks is not None
        for chunk in self._chunks.add(bytes(part), is_over=is_over):
            ids = self._tokenizer.encode_array(chunk, allowed_special=self._specials)
            self._write(ids, len(chunk))
        if is_over:
            self._finish()
            self._chunks = None

    def _add_all(self, view: memoryview, spans: NDArray[np.int64]) -> None:
        """Encode whole documents together, in parallel."""
        ids, ends = self._tokenizer._encode_spans(
            view, spans, self._specials, threads=thread_count(None)
        )
        offsets = np.concatenate([np.zeros(1, np.int64), ends])
        if self._arguments.json or not self._has_several:
            sizes = (spans[:, 1] - spans[:, 0]).tolist()
            for size, (start, end) in zip(sizes, pairwise(offsets.tolist()), strict=True):
                self._write(ids[start:end], size)
                self._finish()
            return
        self._number += len(ends)
        self.documents += len(ends)
        self.tokens += len(ids)
        if self._arguments.count:
            self._out.write(b"".join(b"%d\n" % count for count in np.diff(offsets).tolist()))
        else:
            self._out.write(self._text_of.lines(ids, offsets))

    def _write(self, ids: NDArray[np.uint32], size: int) -> None:
        """Write some ids of a document."""
        arguments = self._arguments
        if arguments.binary:
            self._out.write(ids.astype(DTYPES[arguments.binary]).tobytes())
        elif arguments.json and not arguments.count:
            self._ids += ids.tolist()
        elif len(ids) and not arguments.count:
            text = self._text_of.lines(ids, np.array([0, len(ids)]))
            self._out.write((b" " if self._tokens else b"") + text[:-1])
        self._tokens += len(ids)
        self._bytes += size

    def _finish(self) -> None:
        """Write the end of a document's line."""
        self._number += 1
        if self._arguments.json:
            key = "line" if self._arguments.lines else "document"
            row: dict[str, Any] = {"path": self._name}
            row |= {key: self._number} if self._has_several else {}
            row |= {} if self._arguments.count else {"ids": self._ids}
            row |= {"tokens": self._tokens, "bytes": self._bytes}
            line = memoryview(json.dumps(row).encode() + b"\n")
            while line:  # a pipe that is closed meanwhile takes a part, and the next write fails
                line = line[self._out.write(line) :]
        elif self._arguments.count:
            name = b" " + printable(self._name).encode() if self._is_named else b""
            self._out.write(b"%d%b\n" % (self._tokens, name))
        elif not self._arguments.binary:
            self._out.write(b"\n")
        self.tokens += self._tokens
        self.documents += 1
        self._tokens = self._bytes = 0
        self._ids = []


class IdText:
    """Ids → decimal text. After as many ids as the vocabulary has, a table of all numbers is used.

    1,000,000 ids take 14 ms with the table and 168 ms without it (one thread, 200,000 tokens). The
    table itself takes 34 ms. **Invariant**: both ways give the same bytes.
    """

    def __init__(self, vocab_size: int) -> None:
        self._size = vocab_size
        self._seen = 0
        self._table: NDArray[np.bytes_] | None = None

    def lines(self, ids: NDArray[np.uint32], offsets: NDArray[np.int64]) -> bytes:
        """Return a line for the ids between two offsets each, separated by spaces."""
        self._seen += len(ids)
        if self._table is None and self._size <= min(self._seen, _TABLE_IDS_MAX):
            self._table = np.array([b"%d " % id_ for id_ in range(self._size)])
        if self._table is None:
            words = list(map(str, ids.tolist()))
            lines = [" ".join(words[a:b]) + "\n" for a, b in pairwise(offsets.tolist())]
            return "".join(lines).encode()
        cells = np.insert(self._table[ids], offsets[1:], b"\n")
        return cells.tobytes().replace(b"\0", b"").replace(b" \n", b"\n")


_TABLE_IDS_MAX = 1 << 20
_ALWAYS_SEARCHED = 1 << 12


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


# Decode


def add_decode(parser: Parser) -> None:
    parser.explain(_DECODE_HELP)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="file of ids, or - for standard input (default: -)"
    )
    parser.add_argument("--ids", nargs="+", metavar="ID", help="ids to decode instead of a file")
    _add_tokenizer(parser)
    parser.add_argument("--lines", action="store_true", help="a line of text for each line of ids")
    form = parser.add_argument_group("input").add_mutually_exclusive_group()
    add_json(form, "ids as written by encode --json, or as JSON lists")
    form.add_argument("--binary", choices=DTYPES, help="ids as written by encode --binary")
    parser.set_defaults(run=_run_decode)


def _run_decode(arguments: argparse.Namespace) -> None:
    if arguments.binary and arguments.lines:
        raise OptionError("--binary has no lines; omit --lines")
    if arguments.ids and (arguments.binary or arguments.json):
        raise OptionError("--ids are numbers on the command line; omit --json and --binary")
    if arguments.ids and arguments.files:
        raise OptionError("pass a file or --ids, not both")
    names = [] if arguments.ids else arguments.files or [STDIN]
    check_stdin(names)
    tokenizer = Tokenizer.load(arguments.tokenizer)
    _check_binary(arguments.binary, tokenizer)
    given = [[" ".join(arguments.ids).encode()]] if arguments.ids else map(_blocks_of, names)
    for blocks in given:
        for text in _texts(tokenizer, blocks, arguments):
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()


def _blocks_of(name: str) -> Iterator[bytes]:
    """Yield the blocks of a file of ids."""
    if name == STDIN:
        _prompt("ids")
    stdin: Any = sys.stdin.buffer
    with nullcontext(stdin) if name == STDIN else Path(name).open("rb") as file:
        while block := file.read1(_BLOCK_BYTES):
            yield block


def _texts(
    tokenizer: Tokenizer, blocks: Iterable[bytes], arguments: argparse.Namespace
) -> Iterator[bytes]:
    """Yield the bytes of a text as soon as they are decoded."""

    def decode(ids: Any) -> bytes:
        if tokenizer._decodes_bytes:
            return tokenizer.decode_bytes(ids)
        return tokenizer.decode(ids).encode()

    if arguments.json or arguments.lines:
        parse = _ids_of_json if arguments.json else ids_of
        end = b"\n" if arguments.lines else b""
        done = 0
        for chunk in chunks_of(blocks, lambda text: text.rfind(b"\n") + 1):
            lines = chunk.removesuffix(b"\n").split(b"\n")
            texts = []
            for done, line in enumerate(lines, done + 1):  # noqa: B020
                try:
                    texts.append(decode(parse(line)) + end)
                except InputError as error:
                    raise InputError(f"line {done:,}: {error}") from None
            yield b"".join(texts)
        return
    sequences = _ids_of_binary(blocks, arguments.binary) if arguments.binary else _ids(blocks)
    if tokenizer._decodes_bytes:
        yield from map(decode, sequences)
    else:
        yield decode([id_ for ids in sequences for id_ in ids])


_SEPARATORS = b" \t\r\n\v\f,[]"
_TO_SPACES = bytes.maketrans(_SEPARATORS, b" " * len(_SEPARATORS))
_DIGITS_MAX = 20
_NOT_AN_ID = re.compile(rb"[^ ]*[^ 0-9][^ ]*|[0-9]{%d,}" % (_DIGITS_MAX + 1))
_CHARS_MAX = 40


def _ids(blocks: Iterable[bytes]) -> Iterator[list[int]]:
    """Yield the ids of complete numbers."""

    def last_end(text: bytearray) -> int:
        return max(text.rfind(bytes([byte])) for byte in _SEPARATORS) + 1

    return map(ids_of, chunks_of(blocks, last_end))


def ids_of(text: bytes) -> list[int]:
    """Return the numbers of a text, separated by spaces, commas, brackets or newlines."""
    plain = text.translate(_TO_SPACES)
    words = plain.split()
    if plain.translate(None, b"0123456789 ") or max(map(len, words), default=0) > _DIGITS_MAX:
        found = _NOT_AN_ID.search(plain)
        assert found is not None
        shown = found[0][:_CHARS_MAX].decode("utf-8", "backslashreplace")
        more = "…" if len(found[0]) > _CHARS_MAX else ""
        hint = "; pass --json for the output of encode --json" if b"{" in found[0] else ""
        raise InputError(f"'{shown}{more}' is not an id{hint}")
    return list(map(int, words))


def _ids_of_binary(blocks: Iterable[bytes], width: str) -> Iterator[NDArray[Any]]:
    size = np.dtype(DTYPES[width]).itemsize
    for chunk in chunks_of(blocks, lambda raw: len(raw) - len(raw) % size):
        if len(chunk) % size:
            other = next(name for name in DTYPES if name != width)
            raise InputError(
                f"the input ends inside of an id of {size} bytes; did you mean --binary {other}?"
            )
        yield np.frombuffer(chunk, DTYPES[width])


def _ids_of_json(line: bytes) -> list[int]:
    """Return the ids of an object of `encode --json`, or of a list."""
    try:
        found = json.loads(line) if line.strip() else []
    except (ValueError, RecursionError) as error:
        raise InputError(f"not valid JSON: {error}") from None
    if isinstance(found, dict):
        found = found.get("ids")
    if not isinstance(found, list) or not all(type(id_) is int for id_ in found):
        raise InputError('no ids found; expected {"ids": [1, 2]} or [1, 2]')
    return found


# Count


def add_count(parser: Parser) -> None:
    parser.explain(_COUNT_HELP)
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help=INPUTS)
    _add_tokenizer(parser)
    parser.add_argument(
        "--per-file",
        action=argparse.BooleanOptionalAction,
        help="a line for each file (default: if there are several files)",
    )
    add_json(parser, "tokens, documents, bytes and rejected records as JSON")
    add_options(parser, CountOptions, on_error="skip")
    parser.set_defaults(run=_run_count)


def _run_count(arguments: argparse.Namespace) -> int:
    options = resolve(CountOptions, options_of(arguments, CountOptions), on_error="skip")
    check_stdin(arguments.inputs)
    sources = corpus.find(arguments.inputs, options["input_format"])
    tokenizer = Tokenizer.load(arguments.tokenizer)
    rejections = Rejections(options["on_error"], options["max_errors"])
    is_per_file = len(sources) > 1 if arguments.per_file is None else arguments.per_file
    total, files = Counter[str](), []
    for source in sources:
        found = _count(source, tokenizer, options, rejections)
        total.update(found)
        files.append({"path": source.name, **found})
        if is_per_file and not arguments.json:
            say(f"{found['tokens']} {source.name}")
    code = _exit_code(rejections, total["documents"], "counted")
    figures = {**total, "files": files} if is_per_file else dict(total)
    report(arguments, figures, f"{total['tokens']}{' total' if is_per_file else ''}")
    return code


def _count(
    source: Source, tokenizer: Tokenizer, options: Mapping[str, Any], rejections: Rejections
) -> dict[str, int]:
    """Return the figures of a source. Read it again without a document that turns out bad."""
    skip: dict[Any, str] = {}
    before = rejections.count
    while True:
        encoder = Encoder(
            tokenizer, before=(), after=(), dtype="uint32",
            allowed_special=bool(options["allow_special"]), max_unsplit_bytes=MAX_UNSPLIT_BYTES,
            chunk_bytes=_BLOCK_BYTES,
        )  # fmt: skip
        found = {"tokens": 0, "documents": 0, "bytes": 0}
        try:
            for block in corpus.read(
                corpus.Segment(source), replace(reading_of(options), skip=skip)
            ):
                for encoded in encoder.encode(block, thread_count(options["threads"])):
                    if encoded.rejected is not None:
                        rejections.add([Problem(source.name, -1, 0, 0, encoded.rejected)])
                        continue
                    found["tokens"] += len(encoded.ids)
                    found["documents"] += len(encoded.ends)
                    found["bytes"] += encoded.bytes
                rejections.add(_name_stdin(block.problems))
        except DocumentFailed as failed:
            if source.is_stdin:  # cannot be read again
                raise InputError(f"standard input {failed.reason}") from None
            skip[failed.key] = failed.reason
            rejections.count = before
        else:
            return found | {"rejected": rejections.count - before}
