"""tree → facts about its matches: whether they can be empty, their lengths, their coverage.

Engines differ in loops whose body can match the empty text. If the empty match is the body's last
choice (`empty_last`), every engine behaves like a loop over the body without its empty match
(`without_empty`).

Result trees share nodes, so a result can be exponentially larger than its parts. The answers about
a node are therefore cached, and this module never traverses a result as a tree.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from tokenmill.patterns.parse import (
    Atomic,
    Chars,
    Choice,
    Dialect,
    Look,
    Node,
    Repeat,
    Sequence,
    error,
    parse,
)
from tokenmill.patterns.unicode import ALL, NONE, CodePoints

Answer = TypeVar("Answer")

OPTIONAL_ITEMS_MAX = 100

FAIL = Chars(NONE)
EMPTY = Sequence(())


def _cached(find: Callable[["Emptiness", Node], Answer]) -> Callable[["Emptiness", Node], Answer]:
    """Cache the answers of a method by the identity of the node: comparing nodes traverses them."""

    @functools.wraps(find)
    def answer(self: "Emptiness", node: Node) -> Answer:
        answers = self.answers.setdefault(find.__name__, {})
        if id(node) not in answers:
            answers[id(node)] = node, find(self, node)  # keeping the node keeps its id unique
        found: Answer = answers[id(node)][1]
        return found

    return answer


class Emptiness:
    """Answers about the nodes of one pattern."""

    def __init__(self) -> None:
        self.answers: dict[str, dict[int, tuple[Node, Any]]] = {}

    @_cached
    def lengths(self, node: Node) -> tuple[int, int | None]:
        """Return the minimum and maximum number of characters in a match. None is unbounded."""
        match node:
            case Chars():
                return 1, 1
            case Look():
                return 0, 0
            case Atomic(item):
                return self.lengths(item)
            case Sequence(items) | Choice(items):
                pairs = [self.lengths(item) for item in items]
                is_sequence = isinstance(node, Sequence)
                least = (sum if is_sequence else min)(low for low, _ in pairs)
                if any(high is None for _, high in pairs):
                    return least, None
                return least, (sum if is_sequence else max)(high or 0 for _, high in pairs)
            case Repeat():
                low, high = self.lengths(node.item)
                if high == 0 or node.count_max == 0:
                    return 0, 0
                is_bounded = high is not None and node.count_max is not None
                most = (high or 0) * (node.count_max or 0) if is_bounded else None
                return node.count_min * low, most

    def nullable(self, node: Node) -> bool:
        """Return whether the node can match the empty text."""
        return self.lengths(node)[0] == 0

    def length_max(self, node: Node) -> int | None:
        """Return the maximum number of characters in a match, or None if it is unbounded."""
        return self.lengths(node)[1]

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

    @_cached
    def only_empty(self, node: Node) -> Node:
        """Return the empty matches of the node. Requires `empty_last`."""
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

    @_cached
    def without_empty(self, node: Node) -> Node:
        """Return the matches of the node that are not empty, in order. Requires `empty_last`."""
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
            raise error(
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
            return CodePoints.union(map(_firsts, items))
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
