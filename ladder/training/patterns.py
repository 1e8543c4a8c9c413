"""pattern → the same for Python's own `re`, which has neither \\p{L} nor the newest Unicode.

A pattern is read by the parser of `tokenmill.patterns` and written out again with its sets as plain
characters: those members that the text has, which are few. So it cuts this text as the pattern
does, and no other.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from tokenmill.errors import LadderError
from tokenmill.patterns import unicode
from tokenmill.patterns.parse import parse
from tokenmill.patterns.schemes import name_of
from tokenmill.patterns.tree import Atomic, Chars, Choice, Look, Node, Repeat, Sequence
from tokenmill.patterns.unicode import CodePoints

_SIGNS = {(0, None): "*", (1, None): "+", (0, 1): "?"}
_MODES = {"greedy": "", "lazy": "?", "possessive": "+"}


@lru_cache(maxsize=1)
def compile_for(pattern: str, text: str) -> re.Pattern[str]:
    """A pattern that finds in the text what tokenmill's own engine finds there."""
    written = _Writer("".join(sorted(set(text)))).write(parse(pattern))
    try:
        return re.compile(written)
    except re.error as error:
        raise LadderError(
            f"Python's re, with which the ladder cuts text, cannot do this pattern: {error.msg}; "
            "give another one"
        ) from error


def is_gpt2(pattern: str) -> bool:
    """Return whether the pattern is GPT-2's, in any spelling."""
    return name_of(pattern) == "r50k"


@cache
def kind_of(character: str) -> str:
    """Return the class of a character in GPT-2's pattern: letter, number, space or sign."""
    names = {"letter": unicode.named("L"), "number": unicode.named("N"), "space": unicode.space()}
    return next((kind for kind, of in names.items() if of and ord(character) in of), "sign")


class _Writer:
    def __init__(self, alphabet: str) -> None:
        self._alphabet = alphabet  # sorted
        self._known: dict[CodePoints, str] = {}

    def write(self, node: Node) -> str:
        match node:
            case Chars(members):
                if members not in self._known:
                    self._known[members] = self._set(members)
                return self._known[members]
            case Sequence(items):
                return "".join(f"(?:{self.write(item)})" for item in items)
            case Choice(items):
                return "|".join(map(self.write, items))
            case Atomic(item):
                return f"(?>{self.write(item)})"
            case Look(item, behind, negative, _):
                return f"(?{'<' * behind}{'!' if negative else '='}{self.write(item)})"
            case Repeat(item, low, high, mode, _):
                sign = _SIGNS.get((low, high), f"{{{low},{'' if high is None else high}}}")
                return f"(?:{self.write(item)}){sign}{_MODES[mode]}"

    def _set(self, members: CodePoints) -> str:
        inside = "".join(filter(lambda character: ord(character) in members, self._alphabet))
        return f"[{re.escape(inside)}]" if inside else "(?!)"  # matches never
