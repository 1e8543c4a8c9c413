"""pattern → tree

Reads a regular expression as Python's `regex` module and tiktoken (Rust's fancy-regex) read it.
Where the two agree, or where only one knows a construct, that is its meaning; `$`, `\\z`, `\\Z` and
letter case follow tiktoken. A construct on which they disagree is a PatternError, as is everything
that the engine cannot run: a pattern is never guessed. tests/test_patterns.py keeps the list of
what was tried.

**Invariant**: a tree is at most a few times `NESTING_MAX` deep, so that recursion over it is safe.
"""

import re
from dataclasses import replace
from typing import ClassVar

from tokenmill.patterns.characters import NESTING_MAX, Characters
from tokenmill.patterns.tree import Atomic, Chars, Choice, Look, Mode, Node, Repeat, Sequence
from tokenmill.patterns.unicode import ALL, CodePoints

PATTERN_CHARS_MAX = 20_000
REPEAT_MAX = 1_000

_NEWLINE = CodePoints((10, 11))
_NOT_NEWLINE = ~_NEWLINE
_LINE_ENDS = CodePoints((10, 14, 0x85, 0x86, 0x2028, 0x202A))


def parse(pattern: str) -> Node:
    """The tree of `pattern`; a PatternError names the construct, its position and the way out."""
    return Parser(pattern).whole()


class Edge(Choice):
    """A word boundary: a choice that takes no quantifier."""


