"""Standard input → a copy in the output's folder, which units are cut from as from any file.

A pipe is read once, and a unit may be done twice. The copy goes when the output is sealed. Its time
is made of its checksum: the same text, piped again to go on, is the same input.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tokenmill.corpus.blocks import open_file
from tokenmill.corpus.sources import STDIN, Source
from tokenmill.corpus.streams import compression_of
from tokenmill.native import _native

COPY = ".stdin"
_PART = COPY + ".part"
NAMES = (COPY, _PART)
_BLOCK_BYTES = 1 << 20
# Nanoseconds until the year 2001, which every file system can keep.
_TIME_END = 10**18


def copy(source: Source, folder: Path) -> Source:
    """The source, read to its end."""
    part = folder / _PART
    checksum = _native.Checksum()
    buffer = memoryview(bytearray(_BLOCK_BYTES))
    start = b""
    try:
        with open_file(source) as pipe, part.open("wb") as file:
            while count := pipe.readinto(buffer):
                start = start or bytes(buffer[:count])
                checksum.update(buffer[:count])
                file.write(buffer[:count])
            file.flush()
            os.fsync(file.fileno())
        time = checksum.value() % _TIME_END
        os.utime(part, ns=(time, time))
        part.replace(folder / COPY)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    status = (folder / COPY).stat()
    return replace(
        find_copy(source, folder),
        compression=compression_of(start),
        size=status.st_size,
        modified=status.st_mtime_ns,
    )


def find_copy(source: Source, folder: Path) -> Source:
    """A source of a plan, with the place of its copy if it was standard input."""
    if source.name != STDIN:
        return source
    return replace(source, place=str(folder / COPY))


def remove(folder: Path) -> None:
    """Removes the copy, and what a kill left of one."""
    for name in NAMES:
        (folder / name).unlink(missing_ok=True)
