"""Documents → ids, ids → text, documents → numbers of tokens: `encode`, `decode` and `count`.

`encode` writes ids while a text is read, or with --json at the end of a document. Memory does not
grow with the text (tokenizing/encoder.py).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import corpus
from tokenmill.arguments import thread_count
from tokenmill.cli.app import REJECTED, Parser
from tokenmill.cli.options import (
    ALLOW_SPECIAL,
    INPUTS,
    TOKENIZER,
    add_options,
    check_stdin,
    options_of,
    reading_of,
)
from tokenmill.cli.output import add_json, count_of, note, report, say
from tokenmill.corpus import STDIN, DocumentOptions, Documents, Rejections, Source, utf8
from tokenmill.corpus.documents import Problem
from tokenmill.corpus.options import ReadOptions
from tokenmill.display import printable
from tokenmill.errors import InputError, MissingInputError, OptionError
from tokenmill.native import _native
from tokenmill.options import number, resolve
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
or .parquet file is a document; --input-format text encodes such a file as it is. Ids are written
while a text is read. With --json, and with tokenizers such as Llama 2's, it is read whole first.
decode takes the same options. Exit code 3: some records were rejected and have no ids.
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
for byte as it was encoded. Some tokenizers (Llama 2) read all ids of a text first.
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
    """How documents are read and encoded."""

    allow_special: Annotated[bool, ALLOW_SPECIAL]


class CountOptions(EncodeOptions, total=False):
    """How documents are read and counted."""

    threads: Annotated[int | None, number(None, "number of threads; without it, one per core")]


def _add_tokenizer(parser: Parser) -> None:
    help = f"{TOKENIZER} (default: {_DEFAULT_TOKENIZER})"
    parser.add_argument("--tokenizer", default=_DEFAULT_TOKENIZER, help=help)


def _make_encoder(
    tokenizer: Tokenizer, options: Mapping[str, Any], max_unsplit_bytes: int, chunk_bytes: int
) -> Encoder:
    return Encoder(
        tokenizer, before=(), after=(), dtype="uint32", chunk_bytes=chunk_bytes,
        allowed_special=options["allow_special"], max_unsplit_bytes=max_unsplit_bytes,
    )  # fmt: skip


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
        "one JSON object per document: path, ids, tokens, bytes, and its number if the input has "
        "several",
    )
    form.add_argument(
        "--binary",
        choices=DTYPES,
        help="ids of one text as raw integers of 2 or 4 bytes",
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
    sources = corpus.find(names, options["input_format"], pipes=True, strict=options["strict"])
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
    # The ids of a document are in one JSON object.
    chunk_bytes = sys.maxsize if arguments.json else _BLOCK_BYTES
    encoder = _make_encoder(tokenizer, options, sys.maxsize, chunk_bytes)
    rejections = Rejections(options["on_error"], options["max_errors"])
    output = _Output(arguments, encoder, rejections)
    for text in texts:
        output.write(STDIN, [_split(text, reading)], has_several=bool(reading.separator))
    for source in sources:
        if source.is_stdin:
            _prompt("text")
        # Ids that are written cannot be taken back. So texts that may be rejected are read first.
        is_streamed = options["on_error"] == "fail" or source.size is None
        blocks = corpus.read_once(corpus.Segment(source), replace(reading, low_latency=is_streamed))
        has_several = bool(reading.separator) or source.kind != "text"
        is_named = len(sources) > 1 and not has_several
        output.write(source.name, blocks, has_several=has_several, is_named=is_named)
    if arguments.count and not arguments.json and len(sources) > 1:
        _write(b"%d total\n" % output.tokens)
    return _exit_code(rejections, output.documents, "encoded")


def _split(text: bytes, reading: DocumentOptions) -> Documents:
    """Return the documents of a text of the command line."""
    found, _ = _native.split_documents(text, reading.separator or b"", True)
    data, spans, bad = utf8.check(text, np.array(found).reshape(-1, 2), reading.utf8)
    if bad:
        raise InputError(f"the text {utf8.reason(text, 0)}")
    return Documents(data, spans)


def _write(data: bytes) -> None:
    """Write to stdout. Without buffers, a closed pipe takes a part, and the next write fails."""
    view = memoryview(data)
    while view:
        view = view[sys.stdout.buffer.write(view) :]
    sys.stdout.buffer.flush()


class _Output:
    """Documents → ids on stdout, in the form that the command line selects."""

    def __init__(
        self, arguments: argparse.Namespace, encoder: Encoder, rejections: Rejections
    ) -> None:
        self.tokens = self.documents = 0
        self._arguments = arguments
        self._encoder = encoder
        self._rejections = rejections
        self._is_start = True  # of a line of ids
        self._open_tokens = 0  # of a document that continues
        self._sizes: deque[int] = deque()  # bytes of documents, for JSON

    def write(
        self, name: str, blocks: Iterable[Documents], *, has_several: bool, is_named: bool = False
    ) -> None:
        """Write the ids of the documents of one input. Without `has_several` it is one document."""
        self._first, rejected = self.documents, self._rejections.count
        self._name, self._has_several = name, has_several
        self._suffix = b" " + printable(name).encode() if is_named else b""
        is_open = False
        for block in corpus.join_parts(iter(blocks)) if self._arguments.json else blocks:
            if is_open and block.problems:  # some ids of the document are written
                raise InputError(str(block.problems[0]))
            self._rejections.add(block.problems)
            if self._arguments.json:
                self._sizes.extend((block.spans[:, 1] - block.spans[:, 0]).tolist())
            is_open = block.goes_on if len(block.spans) else is_open
            for encoded in self._encoder.encode(block, thread_count(None)):
                _write(self._text_of(encoded.ids, encoded.ends))
        is_empty = self.documents == self._first and self._rejections.count == rejected
        if is_empty and not has_several:  # an empty text has a line, too
            self._sizes.append(0)
            _write(self._text_of(np.zeros(0, np.uint32), np.zeros(1, np.int64)))

    def _text_of(self, ids: NDArray[np.uint32], ends: NDArray[np.int64]) -> bytes:
        """Return ids, of which each document ends at one of `ends`."""
        arguments, number = self._arguments, self.documents - self._first
        self.documents += len(ends)
        self.tokens += len(ids)
        if arguments.binary:
            return ids.astype(DTYPES[arguments.binary]).tobytes()
        if not arguments.json and not arguments.count:
            text = text_of_ids(ids, ends)
            text = text.removeprefix(b" ") if self._is_start else text
            self._is_start = text.endswith(b"\n") or (self._is_start and not text)
            return text
        if not arguments.json:
            counts = np.diff(ends, prepend=0, append=len(ids)).tolist()
            counts[0] += self._open_tokens
            self._open_tokens = counts.pop()
            return b"".join(b"%d%b\n" % (count, self._suffix) for count in counts)
        lines = []
        for index, part in enumerate(np.split(ids, ends)[:-1], number + 1):
            row: dict[str, Any] = {"path": self._name}
            if self._has_several:
                row["line" if arguments.lines else "document"] = index
            if not arguments.count:
                row["ids"] = part.tolist()
            row |= {"tokens": len(part), "bytes": self._sizes.popleft()}
            lines.append(json.dumps(row) + "\n")
        return "".join(lines).encode()


def text_of_ids(ids: NDArray[np.uint32], ends: NDArray[np.int64]) -> bytes:
    """Return a space and the decimal number of each id, with a newline at each end of a document.

    The digits of all ids are computed together, the last ones first.
    """
    width = len(str(ids.max(initial=0)))
    cells = np.zeros((len(ids), width + 1), np.uint8)
    cells[:, 0] = ord(" ")
    cells[:, width] = ord("0") + ids % 10
    rest = ids // 10
    for column in range(width - 1, 0, -1):
        cells[:, column] = np.where(rest, ord("0") + rest % 10, 0)
        rest //= 10
    lines = np.insert(cells.view(f"S{width + 1}").ravel(), ends, b"\n").tobytes()
    return lines.replace(b"\0", b"").replace(b"\n ", b"\n")


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
    for name in names:
        if name != STDIN and not Path(name).exists():
            raise MissingInputError(
                f"file not found: {name!r}; pass a file of ids, or the ids themselves with --ids"
            )
    tokenizer = Tokenizer.load(arguments.tokenizer)
    _check_binary(arguments.binary, tokenizer)
    given = [[" ".join(arguments.ids).encode()]] if arguments.ids else map(_blocks_of, names)
    for blocks in given:
        for text in _texts(tokenizer, blocks, arguments):
            _write(text)


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
        number = 0
        for chunk in _chunks(blocks, b"\n"):
            texts = []
            for line in chunk.removesuffix(b"\n").split(b"\n"):
                number += 1
                try:
                    texts.append(decode(parse(line)) + end)
                except InputError as error:
                    raise InputError(f"line {number:,}: {error}") from None
            yield b"".join(texts)
        return
    if arguments.binary:
        sequences: Iterable[Any] = _ids_of_binary(blocks, arguments.binary)
    else:
        sequences = map(ids_of, _chunks(blocks, _SEPARATORS))
    if tokenizer._decodes_bytes:
        yield from map(decode, sequences)
    else:
        yield decode([id_ for ids in sequences for id_ in ids])


def _chunks(blocks: Iterable[bytes], ends: bytes) -> Iterator[bytes]:
    """Yield the same bytes in chunks, each up to the last of the bytes `ends` in a block."""
    parts: list[bytes] = []
    for block in blocks:
        cut = max(block.rfind(end) for end in ends) + 1
        if cut:
            yield b"".join([*parts, block[:cut]])
            parts = []
        parts.append(block[cut:])
    if any(parts):
        yield b"".join(parts)


_SEPARATORS = b" \t\r\n\v\f,[]"
_TO_SPACES = bytes.maketrans(_SEPARATORS, b" " * len(_SEPARATORS))
_DIGITS_MAX = 20
_CHARS_MAX = 40


def ids_of(text: bytes) -> list[int]:
    """Return the numbers of a text, separated by spaces, commas, brackets or newlines."""
    plain = text.translate(_TO_SPACES)
    words = plain.split()
    if plain.translate(None, b"0123456789 ") or max(map(len, words), default=0) > _DIGITS_MAX:
        wrong = next(word for word in words if not word.isdigit() or len(word) > _DIGITS_MAX)
        shown = wrong[:_CHARS_MAX].decode("utf-8", "backslashreplace")
        more = "…" * (len(wrong) > _CHARS_MAX)
        hint = "; pass --json for the output of encode --json" if b"{" in wrong else ""
        raise InputError(f"'{shown}{more}' is not an id{hint}")
    return list(map(int, words))


def _ids_of_binary(blocks: Iterable[bytes], width: str) -> Iterator[NDArray[Any]]:
    size = np.dtype(DTYPES[width]).itemsize
    rest = b""
    for block in blocks:
        rest += block
        end = len(rest) - len(rest) % size
        yield np.frombuffer(rest[:end], DTYPES[width])
        rest = rest[end:]
    if rest:
        other = next(name for name in DTYPES if name != width)
        raise InputError(
            f"the input ends inside of an id of {size} bytes; did you mean --binary {other}?"
        )


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
    sources = corpus.find(arguments.inputs, options["input_format"], strict=options["strict"])
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
    """Return the figures of a source."""
    from tokenmill.tokenizing.task import without_failed  # slow to import

    before = rejections.count

    def attempt(skip: Mapping[Any, str]) -> dict[str, int]:
        if skip and source.is_stdin:  # cannot be read again
            raise InputError(f"standard input {next(iter(skip.values()))}")
        rejections.count = before
        encoder = _make_encoder(tokenizer, options, MAX_UNSPLIT_BYTES, _BLOCK_BYTES)
        found = {"tokens": 0, "documents": 0, "bytes": 0}
        for block in corpus.read(corpus.Segment(source), replace(reading_of(options), skip=skip)):
            for encoded in encoder.encode(block, thread_count(options["threads"])):
                if encoded.rejected is not None:
                    rejections.add([Problem(source.name, -1, 0, 0, encoded.rejected)])
                    continue
                found["tokens"] += len(encoded.ids)
                found["documents"] += len(encoded.ends)
                found["bytes"] += encoded.bytes
            rejections.add(block.problems)
        return found | {"rejected": rejections.count - before}

    return without_failed(attempt)
