"""Systems, vocabularies, jobs and corpora → bench/results/encode.json.

First every system is compared with tiktoken, and one that gives other ids gets no speed. Then come
the measurements, each in a fresh process, never two at once: a round goes through all cells, and
within a cell through all systems, so that a busy minute of the machine hits them alike.

Invariant: the file is complete JSON after each measurement; Ctrl-C keeps what is there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import corpora
import machine
import vocabularies
from jobs import BATCH_JOBS, MEASURED_JOBS, TIMED_JOBS
from machine import core_count, without_folders
from systems import SIDE_FOLDER, SYSTEMS

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "encode.json"
QUICK_RESULTS = corpora.CACHE / "quick.json"
REFERENCES = corpora.CACHE / "references.json"

MEASUREMENT_SECONDS_MAX = 120
PASS_SECONDS_MAX = 1.2  # a slower system gets a half, a quarter … of the text
MEMORY_MEGABYTES = 100.0

Result = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One row of numbers for every system."""

    vocabulary: str
    job: str
    corpus: str
    threads: int


@dataclass(frozen=True)
class Settings:
    systems: list[str]
    vocabularies: list[str]
    jobs: list[str]
    corpora: list[str]
    rounds: int
    megabytes: float
    memory_megabytes: float
    memory_corpus: str
    cores: int


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures every system, interleaved.")
    parser.add_argument("--quick", action="store_true", help="tiny texts, one round")
    parser.add_argument("--systems", help=f"with commas, of: {', '.join(SYSTEMS)}")
    parser.add_argument("--vocabularies", help="with commas; the first one gets all jobs")
    parser.add_argument("--jobs", help=f"with commas, of: {', '.join(MEASURED_JOBS)}")
    parser.add_argument("--corpora", help=f"with commas, of: {', '.join(corpora.CORPORA)}")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--megabytes", type=float, help="text of a measurement, default 12")
    parser.add_argument("--out", type=Path, help="default results/encode.json; quick: in .cache")
    args = parser.parse_args()
    settings = choose(args)
    sweep = Sweep(settings, args.out or (QUICK_RESULTS if args.quick else RESULTS))
    try:
        sweep.run()
    except KeyboardInterrupt:
        kept = (
            f"what was measured is in {without_folders(sweep.path)}"
            if sweep.samples
            else "nothing written"
        )
        sys.exit(f"\nstopped; {kept}")


def choose(args: argparse.Namespace) -> Settings:
    quick: bool = args.quick
    return Settings(
        systems=names(args.systems, SYSTEMS, ["tokenmill", "tiktoken", "read_only"], quick),
        vocabularies=[
            vocabularies.vocabulary(name).name
            for name in (args.vocabularies or "").split(",")
            if name
        ]
        or (["o200k_base"] if quick else ["o200k_base", "cl100k_base", "r50k_base"]),
        jobs=names(args.jobs, MEASURED_JOBS, list(MEASURED_JOBS), quick),
        corpora=names(args.corpora, corpora.CORPORA, ["mix"], quick),
        rounds=args.rounds or (1 if quick else 3),
        megabytes=args.megabytes or (0.2 if quick else 12.0),
        memory_megabytes=1.0 if quick else MEMORY_MEGABYTES,
        memory_corpus="mix" if quick else corpora.EVERYTHING,
        cores=core_count(),
    )


def names(given: str | None, known: Any, few: list[str], quick: bool) -> list[str]:
    if given is None:
        return few if quick else list(known)
    chosen = [name.strip() for name in given.split(",")]
    if unknown := [name for name in chosen if name not in known]:
        sys.exit(f"unknown: {', '.join(unknown)}; there are: {', '.join(known)}")
    return chosen


def plan(settings: Settings) -> list[Cell]:
    """The first vocabulary gets every job; the others their load, and arrays of the mix."""
    middle = "mix" if "mix" in settings.corpora else settings.corpora[0]
    first, *others = settings.vocabularies
    thread_counts = sorted({1, settings.cores})
    cells = [Cell(first, "array", corpus, 1) for corpus in settings.corpora]
    cells += [Cell(first, job, middle, 1) for job in ("list", "count", "latency")]
    cells += [Cell(first, job, middle, n) for job in BATCH_JOBS for n in thread_counts]
    cells += [Cell(v, "array", middle, 1) for v in others]
    cells += [Cell(v, "load", "", 1) for v in settings.vocabularies]
    cells += [Cell(first, "memory", settings.memory_corpus, 1)]
    return [cell for cell in cells if cell.job in settings.jobs]


