"""Rules → a compiled map as SentencePiece writes it: larger than it need be, but plain to see."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

_VALUE = -1


def make_map(rules: Mapping[str, str]) -> bytes:
    """A double array in which each node has a block of 256 units of its own."""
    strings, starts = b"", {}
    for content in sorted(set(rules.values())):
        starts[content] = len(strings)
        strings += content.encode() + b"\0"
    root: dict[int, Any] = {}
    for key, content in rules.items():
        node = root
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[_VALUE] = starts[content]
    units = [0] * 256
    leaves: dict[int, int] = {}  # nodes that are only a value share their blocks
    pending = [(0, root)]
    while pending:
        at, node = pending.pop()
        value = node.get(_VALUE)
        is_leaf = value is not None and len(node) == 1
        if is_leaf and value in leaves:
            base = leaves[value]
        else:
            base = len(units)
            units += [0] * 256
        offset = base ^ at
        assert offset < 1 << 21, "too many rules"
        units[at] = units[at] & 0xFF | (value is not None) << 8 | offset << 10
        if value is not None:
            units[base] = 1 << 31 | value
        if is_leaf:
            leaves[value] = base
        for byte, child in node.items():
            if byte != _VALUE:
                units[base ^ byte] = byte
                pending.append((base ^ byte, child))
    return struct.pack(f"<I{len(units)}I", len(units) * 4, *units) + strings
