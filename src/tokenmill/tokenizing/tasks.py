"""Tasks of a plan → rows in the journal, whoever does them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.cluster import RAY
from tokenmill.errors import TokenizeError
from tokenmill.mirror import Mirror
from tokenmill.tokenizing import manifest
from tokenmill.tokenizing.crew import Crew, Settings, Waiting
from tokenmill.tokenizing.folder import refuse_full_disk
from tokenmill.tokenizing.journal import Journal, Rows, failed_row
from tokenmill.tokenizing.plan import Plan
from tokenmill.tokenizing.progress import Progress, Tracker
from tokenmill.tokenizing.ray_crew import RayCrew
from tokenmill.tokenizing.shuffle import digest, shard_count
from tokenmill.tokenizing.thread_crew import ThreadCrew
from tokenmill.tokenizing.unit import refuse_too_many


@dataclass(frozen=True, slots=True)
class Run:
    """What all tasks of a run share."""

    folder: Path
    plan: Plan
    settings: Settings
    progress: Callable[[Progress], None] | None
    mirror: Mirror | None = None

    def units_but(self, done: Rows, is_ours: Callable[[int], bool] = lambda _: True) -> Waiting:
        """The units that are still to do; the largest first, so that none is alone at the end."""
        sizes = self.plan.sizes
        numbers = (n for n in range(len(sizes)) if n not in done.units and is_ours(n))
        waiting = np.fromiter(numbers, np.int64)
        return Waiting(waiting[np.argsort(-sizes[waiting], kind="stable")])

    def mixes(self, rows: Rows) -> Waiting:
        """The shards of a shuffled run that are still to be mixed."""
        tokens = documents = 0
        for row in rows.units.values():
            tokens += row["tokens"]
            documents += row["documents"]
        count = shard_count(tokens, documents, self.plan.options.shard_tokens)
        # A unit that failed before a stop may be done now, which gives every shard other documents.
        made_of = digest(rows.units.documents())
        old = [row for row in rows.mixes.values() if (row["of"], row["units"]) != (count, made_of)]
        manifest.remove_shards(self.folder, old)
        for row in old:
            del rows.mixes[row["mix"]]
        return Waiting((n for n in range(count) if n not in rows.mixes), count)

    def do(self, tasks: Waiting, journal: Journal, tracker: Tracker) -> None:
        """Does tasks, and records each that is done."""
        if not tasks:
            return  # which a cluster need not be there for
        made_of: str | None = None
        with _crew(self, tasks) as crew:
            for message in crew.messages():
                if "progress" in message:
                    tracker.running(message["progress"], message["memory"])
                    continue
                if "stop" in message:
                    self._stop(message)
                row = message.get("row") or self._given_up(message)
                if "mix" in row and made_of is None:  # all units are done
                    made_of = digest(journal.rows.units.documents())
                if "mix" in row and row["units"] != made_of:
                    raise TokenizeError(
                        "a machine did not see all units that it had to mix; the same command goes "
                        "on, when all see the same files"
                    )
                journal.add(row)
                if "unit" in row:
                    tracker.finished(row)
                    refuse_too_many(tracker.quarantined, self.settings.max_errors)

    def _given_up(self, message: dict[str, Any]) -> dict[str, Any]:
        why = message["given_up"]
        if self.plan.options.on_error == "fail" or message["is_mix"]:
            raise TokenizeError(f"a part of the work could not be done: {why}")
        return failed_row(self.plan.units[message["task"]], why)

    def _stop(self, message: dict[str, Any]) -> None:
        refuse_full_disk(message.get("errno"), message["stop"], self.folder)
        if "errno" in message:
            raise OSError(message["errno"], message["stop"])
        raise TokenizeError(message["stop"])


def _crew(run: Run, tasks: Waiting) -> Crew | RayCrew | ThreadCrew:
    if run.settings.engine.name == RAY:
        return RayCrew(run.folder, run.settings, tasks)
    crew = ThreadCrew if run.settings.is_inside else Crew
    return crew(run.folder, run.settings, tasks)
