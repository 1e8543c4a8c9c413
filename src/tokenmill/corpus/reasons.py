"""The core's numbers of reasons → what is said of a line that gave no document."""

from __future__ import annotations

import json
from typing import Any

from tokenmill.corpus.spans import RECORD_BYTES_MAX

NOT_JSON, TOO_DEEP, NOT_OBJECT, NO_FIELD, NULL_FIELD, NOT_TEXT = range(1, 7)
KEYS_SHOWN = 12
_KEY_CHARS_MAX = 60
_NO_TEXT = ", not a text"
_WAY_OUT = "Name the right one with field= (--field)"


def reason_of(code: int, field: str, detail: object = None) -> str:
    """`detail` is an error, the keys that were seen, or the kind of a value."""
    if code == NOT_JSON:
        return "is not JSON" + (f" ({detail})" if detail is not None else "")
    if code == TOO_DEEP:
        return "is JSON that is nested more than 1,000 deep"
    if code == NOT_OBJECT:
        return f"is a JSON {detail}, not an object with fields"
    if code == NO_FIELD:
        keys = detail if isinstance(detail, list) else []
        return missing("field", field, keys)
    if code == NULL_FIELD:
        return f"has null in the field {field!r}"
    return f"has a JSON {detail} in the field {field!r}{_NO_TEXT}"


def reason_in(line: bytes, code: int, field: str) -> str:
    """The same, with what Python finds in the line."""
    try:
        record = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        # Of a line that is longer, not all may be there to be looked at.
        is_said = code == NOT_JSON and len(line) <= RECORD_BYTES_MAX
        return reason_of(code, field, error if is_said else None)
    if code == NO_FIELD:
        return reason_of(code, field, list(record))
    if code == NOT_OBJECT:
        return reason_of(code, field, _kind(record))
    if code == NOT_TEXT:
        return reason_of(code, field, _kind(_get(record, field)))
    return reason_of(code, field)


def _get(record: Any, field: str) -> Any:
    if field in record:
        return record[field]
    for part in field.split("."):
        record = record[part]
    return record


def _kind(value: object) -> str:
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return kinds.get(type(value), "number")


def missing(what: str, field: str, keys: list[str]) -> str:
    """Says which keys or columns are there in place of the one that is asked for."""
    shown = ", ".join(repr(key[:_KEY_CHARS_MAX]) for key in keys[:KEYS_SHOWN]) or "none"
    more = ", …" * (len(keys) > KEYS_SHOWN)
    return f"has no {what} {field!r}; its {what}s are {shown}{more}. {_WAY_OUT}"


def is_missing(reason: str) -> bool:
    """Whether it is `missing` that said so."""
    return reason.endswith(_WAY_OUT)


def is_other_kind(reason: str) -> bool:
    """Whether a field holds what is no text."""
    return reason.endswith(_NO_TEXT)
