"""A source → its batches of documents, from any place in it on."""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from io import FileIO
from typing import Any

from tokenmill.corpus import columns
from tokenmill.corpus.batches import Batch, ReadOptions, size_of
from tokenmill.corpus.cuts import last_cut
from tokenmill.corpus.sources import STDIN, Source
from tokenmill.corpus.streams import Raw, Stream
from tokenmill.errors import InputError

_LOOK_BYTES = 1 << 16
_KEYS_SHOWN = 12
_MISSING = object()
_ZIP = b"PK\x03\x04"
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


def read(source: Source, options: ReadOptions, start: int = 0) -> Iterator[Batch]:
    """The batches of a source. `start` is the position of a batch, behind which to go on."""
    if source.kind == "texts":
        yield from _texts(source.given, options)
    elif source.kind == "arrow":
        yield from columns.read_arrow(source.given, options)
    elif source.kind == "parquet":
        yield from columns.read_parquet(source, options, start)
    else:
        with _open(source) as file:
            stream = Stream(file, source.name, source.compression)
            if source.kind == "jsonl":
                yield from _json_lines(stream, options, start)
            elif source.kind == "lines" or options.sample is not None:
                yield from _lines(stream, options, start)
            else:
                yield from _text(stream, options, start)
            if source.size is not None and stream.bytes_read < source.size:
                raise InputError(
                    f"{source.name} had {source.size:,} bytes, and ends at {stream.bytes_read:,}: "
                    "it was cut while it was read; leave it alone, and begin again"
                )


def _open(source: Source) -> Raw:
    if source.name == STDIN:
        if sys.stdin is None or sys.stdin.isatty():
            raise InputError("the input - is standard input, and nothing is piped into it")
        # A second name, so that closing it leaves stdin open.
        return FileIO(sys.stdin.fileno(), closefd=False)
    return FileIO(source.name)


# ── texts in memory ──────────────────────────────────────────────────────────────────────────


def _texts(texts: Iterable[Any], options: ReadOptions) -> Iterator[Batch]:
    """Batches of an iterable of str and bytes, or of lists of them."""
    batch: list[Any] = []
    size = count = done = 0
    for text in texts:
        if type(text) is str or type(text) is bytes:
            batch.append(text)
            size += len(text)
            count += 1
        elif isinstance(text, list | tuple):
            for index, inner in enumerate(text):
                batch.append(_checked(inner, f"document {count}, item {index}"))
                size += size_of(inner)
            count += 1
        else:
            batch.append(_checked(text, f"document {count}"))
            size += size_of(text)
            count += 1
        if size >= options.batch_bytes:
            done += size
            yield Batch(options.keep(batch), size, count, done)
            batch, size = [], 0
    yield Batch(options.keep(batch), size, count, done + size)


def _checked(text: Any, name: str) -> Any:
    if isinstance(text, str | bytes):
        return text
    try:
        view = memoryview(text)
    except TypeError:
        shown = repr(text) if len(repr(text)) <= 60 else repr(text)[:57] + "…"
        hint = "; give paths as a list" if isinstance(text, os.PathLike) else ""
        raise TypeError(
            f"{name} must be a str or bytes, not {type(text).__name__} {shown}{hint}"
        ) from None
    return view if view.c_contiguous and view.itemsize == 1 else view.tobytes()


# ── text files ───────────────────────────────────────────────────────────────────────────────


def _text(stream: Stream, options: ReadOptions, start: int) -> Iterator[Batch]:
    """A text file is one document, in blocks that are cut where no pretoken is."""
    for block, position, read_bytes in _blocks(stream, options, start):
        yield Batch([block], len(block), position, read_bytes)


def _lines(stream: Stream, options: ReadOptions, start: int) -> Iterator[Batch]:
    """Each line with its newline is a document; and of a text file a sample takes some lines."""
    for block, position, read_bytes in _blocks(stream, options, start, at_lines=True):
        lines = _LINE.findall(block)
        yield Batch(options.keep(lines), len(block), position, read_bytes)


