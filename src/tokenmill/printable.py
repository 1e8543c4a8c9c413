"""Texts of others → texts that a terminal shows: names of files, ids, reasons with pieces of data.

A name may hold anything but a slash. Printed as it is, an escape sequence in it would change the
window or hide other lines, and a newline would make two lines of one.
"""

from __future__ import annotations

import json
from typing import Any


def printable(text: str) -> str:
    r"""The text with what cannot be seen spelled as in Python: \n, \x1b, \u202e."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def json_line(value: Any) -> str:
    """JSON in one line, whose characters can be seen; half of a surrogate pair is spelled."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)
