"""First bytes of a file → its input format, for a name that does not tell it.

JSON lines, Parquet, Arrow and WARC files are detected, also compressed. Other text is text. Files
of other programs are named, so that they are not read as text.
"""

from __future__ import annotations

import codecs
import json
import re
from pathlib import PurePosixPath
from typing import NamedTuple

from tokenmill.corpus import utf8
from tokenmill.corpus.blocks import open_file
from tokenmill.corpus.documents import Source, raise_system_error
from tokenmill.corpus.options import READERS, TABLES
from tokenmill.corpus.streams import Stream
from tokenmill.errors import InputError

_LOOK_BYTES = 1 << 16
_JSON_KEY = rb'\{[^\S\n]*"(?:[^"\\\n]|\\.)*"[^\S\n]*:'
_IS_OBJECT = re.compile(_JSON_KEY)
_IS_ARRAY = re.compile(rb"\[\s*" + _JSON_KEY.replace(rb"[^\S\n]", rb"\s"))
_TAR = slice(257, 262)
_IMAGE, _MEDIA, _ARCHIVE = "an image", "audio or video", "an archive"
_PROGRAM, _FONT, _PDF = "a program", "a font", "a PDF file"

# The first bytes of other binary files: without documents, and those that may contain documents.
_NOT_TEXT = {
    b"\x89PNG": _IMAGE, b"\xff\xd8\xff": _IMAGE, b"GIF8": _IMAGE, b"RIFF": _MEDIA,
    b"OggS": _MEDIA, b"ID3": _MEDIA, b"fLaC": _MEDIA, b"PK\x03\x04": _ARCHIVE,
    b"Rar!\x1a": _ARCHIVE, b"7z\xbc\xaf": _ARCHIVE, b"\x7fELF": _PROGRAM, b"\0asm": _PROGRAM,
    b"MZ\x90\0": _PROGRAM, b"\xcf\xfa\xed\xfe": _PROGRAM, b"\xca\xfe\xba\xbe": _PROGRAM,
    b"%PDF-": _PDF,
}  # fmt: skip
_OTHER_DATA = {
    b"\x04\x22\x4d\x18": "compressed with lz4", b"\xff\x06\0\0sNaPpY": "compressed with snappy",
    b"\x89LZO": "compressed with lzo", b"LZIP": "compressed with lzip", b"Obj\x01": "an Avro file",
    b"ORC": "an ORC file", b"SQLite format 3\0": "a SQLite database",
    b"\x93NUMPY": "a NumPy array",
}  # fmt: skip
_SUFFIXES = {
    _IMAGE: ".png .jpg .jpeg .gif .webp .bmp .ico .tif .tiff .svg .psd",
    _MEDIA: ".mp3 .mp4 .wav .flac .ogg .avi .mkv .mov .webm",
    _ARCHIVE: ".zip .tar .tgz .tbz2 .txz .tzst .rar .7z .jar .whl",
    _PROGRAM: ".exe .dll .so .dylib .o .a .pyc .class .wasm",
    _FONT: ".ttf .otf .woff .woff2",
    _PDF: ".pdf",
}
_KIND_OF_SUFFIX = {suffix: kind for kind, all_ in _SUFFIXES.items() for suffix in all_.split()}


class Content(NamedTuple):
    """The content of a file: its input format, "text" if it is another text.

    `problem` is the reason why it is not read, and `may_be_data` whether it may have documents.
    """

    kind: str
    compression: str | None = None
    problem: str = ""
    may_be_data: bool = True


def not_text(name: str) -> str | None:
    """The kind of a file that is certainly not text, from the suffix of its name."""
    path = PurePosixPath(name.lower())
    suffix = path.suffix if ".tar." not in f"{path.name}." else ".tar"
    return _KIND_OF_SUFFIX.get(suffix)


def look_at(name: str) -> Content:
    """The content of a file or URL. One that cannot be read is a text, and reading it fails."""
    start = bytearray(_LOOK_BYTES)
    try:
        with open_file(Source(name, "text")) as file:
            stream = Stream(file, name)
            size = stream.fill(memoryview(start))
    except (OSError, InputError) as error:
        raise_system_error(error)
        return Content("text")
    text, how = bytes(start[:size]).removeprefix(codecs.BOM_UTF8), stream.compression
    is_whole = size < _LOOK_BYTES and stream.failure is None
    is_text = b"\0" not in text and utf8.first_bad(text[: utf8.whole_end(text, len(text))]) < 0
    kinds = [kind for kind, reader in READERS.items() if text.startswith(reader.starts)]
    if kinds and not (is_text and kinds[0] in TABLES):
        return Content(kinds[0], how)
    if is_text:
        return _look_at_text(text, how, is_whole=is_whole)
    for magic, what in (_NOT_TEXT | _OTHER_DATA).items():
        if text.startswith(magic):
            return Content("text", how, f"is {what}", may_be_data=magic in _OTHER_DATA)
    if text[_TAR] == b"ustar":
        return Content("text", how, f"is {_ARCHIVE}", may_be_data=False)
    return _look_at_text(text, how, is_whole=is_whole)  # JSON lines may have invalid bytes


def _look_at_text(text: bytes, compression: str | None, *, is_whole: bool) -> Content:
    """The content of a text: JSON lines if more than half of its first lines are objects."""
    lines = [line for line in text.split(b"\n")[: None if is_whole else -1] if line.strip()]
    is_object = [_is_object(line) for line in lines]
    # The first line may be longer than the bytes that were read.
    is_long = not lines and _IS_OBJECT.match(text.lstrip()) is not None
    if is_long or 2 * sum(is_object) > len(lines) or _IS_ARRAY.match(text.lstrip()):
        return Content("jsonl", compression)
    if is_object[:1] == [True]:
        count = f"{sum(is_object):,} of its first {len(lines):,} lines"
        return Content("text", compression, f"may be JSON lines or text: {count} are JSON objects")
    return Content("text", compression)


def _is_object(line: bytes) -> bool:
    """Whether a line is a JSON object with a key."""
    try:
        return _IS_OBJECT.match(line.lstrip()) is not None and bool(json.loads(line))
    except (ValueError, RecursionError):
        return False
