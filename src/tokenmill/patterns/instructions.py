"""instructions ↔ the bytes that core/pretokens/program.zig reads."""

import struct
from dataclasses import dataclass
from enum import IntEnum, auto

MAGIC = b"tmP1"
UNBOUNDED = 0xFFFFFFFF


class Op(IntEnum):
    """What an instruction does; core/pretokens/program.zig has the same numbers."""

    MATCH = 0
    CHAR = auto()
    CHAR_BEHIND = auto()
    LOOP_GREEDY = auto()
    LOOP_LAZY = auto()
    LOOP_POSSESSIVE = auto()
    SPLIT = auto()
    JUMP = auto()
    PEEK_AHEAD = auto()
    PEEK_BEHIND = auto()
    LOOK_AHEAD = auto()
    LOOK_AHEAD_NOT = auto()
    LOOK_BEHIND = auto()
    LOOK_BEHIND_NOT = auto()
    ATOMIC = auto()
    SUB_END = auto()


LOOPS = (Op.LOOP_GREEDY, Op.LOOP_LAZY, Op.LOOP_POSSESSIVE)
PEEKS = (Op.PEEK_AHEAD, Op.PEEK_BEHIND)
LOOKS = (Op.LOOK_AHEAD, Op.LOOK_AHEAD_NOT, Op.LOOK_BEHIND, Op.LOOK_BEHIND_NOT)


@dataclass(slots=True)
class Instruction:
    """One step of the engine.

    `members` is a set. `a` and `b` are targets of a split, counts of a loop (least, most), the
    continuation of a look or atomic group, or the start of the group that a SUB_END ends.
    `guard_a` and `guard_b` are the sets that may follow at `a` and `b`, or after a loop.
    """

    op: Op
    members: int = 0
    a: int = 0
    b: int = 0
    guard_a: int = 0
    guard_b: int = 0


def serialize(
    starts: list[int],
    classes: list[int],
    masks: list[int],
    code: list[Instruction],
    entries: list[tuple[int, int]],
) -> bytes:
    """Little-endian; core/pretokens/program.zig reads it."""
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
