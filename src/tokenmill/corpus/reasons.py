"""The core's numbers of reasons → what is said of a line that gave no document."""

from __future__ import annotations

NOT_JSON, TOO_DEEP, NOT_OBJECT, NO_FIELD, NULL_FIELD, NOT_TEXT = range(1, 7)
KEYS_SHOWN = 12
_KEY_CHARS_MAX = 60
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
    return f"has a JSON {detail} in the field {field!r}, not a text"


def missing(what: str, field: str, keys: list[str]) -> str:
    """Says which keys or columns are there in place of the one that is asked for."""
    shown = ", ".join(repr(key[:_KEY_CHARS_MAX]) for key in keys[:KEYS_SHOWN]) or "none"
    more = ", …" * (len(keys) > KEYS_SHOWN)
    return f"has no {what} {field!r}; its {what}s are {shown}{more}. {_WAY_OUT}"


def is_missing(reason: str) -> bool:
    """Whether it is `missing` that said so."""
    return reason.endswith(_WAY_OUT)
