"""SentencePiece's compiled map of characters → the same map with texts that it leaves alone.

The map is a double array (darts-clone's) from UTF-8 to places in a list of texts that end in NUL;
of the rules that match, the longest is applied. A unit of the array has its label in the lowest
byte, then whether a value hangs below it (bit 8), and the distance to its children by exclusive or.
SentencePiece looks for user-defined symbols before it looks into the map, so each of them is a rule
that maps a text to itself, and that no longer rule can overtake.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

BYTES_MAX = 16 << 20
_BLOCK = 256
_LEAF = 1 << 31  # of a unit that holds a value; also of one that is not used
_HAS_LEAF = 1 << 8
_DISTANCE_MAX = 1 << 21
_LABELS = np.arange(1, _BLOCK, dtype=np.uint32)

_Units: TypeAlias = NDArray[np.uint32]


def split(data: bytes) -> tuple[_Units, bytes]:
    """The array and the texts of a map. `ValueError` says what is wrong with it."""
    if len(data) > BYTES_MAX:
        raise ValueError(f"it has {len(data):,} bytes, and {BYTES_MAX:,} are the most")
    size = struct.unpack_from("<I", data)[0] if len(data) >= 4 else 0
    if size < 4 * _BLOCK or size % (4 * _BLOCK) or size >= len(data) - 4:
        raise ValueError(f"it says that its array has {size:,} bytes, of {len(data):,}")
    if data[-1] != 0:
        raise ValueError("its last text does not end")
    return np.frombuffer(data, "<u4", size // 4, 4), data[4 + size :]


def keep(data: bytes, texts: Iterable[str]) -> bytes:
    """The map with a rule for each of `texts` that leaves it as it is.

    Only the nodes on the way to these texts are written anew, behind the array; the others stay.
    """
    units, replacements = split(data)
    found = bytearray(replacements)
    wanted: _Node = {}
    for text in texts:
        node = wanted
        for byte in text.encode():
            node = node.setdefault(byte, {})  # type: ignore[assignment]
        node[-1] = len(found)
        found += text.encode() + b"\0"
    array = _Array(units)
    array.enter(wanted)
    written = array.done().tobytes()
    return struct.pack("<I", len(written)) + written + bytes(found)


# Bytes and what follows them; under -1 the place of the text that ends here.
_Node: TypeAlias = "dict[int, _Node | int]"


class _Array:
    def __init__(self, units: _Units) -> None:
        self._old = units
        self._new = units.tolist()
        # Places of a block that nodes with one child share, and the bases of all such nodes.
        self._free: list[int] = []
        self._bases: set[int] = set()

    def enter(self, wanted: _Node) -> None:
        """Writes the nodes of `wanted` and the old ones beside them, the root first."""
        waiting: list[tuple[_Node, int, int | None]] = [(wanted, 0, 0)]
        while waiting:
            node, place, old = waiting.pop()
            # What is longer than a text that is kept is never reached.
            children = {} if old is None or -1 in node else self._children(old)
            leaf = node.get(-1)
            if leaf is None and old is not None and self._unit(old) & _HAS_LEAF:
                leaf = self._unit(self._base(old)) & ~_LEAF
            labels = (children.keys() | node.keys()) - {-1} | ({0} if leaf is not None else set())
            base = self._room(labels)
            unit = self._new[place] & 0xFF | _distance(place ^ base)
            if isinstance(leaf, int):
                unit |= _HAS_LEAF
                self._new[base] = leaf | _LEAF
            self._new[place] = unit
            for label, from_ in children.items():
                if label not in node:
                    self._new[base ^ label] = self._moved(from_, base ^ label)
            for label, next_ in node.items():
                if isinstance(next_, dict):
                    self._new[base ^ label] = label
                    waiting.append((next_, base ^ label, children.get(label)))

    def done(self) -> _Units:
        return np.array(self._new, "<u4")

    def _unit(self, place: int) -> int:
        if place >= len(self._old):
            raise ValueError(f"unit {place:,} is not there")
        return int(self._old[place])

    def _base(self, place: int) -> int:
        return place ^ _distance_of(self._unit(place))

    def _children(self, place: int) -> dict[int, int]:
        """Labels and places of the old nodes below an old one."""
        places = _LABELS ^ np.uint32(self._base(place))
        inside = places < len(self._old)
        places, labels = places[inside], _LABELS[inside]
        there = self._old[places] & np.uint32(_LEAF | 0xFF) == labels
        return dict(zip(labels[there].tolist(), places[there].tolist(), strict=True))

    def _moved(self, place: int, to: int) -> int:
        """An old unit as it is written elsewhere: its children stay."""
        return self._unit(place) & (_HAS_LEAF | 0xFF) | _distance(to ^ self._base(place))

    def _room(self, labels: set[int]) -> int:
        """A base that no other node has, whose places for all labels are free.

        A unit knows its label and not its parent: with one base, two nodes would share children.
        """
        if len(labels) != 1:
            return self._block()
        label = next(iter(labels))
        place = next((place for place in self._free if place ^ label not in self._bases), None)
        if place is None:
            place = self._block()
            self._free = list(range(place, place + _BLOCK))
        self._free.remove(place)
        self._bases.add(place ^ label)
        return place ^ label

    def _block(self) -> int:
        start = len(self._new)
        if start + _BLOCK > _DISTANCE_MAX:
            raise ValueError("it has no room for the user-defined symbols")
        self._new += [_LEAF] * _BLOCK
        return start


def _distance(distance: int) -> int:
    if distance >= _DISTANCE_MAX:  # there is a form for those, which no map needs
        raise ValueError(f"a unit is {distance:,} units away from its children")
    return distance << 10


def _distance_of(unit: int) -> int:
    return unit >> 10 << ((unit & 1 << 9) >> 6)
