"""Files → documents in plain Python: the reference of the corpus readers."""

from __future__ import annotations

import codecs
import json
from typing import Any

# Invalid UTF-8 passes json.loads as characters that no other text of a test contains.
_FIRST = 0x10FF00


def _keep(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    bad = error.object[error.start : error.end]
    return "".join(chr(_FIRST + byte) for byte in bad), error.end


codecs.register_error("tokenmill-keep", _keep)

Found = tuple[list[bytes], list[tuple[int, int]]]


def split(data: bytes, separator: bytes | None, utf8: str) -> Found:
    """The documents of a text, and (byte, line) of those that are not UTF-8."""
    texts, bad = [], []
    base = 3 if data.startswith(codecs.BOM_UTF8) else 0
    place = base
    while place < len(data):
        end = data.find(separator, place) if separator else -1
        text = data[place:] if end < 0 else data[place:end]
        _settle(text, utf8, (place, data[base:place].count(b"\n") + 1), texts, bad)
        place = len(data) if end < 0 else end + len(separator or b"")
    return texts, bad


def lines(data: bytes, utf8: str) -> Found:
    """The lines, without their ends."""
    texts, bad = [], []
    place = 3 if data.startswith(codecs.BOM_UTF8) else 0
    number = 0
    while place < len(data):
        number += 1
        end = data.find(b"\n", place)
        text = data[place:] if end < 0 else data[place:end].removesuffix(b"\r")
        _settle(text, utf8, (place, number), texts, bad)
        place = len(data) if end < 0 else end + 1
    return texts, bad


def _settle(
    text: bytes, utf8: str, where: tuple[int, int], texts: list[bytes], bad: list[tuple[int, int]]
) -> None:
    if utf8 == "replace":
        text = text.decode("utf-8", "replace").encode()
    if utf8 == "strict":
        try:
            text.decode()
        except UnicodeDecodeError:
            bad.append(where)
            return
    texts.append(text)


def json_lines(
    data: bytes, field: str, id_field: str | None, utf8: str
) -> tuple[list[bytes], list[Any], list[tuple[int, int]]]:
    """The texts, the ids, and (byte, line) of each line without a text."""
    texts, names, bad = [], [], []
    place = 3 if data.startswith(codecs.BOM_UTF8) else 0
    for number, line in enumerate(data[place:].split(b"\n"), 1):
        start, place = place, place + len(line) + 1
        if not line or line.isspace():
            continue
        how = {"strict": "strict", "replace": "replace", "bytes": "tokenmill-keep"}[utf8]
        try:
            record = json.loads(line.decode("utf-8", how))
            text = _get(record, field)
            if not isinstance(text, str):
                raise TypeError
        except (ValueError, TypeError, KeyError):
            bad.append((start, number))
            continue
        texts.append(_bytes(text))
        if id_field is not None:
            names.append(_name(record, id_field))
    return texts, names, bad


def _get(record: Any, field: str) -> Any:
    if not isinstance(record, dict):
        raise TypeError
    if field in record:
        return record[field]
    for part in field.split("."):
        if not isinstance(record, dict):
            raise TypeError
        record = record[part]
    return record


def _name(record: Any, field: str) -> Any:
    """The id: a str, or a value that is written somehow."""
    try:
        value = _get(record, field)
    except (KeyError, TypeError):
        return ""
    if isinstance(value, str):
        return _bytes(value).decode("utf-8", "replace")
    return "" if value is None else value


def _bytes(text: str) -> bytes:
    """UTF-8, in which half of a pair is U+FFFD, and bytes that were none are themselves."""
    found = bytearray()
    for character in text:
        code = ord(character)
        if 0xD800 <= code < 0xE000:
            found += "\ufffd".encode()
        elif code >= _FIRST and code < _FIRST + 256:
            found.append(code - _FIRST)
        else:
            found += character.encode()
    return bytes(found)
