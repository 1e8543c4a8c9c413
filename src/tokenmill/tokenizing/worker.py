"""Units, one a line → rows, one a line: a process that does the work, on threads.

It is a process of its own so that whatever kills it, a lack of memory or a defect, leaves the run
alive, which starts another. When its input ends, so does it, at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from tokenmill.errors import TokenizeError, TokenmillError
from tokenmill.mirror import Mirror
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import journal, manifest, plan
from tokenmill.tokenizing.mix import run_mix
from tokenmill.tokenizing.progress import memory_bytes
from tokenmill.tokenizing.unit import Job, block_bytes_of, make_temporary, run_unit

_TICK_SECONDS = 0.2
_TRACE_LINES = 3


class Hand:
    """The job of a run, as a process has it that does its tasks."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self._plan = plan.load(folder)
        self._workers: int = settings["workers"]
        self._job = Job(
            folder,
            make_temporary(folder),
            self._plan.options,
            load_tokenizer(folder, self._plan),
            block_bytes_of(settings["memory"], settings["workers"]),
            settings["max_errors"],
            None if settings["address"] is None else Mirror(settings["address"]),
        )
        self._rows: journal.UnitRows | None = None
        # What each running task has done so far: bytes of files, tokens, documents.
        self.done: dict[int, list[int]] = {}

    def do(self, order: dict[str, Any]) -> dict[str, Any]:
        """Does one task; what came of it."""
        number = order["number"]
        done = self.done[number] = [0, 0, 0]

        def report(*counts: int) -> None:
            for index, count in enumerate(counts):
                done[index] += count

        try:
            if order["of"]:
                row = run_mix(self._job, self._unit_rows(), number, order["of"])
            else:
                unit = self._plan.units[number]
                row = run_unit(self._job, unit, threads=self._threads, report=report)
            return {"task": number, "row": row}
        except OSError as error:
            return {"stop": str(error), "errno": error.errno}
        except TokenmillError as error:
            return {"stop": str(error)}
        except BaseException:  # also what is none of ours: whoever waits has to hear of it
            lines = traceback.format_exc().strip().splitlines()
            return {"task": number, "failed": " · ".join(lines[-_TRACE_LINES:])}
        finally:
            self.done.pop(number, None)

    def _threads(self) -> int:
        """How many threads each of the running tasks may have."""
        return max(1, self._workers // max(1, len(self.done)))

    def _unit_rows(self) -> journal.UnitRows:
        """The rows of all units, which are done when mixing begins."""
        if self._rows is None:
            self._rows = journal.read_rows(self._job.folder, self._plan).units
        return self._rows


class _Server:
    """A hand whose messages are lines of what was stdout."""

    _hand: Hand

    def __init__(self) -> None:
        # Whatever a library prints goes to stderr: lines of stdout are messages.
        self._messages = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._output = threading.Lock()

    def open(self, folder: Path, settings: dict[str, Any]) -> bool:
        """Makes ready for tasks, or says why that cannot be."""
        try:
            self._hand = Hand(folder, settings)
        except TokenmillError as error:
            self.say({"stop": str(error)})
            return False
        self.say({"ready": True})
        return True

    def do(self, order: dict[str, Any]) -> None:
        self.say(self._hand.do(order))

    def tick(self) -> None:
        """Says from time to time how far the running units are."""
        while True:
            time.sleep(_TICK_SECONDS)
            running = list(self._hand.done.items())
            if running:
                done = {str(number): list(counts) for number, counts in running}
                self.say({"progress": done, "memory": memory_bytes()})

    def say(self, message: dict[str, Any]) -> None:
        line = json.dumps(message) + "\n"
        with self._output:
            self._messages.write(line)
            self._messages.flush()


def load_tokenizer(folder: Path, planned: plan.Plan) -> Tokenizer:
    """The tokenizer of a run: an embedded one by its name, others from the run's own folder."""
    described = planned.tokenizer
    if described["embedded"]:
        tokenizer = Tokenizer.load(described["name"])
    else:
        tokenizer = Tokenizer.load(folder / manifest.TOKENIZER)
    if tokenizer._digest().hex() != described["sha256"]:
        raise TokenizeError(
            f"the tokenizer {described['name']} of {str(folder)!r} is not the one that was used; "
            "all machines need the same version of tokenmill, and the folder its own file"
        )
    return tokenizer


def serve(folder: Path, settings: dict[str, Any]) -> NoReturn:
    """Does what stdin asks for until it ends."""
    # The run itself answers an interrupt, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    server = _Server()
    if server.open(folder, settings):
        threading.Thread(target=server.tick, daemon=True).start()
        pool = ThreadPoolExecutor(settings["workers"])
        for line in sys.stdin:
            pool.submit(server.do, json.loads(line))
    # Nobody listens any more.
    os._exit(0)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), json.loads(sys.argv[2]))
