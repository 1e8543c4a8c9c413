"""pattern → tree, in one of two dialects; and the tree → a pattern of Oniguruma.

The dialect "tiktoken" is the common ground of Python's `regex` module and tiktoken (Rust's
fancy-regex). `$`, `\\z`, `\\Z` and letter case follow tiktoken. A construct with different meanings
in the two raises PatternError, and so does a construct that the engine cannot run.
tests/patterns/test_patterns.py lists the tested constructs.

The dialect "oniguruma" is Ruby's, which Hugging Face tokenizers use: `^` and `$` match at lines,
`(?m)` lets the dot match a newline, and `{1,3}+` repeats a repetition. It was tested with
tokenizers 0.23.3 (Oniguruma 6.9, Unicode 16.0); tests/patterns/test_oniguruma.py compares both
again. Under (?i) one character can equal several ("ß" and "ss"). The engine's sets cannot express
that, so such a pattern raises PatternError.

Six kinds of nodes are enough. An anchor is a look-around for one character (`$` means "no character
follows"). A word boundary is a choice of two pairs of look-arounds. Letter case is part of the
sets. Capturing does not change the position of a match, so every group is a plain group.

**Invariant**: a tree is at most a few times `NESTING_MAX` deep, so recursion over it is safe.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal, NoReturn, TypeAlias

from tokenmill.errors import PatternError
from tokenmill.patterns import unicode
from tokenmill.patterns.unicode import ALL, NONE, CodePoints

Dialect: TypeAlias = Literal["tiktoken", "oniguruma"]
Mode = Literal["greedy", "lazy", "possessive"]

PATTERN_CHARS_MAX = 20_000
REPEAT_MAX = 1_000
NESTING_MAX = 32
RANGES_MAX = 200_000

_NEWLINE = CodePoints((10, 11))
_NOT_NEWLINE = ~_NEWLINE
_LINE_ENDS = CodePoints((10, 14, 0x85, 0x86, 0x2028, 0x202A))


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    members: CodePoints


@dataclass(frozen=True, slots=True)
class Sequence:
    """The items in order. A sequence without items matches the empty text."""

    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the items. Earlier items are preferred."""

    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """The item, `count_min` to `count_max` times. None means unbounded."""

    item: "Node"
    count_min: int
    count_max: int | None
    mode: Mode
    position: int


@dataclass(frozen=True, slots=True)
class Look:
    """A test whether a match of the item starts here, or ends here for a look-behind."""

    item: "Node"
    behind: bool
    negative: bool
    position: int


@dataclass(frozen=True, slots=True)
class Atomic:
    """The first match of the item, without alternatives."""

    item: "Node"


Node = Chars | Sequence | Choice | Repeat | Look | Atomic


def error(what: str, way_out: str, position: int) -> PatternError:
    """Return an error in the common form of all messages about a pattern."""
    return PatternError(f"pattern, position {position}: {what}; {way_out}")


def parse(pattern: str, dialect: Dialect = "tiktoken") -> Node:
    """Return the tree of `pattern`.

    Raises:
        PatternError: The pattern is not valid or not supported. The message names the construct,
            its position and a replacement.
    """
    parser = _Parser if dialect == "tiktoken" else _OnigurumaParser
    return parser(pattern).whole()


# Escapes and sets. The meaning of each was tested with tiktoken 0.14 (fancy-regex 0.19) and regex
# 2025.9.18. A construct with two meanings raises an error that names both.


_CONTROL: dict[str, int | CodePoints] = {
    "r": 13, "n": 10, "t": 9, "f": 12, "v": 11, "a": 7, "e": 27,
}  # fmt: skip
_HEX_DIGITS = CodePoints((0x30, 0x3A, 0x41, 0x47, 0x61, 0x67))

