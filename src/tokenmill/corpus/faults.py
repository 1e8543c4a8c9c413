"""An error of the system → that of the machine, which stops a run, or that of one file.

A disk that is full or a process that has too many files open says nothing about the data: taken
for a damaged file, it would be sealed as documents that are missing. Raised, the run stops, and
goes on when the machine does.
"""

from __future__ import annotations

import errno

_OF_MACHINE = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)
)


def raise_of_machine(error: Exception) -> None:
    """Raises an error again if it is the machine's, and not that of a file."""
    if isinstance(error, OSError) and error.errno in _OF_MACHINE:
        raise error
