"""Names of Unicode properties → sets of code points.

The data is Unicode 16.0.0 from the file that core/unicode/generate.py writes. It is read when
first used. A set is an inversion list: the sorted bounds at which membership changes. All four set
operations are therefore one merge, and a complement changes only the first and the last bound.

Names are matched loosely, as in both dialects (UAX #44, LM3: case, spaces, hyphens and underscores
are ignored).
"""

import json
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

VERSION = "16.0.0"
CODE_POINTS = 0x110000


class CodePoints:
    """An immutable set of code points: `bounds` are start, end, start, end, … (ends exclusive)."""

    __slots__ = ("bounds",)

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self.bounds = bounds

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> "CodePoints":
        """Return the union of `ranges` (ends inclusive), which may overlap, in any order."""
        bounds: list[int] = []
        for low, high in sorted(ranges):
            if bounds and low <= bounds[-1]:
                bounds[-1] = max(bounds[-1], high + 1)
            else:
                bounds += [low, high + 1]
        return cls(tuple(bounds))

    @classmethod
    def union(cls, sets: Iterable["CodePoints"]) -> "CodePoints":
        """Return the union of sets."""
        return cls.of((low, high - 1) for members in sets for low, high in members.ranges())

    def ranges(self) -> Iterable[tuple[int, int]]:
        """Return the ranges in ascending order, ends exclusive."""
        return zip(self.bounds[::2], self.bounds[1::2], strict=True)

    def __contains__(self, code_point: int) -> bool:
        return bisect_right(self.bounds, code_point) % 2 == 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CodePoints) and self.bounds == other.bounds

    def __hash__(self) -> int:
        return hash(self.bounds)

    def __invert__(self) -> "CodePoints":
        bounds = self.bounds
        bounds = bounds[1:] if bounds and bounds[0] == 0 else (0, *bounds)
        if bounds and bounds[-1] == CODE_POINTS:
            return CodePoints(bounds[:-1])
        return CodePoints((*bounds, CODE_POINTS))

    def __or__(self, other: "CodePoints") -> "CodePoints":
        return self._merge(other, lambda one, two: one or two)

    def __and__(self, other: "CodePoints") -> "CodePoints":
        return self._merge(other, lambda one, two: one and two)

    def __sub__(self, other: "CodePoints") -> "CodePoints":
        return self._merge(other, lambda one, two: one and not two)

    def __xor__(self, other: "CodePoints") -> "CodePoints":
        return self._merge(other, lambda one, two: one != two)

    def _merge(self, other: "CodePoints", keep: Callable[[bool, bool], bool]) -> "CodePoints":
        events = sorted([(at, 0) for at in self.bounds] + [(at, 1) for at in other.bounds])
        inside = [False, False]
        bounds: list[int] = []
        for at, side in events:
            inside[side] = not inside[side]
            if keep(*inside) != (len(bounds) % 2 == 1):
                if bounds and bounds[-1] == at:
                    bounds.pop()
                else:
                    bounds.append(at)
        return CodePoints(tuple(bounds))

    def folded(self) -> "CodePoints":
        """Return the set closed under simple case folding."""
        cased, orbits = _orbits()
        more = CodePoints.of(
            (member, member)
            for low, high in self.ranges()
            for code_point in cased[bisect_left(cased, low) : bisect_left(cased, high)]
            for member in orbits[code_point]
        )
        return CodePoints.union((self, more)) if more.bounds else self


ALL = CodePoints((0, CODE_POINTS))
NONE = CodePoints(())


def loose(name: str) -> str:
    """Return the form of a name for comparison."""
    return name.lower().replace(" ", "").replace("_", "").replace("-", "")


@cache
def _data() -> dict[str, Any]:
    packed = Path(__file__).with_name("unicode16.bin").read_bytes()
    data: dict[str, Any] = json.loads(zlib.decompress(packed))
    return data


@cache
def _orbits() -> tuple[list[int], dict[int, list[int]]]:
    """Return all code points with case variants, in order, and the variants of each."""
    orbits: list[list[int]] = _data()["fold"]
    of_member = {member: orbit for orbit in orbits for member in orbit}
    return sorted(of_member), of_member


@cache
def _names(prop: str) -> dict[str, list[int]]:
    """Return the deltas by loose name, short and long."""
    return {loose(name): deltas for *names, deltas in _data()[prop] for name in names}


# Groups of general categories, and aliases other than their short and long names.
MAJOR_CATEGORIES = {
    "l": ("lu", "ll", "lt", "lm", "lo"),
    "m": ("mn", "mc", "me"),
    "n": ("nd", "nl", "no"),
    "p": ("pc", "pd", "ps", "pe", "pi", "pf", "po"),
    "s": ("sm", "sc", "sk", "so"),
    "z": ("zs", "zl", "zp"),
    "c": ("cc", "cf", "cs", "co", "cn"),
}
_GROUPS = MAJOR_CATEGORIES | {"lc": ("lu", "ll", "lt")}
_CATEGORY_ALIASES = {
    "other": "c", "letter": "l", "casedletter": "lc", "mark": "m", "combiningmark": "m",
    "number": "n", "punctuation": "p", "punct": "p", "symbol": "s", "separator": "z",
    "digit": "nd", "cntrl": "cc",
}  # fmt: skip


@cache
def _category(name: str) -> CodePoints | None:
    name = _CATEGORY_ALIASES.get(name, name)
    if name in _GROUPS:
        return CodePoints.union(_table("category", member) for member in _GROUPS[name])
    return _table("category", name) if name in _names("category") else None


@cache
def _table(prop: str, name: str) -> CodePoints:
    deltas = _names(prop)[name]
    bounds: list[int] = []
    end = 0
    for gap, extra in zip(deltas[::2], deltas[1::2], strict=True):
        start = end + gap
        end = start + extra + 1
        bounds += [start, end]
    return CodePoints(tuple(bounds))


def scripts() -> list[tuple[str, CodePoints]]:
    """Return the long name of each script with its code points."""
    names = [name for _, name, *_ in _data()["script"] if name != "Unknown"]
    return [(name, _table("script", loose(name))) for name in names]


def named(name: str) -> CodePoints | None:
    """Return the set of \\p{name} (category, script or binary property), or None if unknown."""
    name = loose(name)
    category = _category(name)
    if category is not None:
        return category
    for prop in ("script", "binary"):
        if name in _names(prop):
            return _table(prop, name)
    if name == "assigned":
        return ~_table("category", "cn")
    return {"any": ALL, "ascii": CodePoints((0, 0x80))}.get(name)


def known(name: str) -> CodePoints:
    """Return the set of a \\p{name} that exists."""
    found = named(name)
    assert found is not None
    return found


_PROPERTIES = {"gc": "category", "generalcategory": "category", "sc": "script", "script": "script"}
_PROPERTIES |= {"scx": "script_extensions", "scriptextensions": "script_extensions"}


def valued(prop: str, value: str) -> CodePoints | None:
    """Return the set of \\p{prop=value}, or None if the property or value is unknown."""
    table, value = _PROPERTIES.get(loose(prop)), loose(value)
    if table == "category":
        return _category(value)
    return _table(table, value) if table and value in _names("script") else None


@cache
def word() -> CodePoints:
    """Return the members of \\w (UTS #18, annex C)."""
    return CodePoints.union(map(known, ("alphabetic", "joincontrol", "digit", "mark", "pc")))