# The other POSIX classes are ASCII in tiktoken and Unicode in `regex`.
_POSIX = {
    "ascii": CodePoints((0, 0x80)),
    "digit": CodePoints((0x30, 0x3A)),
    "xdigit": _HEX_DIGITS,
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


# Openings of groups, and their kinds.
_GROUPS = {":": "plain", ">": "atomic"} | {look: look for look in ("=", "!", "<=", "<!")}


class _Edge(Choice):
    """A word boundary: a choice that cannot have a quantifier."""


class _Parser:
    """The parser of the dialect "tiktoken". Other dialects override its methods.

    `_at` is the position, and `_flags` are in effect there.
    """

    operators: ClassVar[tuple[str, ...]] = ("&&", "--", "~~", "||")
    flag_names: ClassVar = {"i": "ignore_case", "s": "dot_all", "m": "multi_line", "x": "verbose"}
    name = re.compile(r"P?<[^\W\d]\w*>|'[^\W\d]\w*'")
    flags = re.compile(r"([ismxu]*)(?:-([ismx]+))?([:)])")
    are_flags_first = False  # whether flags without a group must begin the pattern
    quantifier = re.compile(r"\{(?=[0-9,])([0-9]*)(?:(,)([0-9]*))?\}")
    escapes: ClassVar = _CONTROL
    escape_reasons: ClassVar = _ESCAPE_REASONS
    hex_digits: ClassVar = {
        kind: rf"\{{([0-9A-Fa-f]{{1,8}})\}}|([0-9A-Fa-f]{{{width}}})"
        for kind, width in {"x": 2, "u": 4, "U": 8}.items()
    }
    hex_reason = "is incomplete"
    property_form = r"\{(\^?)([^{}]*)\}|([A-Za-z])", "a property without a name"
    properties = (
        "known are general categories, scripts (also sc= and scx=) and binary properties of "
        f"Unicode {unicode.VERSION}; write the range of a block, and LC for L&"
    )
    # How many newlines may follow \Z.
    last_newlines_max: int | None = None
    groups = (
        "known are (…) (?:…) (?P<name>…) (?<name>…) (?>…) (?=…) (?!…) (?<=…) (?<!…) "
        "and the flags i s m x u, as in (?i:…); back-references, calls, conditionals and "
        "branch resets cannot run here"
    )

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._flags: frozenset[str] = frozenset()
        self._depth = 0
        self._ranges = 0

    def fail(self, what: str, way_out: str, position: int) -> NoReturn:
        raise error(what, way_out, position)

    def _peek(self, count: int = 1) -> str:
        return self._text[self._at : self._at + count]

    def _read(self, regex: str, what: str, way_out: str, start: int) -> re.Match[str]:
        """Read a match of `regex` here, or raise an error."""
        match = re.compile(regex).match(self._text, self._at)
        if match is None:
            self.fail(what, way_out, start)
        self._at = match.end()
        return match

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
        if "ignore_case" not in self._flags:
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
            members = unicode.known("digit" if char in "dD" else "space")
            if char in "wW":
                members = self._word(in_set)
            self._spend(len(members.bounds) // 2, start)
            return members if char.islower() else ~members
        if char in "pP":
            return self._property(char == "P", start)
        if char in self.escapes:
            return self.escapes[char]
        if char in self.hex_digits:
            return self._hex(char, start)
        if char == "0":
            if self._peek().isdecimal():
                self.fail("octal escapes are not supported", "write \\xHH", start)
            return 0
        if char in self.escape_reasons or (char.isascii() and char.isalnum()):
            reason = self.escape_reasons.get(char, "write the character without the backslash")
            self.fail(f"the escape \\{char} is not supported", reason, start)
        return ord(char)

    def _word(self, in_set: bool) -> CodePoints:
        """Return the members of \\w."""
        return unicode.word()

    def _hex(self, kind: str, start: int) -> int:
        what = f"the escape \\{kind} {self.hex_reason}"
        way_out = "write \\x{…} with the number of the character"
        match = self._read(self.hex_digits[kind], what, way_out, start)
        return self._scalar(int(match[1] or match[2], 16), start)

    def _property(self, negative: bool, start: int) -> CodePoints:
        form, what = self.property_form
        match = self._read(form, what, "write \\p{L}, for example", start)
        written = self._text[start : min(self._at, start + 60)]
        members = self._named(match[3] or match[2])
        if members is None:
            self.fail(f"the property {written} is unknown", self.properties, start)
        if "ignore_case" in self._flags and members.folded() != members:
            self.fail(
                f"the property {written} under (?i)",
                f"the dialects disagree about it; write (?-i:{written})",
                start,
            )
        self._spend(len(members.bounds) // 2, start)
        return ~members if negative != bool(match[1]) else members

    def _named(self, name: str) -> CodePoints | None:
        """Return the members of a property, or None if it is unknown."""
        pair = re.split("[=:]", name, maxsplit=1)
        members = unicode.named(name) if len(pair) == 1 else unicode.valued(pair[0], pair[1])
        if members is None and unicode.loose(name).startswith("is"):
            return unicode.named(unicode.loose(name)[2:])
        return members

    def _enter(self, what: str, start: int) -> None:
        if self._depth == NESTING_MAX:
            problem = f"{what} are nested more than {NESTING_MAX} deep"
            self.fail(problem, "write the pattern flatter", start)
        self._depth += 1

    # Sets

    def _set(self) -> CodePoints:
        start = self._at
        self._at += 1
        self._enter("sets", start)
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
            combine = {"&&": members.__and__, "--": members.__sub__, "~~": members.__xor__}[sign]
            members = combine(operand)
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
        if members is None or ("ignore_case" in self._flags and members.folded() != members):
            self.fail(
                f"the POSIX class {match[0]}" + (" under (?i)" if members else ""),
                "it is ASCII in tiktoken and Unicode in regex; write the characters, or \\p{…}",
                self._at,
            )
        self._at = match.end()
        return ~members if match[1] else members

    def _posix_class(self, name: str) -> CodePoints | None:
        return _POSIX.get(name)

    # Groups

    def whole(self) -> Node:
        """Return the tree of the pattern."""
        if len(self._text) > PATTERN_CHARS_MAX:
            self.fail(
                f"the pattern has {len(self._text):,} characters",
                f"at most {PATTERN_CHARS_MAX:,} are allowed",
                PATTERN_CHARS_MAX,
            )
        node = self._choice()
        if self._at < len(self._text):
            self.fail("this ')' does not close a group", "write \\) for the character", self._at)
        return node

    def _skip(self) -> None:
        """Skip comments, and whitespace in verbose mode."""
        while True:
            if self._text.startswith("(?#", self._at):
                self._skip_comment()
            elif "verbose" in self._flags and self._peek() in tuple(" \t\n\r\f\v"):
                self._at += 1
            elif "verbose" in self._flags and self._peek() == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end + 1
            elif "verbose" in self._flags and self._peek().isspace():
                self.fail(
                    "whitespace beyond ASCII under (?x)",
                    "the dialects disagree about it; remove or escape it",
                    self._at,
                )
            else:
                return

    def _skip_comment(self) -> None:
        end = self._text.find(")", self._at)
        if end < 0:
            self.fail("this comment is not closed", "close it with ')'", self._at)
        self._at = end + 1

    def _choice(self) -> Node:
        items = [self._sequence()]
        while self._take("|"):
            items.append(self._sequence())
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while True:
            self._skip()
            if self._peek() in ("", "|", ")"):
                return items[0] if len(items) == 1 else Sequence(tuple(items))
            start = self._at
            node = self._atom()
            if node is None:
                continue
            self._skip()
            items.append(self._quantified(node, start))

    def _atom(self) -> Node | None:
        """Return the next item without its quantifier, or None for flags like (?i)."""
        start = self._at
        char = self._text[start]
        if char == "(":
            return self._group()
        if char == "[":
            return Chars(self._set())
        if char == "\\":
            return self._escape()
        self._at += 1
        if char == ".":
            return Chars(ALL if "dot_all" in self._flags else _NOT_NEWLINE)
        if char in "^$":
            return self._anchor(char, start)
        if char in "*+?" or (char == "{" and self.quantifier.match(self._text, start)):
            self.fail(
                f"the quantifier {char!r} does not follow an item",
                f"write \\{char} for the character",
                start,
            )
        if char == "{" and "verbose" in self._flags:
            self.fail("a '{' that is not a quantifier under (?x)", "write \\{", start)
        return Chars(self._literal(ord(char), start))

    def _anchor(self, char: str, start: int) -> Node:
        members = _NOT_NEWLINE if "multi_line" in self._flags else ALL
        return Look(Chars(members), behind=char == "^", negative=True, position=start)

    def _group(self) -> Node | None:
        start = self._at
        outer = self._flags
        kind = self._group_kind()
        if kind == "flags":
            return None
        self._enter("groups", start)
        node = self._choice()
        self._depth -= 1
        self._flags = outer
        if not self._take(")"):
            self.fail("this group is not closed", "close it with ')'", start)
        if kind == "atomic":
            return Atomic(node)
        if kind == "plain":
            return node
        return Look(node, behind="<" in kind, negative="!" in kind, position=start)

    def _group_kind(self) -> str:
        """Read the opening of a group: 'plain', 'atomic', 'flags', or = ! <= <! for a look."""
        start = self._at
        self._at += 1
        if self._peek() == "*":
            self.fail("backtracking verbs are not supported", "write \\* for the character", start)
        if not self._take("?"):
            return "plain"
        for opening, kind in _GROUPS.items():
            if self._take(opening):
                return kind
        name = self.name.match(self._text, self._at)
        if name:
            self._at = name.end()
            return "plain"
        return self._group_flags(start)

    def _group_flags(self, start: int) -> str:
        flags = self.flags.match(self._text, self._at)
        if flags is None or not (flags[1] or flags[2]):
            self.fail(
                f"the group {self._text[start : start + 4]!r}… is not supported", self.groups, start
            )
        on, off = flags[1], flags[2] or ""
        if set(on) & set(off):
            self.fail(f"the flags {flags[0]!r} are set and cleared", "keep one of the two", start)
        bare = flags[3] == ")"
        if bare and (start if self.are_flags_first else self._depth):
            place = (
                "after the start of the pattern" if self.are_flags_first else "inside of a group"
            )
            self.fail(
                f"the flags {self._text[start : flags.end()]} {place}",
                f"the dialects disagree on where they end; write (?{flags[0][:-1]}:…)",
                start,
            )
        self._at = flags.end()
        names = self.flag_names
        self._flags |= {names[flag] for flag in on if flag != "u"}
        self._flags -= {names[flag] for flag in off}
        return "flags" if bare else "plain"

    # Quantifiers

    def _quantified(self, node: Node, start: int) -> Node:
        position = self._at
        bounds = self._bounds()
        if bounds is None:
            return node
        if isinstance(node, Look | _Edge):
            self.fail(
                f"the quantifier follows {self._text[start:position]!r}, which is always empty",
                "remove the quantifier",
                position,
            )
        return self._repeated(node, bounds, position)

    def _repeated(self, node: Node, bounds: tuple[int, int | None], position: int) -> Node:
        mode: Mode = "greedy"
        if self._take("?"):
            mode = "lazy"
        elif self._take("+"):
            mode = "possessive"
        after = self._at
        self._skip()
        if self._peek() in ("*", "+", "?") or self.quantifier.match(self._text, self._at):
            self.fail(
                "a quantifier follows a quantifier",
                "the dialects disagree about it; put a group between them: (?:…)",
                after,
            )
        return Repeat(node, *bounds, mode, position)

    def _bounds(self) -> tuple[int, int | None] | None:
        position = self._at
        for sign, count_min, count_max in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._take(sign):
                return count_min, count_max
        match = self.quantifier.match(self._text, position)
        if match is None:
            return None
        self._at = match.end()
        for count in (match[1], match[3] or ""):
            if len(count) > 9 or int(count or 0) > REPEAT_MAX:
                self.fail(
                    f"the quantifier {match[0][:24]} exceeds the limit of {REPEAT_MAX:,}",
                    "use a smaller count, or no bound",
                    position,
                )
        low = int(match[1] or 0)
        high = low if match[2] is None else int(match[3]) if match[3] else None
        if high is not None and high < low:
            self.fail(f"the quantifier {match[0]} has its bounds reversed", "swap them", position)
        return low, high

    # Escapes that are more than one character

    def _escape(self) -> Node:
        """Return the node of an escape outside a set."""
        start = self._at
        char = self._text[start + 1 : start + 2]
        look = self._zero_width(char, start)
        if look is not None:
            return look
        if char == "R":
            self._at += 2
            pair = Sequence((Chars(CodePoints((13, 14))), Chars(_NEWLINE)))
            return Atomic(Choice((pair, Chars(_LINE_ENDS))))
        if char.isdecimal() and char != "0":
            self.fail(f"the back-reference \\{char}", "back-references cannot run here", start)
        found = self._set_escape(in_set=False)
        if isinstance(found, CodePoints):
            return Chars(found)
        return Chars(self._literal(found, start))

    def _zero_width(self, char: str, start: int) -> Node | None:
        if char not in ("A", "z", "Z", "b", "B"):
            return None
        self._at += 2
        if char in "AzZ":
            edge = Look(Chars(ALL), behind=char == "A", negative=True, position=start)
            if char != "Z":
                return edge
            newlines = Repeat(Chars(_NEWLINE), 0, self.last_newlines_max, "possessive", start)
            return Look(Sequence((newlines, edge)), behind=False, negative=False, position=start)
        if self._peek() == "{":
            self.fail("\\b{…} is not supported", "write \\b, or a look-around", start)
        word, inside = Chars(self._word(in_set=False)), char == "B"
        # \b has a word character on one side, and \B on both sides or neither.
        return _Edge(
            tuple(
                Sequence((Look(word, True, no, start), Look(word, False, no is inside, start)))
                for no in (False, True)
            )
        )


# Oniguruma

# Outside sets, Oniguruma's \w uses a table below U+0100 that also contains "²", "¼" and others.
_LATIN_1_WORDS = CodePoints((0xB2, 0xB4, 0xB9, 0xBA, 0xBC, 0xBF))

# All characters that fold to several characters. Unicode guarantees that folding is stable, so the
# list is final for assigned characters. Python supplies the sequences.
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

# POSIX classes → Unicode properties.
_ONIGURUMA_POSIX = {
    "alnum": "alphabetic nd", "alpha": "alphabetic", "ascii": "ascii", "cntrl": "cc",
    "digit": "nd", "lower": "lowercase", "punct": "p s", "space": "whitespace",
    "upper": "uppercase", "xdigit": "ahex",
}  # fmt: skip

_ONIGURUMA_ESCAPE_REASONS = _ESCAPE_REASONS | {
    "y": "text segments are not supported",
    "Y": "text segments are not supported",
    "U": "write \\x{…}",
    "M": "meta characters are not supported",
    "C": "control escapes are not supported; write \\x{…}",
    "o": "octal escapes are not supported; write \\x{…}",
}


@cache
def _expansions() -> frozenset[str]:
    """Return the case foldings of the expanding characters."""
    return frozenset(
        chr(code_point).casefold()
        for low, high in _EXPANDING.ranges()
        for code_point in range(low, high)
    )


class _OnigurumaParser(_Parser):
    flag_names: ClassVar = {"i": "ignore_case", "m": "dot_all", "x": "verbose"}
    operators = ("&&",)
    name = re.compile(r"<[^\W\d]\w*>|'[^\W\d]\w*'")
    flags = re.compile(r"([imx]*)(?:-([imx]+))?([:)])")
    are_flags_first = True
    quantifier = re.compile(r"\{(?!,\})(?=[0-9,])([0-9]*)(?:(,)([0-9]*))?\}")
    escapes = _CONTROL | {"h": _HEX_DIGITS, "H": ~_HEX_DIGITS, "<": ord("<"), ">": ord(">")}
    escape_reasons = _ONIGURUMA_ESCAPE_REASONS
    hex_digits: ClassVar = {
        "x": r"\{([0-9A-Fa-f]{1,8})\}|([0-7][0-9A-Fa-f])",
        "u": r"()([0-9A-Fa-f]{4})",
    }
    hex_reason = "is incomplete, or a byte beyond ASCII"
    property_form = r"\{(\^?)([^{}]*)\}()", "a property without braces"
    properties = (
        "known are general categories, scripts and binary properties of Unicode "
        f"{unicode.VERSION} by their names alone"
    )
    last_newlines_max = 1
    groups = (
        "known are (…) (?:…) (?<name>…) (?>…) (?=…) (?!…) (?<=…) (?<!…) and the flags i m x, as "
        "in (?i:…); back-references, calls, conditionals, absent groups and callouts cannot run "
        "here"
    )

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self._flags = frozenset({"multi_line"})  # which no flag of this dialect clears
        # The last adjacent literals under (?i), folded.
        self._run = ""
        self._literals = 0
        self._set_depth = 0

    def _skip_comment(self) -> None:
        start = self._at
        super()._skip_comment()
        if "\\" in self._text[start : self._at]:
            self.fail("a backslash in a comment", "leave it out", start)

    def _anchor(self, char: str, start: int) -> Node:
        anchor = super()._anchor(char, start)
        if char == "$":
            return anchor
        # The end of a text never starts a line.
        before_character = Look(Chars(ALL), behind=False, negative=False, position=start)
        return _Edge((Sequence((anchor, before_character)),))

    def _sequence(self) -> Node:
        if self._text[self._at - 1 : self._at] == "|":
            self._run = ""
        return super()._sequence()

    def _atom(self) -> Node | None:
        literals = self._literals
        node = super()._atom()
        if isinstance(node, Chars) and self._literals == literals:
            self._run = ""
        return node

    # Quantifiers

    def _repeated(self, node: Node, bounds: tuple[int, int | None], position: int) -> Node:
        """Read the mode and further quantifiers: {n,m} is never possessive, {n} never lazy."""
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
        words = unicode.word() - unicode.known("joincontrol")
        return words if in_set else words | _LATIN_1_WORDS

    def _named(self, name: str) -> CodePoints | None:
        is_refused = unicode.loose(name) in ("bidim", "bidimirrored")
        return None if is_refused else unicode.named(name)

    def _posix_class(self, name: str) -> CodePoints | None:
        if name == "word":
            return self._word(in_set=True)
        if name not in _ONIGURUMA_POSIX:
            return None
        return CodePoints.union(map(unicode.known, _ONIGURUMA_POSIX[name].split()))

    # Letter case

    def _literal(self, code_point: int, position: int) -> CodePoints:
        members = super()._literal(code_point, position)
        self._literals += 1
        if "ignore_case" not in self._flags:
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
            "it can equal a different number of characters, as ß and ss; write out both forms",
            position,
        )

    def _set(self) -> CodePoints:
        start = self._at
        ignores_case = "ignore_case" in self._flags
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


# Writing a pattern in Oniguruma's dialect


def to_oniguruma(pattern: str) -> str:
    """Return an equivalent pattern in Oniguruma's dialect, for Hugging Face tokenizers.

    A set that contains a whole general category is written with the category's name, so Oniguruma's
    version of Unicode decides about newer characters.
    """
    return _write(parse(pattern))


def _write(node: Node) -> str:
    match node:
        case Chars(members):
            return _set(members)
        case Sequence(items):
            return "".join(map(_inner, items))
        case Choice(items):
            return "|".join(map(_write, items))
        case Atomic(item):
            return f"(?>{_write(item)})"
        case Look(item, behind, negative, _):
            return f"(?{'<' * behind}{'!' if negative else '='}{_write(item)})"
        case Repeat():
            return _repeat(node)


def _inner(node: Node) -> str:
    """Return a node as one item of a sequence."""
    return f"(?:{_write(node)})" if isinstance(node, Choice) else _write(node)


def _repeat(node: Repeat) -> str:
    item = _write(node.item)
    if not isinstance(node.item, Chars | Atomic):
        item = f"(?:{item})"
    low, high = node.count_min, node.count_max
    signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    count = signs.get((low, high), f"{{{low},{'' if high is None else high}}}")
    if node.mode == "possessive":
        return f"(?>{item}{count})"
    # Equal bounds leave no choice, and {n}? means an optional {n} in Ruby.
    return f"{item}{count}{'?' if node.mode == 'lazy' and low != high else ''}"


@cache
def _set(members: CodePoints) -> str:
    if members == ALL:
        return "(?m:.)"
    if members == NONE:
        return "(?!)"
    inside = _items(members)
    if len(inside) == 1 and "-" not in inside[0]:
        return inside[0]
    outside = _items(~members)
    if len(outside) < len(inside):
        return f"[^{''.join(outside)}]"
    return f"[{''.join(inside)}]"


def _items(members: CodePoints) -> list[str]:
    """Return the categories that the set contains as a whole, then the remaining ranges."""
    items = []
    rest = members
    for major, minors in unicode.MAJOR_CATEGORIES.items():
        whole = [name for name in minors if unicode.known(name) - members == NONE]
        names = [major] if len(whole) == len(minors) else whole
        items += [rf"\p{{{name.capitalize()}}}" for name in names]
        rest = rest - CodePoints.union(map(unicode.known, whole))
    for low, high in rest.ranges():
        items.append(_character(low) + (f"-{_character(high - 1)}" if high - 1 > low else ""))
    return items


def _character(code_point: int) -> str:
    character = chr(code_point)
    if character.isascii() and character.isalnum():
        return character
    return rf"\x{{{code_point:X}}}"
