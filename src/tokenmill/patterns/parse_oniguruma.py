"""pattern → tree, as Oniguruma reads it with which Hugging Face's tokenizers run patterns.

Its dialect is Ruby's: `^` and `$` are ends of lines, `(?m)` lets the dot match a newline, `{1,3}+`
repeats a repetition. What each construct means was tried with tokenizers 0.23.3 (Oniguruma 6.9,
Unicode 16.0); tests/test_oniguruma.py has the list and asks the library again. Everything else is
what `parse.py` says, or a PatternError.

Under (?i) one character can equal several ("ß" and "ss"), which the engine's sets cannot say:
where that could happen the pattern is refused.
"""

import re
from functools import cache
from typing import ClassVar

from tokenmill.patterns import unicode
from tokenmill.patterns.parse import Edge, Parser
from tokenmill.patterns.tree import Chars, Look, Mode, Node, Repeat, Sequence
from tokenmill.patterns.unicode import ALL, NONE, CodePoints

_NOT_NEWLINE = ~CodePoints((10, 11))
_HEX_DIGITS = CodePoints((0x30, 0x3A, 0x41, 0x47, 0x61, 0x67))
# Outside of sets Oniguruma's \w is a table below U+0100, which has these numbers ("²", "¼") too.
_LATIN_1_WORDS = CodePoints((0xB2, 0xB4, 0xB9, 0xBA, 0xBC, 0xBF))

# All characters whose case folding has several. Folding is stable, so there will be no others
# among the characters of today; the sequences are those that Python knows.
_EXPANDING_RANGES = (
    "DF 130 149 1F0 390 3B0 587 1E96-1E9A 1E9E 1F50 1F52 1F54 1F56 1F80-1FAF 1FB2-1FB4 "
    "1FB6-1FB7 1FBC 1FC2-1FC4 1FC6-1FC7 1FCC 1FD2-1FD3 1FD6-1FD7 1FE2-1FE4 1FE6-1FE7 "
    "1FF2-1FF4 1FF6-1FF7 1FFC FB00-FB06 FB13-FB17"
)
_EXPANDING = CodePoints.of(
    (int(low, 16), int(high or low, 16))
    for low, _, high in (each.partition("-") for each in _EXPANDING_RANGES.split())
)
_EXPANDED_MAX = 3

_ESCAPE_REASONS = {
    "y": "text segments are not supported",
    "Y": "text segments are not supported",
    "U": "write \\x{…}",
    "M": "meta characters are not supported",
    "C": "control escapes are not supported; write \\x{…}",
    "o": "octal escapes are not supported; write \\x{…}",
}


def parse_oniguruma(pattern: str) -> Node:
    """The tree of `pattern`; a PatternError names the construct, its position and the way out."""
    return _Parser(pattern).whole()


@cache
def _expansions() -> frozenset[str]:
    """What the expanding characters fold to."""
    return frozenset(
        chr(code_point).casefold()
        for low, high in _EXPANDING.ranges()
        for code_point in range(low, high)
    )


