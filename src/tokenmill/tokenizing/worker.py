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
from typing import Any

from tokenmill.errors import TokenmillError
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import manifest, plan
from tokenmill.tokenizing.mix import run_mix
from tokenmill.tokenizing.progress import memory_bytes
from tokenmill.tokenizing.unit import Job, block_bytes_of, run_unit

_TICK_SECONDS = 0.2
_TRACE_LINES = 3


class Worker:
    """The job, and what each running unit has done so far."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self._plan = plan.load(folder)
        self._workers: int = settings["workers"]
        block = block_bytes_of(settings["memory"], settings["workers"])
        tokenizer = load_tokenizer(folder, self._plan)
        self._job = Job(
            folder,
            self._plan.options,
            tokenizer,
            block,
            settings["max_errors"],
        )
        self._rows: dict[int, dict[str, Any]] | None = None
        self._done: dict[int, list[int]] = {}
        # Whatever a library prints goes to stderr: lines of stdout are messages.
        self._messages = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._output = threading.Lock()

    def do(self, order: dict[str, Any]) -> None:
        """Does one task and says what came of it."""
        number = order["number"]
        done = self._done[number] = [0, 0, 0]

        def report(*counts: int) -> None:
            for index, count in enumerate(counts):
                done[index] += count

        try:
            if order["of"]:
                row = run_mix(self._job, self._unit_rows(), number, order["of"])
            else:
                unit = self._plan.units[number]
                row = run_unit(self._job, unit, threads=self._threads, report=report)
            self.say({"task": number, "row": row})
        except OSError as error:
            self.say({"stop": str(error), "errno": error.errno})
        except TokenmillError as error:
            self.say({"stop": str(error)})
        except BaseException:  # also what is none of ours: whoever waits has to hear of it
            lines = traceback.format_exc().strip().splitlines()
            self.say({"task": number, "failed": " · ".join(lines[-_TRACE_LINES:])})
        finally:
            self._done.pop(number, None)

    def _threads(self) -> int:
        """How many threads each of the running tasks may have."""
        return max(1, self._workers // max(1, len(self._done)))

    def _unit_rows(self) -> dict[int, dict[str, Any]]:
        """The rows of all units, which are done when mixing begins."""
        if self._rows is None:
            self._rows = manifest.read_rows(self._job.folder, self._plan).units
        return self._rows

    def tick(self) -> None:
        """Says from time to time how far the running units are."""
        while True:
            time.sleep(_TICK_SECONDS)
            done = {str(number): list(counts) for number, counts in list(self._done.items())}
            if done:
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
    return tokenizer


def main(arguments: list[str]) -> None:
    # The run itself answers an interrupt, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(arguments[1])
    worker = Worker(Path(arguments[0]), settings)
    worker.say({"ready": True})
    threading.Thread(target=worker.tick, daemon=True).start()
    with ThreadPoolExecutor(settings["workers"]) as pool:
        for line in sys.stdin:
            order = json.loads(line)
            pool.submit(worker.do, order)
        # Nobody listens any more.
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
