"""A folder → who writes into it: one run, or the ranks of one."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tokenmill.errors import TokenizeError

NAME = ".lock"
_SECONDS = 1.0


@contextmanager
def locked(folder: Path, *, shared: bool = False) -> Iterator[int]:
    """Holds the folder; a second run into it is refused while this one lives. Ranks share it.

    What comes back is the lock, which workers inherit: one that outlives its run for a moment
    still holds it, and nobody writes beside it.
    """
    with (folder / NAME).open("a+b") as file:
        deadline = time.monotonic() + _SECONDS
        while not try_lock(file.fileno(), shared):
            if time.monotonic() > deadline:
                raise TokenizeError(
                    f"another run is writing into {str(folder)!r}; wait for it, or give another "
                    "folder"
                )
            time.sleep(0.05)
        yield file.fileno()


def is_left(handle: int) -> bool:
    """Whether nobody holds a file any more; False where the system cannot tell."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def try_lock(handle: int, shared: bool = False) -> bool:
    """Takes a file if nobody has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        # Some file systems of clusters know no locks. Then nobody is kept out, and two who do the
        # same work write the same bytes.
        return error.errno not in (errno.EAGAIN, errno.EACCES)
    return True