class Sweep:
    def __init__(self, settings: Settings, path: Path) -> None:
        self.settings = settings
        self.path = path
        self.started = time.monotonic()
        self.samples: dict[tuple[str, Cell], list[Result]] = {}
        self.rough: dict[tuple[str, str, str], float] = {}
        self.checks: dict[tuple[str, str], Result] = {}
        self.complete = False
        self.head: Result = {}

    def run(self) -> None:
        settings = self.settings
        if find_spec("tiktoken") is None:
            sys.exit("tiktoken gives the ids to check against: install bench/requirements.txt")
        say("preparing texts and vocabularies")
        for system in settings.systems:
            install_side(SYSTEMS[system].side)
        for name in settings.vocabularies:
            vocabularies.prepare(name)
        memory = [settings.memory_corpus] if "memory" in settings.jobs else []
        texts = {c: corpora.prepare(c) for c in dict.fromkeys([*settings.corpora, *memory])}
        self.head = describe(settings, texts)
        for name in [name for name in settings.corpora if not texts[name]["documents"]]:
            say(f"no text for {name} on this machine: left out")
            settings.corpora.remove(name)
        self.check_all()
        cells = plan(settings)
        self.measure_all(cells)
        self.complete = True
        self.write()
        say(f"{without_folders(self.path)} after {time.monotonic() - self.started:.0f} s")

    def check_all(self) -> None:
        """Ids before speed: also tells how fast a system is, roughly."""
        for v in self.settings.vocabularies:
            for system in self.settings.systems:
                if not SYSTEMS[system].has_ids:
                    continue
                names = ",".join(self.settings.corpora)
                result = measure(system, v, "check", names, self.settings.cores, 0)
                self.checks[system, v] = result
                for corpus, speed in result.get("rough_mb_s", {}).items():
                    self.rough[system, v, corpus] = speed
                say(f"check {v} {system}: {verdict(result)}")

    def measure_all(self, cells: list[Cell]) -> None:
        work = [
            (system, cell)
            for number in range(self.settings.rounds)
            for cell in cells
            if cell.job != "memory" or number == 0  # long, and the same each time
            for system in rotated(self.settings.systems, number)
        ]
        started = time.monotonic()
        for done, (system, cell) in enumerate(work):
            left = (time.monotonic() - started) / done * (len(work) - done) if done else 0.0
            result = self.measure_one(system, cell)
            self.samples.setdefault((system, cell), []).append(result)
            figures = " ".join(f"{k} {v:.4g}" for k, v in result.get("metrics", {}).items())
            label = f"{cell.vocabulary} {cell.job} {cell.corpus} {cell.threads} {system}"
            say(f"{done + 1}/{len(work)} {left:.0f} s left: {label}: {figures or result['status']}")
            self.write()

    def measure_one(self, system: str, cell: Cell) -> Result:
        if why := self.refusal(system, cell):
            return {"status": why}
        megabytes = (
            self.settings.memory_megabytes if cell.job == "memory" else self.share(system, cell)
        )
        result = measure(
            system, cell.vocabulary, cell.job, cell.corpus or "mix", cell.threads, megabytes
        )
        if result["status"] == "ok" and cell.job in TIMED_JOBS and SYSTEMS[system].has_ids:
            self.verify(result, cell, megabytes)
        return result

    def refusal(self, system: str, cell: Cell) -> str | None:
        """Why a cell is not measured: what the check of that system found."""
        if not SYSTEMS[system].has_ids:
            return None
        result = self.checks[system, cell.vocabulary]
        if result["status"] != "ok":
            return str(result["status"])
        method = {"latency": "list", "memory": "array", "load": "list"}.get(cell.job, cell.job)
        found = [
            outcome[method]
            for corpus, outcome in result["checks"].items()
            if cell.corpus == corpus or cell.corpus not in self.settings.corpora
        ]
        return next((outcome for outcome in found if outcome != "ok"), None)

    def share(self, system: str, cell: Cell) -> float:
        """The text of a measurement: less for a system whose pass would take too long."""
        megabytes = self.settings.megabytes
        speed = self.rough.get((system, cell.vocabulary, cell.corpus))
        while speed and megabytes > 0.1 and megabytes / speed > PASS_SECONDS_MAX:
            megabytes /= 2
        return megabytes

    def verify(self, result: Result, cell: Cell, megabytes: float) -> None:
        """A timed pass that gave other ids than tiktoken loses its numbers."""
        wanted = reference(cell.vocabulary, cell.corpus, megabytes)
        ids = wanted["documents" if cell.job in BATCH_JOBS else "text"]
        if cell.job == "count":
            ids = ids.split()[0]
        expected = {"ids": ids, "ids_again": ids, "ids_unseen": wanted["unseen"]}
        for name, want in expected.items():
            if result.get(name, want) != want:
                result["status"] = f"ids differ in a timed pass: {name} {result[name]}, not {want}"
                result.pop("metrics", None)

    def write(self) -> None:
        rows = [self.row(system, cell, found) for (system, cell), found in self.samples.items()]
        checks = [
            {"system": system, "vocabulary": v, "verdict": verdict(result)}
            for (system, v), result in self.checks.items()
        ]
        versions = {r["system"]: r["version"] for r in self.checks.values() if r.get("version")}
        whole = self.head | {
            "versions": versions,
            "complete": self.complete,
            "elapsed_s": round(time.monotonic() - self.started),
            "checks": checks,
            "rows": rows,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".part")
        partial.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", "utf-8")
        partial.replace(self.path)

    def row(self, system: str, cell: Cell, found: list[Result]) -> Result:
        """All samples of a system in a cell, with median, minimum and maximum of each metric."""
        good = [r for r in found if r["status"] == "ok"]
        bad = [r["status"] for r in found if r["status"] != "ok"]
        last = (good or found)[-1]
        kept = ("bytes", "documents", "input", "how")
        metrics = {}
        for name in good[0]["metrics"] if good and not bad else ():
            values = [r["metrics"][name] for r in good]
            metrics[name] = {
                "median": round(statistics.median(values), 3),
                "min": round(min(values), 3),
                "max": round(max(values), 3),
                "samples": [round(v, 3) for v in values],
            }
        return (
            {"system": system}
            | asdict(cell)
            | {"status": bad[0] if bad else "ok"}
            | {key: last[key] for key in kept if key in last}
            | {"load_average_max": max((r["load_average"] for r in good), default=None)}
            | {"metrics": metrics}
        )