class Parser(Characters):
    """Reads one pattern; a dialect of its own overrides what differs."""

    flag_names: ClassVar = {"i": "ignore_case", "s": "dot_all", "m": "multi_line", "x": "verbose"}
    name = re.compile(r"P?<[^\W\d]\w*>|'[^\W\d]\w*'")
    flags_misplaced = "inside of a group"
    flags = re.compile(r"([ismxu]*)(?:-([ismx]+))?([:)])")
    # How many newlines may follow \Z.
    last_newlines_max: int | None = None
    groups = (
        "known are (…) (?:…) (?P<name>…) (?<name>…) (?>…) (?=…) (?!…) (?<=…) (?<!…) "
        "and the flags i s m x u, as in (?i:…); back-references, calls, conditionals and "
        "branch resets cannot run here"
    )

    def whole(self) -> Node:
        """The tree of the pattern."""
        if len(self._text) > PATTERN_CHARS_MAX:
            self.fail(
                f"the pattern has {len(self._text):,} characters",
                f"at most {PATTERN_CHARS_MAX:,} are allowed",
                PATTERN_CHARS_MAX,
            )
        node = self._choice()
        if self._at < len(self._text):
            self.fail("this ')' closes no group", "write \\) for the character", self._at)
        return node

    def _skip(self) -> None:
        """Comments, and in verbose mode white space: nothing, wherever they stand."""
        while True:
            if self._text.startswith("(?#", self._at):
                self._skip_comment()
            elif self._flags.verbose and self._peek() in tuple(" \t\n\r\f\v"):
                self._at += 1
            elif self._flags.verbose and self._peek() == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end + 1
            elif self._flags.verbose and self._peek().isspace():
                self.fail(
                    "white space beyond ASCII under (?x)",
                    "the dialects disagree about it; remove or escape it",
                    self._at,
                )
            else:
                return

    def _skip_comment(self) -> None:
        end = self._text.find(")", self._at)
        if end < 0:
            self.fail("this comment has no end", "close it with ')'", self._at)
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
        """The next item without its quantifier; None for flags that hold from here on."""
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
            return Chars(ALL if self._flags.dot_all else _NOT_NEWLINE)
        if char == "^":
            return self._start_of_line(start)
        if char == "$":
            after = _NOT_NEWLINE if self._flags.multi_line else ALL
            return Look(Chars(after), behind=False, negative=True, position=start)
        if char in "*+?" or (char == "{" and self._quantifier_at(start)):
            self.fail(
                f"the quantifier {char!r} has nothing to repeat",
                f"write \\{char} for the character",
                start,
            )
        if char == "{" and self._flags.verbose:
            self.fail("a '{' that starts no quantifier under (?x)", "write \\{", start)
        return Chars(self._literal(ord(char), start))

    def _start_of_line(self, start: int) -> Node:
        before = _NOT_NEWLINE if self._flags.multi_line else ALL
        return Look(Chars(before), behind=True, negative=True, position=start)

    def _group(self) -> Node | None:
        start = self._at
        outer = self._flags
        kind = self._group_kind()
        if kind == "flags":
            return None
        if self._depth == NESTING_MAX:
            self.fail(
                f"groups are nested more than {NESTING_MAX} deep",
                "write the pattern flatter",
                start,
            )
        self._depth += 1
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
        """Reads what opens a group: 'plain', 'atomic', 'flags', or one of = ! <= <! for a look."""
        start = self._at
        self._at += 1
        if self._peek() == "*":
            self.fail("backtracking verbs are not supported", "write \\* for the character", start)
        if not self._take("?"):
            return "plain"
        for opening, kind in ((":", "plain"), (">", "atomic"), ("=", "="), ("!", "!")):
            if self._take(opening):
                return kind
        for opening in ("<=", "<!"):
            if self._take(opening):
                return opening
        name = self.name.match(self._text, self._at)
        if name:
            self._at = name.end()
            return "plain"
        return self._group_flags(start)

    def _group_flags(self, start: int) -> str:
        flags = self.flags.match(self._text, self._at)
        if flags is None or not (flags[1] or flags[2]):
            self.fail(
                f"the group {self._text[start : start + 4]!r}… is not supported",
                self.groups,
                start,
            )
        on, off = flags[1], flags[2] or ""
        if set(on) & set(off):
            self.fail(f"the flags {flags[0]!r} are set and cleared", "keep one of the two", start)
        bare = flags[3] == ")"
        if bare and not self._may_set_flags(start):
            self.fail(
                f"the flags {self._text[start : flags.end()]} {self.flags_misplaced}",
                f"the dialects disagree on where they end; write (?{flags[0][:-1]}:…)",
                start,
            )
        self._at = flags.end()
        changes = {self.flag_names[flag]: True for flag in on if flag != "u"}
        changes |= {self.flag_names[flag]: False for flag in off}
        self._flags = replace(self._flags, **changes)
        return "flags" if bare else "plain"

    def _may_set_flags(self, start: int) -> bool:
        """Whether flags without a group can stand at `start`."""
        return self._depth == 0

    # Quantifiers

    def _quantifier_at(self, position: int) -> re.Match[str] | None:
        return re.compile(r"\{(?=[0-9,])([0-9]*)(?:(,)([0-9]*))?\}").match(self._text, position)

    def _quantified(self, node: Node, start: int) -> Node:
        position = self._at
        bounds = self._bounds()
        if bounds is None:
            return node
        if isinstance(node, Look | Edge):
            self.fail(
                f"the quantifier follows {self._text[start:position]!r}, which matches no text",
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
        if self._peek() in ("*", "+", "?") or self._quantifier_at(self._at):
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
        match = self._quantifier_at(position)
        if match is None:
            return None
        self._at = match.end()
        for count in (match[1], match[3] or ""):
            if len(count) > 9 or int(count or 0) > REPEAT_MAX:
                self.fail(
                    f"the quantifier {match[0][:24]} counts further than {REPEAT_MAX:,}",
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
        """A backslash outside of a set."""
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
        if char == "A":
            return Look(Chars(ALL), behind=True, negative=True, position=start)
        end = Look(Chars(ALL), behind=False, negative=True, position=start)
        if char == "z":
            return end
        if char == "Z":
            newlines = Repeat(Chars(_NEWLINE), 0, self.last_newlines_max, "possessive", start)
            rest = Sequence((newlines, end))
            return Look(rest, behind=False, negative=False, position=start)
        if self._peek() == "{":
            self.fail("\\b{…} is not supported", "write \\b, or a look-around", start)
        word = Chars(self._word(in_set=False))

        def side(behind: bool, negative: bool) -> Look:
            return Look(word, behind, negative, start)

        inside = char == "B"
        return Edge(
            (
                Sequence((side(True, False), side(False, not inside))),
                Sequence((side(True, True), side(False, inside))),
            )
        )
