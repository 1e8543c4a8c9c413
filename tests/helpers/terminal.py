"""A program in a pseudo-terminal → its output and its exit code."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

COMMAND = [sys.executable, "-m", "tokenmill"]
# The variables that change colours and widths. No test takes them from its caller.
LOOKS = ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "COLUMNS", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in LOOKS}
    return {**kept, "TERM": "xterm-256color", **more}


@dataclass
class Shown:
    """All that a program wrote to its terminal, and its exit code."""

    text: str
    code: int


def in_terminal(
    *arguments: str | Path,
    cwd: Path | None = None,
    keys: bytes = b"",
    when: str = "",
    columns: int = 100,
    command: Sequence[str] = COMMAND,
    **variables: str,
) -> Shown:
    """Runs a command whose three streams are a terminal; `keys` are typed once `when` is shown."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen(
        [*command, *map(str, arguments)],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=environment(**variables),
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as child:  # fmt: skip
        os.close(theirs)
        shown, deadline = b"", time.monotonic() + 60
        while time.monotonic() < deadline:
            if keys and when.encode() in shown:
                os.write(ours, keys)
                keys = b""
            if not select.select([ours], [], [], 0.1)[0]:
                continue
            data = b""
            with contextlib.suppress(OSError):  # how Linux says that the other side has closed
                data = os.read(ours, 1 << 16)
            if not data:
                break
            shown += data
        else:
            child.kill()
        os.close(ours)
        return Shown(shown.decode(errors="replace").replace("\r\n", "\n"), child.wait(30))
