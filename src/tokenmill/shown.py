"""Tokens → what is safe to look at: no control, bidirectional or invisible character.

A vocabulary is untrusted: its tokens may hold escape sequences that recolour or type into a
terminal, or marks that turn a line round. What is shown has none of them. Blanks are "·", other
characters that cannot be seen are \\n, \\x1b or \\u202e, bytes that are no text are \\xe4, and a
backslash is two, so that no two tokens look the same by accident of escaping.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from tokenmill.patterns import unicode

_BLANK = "·"
# A mark needs something to stand on, or it stands on what is left of it.
_CIRCLE = "◌"
# What has a meaning here does not stand for itself.
_NAMED = {
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\\": r"\\",
    _BLANK: r"\u00b7",
    _CIRCLE: r"\u25cc",
}
_SELECTORS = ("\ufe0e", "\ufe0f")  # text or emoji: seen in what they change


def spelled(token: bytes) -> str:
    """A token as text; one that is a part of a character as its bytes."""
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in token)


def shown(token: bytes | str) -> str:
    """A token in one line, with everything in it visible."""
    text = token if isinstance(token, str) else token.decode("utf-8", "surrogateescape")
    if text.isascii() and text.isprintable() and "\\" not in text:  # as most are
        return text.replace(" ", _BLANK)
    parts = []
    before = ""
    for character in text:
        parts.append(_BLANK if character == " " else _visible(character, before))
        before = character
    return "".join(parts)


def shortened(text: str, most: int) -> str:
    """A text of at most `most` characters; what is left out is in the middle."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    return text[: most - 1 - tail] + "…" + text[len(text) - tail :]


def folded(token: bytes | str, run_min: int = 8) -> str:
    """As `shown`, with runs of one character as that character and a number: ·×128."""
    parts = re.split(rf"(\\.[0-9a-f]*|[^\\])(\1{{{run_min - 1},}})", shown(token), flags=re.DOTALL)
    found = []
    for index in range(0, len(parts), 3):
        found.append(parts[index])
        if index + 2 < len(parts):
            one, rest = parts[index + 1], parts[index + 2]
            found.append(f"{one}×{1 + len(rest) // len(one)}")
    return "".join(found)


def _visible(character: str, before: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    code = ord(character)
    if 0xDC80 <= code < 0xDD00:  # a byte that is no text
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
    found = unicode.binary("defaultignorablecodepoint")
    assert found is not None
    return found


def _escape(code: int) -> str:
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
