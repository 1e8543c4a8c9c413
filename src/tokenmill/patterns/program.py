"""tree → program for the general engine (core/pattern/matcher.zig)

A program consists of character classes, sets of classes and instructions. Two code points are in
one class if every set of the pattern contains both or neither. A set is a bit mask over classes.
One more bit, the edge, means "no character here". A character class with a quantifier is one
instruction. Branches and loops have a guard, the set of characters that can follow, so most of
them need no backtracking.

**Invariant**: every cycle of instructions consumes a character, always in the same direction.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby

from tokenmill.errors import PatternError
from tokenmill.patterns.analysis import Emptiness
from tokenmill.patterns.parse import (
    NESTING_MAX,
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
from tokenmill.patterns.unicode import CODE_POINTS, NONE, CodePoints

# Real patterns have fewer than 200. Time and memory per character grow with the number: a pattern
# of 900 optional letters took 40 KB per character.
INSTRUCTIONS_MAX = 500
# The sum of all loop counts. It bounds the cost of `a{1000}` at each position of a text.
COUNTS_MAX = 2_000
SETS_MAX = 300
RANGES_MAX = 200_000
ENTRIES_MAX = 200
LOOK_BEHIND_MAX = 255

_LOWER_BLOCK = 0x2581  # ▁
_SPACE = CodePoints((0x20, 0x21))
_SPACES = _SPACE | CodePoints((_LOWER_BLOCK, _LOWER_BLOCK + 1))
MAGIC = b"tmP1"
UNBOUNDED = 0xFFFFFFFF


# The operation of an instruction. core/pattern/program.zig has the same numbers.
Op = IntEnum(
    "Op",
    "MATCH CHAR CHAR_BEHIND LOOP_GREEDY LOOP_LAZY LOOP_POSSESSIVE SPLIT JUMP PEEK_AHEAD PEEK_BEHIND"
    " LOOK_AHEAD LOOK_AHEAD_NOT LOOK_BEHIND LOOK_BEHIND_NOT ATOMIC SUB_END",
    start=0,
)
LOOPS = (Op.LOOP_GREEDY, Op.LOOP_LAZY, Op.LOOP_POSSESSIVE)
PEEKS = (Op.PEEK_AHEAD, Op.PEEK_BEHIND)
LOOKS = (Op.LOOK_AHEAD, Op.LOOK_AHEAD_NOT, Op.LOOK_BEHIND, Op.LOOK_BEHIND_NOT)


@dataclass(slots=True)
class Instruction:
    """One step of the engine.

    `members` is a set. `a` and `b` are the targets of a split or the minimum and maximum of a
    loop. `a` of a look or atomic group is its continuation, and `a` of a SUB_END is the start of
    its group. `guard_a` and `guard_b` are the sets that may follow at `a` and `b` or after a loop.
    """

    op: Op
    members: int = 0
    a: int = 0
    b: int = 0
    guard_a: int = 0
    guard_b: int = 0


_LOOPS = {"greedy": Op.LOOP_GREEDY, "lazy": Op.LOOP_LAZY, "possessive": Op.LOOP_POSSESSIVE}


def compile_pattern(
    pattern: str, dialect: Dialect = "tiktoken", escaped_spaces: bool = False
) -> bytes:
    """Return the serialized program of `pattern`.

    Args:
        pattern: The regular expression.
        dialect: The dialect of the pattern.
        escaped_spaces: The pattern is written for a text with "▁" in place of spaces. The program
            reads the text with spaces.

    Raises:
        PatternError: The pattern is not valid or not supported.
    """
    try:
        return _Compiler(escaped_spaces).compile(parse(pattern, dialect))
    except RecursionError:
        raise error(
            f"groups are nested too deep (the limit is {NESTING_MAX}, less in a deep call stack)",
            "write the pattern flatter",
            0,
        ) from None


def _too_large(what: str) -> PatternError:
    return error(
        f"the pattern needs more than {what}", "use smaller counts, or fewer alternatives", 0
    )


class _Compiler:
    def __init__(self, escaped_spaces: bool) -> None:
        self._escaped_spaces = escaped_spaces
        self._code: list[Instruction] = []
        self._sets: dict[CodePoints, int] = {NONE: 0}
        self._emptiness = Emptiness()
        self._work = 0
        self._counts = 0

    def compile(self, tree: Node) -> bytes:
        entries = self._emit_entries(_merge_chars(tree))
        starts, classes, masks = self._partition()
        class_count = max(classes) + 1
        guards = Guards(self._code, masks, class_count)
        guards.apply()
        guarded = [(entry, guards.set_of(entry)) for entry in entries]
        return serialize(starts, classes, guards.masks, self._code, guarded)

    def _emit_entries(self, tree: Node) -> list[int]:
        """Emit each alternative of the pattern as an entry, to be chosen by first character."""
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
        if self._escaped_spaces:
            # The space takes the place of ▁, which does not occur in the text.
            members = members - _SPACES | (_SPACE if _LOWER_BLOCK in members else NONE)
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
        """Bound the traversal itself, because a repeat of an empty item emits no instruction."""
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
            self._emit_sub(Op.ATOMIC, replace(node, mode="greedy"))
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
            raise error(
                "this quantifier repeats an item that prefers the empty match",
                "the dialects disagree about it; let each repetition match some text",
                node.position,
            )
        return self._emptiness.without_empty(item)

    def _emit_options(
        self, item: Node, count: int, emit: Callable[[Node], None], lazy: bool
    ) -> None:
        """Emit the item up to `count` times."""
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
            # `b` is 1 if the edge satisfies the look: "not this character" is true at the edge.
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
            raise error(
                f"this look-behind can be {size} long",
                f"bound its quantifiers, so that it is at most {LOOK_BEHIND_MAX} characters",
                node.position,
            )
        fixed = length == self._emptiness.lengths(node.item)[0]
        if _contains(node.item, Atomic) or (not fixed and _contains(node.item, Look)):
            raise error(
                "this look-behind contains an atomic group, a possessive quantifier or, with a "
                "variable length, a look-around or anchor",
                "the dialects disagree about it; use plain groups and quantifiers",
                node.position,
            )

    def _emit_behind(self, node: Node) -> None:
        """Emit instructions that match from the end of the node to its start.

        A look-behind only tests for a match, so the order of preference does not matter. An empty
        iteration is harmless because counts are bounded.
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
                # An unbounded item matches only the empty text here, so one repetition is enough.
                most = node.count_min if node.count_max is None else node.count_max
                self._emit_options(node.item, most - node.count_min, self._emit_behind, lazy=False)
            case Look():
                self._emit_look(node)
            case Atomic():
                raise AssertionError("rejected by _check_look_behind")

    def _emit_sub(self, op: Op, item: Node) -> None:
        start = self._add(op)
        self._emit(item)
        self._end_sub(start)

    def _end_sub(self, start: int) -> None:
        end = self._add(Op.SUB_END, a=start)
        self._code[start].a = end + 1

    # Classes

    def _partition(self) -> tuple[list[int], list[int], list[int]]:
        """Return the starts of runs of code points, the class of each run, the mask of each set."""
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


