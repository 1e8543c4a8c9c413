"""The corpus ladder on 1 and 5 GB → results/ladder_corpus.json, and docs/ladder-corpus.md.

    ladder_corpus.py [--runs 3] [--jobs 1]     measures and renders: hours on two CPU cores
    ladder_corpus.py --only 1GB --encoder tokenmill --steps streaming,native
    ladder_corpus.py --render                  renders the measured results

The source reports a corpus of 52 GB in 200 files. The files here are English of the shared data, as
JSON lines. Documents are repeated with altered words, so that each file has words of its own. 1 GB
runs through every step with both encoders. 5 GB, a tenth of the source's corpus, runs through the
steps that use all CPU cores. `--jobs` measures several of the steps with one
CPU core at once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import corpora
import machine
from ladder_full import Row, altered, expected_seconds, say_expected
from markdown import table, write_block

sys.path.insert(0, str(machine.ROOT))

from ladder.corpus import batches
from ladder.corpus.encoders import LIBRARIES
from ladder.corpus.steps import STEPS, Measurement, measure, steps_of
from ladder.runner import (
    Panel,
    draw,
    duration,
    long_duration,
    measure_rounds,
    median_of,
    megabytes,
    speed_up,
    spread,
)

ROOT = machine.ROOT
RESULTS = ROOT / "bench" / "results" / "ladder_corpus.json"
PAGE = ROOT / "docs" / "ladder-corpus.md"
PICTURE = ROOT / "docs" / "ladder-corpus.svg"
CORPUS = "en-real"
FILES = 200
TOKENIZER, EOS = "gpt2", 50256
ONE_CORE = STEPS[:2]
SOURCE_GB = 52  # in the same number of files
SOURCE_STEPS = {  # documents per second and time, as the source has them
    "original": ("1,000", "–"),
    "streaming": ("600", "36 hours"),
    "ultra": ("5,000–10,000", "2–4 hours"),
    "extreme": ("10,000–20,000", "–"),
}
NUM_DOCS = 1000

Found = dict[str, list[Row]]


class Size(NamedTuple):
    name: str
    bytes_per_file: int
    steps: dict[str, tuple[str, ...]]


SIZES = (
    Size("1GB", 5_200_000, {library: steps_of(library) for library in LIBRARIES}),
    Size("5GB", 26_000_000, {library: steps_of(library)[2:] for library in LIBRARIES}),
)


class Job(NamedTuple):
    size: Size
    library: str
    step: str

    @property
    def key(self) -> str:
        return f"{self.size.name}/{self.library}/{self.step}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="runs of each step (default: 3)")
    parser.add_argument("--jobs", type=int, default=1, help="steps at the same time (default: 1)")
    parser.add_argument("--only", choices=[size.name for size in SIZES], help="one size")
    parser.add_argument("--encoder", choices=LIBRARIES, help="one encoder")
    parser.add_argument("--steps", help="some steps, such as streaming,native")
    parser.add_argument("--batches", action="store_true", help="measure the table of batches only")
    parser.add_argument("--render", action="store_true", help="render the measured results")
    options = parser.parse_args()
    if not options.render:
        measure_all(options)
    results = json.loads(RESULTS.read_text())
    needed = [job.key for job in all_jobs() if job.size is SIZES[0]]
    missing = [key for key in needed if not results["runs"].get(key)]
    if missing or "batches" not in results:
        raise SystemExit(f"not rendered: {', '.join(missing) or 'batches'} not measured")
    render(results)


# ── measurement ──────────────────────────────────────────────────────────────────────────────


def measure_all(options: argparse.Namespace) -> None:
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    jobs = {job.key: job for job in jobs_of(options)}
    # Jobs with one CPU core run at the same time. The longest come first, so several end together.
    single: Found = {key: [] for key in reversed(jobs) if jobs[key].step in ONE_CORE}
    others: Found = {key: [] for key in jobs if key not in single}
    earlier = results.setdefault("runs", {})
    seconds = [
        expected_seconds((earlier.get(key, []), options.runs) for key in keys)
        for keys in (single, others)
    ]
    say_expected(seconds[0] / options.jobs + seconds[1])
    for size in SIZES:
        if any(job.size is size for job in jobs.values()):
            write_files(size)
    if jobs:
        results |= {"machine": machine.describe(), "date": time.strftime("%Y-%m-%d")}
    if single:
        results["jobs"] = options.jobs

    def run(key: str) -> Row:
        size, library, step = jobs[key]
        return asdict(measure(step, files_of(size), library, TOKENIZER, EOS))

    def save() -> None:
        earlier.update({key: rows for key, rows in {**single, **others}.items() if rows})
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")

    measure_rounds(single, run, options.runs, save, options.jobs)
    measure_rounds(others, run, options.runs, save)
    if options.batches or len(jobs) == len(all_jobs()):
        figures = f"medians of {options.runs} interleaved runs after a warm-up"
        results["batches"] = {"machine": machine.describe(), "figures": figures}
        results["batches"] |= batches_of_all(options.runs)
        save()


def all_jobs() -> list[Job]:
    return [
        Job(size, library, step)
        for size, library in itertools.product(SIZES, LIBRARIES)
        for step in size.steps[library]
    ]


def jobs_of(options: argparse.Namespace) -> list[Job]:
    if options.batches:
        return []
    steps = options.steps.split(",") if options.steps else STEPS
    found = [
        job
        for job in all_jobs()
        if options.only in (None, job.size.name)
        and options.encoder in (None, job.library)
        and job.step in steps
    ]
    if not found:
        raise SystemExit("no step is left; the steps are " + ", ".join(STEPS))
    return found


def batches_of_all(runs: int) -> dict[str, list[Row]]:
    """Return the table of batches of each encoder."""
    corpora.prepare(CORPUS)
    texts = list(itertools.islice(corpora.stream(CORPUS), NUM_DOCS))
    found: dict[str, list[Row]] = {library: [] for library in LIBRARIES}
    for library, rows in found.items():
        for method in batches.measure(texts, library, TOKENIZER, runs):
            run = method.run
            times = {"seconds": run.seconds, "min": run.seconds_min, "max": run.seconds_max}
            rows.append({"name": method.name, "tokens": method.tokens} | times)
    return found


def files_of(size: Size) -> list[Path]:
    folder = corpora.FOLDER / f"ladder-{FILES}x{size.bytes_per_file}"
    return [folder / f"{index:03d}.jsonl" for index in range(FILES)]


def write_files(size: Size) -> None:
    """Write the files of a corpus, the same on every machine with the same data."""
    corpora.prepare(CORPUS)
    files = files_of(size)
    files[0].parent.mkdir(exist_ok=True)
    with ProcessPoolExecutor() as pool:
        list(pool.map(_write_file, files, range(FILES), itertools.repeat(size.bytes_per_file)))


def _write_file(path: Path, index: int, size: int) -> None:
    if path.exists():
        return
    documents = list(corpora.stream(CORPUS))
    pick = random.Random(index)
    start = index * len(documents) // FILES
    partial = path.with_suffix(".part")
    with partial.open("wb") as out:
        for document in itertools.cycle(documents[start:] + documents[:start]):
            line = json.dumps({"text": altered(document, pick)}, ensure_ascii=False) + "\n"
            size -= out.write(line.encode())
            if size <= 0:
                break
    partial.replace(path)


# ── the page ─────────────────────────────────────────────────────────────────────────────────


def render(results: dict[str, Any]) -> None:
    rows = {
        key: median_of([Measurement(**run) for run in runs])
        for key, runs in results["runs"].items()
        if runs
    }
    for key, peak_mb in results.get("peaks", {}).items():  # measured again, in other runs
        rows[key] = replace(rows[key], peak_mb=peak_mb)
    check_bytes(results["runs"])
    blocks = {f"corpus-{library}": steps_table(rows, library) for library in LIBRARIES}
    blocks["corpus-claims"] = claims_table(rows)
    blocks["corpus-52gb"] = long_table(rows)
    blocks["corpus-batches"] = batches_table(results["batches"])
    blocks["corpus-machine"] = machine_line(results)
    for name, block in blocks.items():
        print(block, end="\n\n")
        write_block(PAGE, name, block)
    PICTURE.write_text(plot(rows), encoding="utf-8")


def check_bytes(runs: dict[str, list[Row]]) -> None:
    """Exit if two steps wrote different ids for the same corpus."""
    for size in SIZES:
        found = {
            row["digest"]
            for key, rows in runs.items()
            for row in rows
            if key.partition("/")[0] == size.name
        }
        if len(found) > 1:
            raise SystemExit(f"the steps wrote different bytes for {size.name}")


def steps_table(rows: dict[str, Measurement], library: str) -> str:
    """Return the figures of all steps with one encoder, for the smaller corpus."""
    lines = [
        [
            "step",
            "time",
            "CPU time",
            "MB/s",
            "documents/s",
            "tokens/s",
            "over streaming",
            "peak memory",
            "the source: documents/s",
        ]
    ]
    base = rows[f"{SIZES[0].name}/{library}/streaming"]
    for index, step in enumerate(steps_of(library), 1):
        row = rows[f"{SIZES[0].name}/{library}/{step}"]
        source, _ = SOURCE_STEPS.get(step, ("–", "–"))
        lines.append([
            f"{index} {step}",
            with_spread(row),
            spread(row.cpu_seconds, row.cpu_min, row.cpu_max),
            f"{row.bytes / row.seconds / 1e6:,.1f}",
            f"{row.documents / row.seconds:,.0f}",
            f"{row.tokens / row.seconds:,.0f}",
            speed_up(base.seconds, row.seconds),
            f"{row.peak_mb:,.0f} MB",
            source,
        ])  # fmt: skip
    return table(lines)


def with_spread(row: Measurement) -> str:
    return spread(row.seconds, row.seconds_min, row.seconds_max)


def claims_table(rows: dict[str, Measurement]) -> str:
    """Return the speed-ups of the source next to the measured ones."""
    lines = [["step", "the source: over streaming", *LIBRARIES[::-1]]]
    for step, least, most in (("ultra", 8, 16), ("extreme", 16, 32)):
        line = [step, f"{least}–{most} ×"]
        for library in LIBRARIES[::-1]:
            before, after = (
                rows[f"{SIZES[0].name}/{library}/{name}"] for name in ("streaming", step)
            )
            busy = after.cpu_seconds / after.seconds
            low = min(before.seconds_min / after.seconds_max, busy)
            word = verdict(least, low, before.seconds_max / after.seconds_min)
            gain = speed_up(before.seconds, after.seconds)
            line.append(f"{word}: {gain}, busy cores: {busy:.0f}")
        lines.append(line)
    return table(lines, rule="---")


def verdict(least: float, low: float, high: float) -> str:
    """Return whether a speed-up is at least `least`, from its smallest and largest value."""
    return "holds" if low >= least else "does not hold" if high < least else "not clear"


def long_table(rows: dict[str, Measurement]) -> str:
    """Return the time of the source's corpus, from the largest corpus that a step has read."""
    lines = [["step", "encoder", "measured", "time", "MB/s", "52 GB", "the source"]]
    for library, step in itertools.product(LIBRARIES[::-1], STEPS):
        found = [rows.get(f"{size.name}/{library}/{step}") for size in reversed(SIZES)]
        row = next(filter(None, found), None)
        if row is None:
            continue
        speed = row.bytes / row.seconds
        lines.append([
            step,
            library,
            f"{row.bytes / 1e9:.2f} GB",
            with_spread(row),
            f"{speed / 1e6:,.1f}",
            long_duration(SOURCE_GB * 1e9 / speed),
            SOURCE_STEPS.get(step, ("–", "–"))[1],
        ])  # fmt: skip
    return table(lines)


