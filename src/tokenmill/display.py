"""Names, messages and tokens → text that is safe to show in a terminal or on a page.

File names and vocabularies are untrusted. They may contain escape sequences that recolour the
terminal or type into it, marks that reverse a line, and newlines. Functions here replace all of
them. In tokens a space is "·", other invisible characters are escaped as \\n, \\x1b or \\u202e,
bytes that are not UTF-8 are \\xe4, and a backslash is doubled. So different tokens never look the
same because of their escapes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenmill.patterns import unicode

_SPACE = "·"
# A combining mark without a base would be drawn on the character to its left.
_CIRCLE = "◌"
_ESCAPED = {
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\\": r"\\",
    _SPACE: r"\u00b7",
    _CIRCLE: r"\u25cc",
}
# Variation selectors choose the text or the emoji form of the character before them.
_SELECTORS = ("\ufe0e", "\ufe0f")


def printable(text: str) -> str:
    r"""Escape invisible characters as in Python: \n, \x1b, \u202e."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def json_line(value: Any) -> str:
    """Return JSON on one line. Invisible characters and lone surrogates are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def token_text(token: bytes) -> str:
    """Return a token as text, or as <0xE4> bytes if it is not UTF-8."""
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in token)


def visible(token: bytes | str) -> str:
    """Return a token on one line with every character visible."""
    text = token if isinstance(token, str) else token.decode("utf-8", "surrogateescape")
    if text.isascii() and text.isprintable() and "\\" not in text:  # most tokens
        return text.replace(" ", _SPACE)
    parts = []
    before = ""
    for character in text:
        parts.append(_SPACE if character == " " else _visible_character(character, before))
        before = character
    return "".join(parts)


def shorten(text: str, most: int) -> str:
    """Shorten a text to at most `most` characters. The middle becomes an ellipsis."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    return text[: most - 1 - tail] + "…" + text[len(text) - tail :]


def fold_runs(token: bytes | str, run_min: int = 8) -> str:
    """Return a token as `visible` does, with runs of one character as ·×128."""
    parts = re.split(
        rf"(\\.[0-9a-f]*|[^\\])(\1{{{run_min - 1},}})", visible(token), flags=re.DOTALL
    )
    found = []
    for index in range(0, len(parts), 3):
        found.append(parts[index])
        if index + 2 < len(parts):
            one, rest = parts[index + 1], parts[index + 2]
            found.append(f"{one}×{1 + len(rest) // len(one)}")
    return "".join(found)


def _visible_character(character: str, before: str) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    code = ord(character)
    if 0xDC80 <= code < 0xDD00:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if not character.isprintable() or (code in _ignorable() and not _changes(character, before)):
        return _escape(code)
    if not before and unicodedata.category(character).startswith("M"):
        return _CIRCLE + character
    return character


def _changes(character: str, before: str) -> bool:
    return character in _SELECTORS and bool(before)


@cache
def _ignorable() -> unicode.CodePoints:
    from tokenmill.patterns import unicode  # 30 ms that errors and help do not need

    found = unicode.binary("defaultignorablecodepoint")
    assert found is not None
    return found


def _escape(code: int) -> str:
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
