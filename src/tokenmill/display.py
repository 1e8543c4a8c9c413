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
_ESCAPED = {character: character.encode("unicode_escape").decode() for character in "\n\r\t\\"}
_ESCAPED |= {_SPACE: r"\u00b7", _CIRCLE: r"\u25cc"}
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
    return "".join(map(_visible_character, text, ["", *text]))


def shorten(text: str, most: int) -> str:
    """Shorten a text to at most `most` characters. The middle becomes an ellipsis."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    return text[: most - 1 - tail] + "…" + text[len(text) - tail :]


def fold_runs(token: bytes | str, run_min: int = 8) -> str:
    """Return a token as `visible` does, with runs of one character as ·×128."""
    run = re.compile(rf"(\\.[0-9a-f]*|[^\\])\1{{{run_min - 1},}}", re.DOTALL)
    return run.sub(lambda match: f"{match[1]}×{len(match[0]) // len(match[1])}", visible(token))


def _visible_character(character: str, before: str) -> str:
    if character == " ":
        return _SPACE
    if character in _ESCAPED:
        return _ESCAPED[character]
    code = ord(character)
    if 0xDC80 <= code < 0xDD00:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    changes_form = character in _SELECTORS and before != ""
    if not character.isprintable() or (code in _ignorable() and not changes_form):
        escaped = character.encode("unicode_escape").decode()
        # \x80 would be a byte that is not UTF-8.
        return f"\\u{code:04x}" if 0x80 <= code < 0x100 else escaped
    if not before and unicodedata.category(character).startswith("M"):
        return _CIRCLE + character
    return character


@cache
def _ignorable() -> unicode.CodePoints:
    from tokenmill.patterns import unicode  # 30 ms that errors and help do not need

    return unicode.known("defaultignorablecodepoint")
