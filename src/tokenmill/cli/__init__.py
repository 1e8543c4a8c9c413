"""The command `tokenmill`.

Imports take 0.3 s. Until the command runs, Ctrl-C ends the process at once and without a traceback.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 128 + 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code. The arguments are those of the process by default."""
    try:
        import signal

        if arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
            # A command computes no matrices. The threads of numpy's library for them, one per
            # core, cost 2 s of CPU time at the start with 16 cores.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from tokenmill.cli import app
    except KeyboardInterrupt:
        return INTERRUPTED
    return app.main(arguments)