class _Parser(Parser):
    flag_names: ClassVar = {"i": "ignore_case", "m": "dot_all", "x": "verbose"}
    operators = ("&&",)
    name = re.compile(r"<[^\W\d]\w*>|'[^\W\d]\w*'")
    flags = re.compile(r"([imx]*)(?:-([imx]+))?([:)])")
    flags_misplaced = "behind the start of the pattern"
    last_newlines_max = 1
    groups = (
        "known are (…) (?:…) (?<name>…) (?>…) (?=…) (?!…) (?<=…) (?<!…) and the flags i m x, as "
        "in (?i:…); back-references, calls, conditionals, absent groups and callouts cannot run "
        "here"
    )

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        # The last literals under (?i), folded, that may stand side by side.
        self._run = ""
        self._literals = 0
        self._set_depth = 0

    def _skip_comment(self) -> None:
        start = self._at
        super()._skip_comment()
        if "\\" in self._text[start : self._at]:
            self.fail("a backslash in a comment", "leave it out", start)

    def _may_set_flags(self, start: int) -> bool:
        return start == 0

    def _start_of_line(self, start: int) -> Node:
        """No line starts at the end of a text, even behind a newline."""
        after_newline = Look(Chars(_NOT_NEWLINE), behind=True, negative=True, position=start)
        goes_on = Look(Chars(ALL), behind=False, negative=False, position=start)
        return Edge((Sequence((after_newline, goes_on)),))

    def _sequence(self) -> Node:
        if self._text[self._at - 1 : self._at] == "|":
            self._run = ""
        return super()._sequence()

    def _atom(self) -> Node | None:
        if self._peek() == "$":
            self._at += 1
            after = Chars(_NOT_NEWLINE)
            return Look(after, behind=False, negative=True, position=self._at - 1)
        literals = self._literals
        node = super()._atom()
        if isinstance(node, Chars) and self._literals == literals:
            self._run = ""
        return node

    # Quantifiers

    def _quantifier_at(self, position: int) -> re.Match[str] | None:
        match = super()._quantifier_at(position)
        return None if match and match[0] == "{,}" else match

    def _repeated(self, node: Node, bounds: tuple[int, int | None], position: int) -> Node:
        """Signs can be lazy or possessive, {n,m} only lazy, {n} neither; any can follow any."""
        if self._run:
            self._literal(ord(self._run[-1]), position)
        sign = self._text[self._at - 1]
        mode: Mode = "greedy"
        is_fixed = sign == "}" and "," not in self._text[position : self._at]
        if not is_fixed and self._take("?"):
            mode = "lazy"
        elif sign != "}" and self._take("+"):
            mode = "possessive"
        repeat = Repeat(node, *bounds, mode, position)
        self._skip()
        again = self._at
        following = self._bounds()
        return repeat if following is None else self._repeated(repeat, following, again)

    # Characters

    def _escape(self) -> Node:
        char = self._text[self._at + 1 : self._at + 2]
        if char in ("N", "O"):
            self._at += 2
            return Chars(_NOT_NEWLINE if char == "N" else ALL)
        return super()._escape()

    def _word(self, in_set: bool) -> CodePoints:
        joiners = unicode.binary("joincontrol")
        assert joiners is not None
        words = unicode.word() - joiners
        return words if in_set else words | _LATIN_1_WORDS

    def _set_escape(self, in_set: bool) -> CodePoints | int:
        start = self._at
        char = self._text[start + 1 : start + 2]
        if char in ("h", "H"):
            self._at += 2
            return _HEX_DIGITS if char == "h" else ~_HEX_DIGITS
        if char in ("<", ">"):
            self._at += 2
            return ord(char)
        if char in _ESCAPE_REASONS:
            self.fail(f"the escape \\{char} is not supported", _ESCAPE_REASONS[char], start)
        return super()._set_escape(in_set)

    def _hex(self, kind: str, start: int) -> int:
        forms = {"x": r"\{([0-9A-Fa-f]{1,8})\}|([0-7][0-9A-Fa-f])", "u": r"()([0-9A-Fa-f]{4})"}
        match = re.compile(forms[kind]).match(self._text, self._at)
        if match is None:
            self.fail(
                f"the escape \\{kind} is incomplete, or a byte beyond ASCII",
                "write \\x{…} with the number of the character",
                start,
            )
        self._at = match.end()
        return self._scalar(int(match[1] or match[2], 16), start)

    def _property(self, negative: bool, start: int) -> CodePoints:
        match = re.compile(r"\{\^?([^{}]*)\}").match(self._text, self._at)
        if match is None:
            self.fail("a property without braces", "write \\p{L}, for example", start)
        name = unicode.loose(match[1])
        known = unicode.named(name) is not None and name not in ("bidim", "bidimirrored")
        if not known:
            self.fail(
                f"the property {self._text[start : match.end()][:60]} is unknown",
                "known are general categories, scripts and binary properties of Unicode "
                f"{unicode.VERSION} by their names alone",
                start,
            )
        return super()._property(negative, start)

    def _posix_class(self, name: str) -> CodePoints | None:
        names = {
            "alpha": "alphabetic",
            "ascii": "ascii",
            "cntrl": "cc",
            "digit": "nd",
            "lower": "lowercase",
            "space": "whitespace",
            "upper": "uppercase",
        }
        if name in names:
            return unicode.named(names[name])
        if name == "xdigit":
            return _HEX_DIGITS
        if name == "word":
            return self._word(in_set=True)
        parts = {"alnum": ("alphabetic", "nd"), "punct": ("p", "s")}.get(name, ())
        found = [unicode.named(part) for part in parts]
        return found[0] | found[1] if len(found) == 2 and found[0] and found[1] else None

    # Letter case

    def _literal(self, code_point: int, position: int) -> CodePoints:
        members = super()._literal(code_point, position)
        self._literals += 1
        if not self._flags.ignore_case:
            self._run = ""
            return members
        if members & _EXPANDING != NONE:
            self._refuse_expansion(chr(code_point), position)
        self._run = (self._run + chr(code_point).casefold())[-_EXPANDED_MAX:]
        for length in range(2, _EXPANDED_MAX + 1):
            if self._run[-length:] in _expansions():
                self._refuse_expansion(self._run[-length:], position)
        return members

    def _refuse_expansion(self, text: str, position: int) -> None:
        self.fail(
            f"{text!r} under (?i)",
            "it equals another number of characters there, as ß does ss; write the forms out",
            position,
        )

    def _set(self) -> CodePoints:
        start = self._at
        ignores_case = self._flags.ignore_case
        if ignores_case and self._set_depth:
            self.fail("a set in a set under (?i)", "write one set, or (?-i:…)", start)
        self._set_depth += 1
        negative = self._peek(2) == "[^"
        members = super()._set()
        self._set_depth -= 1
        if ignores_case and "&&" in self._text[start : self._at]:
            self.fail("'&&' in a set under (?i)", "write the set out, or (?-i:…)", start)
        if ignores_case and not negative and members & _EXPANDING != NONE:
            self._refuse_expansion(self._text[start : self._at][:60], start)
        return members

    def _item(self) -> CodePoints:
        if self._peek(2) == "--":
            self.fail("'--' in a set", "write \\- for the character", self._at)
        return super()._item()
