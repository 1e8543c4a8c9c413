"""Text → pretokens, in the same way for every step in Python: this is not the lesson."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tokenmill import reference

Encode: TypeAlias = Callable[[str], list[int]]


def cutter(pattern: str) -> Callable[[str], list[bytes]]:
    """A function that gives the pretokens of a text, for a pattern without groups."""
    regex = reference._regex()
    find = regex.compile(pattern, regex.V1).findall

    def cut(text: str) -> list[bytes]:
        # There and back, so that half a surrogate pair is U+FFFD, as everywhere.
        valid = reference.to_bytes(text).decode()
        return [pretoken.encode() for pretoken in find(valid) if pretoken]

    return cut