def _blocks(
    stream: Stream, options: ReadOptions, start: int, *, at_lines: bool = False
) -> Iterator[tuple[memoryview, int, int]]:
    """Blocks of about a batch, each with the place behind it in the text and in the file."""
    if start:
        stream.skip(start)
    position = start
    size = options.batch_bytes
    if options.whole and not at_lines:
        size = max(size, stream.size_hint() + 1)
    memory = bytearray(size)
    kept = 0
    is_first = start == 0
    while True:
        with memoryview(memory) as view:
            filled = kept + stream.fill(view[kept:])
        if is_first:
            is_first = False
            _refuse_binary(bytes(memory[: min(filled, _LOOK_BYTES)]), stream.name, options)
        is_last = filled < len(memory)
        cut: int | None = filled
        if not is_last:
            cut = _place(memory, options, at_lines=at_lines)
        if not cut:
            if is_last:
                return
            memory.extend(bytes(len(memory)))
            kept = filled
            continue
        position += cut
        yield memoryview(memory)[:cut], position, stream.bytes_read
        if is_last:
            return
        # The block is still being counted, so the next one gets memory of its own.
        kept = filled - cut
        fresh = bytearray(max(options.batch_bytes, 2 * kept))
        fresh[:kept] = memory[cut:filled]
        memory = fresh


def _place(memory: bytearray, options: ReadOptions, *, at_lines: bool) -> int | None:
    if at_lines:
        return memory.rfind(b"\n") + 1 or None
    return None if options.whole else last_cut(memory, options.specials)


def _refuse_binary(start: bytes, name: str, options: ReadOptions) -> None:
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{name} is text in UTF-16: convert it, with iconv -t UTF-8 for example")
    if start.startswith(_ZIP):
        raise InputError(f"{name} is compressed with zip; decompress it, or use gzip or zstd")
    zero = start.find(b"\0")
    if zero >= 0:
        raise InputError(
            f"{name} is not text: byte {zero:,} is 0. Name it after its format (.jsonl, .parquet), "
            "or leave it out; bytes that are meant are given in Python, as bytes"
        )
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError as error:
        options.note(
            f"{name} is not UTF-8 (byte {error.start:,} is 0x{start[error.start]:02X}); "
            "its bytes are taken as they are"
        )


# ── JSON lines ───────────────────────────────────────────────────────────────────────────────


def _json_lines(stream: Stream, options: ReadOptions, start: int) -> Iterator[Batch]:
    """A document for each line, in one of its fields; a null is none."""
    number = 0
    for block, position, read_bytes in _blocks(stream, options, start, at_lines=True):
        texts = []
        size = 0
        data = bytes(block)
        if position == len(data):
            data = data.removeprefix(codecs.BOM_UTF8)
        # Not splitlines(): a line of JSON lines ends at \n alone.
        for line in data.split(b"\n"):
            number += 1
            if line and not line.isspace():
                where = f"{stream.name}, line {number}" + (" behind the resumed part" * bool(start))
                text = _field_of(line, options.field, where)
                if text is not None:
                    texts.append(text)
                    size += len(text)
        number -= 1  # what follows the last newline belongs to the next block
        yield Batch(options.keep(texts), size, position, read_bytes)


def _field_of(line: bytes, field: str, where: str) -> str | None:
    try:
        record = json.loads(line)
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: byte {error.start} is not UTF-8; repair the line") from None
    except ValueError as error:
        raise InputError(f"{where} is not JSON ({error}): {line[:60]!r}") from None
    if not isinstance(record, dict):
        raise InputError(f"{where} is a JSON {_kind(record)}, not an object with fields")
    value = _get(record, field)
    if value is _MISSING:
        keys = ", ".join(map(repr, list(record)[:_KEYS_SHOWN])) or "none"
        raise InputError(
            f"{where} has no field {field!r}; its fields are {keys}. "
            "Name the right one with field= (--field)"
        )
    if value is not None and not isinstance(value, str):
        raise InputError(f"{where}: field {field!r} is a JSON {_kind(value)}, not a text")
    return value


def _get(record: dict[str, Any], field: str) -> Any:
    """A field by its name; a name with dots that is no field itself leads into objects."""
    if field in record:
        return record[field]
    value: Any = record
    for part in field.split("."):
        if not isinstance(value, dict) or part not in value:
            return _MISSING
        value = value[part]
    return value


def _kind(value: object) -> str:
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return kinds.get(type(value), "number")