def batches_table(measured: dict[str, Any]) -> str:
    source = {"batch_100": "45.2 ×", "batch_64": "43.3 ×", "batch_32": "37.5 ×", "single": "1.0 ×"}
    heads = [f"{library}: {head}" for library in LIBRARIES[::-1] for head in ("tokens/s", "gain")]
    lines = [["method", *heads, "the source"]]
    for name in batches.METHODS:
        line = [name]
        for library in LIBRARIES[::-1]:
            rows = {row["name"]: row for row in measured[library]}
            row, single = rows.get(name), rows["single"]["seconds"]
            seconds = row["seconds"] if row else 0.0
            line += (
                [f"{row['tokens'] / seconds:,.0f}", speed_up(single, seconds)] if row else ["", ""]
            )
        lines.append([*line, source.get(name, "–")])
    where = measured["machine"]
    return (
        f"{table(lines)}\n\n{where['cpu']}, {where['cores']} CPU cores, {measured['figures']}. "
        "`python bench/ladder_corpus.py --batches`."
    )


def plot(rows: dict[str, Measurement]) -> str:
    shown = [(library, step) for library in LIBRARIES[::-1] for step in steps_of(library)]
    names = {
        row: f"{STEPS.index(step) + 1} {step}, {library}"
        for row, (library, step) in enumerate(shown)
    }
    found = {
        row: rows[f"{SIZES[0].name}/{library}/{step}"] for row, (library, step) in enumerate(shown)
    }
    panels = (
        Panel("time", "time", {k: row.seconds for k, row in found.items()}, duration),
        Panel("peak memory", "memory", {k: row.peak_mb for k, row in found.items()}, megabytes),
    )
    row = next(iter(found.values()))
    subtitle = f"{row.bytes / 1e9:.2f} GB of JSON lines in {FILES} files, {row.tokens:,} tokens"
    return draw("Five ways through a corpus, with two encoders", subtitle, names, panels)


def machine_line(results: dict[str, Any]) -> str:
    where = results["machine"]
    counts = sorted({len(runs) for runs in results["runs"].values()})
    first = next(row for runs in results["runs"].values() for row in runs)
    corpus = f"{first['bytes'] / 1e9:.2f} GB in {FILES} files, {first['documents']:,} documents"
    return (
        f"{where['cpu']}, {where['cores']} CPU cores, {where['system']}, {results['date']}. "
        f"English, {corpus}, {first['tokens']:,} tokens with `{TOKENIZER}`. Medians of "
        f"{' to '.join(map(str, dict.fromkeys([counts[0], counts[-1]])))} runs, in brackets the "
        f"fastest and the slowest. All steps wrote the same bytes. Steps 1 and 2 use one core, and "
        f"{results['jobs']} of them ran at the same time. `python bench/ladder_corpus.py`."
    )


if __name__ == "__main__":
    main()
