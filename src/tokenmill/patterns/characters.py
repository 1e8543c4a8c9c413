"""Escapes and sets of a pattern → sets of code points.

The meaning of each escape and set operation was tested with tiktoken 0.14 (fancy-regex 0.19) and
regex 2025.9.18. A construct with two meanings raises an error that names both.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from tokenmill.patterns import unicode
from tokenmill.patterns.tree import pattern_error
from tokenmill.patterns.unicode import CodePoints

NESTING_MAX = 32
RANGES_MAX = 200_000


@dataclass(frozen=True, slots=True)
class Flags:
    ignore_case: bool = False
    dot_all: bool = False
    multi_line: bool = False
    verbose: bool = False


_CONTROL = {"r": 13, "n": 10, "t": 9, "f": 12, "v": 11, "a": 7, "e": 27}

# The other POSIX classes are ASCII in tiktoken and Unicode in `regex`.
_POSIX = {
    "ascii": CodePoints((0, 0x80)),
    "digit": CodePoints((0x30, 0x3A)),
    "xdigit": CodePoints((0x30, 0x3A, 0x41, 0x47, 0x61, 0x67)),
}

_ESCAPE_REASONS = {
    "K": "it would move the start of a match",
    "G": "it depends on the match before",
    "X": "grapheme clusters are not supported",
    "h": "it is a hex digit in tiktoken and whitespace in regex; write [0-9A-Fa-f] or [ \\t]",
    "H": "its meaning differs between dialects; write the set out",
    "N": "it is [^\\n] in tiktoken and a named character in regex; write [^\\n] or \\x{…}",
    "O": "write (?s:.)",
    "k": "back-references are not supported",
    "g": "back-references and calls are not supported",
    "Q": "quoting is not supported; escape each character",
    "E": "quoting is not supported; escape each character",
    "c": "control escapes are not supported; write \\xHH",
    "L": "named lists are not supported; write the alternatives out",
    "<": "it is a word start in tiktoken and a '<' in regex; write < or \\b(?=\\w)",
    ">": "it is a word end in tiktoken and a '>' in regex; write > or \\b(?<=\\w)",
}


class Characters:
    """The reader of escapes and sets: `_at` is the position and `_flags` are in effect there."""

    operators: ClassVar[tuple[str, ...]] = ("&&", "--", "~~", "||")

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._flags = Flags()
        self._depth = 0
        self._ranges = 0

    def fail(self, what: str, way_out: str, position: int) -> NoReturn:
        raise pattern_error(what, way_out, position)

    def _peek(self, count: int = 1) -> str:
        return self._text[self._at : self._at + count]

    def _take(self, literal: str) -> bool:
        if self._text.startswith(literal, self._at):
            self._at += len(literal)
            return True
        return False

    def _literal(self, code_point: int, position: int) -> CodePoints:
        members = CodePoints((self._scalar(code_point, position), code_point + 1))
        return self._fold(members, position)

    def _scalar(self, code_point: int, position: int) -> int:
        if code_point > 0x10FFFF or 0xD800 <= code_point <= 0xDFFF:
            self.fail(
                f"U+{code_point:04X} is not a character",
                "remove it: surrogates and code points above U+10FFFF never occur in text",
                position,
            )
        return code_point

    def _fold(self, members: CodePoints, position: int) -> CodePoints:
        if not self._flags.ignore_case:
            return members
        self._spend(min(1_000, sum(high - low for low, high in members.ranges())), position)
        return members.folded()

    def _spend(self, ranges: int, position: int) -> None:
        """Count the ranges computed so far, and raise an error above the limit."""
        self._ranges += ranges
        if self._ranges > RANGES_MAX:
            self.fail(
                f"the sets up to here need more than {RANGES_MAX:,} ranges",
                "use fewer classes, or smaller sets under (?i)",
                position,
            )

    def _set_escape(self, in_set: bool) -> CodePoints | int:
        """Return the set or character of an escape with one meaning inside and outside a set."""
        start = self._at
        char = self._text[start + 1 : start + 2]
        self._at += 2
        if not char:
            self.fail("the pattern ends in a backslash", "write \\\\ for the character", start)
        if char in "dDsSwW":
            members = unicode.digit() if char in "dD" else unicode.space()
            if char in "wW":
                members = self._word(in_set)
            self._spend(len(members.bounds) // 2, start)
            return members if char.islower() else ~members
        if char in "pP":
            return self._property(char == "P", start)
        if char in _CONTROL:
            return _CONTROL[char]
        if char in "xuU":
            return self._hex(char, start)
        if char == "0":
            if self._peek().isdecimal():
                self.fail("octal escapes are not supported", "write \\xHH", start)
            return 0
        if char in _ESCAPE_REASONS or (char.isascii() and char.isalnum()):
            reason = _ESCAPE_REASONS.get(char, "write the character without the backslash")
            self.fail(f"the escape \\{char} is not supported", reason, start)
        return ord(char)

    def _word(self, in_set: bool) -> CodePoints:
        """Return the members of \\w."""
        return unicode.word()

    def _hex(self, kind: str, start: int) -> int:
        width = {"x": 2, "u": 4, "U": 8}[kind]
        digits = re.compile(rf"\{{([0-9A-Fa-f]{{1,8}})\}}|([0-9A-Fa-f]{{{width}}})")
        match = digits.match(self._text, self._at)
        if match is None:
            self.fail(
                f"the escape \\{kind} is incomplete",
                f"write {width} hex digits, or \\{kind}{{…}}",
                start,
            )
        self._at = match.end()
        return self._scalar(int(match[1] or match[2], 16), start)

    def _property(self, negative: bool, start: int) -> CodePoints:
        match = re.compile(r"\{(\^?)([^{}]*)\}|([A-Za-z])").match(self._text, self._at)
        if match is None:
            self.fail("a property without a name", "write \\p{L}, for example", start)
        self._at = match.end()
        written = self._text[start : min(self._at, start + 60)]
        name = match[3] or match[2]
        pair = re.split("[=:]", name, maxsplit=1)
        members = unicode.named(name) if len(pair) == 1 else unicode.valued(pair[0], pair[1])
        if members is None and unicode.loose(name).startswith("is"):
            members = unicode.named(unicode.loose(name)[2:])
        if members is None:
            self.fail(
                f"the property {written} is unknown",
                "known are general categories, scripts (also sc= and scx=) and binary properties "
                f"of Unicode {unicode.VERSION}; write the range of a block, and LC for L&",
                start,
            )
        if self._flags.ignore_case and members.folded() != members:
            self.fail(
                f"the property {written} under (?i)",
                f"the dialects disagree about it; write (?-i:{written})",
                start,
            )
        self._spend(len(members.bounds) // 2, start)
        return ~members if negative != bool(match[1]) else members

    # Sets

    def _set(self) -> CodePoints:
        start = self._at
        self._at += 1
        if self._depth == NESTING_MAX:
            self.fail(f"sets are nested more than {NESTING_MAX} deep", "write them flatter", start)
        self._depth += 1
        negative = self._take("^")
        members = self._operand(start, first=True)
        operator = ""
        while not self._take("]"):
            position = self._at
            sign = self._peek(2)
            self._at += 2
            if operator not in ("", sign):
                self.fail(
                    f"the operators {operator} and {sign} in one set",
                    "the dialects differ in which binds tighter; add brackets",
                    position,
                )
            operator = sign
            operand = self._operand(start, first=False)
            members = {
                "&&": members.__and__,
                "--": members.__sub__,
                "~~": members.__xor__,
            }[sign](operand)
        self._depth -= 1
        return ~members if negative else members

    def _operand(self, start: int, first: bool) -> CodePoints:
        """Return the items before the next operator or the closing bracket."""
        begin = self._at
        ranges: list[tuple[int, int]] = []
        if first and self._take("]"):
            ranges.append((93, 93))
        if (ranges or not first) and self._peek() == "-":
            self.fail("a '-' after ']' or an operator", "write \\- for the character", begin)
        while self._peek() != "]":
            if not self._peek():
                self.fail("this set is not closed", "close it with ']', or write \\[", start)
            if self._peek(2) in self.operators:
                break
            ranges += [(low, high - 1) for low, high in self._item().ranges()]
        if self._at == begin:
            self.fail("a set operator without an operand", "escape its characters", begin)
        if self._peek(2) == "||" and "||" in self.operators:
            self.fail(
                "'||' in a set",
                "it is a union in regex and a character in tiktoken; write | once, or remove it",
                self._at,
            )
        # Classes and nested sets are closed under folding already.
        self._spend(len(ranges), begin)
        return self._fold(CodePoints.of(ranges), begin)

    def _item(self) -> CodePoints:
        """Return one member of a set: a nested set, a class, a range or a character."""
        position = self._at
        low = (self._posix() or self._set()) if self._peek() == "[" else self._endpoint()
        if isinstance(low, CodePoints):
            if self._peek() == "-" and self._peek(2) not in ("-]", "--"):
                self.fail("a '-' after a set or class", "write \\- for the character", self._at)
            return low
        # A hyphen at the edge of a set, or after a range, is a character in both dialects.
        if self._peek() != "-" or self._peek(2) in ("-]", "--"):
            return CodePoints((low, low + 1))
        self._at += 1
        if self._peek() == "[":
            self.fail("a '-' before a nested set", "write \\- for the character, or --", position)
        high = self._endpoint()
        if isinstance(high, CodePoints):
            self.fail("a range that ends in a class", "write \\- for the character", position)
        if high < low:
            written = self._text[position : self._at]
            self.fail(f"the range {written} is reversed", "swap its ends", position)
        members = CodePoints((low, high + 1))
        if self._peek() == "-" and self._peek(2) not in ("-]", "--"):
            self._at += 1
            return members | CodePoints((0x2D, 0x2E))
        return members

    def _endpoint(self) -> CodePoints | int:
        position = self._at
        char = self._peek()
        if char == "\\":
            following = self._text[position + 1 : position + 2]
            if following == "b":
                self._at += 2
                return 8
            if following in ("<", ">"):
                self._at += 2
                return ord(following)
            if following in ("A", "z", "Z", "B", "R") or (
                following.isdecimal() and following != "0"
            ):
                self.fail(f"the escape \\{following} in a set", "it has no meaning there", position)
            return self._set_escape(in_set=True)
        if not char:
            self.fail("this set is not closed", "close it with ']'", position)
        self._at += 1
        return self._scalar(ord(char), position)

    def _posix(self) -> CodePoints | None:
        match = re.compile(r"\[:(\^?)(\w+):\]").match(self._text, self._at)
        if match is None:
            return None
        members = self._posix_class(match[2])
        if members is None or (self._flags.ignore_case and members.folded() != members):
            self.fail(
                f"the POSIX class {match[0]}" + (" under (?i)" if members else ""),
                "it is ASCII in tiktoken and Unicode in regex; write the characters, or \\p{…}",
                self._at,
            )
        self._at = match.end()
        return ~members if match[1] else members

    def _posix_class(self, name: str) -> CodePoints | None:
        return _POSIX.get(name)
