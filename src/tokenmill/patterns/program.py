"""tree → program

A program is what the general engine (core/pretokens/matcher.zig) runs: code points in equivalence
classes, sets of classes, and instructions. All sets of a pattern together cut the code points into
few classes, within which no set tells two apart; a set is then a bit mask over classes, with one
more bit, the edge, for "no character here". A character class with a quantifier is one
instruction. Branches and loops carry a guard, the set of characters with which what follows can
start, so that most of them need no backtracking.

**Invariant**: every cycle of instructions consumes a character, and always in one direction.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

from tokenmill.errors import PatternError
from tokenmill.patterns.characters import NESTING_MAX
from tokenmill.patterns.emptiness import Emptiness
from tokenmill.patterns.guards import Guards
from tokenmill.patterns.instructions import LOOPS, UNBOUNDED, Instruction, Op, serialize
from tokenmill.patterns.parse import parse
from tokenmill.patterns.parse_oniguruma import parse_oniguruma
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
from tokenmill.patterns.unicode import CODE_POINTS, NONE, CodePoints

# Whose reading of a pattern is meant.
Dialect: TypeAlias = Literal["tiktoken", "oniguruma"]

# Real patterns have fewer than 200. Time and memory for one character grow with it: a pattern of
# 900 optional letters took 40 KB a character.
INSTRUCTIONS_MAX = 500
# All counts of loops together: what `a{1000}` may cost at each place where it is tried.
COUNTS_MAX = 2_000
SETS_MAX = 300
RANGES_MAX = 200_000
ENTRIES_MAX = 200
LOOK_BEHIND_MAX = 255

_LOWER_BLOCK = 0x2581  # ▁
_BLANK = CodePoints((0x20, 0x21))
_BLANKS = _BLANK | CodePoints((_LOWER_BLOCK, _LOWER_BLOCK + 1))

_LOOPS = {"greedy": Op.LOOP_GREEDY, "lazy": Op.LOOP_LAZY, "possessive": Op.LOOP_POSSESSIVE}


def compile_pattern(pattern: str, dialect: Dialect = "tiktoken", blank: bool = False) -> bytes:
    """The serialized program of `pattern` as the dialect reads it; raises PatternError.

    With `blank` the pattern is meant for a text with "▁" in place of blanks, and the program for
    the text with the blanks.
    """
    try:
        return _Compiler(blank).compile(parse_as(pattern, dialect))
    except RecursionError:
        raise pattern_error(
            f"groups are nested too deep (the limit is {NESTING_MAX}, less in a deep call stack)",
            "write the pattern flatter",
            0,
        ) from None


def parse_as(pattern: str, dialect: Dialect) -> Node:
    """The tree of `pattern` as the dialect reads it; raises PatternError."""
    return parse(pattern) if dialect == "tiktoken" else parse_oniguruma(pattern)


def _too_large(what: str) -> PatternError:
    return pattern_error(
        f"the pattern needs more than {what}", "use smaller counts, or fewer alternatives", 0
    )


class _Compiler:
    def __init__(self, blank: bool) -> None:
        self._blank = blank
        self._code: list[Instruction] = []
        self._sets: dict[CodePoints, int] = {NONE: 0}
        self._emptiness = Emptiness()
        self._work = 0
        self._counts = 0

    def compile(self, tree: Node) -> bytes:
        entries = self._emit_entries(_merged(tree))
        starts, classes, masks = self._partition()
        class_count = max(classes) + 1
        guards = Guards(self._code, masks, class_count)
        guards.apply()
        guarded = [(entry, guards.set_of(entry)) for entry in entries]
        return serialize(starts, classes, guards.masks, self._code, guarded)

    def _emit_entries(self, tree: Node) -> list[int]:
        """Each alternative of the pattern is an entry; the first character picks among them."""
        items = tree.items if isinstance(tree, Choice) else (tree,)
        if len(items) > ENTRIES_MAX:
            items = (*items[: ENTRIES_MAX - 1], Choice(items[ENTRIES_MAX - 1 :]))
        entries = []
        for item in items:
            entries.append(len(self._code))
            self._emit(item)
            self._add(Op.MATCH)
        return entries

    # Instructions

    def _set(self, members: CodePoints) -> int:
        if self._blank:
            # No text has a ▁, and what it says of that holds for the blank.
            members = members - _BLANKS | (_BLANK if _LOWER_BLOCK in members else NONE)
        index = self._sets.setdefault(members, len(self._sets))
        if index > SETS_MAX:
            raise _too_large(f"{SETS_MAX:,} different sets of characters")
        return index

    def _add(self, op: Op, members: int = 0, a: int = 0, b: int = 0) -> int:
        if len(self._code) == INSTRUCTIONS_MAX:
            raise _too_large(f"{INSTRUCTIONS_MAX:,} instructions")
        if op in LOOPS:
            self._counts += a if b == UNBOUNDED else b
            if self._counts > COUNTS_MAX:
                raise _too_large(f"{COUNTS_MAX:,} repetitions by count in all")
        self._code.append(Instruction(op, members, a, b))
        return len(self._code) - 1

    def _count_work(self) -> None:
        """A repeat of nothing emits nothing, so the walk itself needs a bound."""
        self._work += 1
        if self._work > 10 * INSTRUCTIONS_MAX:
            raise _too_large(f"{INSTRUCTIONS_MAX:,} instructions")

    def _emit(self, node: Node) -> None:
        self._count_work()
        match node:
            case Chars(members):
                self._add(Op.CHAR, self._set(members))
            case Sequence(items):
                for item in items:
                    self._emit(item)
            case Choice(items):
                self._emit_choice(items, self._emit)
            case Repeat():
                self._emit_repeat(node)
            case Look():
                self._emit_look(node)
            case Atomic(Repeat(item=Chars(), mode="greedy") as repeat):
                self._emit_loop(repeat, Op.LOOP_POSSESSIVE)
            case Atomic(item):
                self._emit_sub(Op.ATOMIC, item)

    def _emit_choice(self, items: tuple[Node, ...], emit: Callable[[Node], None]) -> None:
        jumps = []
        for item in items[:-1]:
            split = self._add(Op.SPLIT)
            emit(item)
            jumps.append(self._add(Op.JUMP))
            self._aim(split, split + 1, len(self._code), lazy=False)
        emit(items[-1])
        for jump in jumps:
            self._code[jump].a = len(self._code)

    def _emit_repeat(self, node: Repeat) -> None:
        if node.count_max == 0:
            return
        if isinstance(node.item, Chars):
            self._emit_loop(node, _LOOPS[node.mode])
        elif node.mode == "possessive":
            greedy = Repeat(node.item, node.count_min, node.count_max, "greedy", node.position)
            self._emit_sub(Op.ATOMIC, greedy)
        else:
            self._emit_group_loop(node)

    def _emit_loop(self, node: Repeat, op: Op) -> None:
        assert isinstance(node.item, Chars)
        members = self._set(node.item.members)
        if node.count_min == node.count_max == 1:
            self._add(Op.CHAR, members)
        else:
            most = UNBOUNDED if node.count_max is None else node.count_max
            self._add(op, members, node.count_min, most)

    def _emit_group_loop(self, node: Repeat) -> None:
        item, least, most = node.item, node.count_min, node.count_max
        body = item if most == 1 else self._loop_body(node)
        lazy = node.mode == "lazy"
        if most is None and least == 1 and body is item:
            start = len(self._code)
            self._emit(body)
            split = self._add(Op.SPLIT)
            self._aim(split, start, split + 1, lazy)
            return
        for _ in range(least):
            self._emit(item)
        if most is None:
            split = self._add(Op.SPLIT)
            self._emit(body)
            self._add(Op.JUMP, a=split)
            self._aim(split, split + 1, len(self._code), lazy)
        else:
            self._emit_options(body, most - least, self._emit, lazy)

    def _loop_body(self, node: Repeat) -> Node:
        item = node.item
        if not self._emptiness.nullable(item):
            return item
        if not self._emptiness.empty_last(item):
            raise pattern_error(
                "this quantifier repeats something that prefers to match nothing",
                "the dialects disagree about it; let each repetition match some text",
                node.position,
            )
        return self._emptiness.without_empty(item)

    def _emit_options(
        self, item: Node, count: int, emit: Callable[[Node], None], lazy: bool
    ) -> None:
        """Up to `count` times the item, each time only after the one before."""
        splits = []
        for _ in range(count):
            splits.append(self._add(Op.SPLIT))
            emit(item)
        for split in splits:
            self._aim(split, split + 1, len(self._code), lazy)

    def _aim(self, split: int, body: int, after: int, lazy: bool) -> None:
        code = self._code[split]
        code.a, code.b = (after, body) if lazy else (body, after)

    # Look-arounds

    def _emit_look(self, node: Look) -> None:
        item = node.item
        if isinstance(item, Chars):
            # `b` says whether the edge satisfies it: "not this character" is true at the edge.
            members = self._set(~item.members if node.negative else item.members)
            op = Op.PEEK_BEHIND if node.behind else Op.PEEK_AHEAD
            self._add(op, members, b=int(node.negative))
        elif not node.behind:
            self._emit_sub(Op.LOOK_AHEAD_NOT if node.negative else Op.LOOK_AHEAD, item)
        else:
            self._check_look_behind(node)
            start = self._add(Op.LOOK_BEHIND_NOT if node.negative else Op.LOOK_BEHIND)
            self._emit_behind(item)
            self._end_sub(start)

    def _check_look_behind(self, node: Look) -> None:
        length = self._emptiness.length_max(node.item)
        if length is None or length > LOOK_BEHIND_MAX:
            size = "arbitrarily" if length is None else f"{length:,} characters"
            raise pattern_error(
                f"this look-behind can be {size} long",
                f"bound its quantifiers, so that it is at most {LOOK_BEHIND_MAX} characters",
                node.position,
            )
        fixed = length == self._emptiness.length_min(node.item)
        if _holds(node.item, Atomic) or (not fixed and _holds(node.item, Look)):
            raise pattern_error(
                "this look-behind holds an atomic group, a possessive quantifier or, while its "
                "length varies, a look-around or anchor",
                "the dialects disagree about it; use plain groups and quantifiers",
                node.position,
            )

    def _emit_behind(self, node: Node) -> None:
        """Instructions that match from the end of the node to its start.

        A look-behind asks only whether there is a match, so preference does not matter, and an
        iteration that matches nothing is harmless where counts are bounded.
        """
        self._count_work()
        match node:
            case Chars(members):
                self._add(Op.CHAR_BEHIND, self._set(members))
            case Sequence(items):
                for item in reversed(items):
                    self._emit_behind(item)
            case Choice(items):
                self._emit_choice(items, self._emit_behind)
            case Repeat():
                for _ in range(node.count_min):
                    self._emit_behind(node.item)
                # Without a bound the item has no length here, and once is as good as often.
                most = node.count_min if node.count_max is None else node.count_max
                self._emit_options(node.item, most - node.count_min, self._emit_behind, lazy=False)
            case Look():
                self._emit_look(node)
            case Atomic():
                raise AssertionError("refused by _check_look_behind")

    def _emit_sub(self, op: Op, item: Node) -> None:
        start = self._add(op)
        self._emit(item)
        self._end_sub(start)

    def _end_sub(self, start: int) -> None:
        end = self._add(Op.SUB_END, a=start)
        self._code[start].a = end + 1

    # Classes

    def _partition(self) -> tuple[list[int], list[int], list[int]]:
        """(starts of runs of code points, class of each run, mask of each set over classes)"""
        if sum(len(members.bounds) for members in self._sets) > 2 * RANGES_MAX:
            raise _too_large(f"{RANGES_MAX:,} ranges of characters")
        changes = {0: 0}
        for members, index in self._sets.items():
            for at in members.bounds:
                if at < CODE_POINTS:
                    changes[at] = changes.get(at, 0) ^ (1 << index)
        class_of: dict[int, int] = {}
        starts, classes = [], []
        signature = 0  # bit i: the sets of this run include set i
        for at in sorted(changes):
            signature ^= changes[at]
            found = class_of.setdefault(signature, len(class_of))
            starts.append(at)
            classes.append(found)
        if len(class_of) > SETS_MAX:
            raise _too_large(f"{SETS_MAX:,} classes of characters")
        masks = [0] * len(self._sets)
        for signature, found in class_of.items():
            for index in range(len(masks)):
                masks[index] |= (signature >> index & 1) << found
        return starts, classes, masks


def _merged(node: Node) -> Node:
    """The same tree, with neighbouring characters of a choice as one set."""
    match node:
        case Sequence(items):
            return Sequence(tuple(map(_merged, items)))
        case Choice(items):
            merged: list[Node] = []
            chars: list[CodePoints] = []
            for item in (*map(_merged, items), None):
                if isinstance(item, Chars):
                    chars.append(item.members)
                    continue
                if chars:
                    merged.append(Chars(_union(chars)))
                    chars = []
                if item is not None:
                    merged.append(item)
            return merged[0] if len(merged) == 1 else Choice(tuple(merged))
        case Repeat(item, count_min, count_max, mode, position):
            return Repeat(_merged(item), count_min, count_max, mode, position)
        case Look(item, behind, negative, position):
            return Look(_merged(item), behind, negative, position)
        case Atomic(item):
            return Atomic(_merged(item))
        case Chars():
            return node


def _union(sets: list[CodePoints]) -> CodePoints:
    if len(sets) == 1:
        return sets[0]
    return CodePoints.of((low, high - 1) for members in sets for low, high in members.ranges())


def _holds(node: Node, kind: type[Atomic] | type[Look]) -> bool:
    """Whether the kind occurs in it; what is inside of a look-around is that one's own affair."""
    match node:
        case Sequence(items) | Choice(items):
            return any(_holds(item, kind) for item in items)
        case Repeat():
            return (kind is Atomic and node.mode == "possessive") or _holds(node.item, kind)
        case _:
            return isinstance(node, kind)
