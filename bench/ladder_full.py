"""The training ladder at the sizes of its source → results/ladder_full.json, and docs/ladder.md.

    ladder_full.py [--runs 3] [--jobs 1]     measures and renders: many hours one after the other
    ladder_full.py --only 50/500 --steps 8,9
    ladder_full.py --fill                    measures the runs that are missing only
    ladder_full.py --render                  renders the measured results

The source measured texts of 50, 100 and 500 MB, and its machine and text are unknown. The text here
is the real text of the shared data, all corpora, about 90 MB. Beyond its end, documents are
repeated with altered words. The number of distinct words keeps growing, but less than in new text.
`--jobs` measures several steps at the same time, on a machine with more CPU cores than jobs.

A verdict compares CPU times. It is "not clear" if the ranges of the two steps overlap.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, NamedTuple

import corpora
import machine
from markdown import table, write_block

sys.path.insert(0, str(machine.ROOT))

from ladder.runner import long_duration, measure_rounds, median_of, spread
from ladder.training import steps
from ladder.training.steps import STEPS, Measurement, Task
from tokenmill.patterns.schemes import pattern_of

ROOT = machine.ROOT
RESULTS = ROOT / "bench" / "results" / "ladder_full.json"
PAGE = ROOT / "docs" / "ladder.md"
TEXT = corpora.FOLDER / "ladder_full.txt"
ALTERED = 0.02  # of the words of a repeated document

Row = dict[str, Any]


class Size(NamedTuple):
    megabytes: int
    vocab_size: int
    steps: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.megabytes}/{self.vocab_size}"


# The longest steps come first, so that several jobs end at about the same time.
SIZES = (
    Size(500, 10_000, (13, 12, 11, 14, 15)),
    Size(100, 10_000, (13, 11, 14, 15)),
    Size(100, 2_000, (9, 10, 11, 12, 13, 14, 15)),
    Size(50, 500, (7, 8, 9, 10, 11, 14, 15)),
)


class Claim(NamedTuple):
    """An observation of the source: the figures of two steps at one size."""

    size: str
    before: int
    after: int
    text: str
    seconds: tuple[float, float] | None
    peak_mb: tuple[float, float] | None

    def is_faster(self) -> bool:
        return self.seconds is None or self.seconds[1] < self.seconds[0]


CLAIMS = (
    Claim("50/500", 8, 9, "compaction saves time", None, None),
    Claim("100/2000", 9, 10, "the heap saves time", (123.14, 117.88), (543.58, 544.49)),
    Claim("100/2000", 10, 11, "arrays take more time", (117.88, 124.84), (544.49, 535.95)),
    Claim("100/2000", 11, 12, "batches take more time", (124.84, 135.02), (535.95, 535.95)),
    Claim("100/10000", 11, 13, "the policy saves time", (325.76, 279.17), (940.05, 938.19)),
    Claim("500/10000", 11, 12, "batches take more time", (2915.65, 3105.91), (3176.38, 3176.38)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="runs of each step (default: 3)")
    parser.add_argument("--jobs", type=int, default=1, help="steps at the same time (default: 1)")
    parser.add_argument("--only", help="one size, such as 50/500")
    parser.add_argument("--steps", help="some steps, such as 8,9")
    parser.add_argument(
        "--fill", action="store_true", help="keep the measured runs, and add those that are missing"
    )
    parser.add_argument("--render", action="store_true", help="render the measured results")
    options = parser.parse_args()
    if not options.render:
        measure_all(options)
    render(json.loads(RESULTS.read_text()))


def measure_all(options: argparse.Namespace) -> None:
    sizes = {str(size): size for size in SIZES if options.only in (None, str(size))}
    if not sizes:
        raise SystemExit(f"no size {options.only!r}; the sizes are {', '.join(map(str, SIZES))}")
    wanted = {int(step) for step in options.steps.split(",")} if options.steps else None
    results: Row = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    jobs = [(name, step) for name in sizes for step in sizes[name].steps]
    jobs = [job for job in jobs if wanted is None or job[1] in wanted]
    earlier = {job: results.get("sizes", {}).get(job[0], {}).get(str(job[1]), []) for job in jobs}
    found = {job: list(earlier[job]) if options.fill else [] for job in jobs}
    missing = [(earlier[job], options.runs - len(rows)) for job, rows in found.items()]
    say_expected(expected_seconds(missing) / options.jobs)
    write_text(max(size.megabytes for size in sizes.values()))
    tasks = {name: task_of(size) for name, size in sizes.items()}
    learned = {name: steps.learn(task) for name, task in tasks.items()}
    results |= {"machine": machine.describe(), "jobs": options.jobs}

    def run(job: tuple[str, int]) -> Row:
        name, step = job
        row = steps.measure(STEPS[step - 1], tasks[name], learned[name])
        dates = results.setdefault("dates", {}).setdefault(name, [])
        dates += {time.strftime("%Y-%m-%d")} - set(dates)
        return asdict(row)

    def save() -> None:
        for (name, step), rows in found.items():
            results.setdefault("sizes", {}).setdefault(name, {})[str(step)] = rows
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")

    measure_rounds(found, run, options.runs, save, options.jobs)


def task_of(size: Size) -> Task:
    return Task(TEXT, size.megabytes * 1_000_000, size.vocab_size, pattern_of("gpt2"))


def expected_seconds(work: Iterable[tuple[list[Row], int]]) -> float:
    """Return the time of some runs, from the rows of earlier ones."""
    return sum(
        max(0, runs) * statistics.median(row["seconds"] for row in rows)
        for rows, runs in work
        if rows
    )


def say_expected(seconds: float) -> None:
    print(f"Expected time: {long_duration(seconds)}, by the last results", flush=True)


def write_text(megabytes: int) -> None:
    """Write the text of all sizes, the same on every machine with the same corpora."""
    corpora.prepare(corpora.EVERYTHING)
    left = megabytes * 1_000_000
    pick = random.Random(0)
    with TEXT.open("w", encoding="utf-8") as out:
        for turn in itertools.count():
            for document in corpora.stream(corpora.EVERYTHING):
                text = altered(document, pick) if turn else document
                out.write(text + corpora.SEPARATOR)
                left -= len(text.encode()) + len(corpora.SEPARATOR)
                if left <= 0:
                    return


def altered(document: str, pick: random.Random) -> str:
    """Return a document in which some words have changed."""
    words = document.split(" ")
    for at in pick.sample(range(len(words)), int(ALTERED * len(words))):
        kind = pick.randrange(3)
        if kind == 0:
            words[at] = pick.choice(words)
        elif kind == 1:
            words[at] += f"{pick.getrandbits(24):06x}"
        else:
            words[at] = words[at].swapcase()
    return " ".join(words)


# ── the page ─────────────────────────────────────────────────────────────────────────────────


def render(results: dict[str, Any]) -> None:
    rows = {size: medians(of) for size, of in results["sizes"].items()}
    for name, block in (("sizes", sizes_table(rows)), ("claims", claims_table(rows))):
        print(block, end="\n\n")
        write_block(PAGE, name, block)
    write_block(PAGE, "full-machine", machine_line(results))


def medians(of: dict[str, list[dict[str, Any]]]) -> dict[int, Measurement]:
    """Return the medians of the runs of each step."""
    found = {int(step): [Measurement(**run) for run in runs] for step, runs in of.items()}
    return {step: median_of(runs) for step, runs in found.items() if runs}


def sizes_table(rows: dict[str, dict[int, Measurement]]) -> str:
    """Return CPU time, peak memory and rebuilds of every step at every size."""
    names = [str(size) for size in reversed(SIZES) if str(size) in rows]
    heads = [head for name in names for head in (f"{name}: CPU time", "peak", "rebuilds")]
    lines = [["step", *heads]]
    for step in STEPS:
        found = [rows[name].get(step.number) for name in names]
        if any(found):
            cells = [cell for row in found for cell in (cpu(row), peak(row), rebuilds(row))]
            lines.append([f"{step.number} {step.name}", *cells])
    return table(lines)


def cpu(row: Measurement | None) -> str:
    return spread(row.cpu_seconds, row.cpu_min, row.cpu_max) if row else ""


def peak(row: Measurement | None) -> str:
    return f"{row.peak_mb:,.0f} MB" if row else ""


def rebuilds(row: Measurement | None) -> str:
    return f"{row.compactions:,}" if row and row.compactions is not None else ""


def claims_table(rows: dict[str, dict[int, Measurement]]) -> str:
    """Return the observations of the source next to the measured figures."""
    lines = [
        ["size", "steps", "the source", "its time", "here: CPU time", "its peak", "here: peak"]
    ]
    lines[0].append("verdict")
    for claim in CLAIMS:
        of = rows.get(claim.size, {})
        before, after = of.get(claim.before), of.get(claim.after)
        lines.append([
            claim.size,
            f"{claim.before} → {claim.after}",
            claim.text,
            change(*claim.seconds, "s") if claim.seconds else "–",
            change(before.cpu_seconds, after.cpu_seconds, "s") if before and after else "",
            change(*claim.peak_mb, "MB") if claim.peak_mb else "–",
            change(before.peak_mb, after.peak_mb, "MB") if before and after else "",
            verdict(claim, before, after),
        ])  # fmt: skip
    return table(lines, rule="---")


def change(before: float, after: float, unit: str) -> str:
    return f"{before:,.0f} → {after:,.0f} {unit} ({100 * (after / before - 1):+.1f} %)"


def verdict(claim: Claim, before: Measurement | None, after: Measurement | None) -> str:
    if before is None or after is None:
        return "not measured"
    if after.cpu_max < before.cpu_min:
        return "holds" if claim.is_faster() else "does not hold"
    if after.cpu_min > before.cpu_max:
        return "does not hold" if claim.is_faster() else "holds"
    return "not clear"


def machine_line(results: dict[str, Any]) -> str:
    where = results["machine"]
    counts = {len(runs) for of in results["sizes"].values() for runs in of.values()}
    dates = " and ".join(sorted(set().union(*results["dates"].values())))
    runs = " to ".join(str(count) for count in sorted({min(counts), max(counts)}))
    return (
        f"{where['cpu']}, {where['cores']} CPU cores, {where['system']}, {dates}, "
        f"{results['jobs']} steps at the same time. Medians of {runs} runs, in brackets the "
        "fastest and the slowest. `make ladder-full`."
    )


if __name__ == "__main__":
    main()