def _merge_chars(node: Node) -> Node:
    """Return the same tree, with adjacent characters of a choice merged to one set."""
    match node:
        case Sequence(items):
            return Sequence(tuple(map(_merge_chars, items)))
        case Choice(items):
            merged: list[Node] = []
            for kind, group in groupby(map(_merge_chars, items), type):
                nodes = list(group)
                sets = [node.members for node in nodes if isinstance(node, Chars)]
                merged += [Chars(CodePoints.union(sets))] if kind is Chars else nodes
            return merged[0] if len(merged) == 1 else Choice(tuple(merged))
        case Repeat() | Look() | Atomic():
            return replace(node, item=_merge_chars(node.item))
        case Chars():
            return node


def _contains(node: Node, kind: type[Atomic] | type[Look]) -> bool:
    """Return whether the kind occurs in the node, outside of nested look-arounds."""
    match node:
        case Sequence(items) | Choice(items):
            return any(_contains(item, kind) for item in items)
        case Repeat():
            return (kind is Atomic and node.mode == "possessive") or _contains(node.item, kind)
        case _:
            return isinstance(node, kind)


class Guards:
    """The guards of one program. `masks` grows by the sets that guards need."""

    def __init__(self, code: list[Instruction], masks: list[int], class_count: int) -> None:
        self._code = code
        self.masks = masks
        self._edge = 1 << class_count
        self._all = (2 << class_count) - 1
        self._index = {mask: index for index, mask in enumerate(masks)}
        self._firsts: list[int | None] = [None] * len(code)

    def apply(self) -> None:
        """Set the guards, and remove backtracking that cannot lead to a match."""
        for code in self._code:
            if code.op in PEEKS and code.b:
                code.members = self._intern(self.masks[code.members] | self._edge)
        safe = self._find_safe()
        for pc, code in enumerate(self._code):
            if code.op == Op.SPLIT:
                code.guard_a, code.guard_b = self.set_of(code.a), self.set_of(code.b)
            elif code.op in (Op.LOOP_GREEDY, Op.LOOP_LAZY):
                code.guard_a = self.set_of(pc + 1)
                # Giving a character back is useless if the continuation cannot start with it, or
                # cannot fail.
                overlap = self.masks[code.guard_a] & self.masks[code.members]
                if code.op == Op.LOOP_GREEDY and (not overlap or safe[pc + 1]):
                    code.op = Op.LOOP_POSSESSIVE

    def set_of(self, pc: int) -> int:
        """Return the set of characters (or the edge) that can continue a match at `pc`."""
        stack = [pc]
        while stack:
            at = stack[-1]
            missing = [target for target in self._depends(at) if self._firsts[target] is None]
            if missing:
                stack += missing
            else:
                self._firsts[at] = self._combine(at)
                stack.pop()
        first = self._firsts[pc]
        assert first is not None
        return self._intern(first)

    def _intern(self, mask: int) -> int:
        if mask not in self._index:
            self._index[mask] = len(self.masks)
            self.masks.append(mask)
        return self._index[mask]

    def _find_safe(self) -> list[bool]:
        """Return for each instruction whether a match from it cannot fail.

        The answer is conservative: False is always correct.
        """
        safe = [False] * len(self._code)
        for pc in reversed(range(len(self._code))):
            code = self._code[pc]
            if code.op in (Op.MATCH, Op.SUB_END):
                safe[pc] = True
            elif code.op == Op.SPLIT:
                safe[pc] = safe[code.a] or safe[code.b]
            elif code.op == Op.JUMP:
                safe[pc] = safe[code.a]
            elif code.op in LOOPS and code.a == 0:
                safe[pc] = safe[pc + 1]
        return safe

    def _depends(self, pc: int) -> tuple[int, ...]:
        """Return the instructions that a match may reach from `pc` without a character."""
        code = self._code[pc]
        if code.op == Op.SPLIT:
            return (code.a, code.b)
        if code.op == Op.JUMP or code.op in LOOKS:
            return (code.a,)
        if code.op in LOOPS:
            return () if code.a else (pc + 1,)
        if code.op in PEEKS or code.op == Op.ATOMIC:
            return (pc + 1,)
        return ()

    def _combine(self, pc: int) -> int:
        code = self._code[pc]
        rest = 0
        for target in self._depends(pc):
            rest |= self._firsts[target] or 0
        if code.op == Op.CHAR or code.op in LOOPS:
            return self.masks[code.members] | rest
        if code.op == Op.PEEK_AHEAD:
            return self.masks[code.members] & rest
        # At the end of a match or group any character may follow: the choice of an atomic group
        # must not depend on the text after it.
        return rest if self._depends(pc) else self._all


def serialize(
    starts: list[int],
    classes: list[int],
    masks: list[int],
    code: list[Instruction],
    entries: list[tuple[int, int]],
) -> bytes:
    """Return the little-endian bytes that core/pattern/program.zig reads."""
    class_count = max(classes) + 1
    words = class_count // 64 + 1  # one bit more than classes: the edge
    counts = (class_count, len(starts), len(masks), len(code), len(entries))
    parts = [MAGIC, struct.pack("<5I", *counts)]
    parts += [struct.pack("<2I", *run) for run in zip(starts, classes, strict=True)]
    parts += [mask.to_bytes(8 * words, "little") for mask in masks]
    for line in code:
        a = 0 if line.op == Op.SUB_END else line.a
        b = 0 if line.op in PEEKS else line.b
        parts.append(
            struct.pack("<2H2I2H", line.op, line.members, a, b, line.guard_a, line.guard_b)
        )
    parts += [struct.pack("<2I", *entry) for entry in entries]
    return b"".join(parts)
