"""Numbers → the files of core/unicode/tables, which tables.zig reads."""

import struct
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).with_name("tables")
CODE_POINTS = 0x110000
_FORMATS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i32": "i"}


def write_array(name: str, kind: str, values: Sequence[int]) -> None:
    """Write an array such as "forms.kinds" with items of a type of Zig such as "u16"."""
    path = FOLDER / f"{name}.{kind}.bin"
    path.write_bytes(struct.pack(f"<{len(values)}{_FORMATS[kind]}", *values))
    print(f"{path.name}: {path.stat().st_size:,} bytes")


def write_staged(name: str, kind: str, table: Sequence[int], blocks: str = "") -> None:
    """Write a value per code point as two arrays, with the block size that makes them smallest.

    `blocks` is the name of the array with the numbers of blocks.
    """
    width = struct.calcsize(_FORMATS[kind])
    sizes = {}
    for shift in range(4, 9):
        numbers, values = _two_stages(table, shift)
        if max(numbers) < 256:
            sizes[len(numbers) + len(values) * width, shift] = numbers, values
    numbers, values = sizes[min(sizes)]
    write_array(blocks or f"{name}_blocks", "u8", numbers)
    write_array(name, kind, values)


def _two_stages(table: Sequence[int], shift: int) -> tuple[list[int], list[int]]:
    """Return the block of each run of 2**shift code points, and the values of all blocks."""
    index_of: dict[tuple[int, ...], int] = {}
    numbers = []
    for start in range(0, CODE_POINTS, 1 << shift):
        block = tuple(table[start : start + (1 << shift)])
        numbers.append(index_of.setdefault(block, len(index_of)))
    return numbers, [value for block in index_of for value in block]
