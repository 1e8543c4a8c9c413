"""tree → the same tree without its empty match

A loop whose body can match nothing is where engines differ. Where the empty match comes last among
the ways in which the body can match, all of them do the same as a loop over the body without its
empty match; `without_empty` is that body, and `empty_last` says whether it may be asked for.

Nodes are shared between the trees that come out, and a tree can be exponentially larger than what
it is made of; so the answers about a node are kept, and nothing here walks a result as a tree.
"""

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
from tokenmill.patterns.unicode import NONE

OPTIONAL_ITEMS_MAX = 100

FAIL = Chars(NONE)
EMPTY = Sequence(())


class Emptiness:
    """Answers about the nodes of one pattern."""

    def __init__(self) -> None:
        # By identity, as comparing nodes walks them; the node is kept so that its id stays its own.
        self._nullable: dict[int, tuple[Node, bool]] = {}
        self._length_max: dict[int, tuple[Node, int | None]] = {}
        self._only_empty: dict[int, tuple[Node, Node]] = {}
        self._without_empty: dict[int, tuple[Node, Node]] = {}

    def nullable(self, node: Node) -> bool:
        """Whether it can match the empty text."""
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
        """The characters that it can match at most; None is without bound."""
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
        """The characters that it matches at least; asked of the nodes of the pattern alone."""
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
        """Whether the empty match, if it is one, comes after all others, whatever the text.

        May say no where the answer is yes.
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
        """The ways in which it matches the empty text; wants `empty_last`."""
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
        """Without a second try, the empty match is the result only where there is no other."""
        some = self.without_empty(item)
        return Sequence((Look(some, behind=False, negative=True, position=0), empty))

    def without_empty(self, node: Node) -> Node:
        """The ways in which it matches some text, in their order; wants `empty_last`."""
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
        """The first item that matches some text, all those before it matching nothing."""
        if len(items) > OPTIONAL_ITEMS_MAX:
            raise pattern_error(
                f"a loop over more than {OPTIONAL_ITEMS_MAX} items that all can match nothing",
                "let one of them match some text",
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
            # Whether an iteration can match nothing may depend on where it stands.
            rest = None if most is None else most - least
            more = Repeat(node.item, 0, rest, "greedy", node.position)
            return self._some_of((*[node.item] * min(least, OPTIONAL_ITEMS_MAX), more))
        item = self.without_empty(node.item)
        more = Repeat(item, 0, None if most is None else most - 1, "greedy", node.position)
        return Sequence((item, more))
