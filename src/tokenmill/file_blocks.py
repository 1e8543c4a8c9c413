"""Files → blocks of bytes that end where documents end.

A block is as large as the memory allows; what follows its last separator is carried over into the
next one, so no document is cut and none is read twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from tokenmill import arguments

# Ids take up to four bytes for each byte of text, twice while they are put together.
_BYTES_PER_BYTE = 10
_BLOCK_BYTES_MIN = 4096


def block_bytes(memory: Any) -> int:
    """How much text fits into `memory` together with its ids."""
    least = _BLOCK_BYTES_MIN * _BYTES_PER_BYTE
    return arguments.whole_number(memory, "memory", least, " bytes") // _BYTES_PER_BYTE


def open_all(paths: Any, block_bytes: int, *, whole: bool) -> Iterator[Blocks]:
    """The blocks of each file in turn; of a file that is one document, a single one."""
    listed = _list_paths(paths)
    # The memory is there once for all files: blocks are used up before the next file is opened.
    memory = bytearray(0 if whole else block_bytes)
    for path in listed:
        with FileIO(path) as file:
            size = os.fstat(file.fileno()).st_size
            if whole and size > block_bytes:
                raise ValueError(
                    f"{str(path)!r} is one document of {size:,} bytes, and the memory is enough "
                    f"for {block_bytes:,}; give memory={_BYTES_PER_BYTE * size:_}, or a separator"
                )
            yield Blocks(file, path, bytearray(size + 1) if whole else memory)


class Blocks:
    """The blocks of one file. After each one the reader says with `use` how much of it is done."""

    def __init__(self, file: FileIO, path: Path, memory: bytearray) -> None:
        self._file = file
        self._path = path
        self._memory = memory
        self._used = 0

    def __iter__(self) -> Iterator[tuple[memoryview, bool]]:
        """Pairs of a block and whether the file ends with it."""
        offset = kept = 0
        with memoryview(self._memory) as view:
            while True:
                filled = kept + self._read(view[kept:])
                is_last = filled < len(view)
                self._used = 0
                with view[:filled] as block:
                    yield block, is_last
                if is_last:
                    return
                if self._used == 0:
                    raise ValueError(
                        f"{str(self._path)!r} has a document of {len(view):,} bytes or more at "
                        f"byte {offset:,}; give more memory, or the right separator"
                    )
                kept = filled - self._used
                view[:kept] = view[self._used : filled]
                offset += self._used

    def use(self, count: int) -> None:
        """Says that the first `count` bytes of the last block are done."""
        self._used = count

    def _read(self, view: memoryview) -> int:
        """Reads until the view is full or the file ends."""
        filled = 0
        while filled < len(view) and (count := self._file.readinto(view[filled:])):
            filled += count
        return filled


def _list_paths(paths: Any) -> list[Path]:
    """One path or many, each a file that can be read now rather than after hours of work."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    if not isinstance(paths, Iterable) or isinstance(paths, bytes | bytearray):
        raise TypeError(f"paths must be a path or a list of paths, not {paths!r}")
    listed = []
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"a path must be a str or a Path, not {path!r}")
        file = Path(path)
        if file.is_dir():
            raise IsADirectoryError(f"{str(file)!r} is a folder; give the files in it")
        with FileIO(file):
            listed.append(file)
    return listed
