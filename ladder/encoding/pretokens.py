"""Text → pretokens, shared by the steps in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tokenmill import reference
from tokenmill.errors import import_package

Encode: TypeAlias = Callable[[str], list[int]]


def cutter(pattern: str) -> Callable[[str], list[bytes]]:
    """Return a function from a text to its pretokens, for a pattern without groups."""
    regex = import_package("regex", "the ladder of encoding")
    find = regex.compile(pattern, regex.V1).findall

    def cut(text: str) -> list[bytes]:
        # Replaces lone surrogates by U+FFFD.
        valid = reference.to_bytes(text).decode()
        return [pretoken.encode() for pretoken in find(valid) if pretoken]

    return cut
