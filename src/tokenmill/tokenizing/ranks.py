"""One share of a plan → rows in a journal of its own, beside others who know nothing of it.

All that ranks have in common is the folder. Each does the units whose number is its own modulo the
number of ranks, and skips those that a journal has, whoever wrote it: so ranks may come late, die,
or be started again as other ones of other many. Two that do one unit write the same bytes.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from tokenmill.errors import TokenizeError
from tokenmill.mirror import Mirror
from tokenmill.tokenizing import manifest
from tokenmill.tokenizing.journal import Journal, read_rows
from tokenmill.tokenizing.listed import Items
from tokenmill.tokenizing.plan import Plan
from tokenmill.tokenizing.progress import Tracker
from tokenmill.tokenizing.tasks import Run

_NUMBERS_SHOWN = 5


def check(rank: int | None, world_size: int | None) -> tuple[int, int] | None:
    """Rank and number of ranks, if a caller is one."""
    if rank is None and world_size is None:
        return None
    if rank is None or world_size is None:
        raise TokenizeError("rank and world_size go together: --rank 0 --world-size 8")
    for name, value, least in (("world_size", world_size, 1), ("rank", rank, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise TokenizeError(f"{name} must be a whole number from {least} on, not {value!r}")
    if rank >= world_size:
        raise TokenizeError(
            f"ranks count from 0: of {world_size} the last is {world_size - 1}, not {rank}"
        )
    return rank, world_size


def numbers(plan: Plan, share: tuple[int, int]) -> range:
    """The units of a rank."""
    rank, world_size = share
    return range(rank, len(plan.units), world_size)


def do(run: Run, share: tuple[int, int]) -> tuple[dict[str, Any], int]:
    """Does the units of a rank that nobody has done; what a manifest would say of all that are its,
    and how many were done before."""
    ours = numbers(run.plan, share)
    with closing(Journal(run.folder, run.plan, alone=False, mirror=run.mirror)) as journal:
        rows = journal.rows
        done = [number for number in ours if number in rows.units]
        before = (rows.units[number] for number in done)
        tracker = Tracker(run.plan.sizes, before, run.progress, ours)
        run.do(run.units_but(rows, ours.__contains__), journal, tracker)
        tracker.end()
        mine = Items(len(ours), lambda index: rows.units[ours[index]])
        found = manifest.describe(run.plan, mine, [])
        found["sources"] = [source for source in found["sources"] if "error" in source]
        return found, len(done)


def refuse_missing(folder: Path, planned: Plan, mirror: Mirror | None) -> None:
    """Raises if there are units that nobody has done."""
    rows = read_rows(folder, planned, failed=True, mirror=mirror)
    missing = [number for number in range(len(planned.units)) if number not in rows.units]
    if missing:
        shown = ", ".join(map(str, missing[:_NUMBERS_SHOWN]))
        more = ", …" if len(missing) > _NUMBERS_SHOWN else ""
        raise TokenizeError(
            f"{len(missing):,} of {len(planned.units):,} units are not done ({shown}{more}): start "
            "the ranks again that had them, or the same command without --rank"
        )
