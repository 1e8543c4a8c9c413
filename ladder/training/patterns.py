"""A pattern → the same pattern for Python's `re`, which has neither \\p{L} nor the newest Unicode.

The parser of `tokenmill.patterns` reads the pattern. It is written again with sets of plain
characters: the members that occur in the text, which are few. The result splits this text as the
pattern does. It is not valid for another text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ladder.errors import LadderError
from tokenmill.patterns import unicode
from tokenmill.patterns.parse import Atomic, Chars, Choice, Look, Node, Repeat, Sequence, parse
from tokenmill.patterns.schemes import name_of
from tokenmill.patterns.unicode import CodePoints

_SIGNS = {(0, None): "*", (1, None): "+", (0, 1): "?"}
_MODES = {"greedy": "", "lazy": "?", "possessive": "+"}


@dataclass(frozen=True, slots=True)
class Pattern:
    """The pre-tokenizer of a lesson: it splits the text into words."""

    source: str  # as tokenmill reads it
    compiled: re.Pattern[str]  # finds the same words in the text
    kinds: dict[str, str]  # the class of each character of the text, for GPT-2's pattern only


def pattern_for(source: str, text: str) -> Pattern:
    """Return a pattern prepared for a text."""
    alphabet = sorted(set(text))
    written = _Writer("".join(alphabet)).write(parse(source))
    try:
        compiled = re.compile(written)
    except re.error as error:
        raise LadderError(
            f"pattern {source!r} is not supported by Python's re, which the ladder uses: "
            f"{error.msg}; pass another pattern"
        ) from error
    is_gpt2 = name_of(source) == "r50k"
    return Pattern(source, compiled, {each: _kind_of(each) for each in alphabet if is_gpt2})


def _kind_of(character: str) -> str:
    """Return the class of a character in GPT-2's pattern: letter, number, space or sign."""
    names = {
        "letter": unicode.named("L"),
        "number": unicode.named("N"),
        "space": unicode.known("space"),
    }
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
