"""Path → bytes of a file, within a limit."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tokenmill.errors import VocabularyError

BYTES_MAX = 256 << 20  # Gemma 3's tokenizer.json has 33 MB


def is_file(path: Path) -> bool:
    """Whether a file is there; a link that leads nowhere is refused, since a file was meant."""
    if path.is_file():
        return True
    refuse_broken_link(path)
    return False


def refuse_broken_link(path: Path) -> None:
    """Raises an error that names the link, if the path is one and leads nowhere."""
    if path.is_symlink() and not path.exists():
        raise VocabularyError(
            f"{path} is a link to {str(path.readlink())!r}, which is not there; get the file "
            "again, or remove the link"
        )


def read_bytes(path: Path, limit: int = BYTES_MAX) -> bytes:
    """All bytes of a regular file; a pipe or a device could give any number of them."""
    # A pipe without a writer would not even open.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise VocabularyError(f"{path} is not a regular file")
        if status.st_size > limit:
            raise VocabularyError(
                f"{path} has {status.st_size:,} bytes: too large for a tokenizer's file"
            )
        data = file.read(limit + 1)
    if len(data) > limit:
        raise VocabularyError(f"{path} grows while it is read; wait until it is written")
    return data


def read_start(path: Path, count: int) -> bytes:
    """The first bytes of a file."""
    with path.open("rb") as file:
        return file.read(count)
