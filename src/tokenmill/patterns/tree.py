"""The nodes of a parsed pattern.

Six kinds are enough. An anchor is a look-around for a single character (`$` is "no character
follows"), a word boundary a choice of two pairs of them, and letter case is resolved into the sets.
Capturing makes no difference to where a match lies, so every group is a plain group.
"""

from dataclasses import dataclass
from typing import Literal

from tokenmill.errors import PatternError
from tokenmill.patterns.unicode import CodePoints

Mode = Literal["greedy", "lazy", "possessive"]


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    members: CodePoints


@dataclass(frozen=True, slots=True)
class Sequence:
    """The items one after the other; nothing, where there are none."""

    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Choice:
    """The first of the items that lets the rest match; earlier ones are preferred."""

    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Repeat:
    """The item `count_min` to `count_max` times; None is without bound."""

    item: "Node"
    count_min: int
    count_max: int | None
    mode: Mode
    position: int


@dataclass(frozen=True, slots=True)
class Look:
    """Whether the item matches here (ends here, where `behind`), without moving."""

    item: "Node"
    behind: bool
    negative: bool
    position: int


@dataclass(frozen=True, slots=True)
class Atomic:
    """The first way in which the item matches, and no other."""

    item: "Node"


Node = Chars | Sequence | Choice | Repeat | Look | Atomic


def pattern_error(what: str, way_out: str, position: int) -> PatternError:
    """The one form of all messages about a pattern."""
    return PatternError(f"pattern, position {position}: {what}; {way_out}")
