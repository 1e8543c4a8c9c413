"""JSON with a line for each item of its lists ↔ lists that stay in the file.

Plans and manifests have an item for each unit, of which there may be a million: in memory there is
where each of them begins. A file that somebody has written otherwise, with jq say, is read whole.
"""

from __future__ import annotations

import json
import os
import re
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar, overload

_T = TypeVar("_T")
_SURROGATE = re.compile("[\ud800-\udfff]")
_HEAD = re.compile(rb' ("(?:[^"\\]|\\.)*"): (.*)', re.DOTALL)
_LIST_ENDS = (b" ],\n", b" ]\n")


def spelled(value: Any) -> str:
    """JSON in one line; names of files that are not UTF-8 have their bytes escaped."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    is_text = text.isascii() or not _SURROGATE.search(text)
    return text if is_text else json.dumps(value, sort_keys=True)


def lines(content: Mapping[str, Any]) -> Iterator[bytes]:
    """A file, a line for each item of what can be iterated and is neither text nor object."""
    yield b"{\n"
    start = b" "
    for key, value in content.items():
        yield start + spelled(key).encode() + b": "
        start = b",\n "
        if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
            yield spelled(value).encode()
            continue
        before = b"[\n  "
        for item in value:
            yield before + spelled(item).encode()
            before = b",\n  "
        yield b"[]" if before.startswith(b"[") else b"\n ]"
    yield b"\n}\n" if content else b"}\n"


class Items(Sequence[_T], Generic[_T]):
    """Items that are made when they are asked for."""

    def __init__(self, count: int, item: Callable[[int], _T]) -> None:
        self._count = count
        self._item = item

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> _T: ...
    @overload
    def __getitem__(self, index: slice) -> list[_T]: ...
    def __getitem__(self, index: int | slice) -> _T | list[_T]:
        if isinstance(index, slice):
            return [self._item(place) for place in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(f"there is no item {index}: there are {self._count}")
        return self._item(index % self._count)


class Kept:
    """A file to read, which is closed when nothing of it is used any more."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = os.fdopen(os.dup(file.fileno()), "rb")
        self._lock = threading.Lock()

    def __del__(self) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        """Its lines."""
        self._file.seek(0)
        return iter(self._file)

    def line(self, start: int) -> bytes:
        """The line that begins there; any thread may ask."""
        with self._lock:
            self._file.seek(start)
            return self._file.readline()

    def at(self, start: int, size: int) -> bytes:
        """Some of its bytes; any thread may ask."""
        with self._lock:
            self._file.seek(start)
            return self._file.read(size)


def read(path: Path) -> dict[str, Any]:
    """What a file says. Its lists stay in it. What is no JSON object is a ValueError."""
    with path.open("rb") as file:
        return read_kept(Kept(file))


def read_kept(file: Kept) -> dict[str, Any]:
    """The same of a file that is open."""
    content = _by_lines(file)
    if content is not None:
        return content
    whole = json.loads(b"".join(file))
    if not isinstance(whole, dict):
        raise ValueError("it holds no object")
    return whole


def _by_lines(file: Kept) -> dict[str, Any] | None:
    """The content if it has the form that `lines` gives it."""
    content: dict[str, Any] = {}
    rows = iter(file)
    if next(rows, b"") != b"{\n":
        return None
    start, line = 2, b",\n"
    for head in rows:
        if head == b"}\n":
            is_end = not line.endswith(b",\n") or not content
            return content if is_end and not next(rows, b"") else None
        found = _HEAD.fullmatch(head)
        if found is None or not line.endswith(b",\n"):
            return None
        start, line = start + len(head), head
        try:
            key = json.loads(found[1])
            if found[2] == b"[\n":
                starts, line = _starts(rows, start)
                start = starts[-1] + len(line)
                content[key] = _items(file, starts)
            else:
                content[key] = _value(found[2])
        except ValueError:
            return None
    return None


def _starts(rows: Iterator[bytes], start: int) -> tuple[array[int], bytes]:
    """Where the items of a list begin, from byte `start` on, and the line behind them."""
    starts, before = array("q", [start]), b",\n"
    for line in rows:
        if line in _LIST_ENDS:
            if before.endswith(b",\n"):
                break
            return starts, line
        if not before.endswith(b",\n"):
            break
        _value(line)  # so that what is damaged is known at once
        starts.append(starts[-1] + len(line))
        before = line
    raise ValueError("a list without an end")


def _items(file: Kept, starts: array[int]) -> Items[Any]:
    return Items(
        len(starts) - 1,
        lambda index: _value(file.at(starts[index], starts[index + 1] - starts[index])),
    )


def _value(line: bytes) -> Any:
    return json.loads(line.removesuffix(b"\n").removesuffix(b","))