def measure(
    system: str, vocabulary: str, job: str, corpus: str, threads: int, megabytes: float
) -> Result:
    """One measurement in a process of its own."""
    command = [sys.executable, str(HERE / "measure.py"), system, vocabulary, job]
    command += ["--corpus", corpus, "--threads", str(threads), "--megabytes", str(megabytes)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MEASUREMENT_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return {"status": f"timed out after {MEASUREMENT_SECONDS_MAX} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        why = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return {"status": f"failed: exit {done.returncode}: {without_folders(why)[:200]}"}
    result: Result = json.loads(lines[-1])
    result["status"] = without_folders(result["status"])
    return result


def reference(vocabulary: str, corpus: str, megabytes: float) -> Result:
    """tiktoken's digests, computed once for a text and kept between sweeps."""
    known: dict[str, Result] = json.loads(REFERENCES.read_text()) if REFERENCES.exists() else {}
    key = f"{vocabulary} {corpus} {corpora.prepare(corpus)['digest']} {megabytes}"
    if key not in known:
        known[key] = measure("tiktoken", vocabulary, "reference", corpus, 1, megabytes)
        if known[key]["status"] != "ok":
            sys.exit(f"tiktoken gives no reference ids: {known[key]['status']}")
        REFERENCES.write_text(json.dumps(known))
    return known[key]


def verdict(result: Result) -> str:
    """'ok', or the first thing that is wrong with a system."""
    if result["status"] != "ok":
        return str(result["status"])
    for corpus, outcome in result["checks"].items():
        for job, found in outcome.items():
            if found != "ok":
                return f"{job} of {corpus}: {found}"
    return "ok"


def install_side(requirement: str | None) -> None:
    """A second version of a package, in a folder that only its own measurements see."""
    if requirement is None or (SIDE_FOLDER / requirement).exists():
        return
    say(f"installing {requirement} in a folder of its own")
    partial = SIDE_FOLDER / f"{requirement}.part"
    tail = ["install", "--quiet", "--no-deps", "--target", str(partial), requirement]
    tools = [[sys.executable, "-m", "pip"]]
    if uv := shutil.which("uv"):
        tools.append([uv, "pip"])
    for tool in tools:
        if subprocess.run([*tool, *tail], capture_output=True).returncode == 0:
            partial.rename(SIDE_FOLDER / requirement)
            return
    say(f"could not install {requirement}: its cells will say so")


def rotated(systems: list[str], number: int) -> list[str]:
    """Another one is first in each round."""
    at = number * 3 % len(systems)
    return systems[at:] + systems[:at]


def describe(settings: Settings, texts: dict[str, Result]) -> Result:
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python bench/sweep.py", *map(bare, sys.argv[1:])]),
        "machine": machine.describe(),
        "python": platform.python_version(),
        "settings": asdict(settings),
        "corpora": texts,
    }


def bare(argument: str) -> str:
    return Path(argument).name if Path(argument).is_absolute() else argument


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
