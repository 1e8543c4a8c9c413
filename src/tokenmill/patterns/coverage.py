"""pattern → whether its matches cover any text.

Then nothing lies between them, and it makes no difference what becomes of that. May say no where
the answer is yes.
"""

from tokenmill.patterns.emptiness import Emptiness
from tokenmill.patterns.program import Dialect, parse_as
from tokenmill.patterns.tree import Atomic, Chars, Choice, Node, Repeat, Sequence
from tokenmill.patterns.unicode import ALL, NONE, CodePoints


def covers_all(pattern: str, dialect: Dialect) -> bool:
    """Whether every character is part of a match, whatever the text; raises PatternError."""
    tree = parse_as(pattern, dialect)
    return not Emptiness().nullable(tree) and _firsts(tree) == ALL


def _firsts(node: Node) -> CodePoints:
    """Characters with which it has a match that is not empty, whatever stands beside them."""
    match node:
        case Chars(members):
            return members
        case Choice(items):
            found = NONE
            for item in items:
                found = found | _firsts(item)
            return found
        case Sequence(items):
            return _firsts_of(items)
        case Repeat():
            can_be_one = node.count_min <= 1 and node.count_max != 0
            return _firsts(node.item) if can_be_one else NONE
        case Atomic(item):
            return _firsts(item)
        case _:
            return NONE


def _firsts_of(items: tuple[Node, ...]) -> CodePoints:
    """Those of a sequence: of an item before and behind which all others can be left out."""
    found, taken = NONE, NONE
    for index, item in enumerate(items):
        if all(map(_is_optional, items[index + 1 :])):
            found = found | (_firsts(item) - taken)
        if not _is_optional(item):
            break
        if isinstance(item, Repeat) and item.mode == "possessive":
            # What it takes it does not give back, so nothing it may start with is sure.
            taken = taken | (item.item.members if isinstance(item.item, Chars) else ALL)
    return found


def _is_optional(node: Node) -> bool:
    return isinstance(node, Repeat) and node.count_min == 0
