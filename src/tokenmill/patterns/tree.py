"""The nodes of a parsed pattern.

Six kinds are enough. An anchor is a look-around for one character (`$` means "no character
follows"). A word boundary is a choice of two pairs of look-arounds. Letter case is part of the
sets. Capturing does not change the position of a match, so every group is a plain group.
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
