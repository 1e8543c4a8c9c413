"""Many units that take no time → what planning, scheduling and sealing them cost.

    scaling.py                       1,000, 10,000 and 100,000 units, each a file of its own
    scaling.py --units 5000          another number; repeat it

Units are simulated: what would be read and written is not there, and rows are made up. All else is
what a run does: the plan on the disk, orders handed out, rows recorded and flushed, the manifest.
Every number is a fresh process; memory is its peak above what it had before the plan.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

# isort: split
import machine

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "scaling.json"
UNITS = (1_000, 10_000, 100_000)
UNIT_BYTES = 64_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what a run costs beside its units.")
    parser.add_argument("--units", type=int, action="append")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one is not None:
        print(json.dumps(measure(args.one)))
        return
    rows = []
    for units in args.units or UNITS:
        command = [sys.executable, __file__, "--one", str(units)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
    args.out.write_text(json.dumps({"machine": machine.describe(), "runs": rows}, indent=1) + "\n")


def measure(count: int) -> dict[str, Any]:
    from tokenmill import Tokenizer
    from tokenmill.corpus.sources import Source
    from tokenmill.tokenizing import manifest, plan, tasks
    from tokenmill.tokenizing.crew import Settings
    from tokenmill.tokenizing.journal import Journal
    from tokenmill.tokenizing.options import make_options
    from tokenmill.tokenizing.progress import Tracker

    tokenizer = Tokenizer.load("cl100k_base")
    options = make_options(
        tokenizer, layout="megatron", eos="auto", bos=None, dtype=None, on_error="quarantine",
        utf8="strict",
    )  # fmt: skip
    sources = [
        Source(f"/data/{number:06d}.jsonl.zst", "jsonl", "zst", UNIT_BYTES, number)
        for number in range(count)
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = [time.perf_counter()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        planned = plan.make_plan(sources, options, tokenizer)
        plan.write(planned, folder)
        times.append(time.perf_counter())
        run = tasks.Run(folder, planned, Settings(1, 2 << 30), None)
        tasks._crew = lambda run, waiting: Simulated(run.plan, waiting)  # type: ignore[assignment]
        manifest.clear(folder)
        journal = Journal(folder, planned)
        run.do(run.units_but(journal.rows), journal, Tracker(planned.units, {}, None))
        times.append(time.perf_counter())
        manifest.seal(folder, planned, journal.rows, options.spec(tokenizer))
        times.append(time.perf_counter())
        size = (folder / manifest.NAME).stat().st_size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    planning, doing, sealing = (b - a for a, b in pairwise(times))
    return {
        "units": len(planned.units), "bytes_a_unit": 1024 * (peak - before) / count,
        "peak_mb": peak * 1024 / 1e6, "plan_seconds": planning, "rows_seconds": doing,
        "seal_seconds": sealing, "manifest_bytes": size,
    }  # fmt: skip


class Simulated:
    """A crew that has done every unit before it was asked."""

    def __init__(self, planned: Any, waiting: list[Any]) -> None:
        self._plan = planned
        self._waiting = waiting

    def __enter__(self) -> Simulated:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def messages(self) -> Iterator[dict[str, Any]]:
        for task in self._waiting:
            unit = self._plan.units[task.number]
            counts = {"documents": 100_000, "tokens": 60_000_000, "bytes": 250_000_000}
            counts["quarantined"] = 0
            shard = {
                "stem": f"{unit.number:05d}-000", "documents": 100_000, "tokens": 60_000_000,
                "files": [{"suffix": ".bin", "bytes": 240_000_000, "checksum": "0" * 16}],
            }  # fmt: skip
            segments = [
                {"source": segment.source.name, "start": 0, "end": None} | counts
                for segment in unit.segments
            ]
            row = {"unit": unit.number, "id": unit.id, "input": "0" * 16, "shards": [shard]}
            # As it comes from a worker: through JSON, and owned by nobody else.
            text = json.dumps({"task": unit.number, "row": row | counts | {"segments": segments}})
            yield json.loads(text)


if __name__ == "__main__":
    main()
