"""tree → facts about its matches: whether they can be empty, their lengths, their coverage.

Engines differ in loops whose body can match the empty text. If the empty match is the body's last
choice (`empty_last`), every engine behaves like a loop over the body without its empty match
(`without_empty`).

Result trees share nodes, so a result can be exponentially larger than its parts. The answers about
a node are therefore cached, and this module never traverses a result as a tree.
"""

from tokenmill.patterns.parse import Dialect, parse
from tokenmill.patterns.tree import (
    Atomic,
    Chars,
    Choice,
    Look,
    Node,
    Repeat,
    Sequence,
    pattern_error,
)
from tokenmill.patterns.unicode import ALL, NONE, CodePoints

OPTIONAL_ITEMS_MAX = 100

FAIL = Chars(NONE)
EMPTY = Sequence(())


class Emptiness:
    """Answers about the nodes of one pattern."""

    def __init__(self) -> None:
        # Keys are identities because comparing nodes traverses them. Keeping the node keeps its
        # id unique.
        self._nullable: dict[int, tuple[Node, bool]] = {}
        self._length_max: dict[int, tuple[Node, int | None]] = {}
        self._only_empty: dict[int, tuple[Node, Node]] = {}
        self._without_empty: dict[int, tuple[Node, Node]] = {}

    def nullable(self, node: Node) -> bool:
        """Return whether the node can match the empty text."""
        if id(node) not in self._nullable:
            self._nullable[id(node)] = node, self._find_nullable(node)
        return self._nullable[id(node)][1]

    def _find_nullable(self, node: Node) -> bool:
        match node:
            case Chars():
                return False
            case Sequence(items):
                return all(map(self.nullable, items))
            case Choice(items):
                return any(map(self.nullable, items))
            case Repeat():
                return node.count_min == 0 or self.nullable(node.item)
            case Look():
                return True
            case Atomic(item):
                return self.nullable(item)

    def length_max(self, node: Node) -> int | None:
        """Return the maximum number of characters in a match, or None if it is unbounded."""
        if id(node) not in self._length_max:
            self._length_max[id(node)] = node, self._find_length_max(node)
        return self._length_max[id(node)][1]

    def _find_length_max(self, node: Node) -> int | None:
        match node:
            case Chars():
                return 1
            case Sequence(items):
                lengths = [self.length_max(item) for item in items]
                return None if None in lengths else sum(length or 0 for length in lengths)
            case Choice(items):
                lengths = [self.length_max(item) for item in items]
                return None if None in lengths else max(length or 0 for length in lengths)
            case Repeat():
                length = self.length_max(node.item)
                if length == 0 or node.count_max == 0:
                    return 0
                if length is None or node.count_max is None:
                    return None
                return length * node.count_max
            case Look():
                return 0
            case Atomic(item):
                return self.length_max(item)

    def length_min(self, node: Node) -> int:
        """Return the minimum number of characters in a match, for nodes of the parsed pattern."""
        match node:
            case Chars():
                return 1
            case Sequence(items):
                return sum(map(self.length_min, items))
            case Choice(items):
                return min(map(self.length_min, items))
            case Repeat():
                return node.count_min * self.length_min(node.item)
            case Look():
                return 0
            case Atomic(item):
                return self.length_min(item)

    def empty_last(self, node: Node) -> bool:
        """Return whether the empty match, if there is one, comes last on every text.

        The answer is conservative: it can be False for a node whose empty match comes last.
        """
        if not self.nullable(node) or self.length_max(node) == 0:
            return True
        match node:
            case Sequence(items):
                return all(map(self.empty_last, items))
            case Choice(items):
                first = next(index for index, item in enumerate(items) if self.nullable(item))
                rest = items[first + 1 :]
                return self.empty_last(items[first]) and all(
                    self.length_max(item) == 0 for item in rest
                )
            case Repeat():
                return node.mode != "lazy" and self.empty_last(node.item)
            case Atomic(item):
                return self.empty_last(item)
            case _:
                return True

    def only_empty(self, node: Node) -> Node:
        """Return the empty matches of the node. Requires `empty_last`."""
        if id(node) not in self._only_empty:
            self._only_empty[id(node)] = node, self._find_only_empty(node)
        return self._only_empty[id(node)][1]

    def _find_only_empty(self, node: Node) -> Node:
        if not self.nullable(node):
            return FAIL
        if self.length_max(node) == 0:
            return node
        match node:
            case Sequence(items):
                return Sequence(tuple(map(self.only_empty, items)))
            case Choice(items):
                return Choice(tuple(self.only_empty(item) for item in items if self.nullable(item)))
            case Repeat():
                rest = self.only_empty(node.item) if node.count_min else EMPTY
                return self._alone(node.item, rest) if node.mode == "possessive" else rest
            case Atomic(item):
                return self._alone(item, self.only_empty(item))
            case _:
                return node

    def _alone(self, item: Node, empty: Node) -> Node:
        """Return `empty`, guarded: an atomic item is empty only if it has no longer match."""
        some = self.without_empty(item)
        return Sequence((Look(some, behind=False, negative=True, position=0), empty))

    def without_empty(self, node: Node) -> Node:
        """Return the matches of the node that are not empty, in order. Requires `empty_last`."""
        if id(node) not in self._without_empty:
            self._without_empty[id(node)] = node, self._find_without_empty(node)
        return self._without_empty[id(node)][1]

    def _find_without_empty(self, node: Node) -> Node:
        if not self.nullable(node):
            return node
        if self.length_max(node) == 0:
            return FAIL
        match node:
            case Sequence(items):
                return self._some_of(items)
            case Choice(items):
                return Choice(tuple(map(self.without_empty, items)))
            case Repeat():
                some = self._some_times(node)
                return Atomic(some) if node.mode == "possessive" else some
            case Atomic(item):
                return Atomic(self.without_empty(item))
            case _:
                return FAIL

    def _some_of(self, items: tuple[Node, ...]) -> Node:
        """Return a choice over the first item with a match that is not empty."""
        if len(items) > OPTIONAL_ITEMS_MAX:
            raise pattern_error(
                f"a loop over more than {OPTIONAL_ITEMS_MAX} items that can all match empty text",
                "make one of them match at least one character",
                0,
            )
        choices: list[Node] = []
        before: tuple[Node, ...] = ()
        for index, item in enumerate(items):
            choices.append(Sequence((*before, self.without_empty(item), *items[index + 1 :])))
            before = (*before, self.only_empty(item))
        return Choice(tuple(choices))

    def _some_times(self, node: Repeat) -> Node:
        least, most = node.count_min, node.count_max
        if least > 1:
            # Whether an iteration can be empty may depend on its position in the text.
            rest = None if most is None else most - least
            more = Repeat(node.item, 0, rest, "greedy", node.position)
            return self._some_of((*[node.item] * min(least, OPTIONAL_ITEMS_MAX), more))
        item = self.without_empty(node.item)
        more = Repeat(item, 0, None if most is None else most - 1, "greedy", node.position)
        return Sequence((item, more))


def covers_all(pattern: str, dialect: Dialect) -> bool:
    """Return whether every character of every text is part of a match.

    The answer is conservative: it can be False for a pattern that covers all text.

    Raises:
        PatternError: The pattern is not valid or not supported.
    """
    tree = parse(pattern, dialect)
    return not Emptiness().nullable(tree) and _firsts(tree) == ALL


def _firsts(node: Node) -> CodePoints:
    """Return characters that start a match in any context."""
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
    """Return `_firsts` of a sequence: those of an item if all other items are optional."""
    found, taken = NONE, NONE
    for index, item in enumerate(items):
        if all(map(_is_optional, items[index + 1 :])):
            found = found | (_firsts(item) - taken)
        if not _is_optional(item):
            break
        if isinstance(item, Repeat) and item.mode == "possessive":
            # A possessive loop never gives a character back to the items after it.
            taken = taken | (item.item.members if isinstance(item.item, Chars) else ALL)
    return found


def _is_optional(node: Node) -> bool:
    return isinstance(node, Repeat) and node.count_min == 0
