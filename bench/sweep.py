"""Systems, vocabularies, jobs and corpora → bench/results/encode.json.

First the ids of every system are compared with tiktoken. A system with other ids gets no speed.
Each measurement is a new process, and processes run one at a time. A round goes through all cells,
and in a cell through its systems, so that a busy minute of the machine affects all of them.

Invariant: the file is complete JSON after each measurement; Ctrl-C keeps its results.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
import time
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# isort: split
import corpora
import goal_tables
import goals
import machine
import vocabularies
from jobs import BATCH_JOBS, CALLS, MEASURED_JOBS, MEMORY_JOBS, TIMED_JOBS, Cell
from machine import without_folders
from plan import PEER_ROUNDS_MAX, SLOW, Settings, Work, plan, turns
from processes import Result, install_side, measure, reference
from systems import SYSTEMS

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "encode.json"

PASS_SECONDS_MAX = 1.2  # a slower system gets a half, a quarter … of the text
# The settings of the table and the chart in the README.
HEADLINE: dict[str, Any] = {
    "systems": "tokenmill,gigatoken,tokenizers-1.0rc,tiktoken",
    "vocabularies": "o200k_base",
    "jobs": "array,latency,load",
    "corpora": "en,code,zh",
    "rounds": 5,
    "megabytes": 20.0,
}
MEMORY_SHARE = 2.5  # memory jobs get 100 MB of text, the others 40


def main() -> None:
    args = arguments()
    settings = choose(args)
    sweep = Sweep(settings, args.out or default_path(args))
    try:
        sweep.run()
    except KeyboardInterrupt:
        where = without_folders(sweep.path) if sweep.samples else "no file"
        sys.exit(f"\nstopped; results are in {where}")
    if args.goals:
        rows = sweep.rows()
        goal_tables.print_measured(goals.judge(rows), goals.judge(rows, goals.REAL_GOALS))


def arguments() -> argparse.Namespace:
    texts = (*corpora.CORPORA, *corpora.REAL_CORPORA)
    parser = argparse.ArgumentParser(description="Measures every system, interleaved.")
    parser.add_argument("--quick", action="store_true", help="tiny texts, one round")
    parser.add_argument(
        "--goals", action="store_true", help="measure only the goals, one round; print a table"
    )
    parser.add_argument(
        "--headline", action="store_true", help="measure the README's table, five rounds"
    )
    parser.add_argument("--systems", help=f"systems, separated by commas: {', '.join(SYSTEMS)}")
    parser.add_argument(
        "--vocabularies", "--vocabulary", help="separated by commas; the first one gets all jobs"
    )
    parser.add_argument(
        "--jobs", "--job", help=f"jobs, separated by commas: {', '.join(MEASURED_JOBS)}"
    )
    parser.add_argument(
        "--corpora", "--corpus", help=f"corpora, separated by commas: {', '.join(texts)}"
    )
    parser.add_argument("--rounds", type=int, help="number of rounds (default: 3)")
    parser.add_argument("--megabytes", type=float, help="text per measurement (default: 40)")
    parser.add_argument(
        "--out", type=Path, help="results (default: results/encode.json; --quick, --goals: .cache)"
    )
    args = parser.parse_args()
    if args.headline:
        missing = {name: value for name, value in HEADLINE.items() if not getattr(args, name)}
        vars(args).update(missing)
    return args


def default_path(args: argparse.Namespace) -> Path:
    if args.goals:
        return corpora.CACHE / "goals.json"
    if args.headline:
        return RESULTS.with_name("headline.json")
    return corpora.CACHE / "quick.json" if args.quick else RESULTS


def choose(args: argparse.Namespace) -> Settings:
    quick: bool = args.quick
    systems = list(SYSTEMS)
    if quick:
        systems = ["tokenmill", "tiktoken", "read_only"]
    if args.goals:
        systems = [goals.OURS, goals.RIVAL]
    rounds = args.rounds or (1 if quick or args.goals else 3)
    megabytes = args.megabytes or (0.2 if quick else corpora.MEGABYTES)
    texts = (*corpora.CORPORA, *corpora.REAL_CORPORA)
    has_names = args.systems is not None  # named systems get every cell in every round
    return Settings(
        systems=names(args.systems, SYSTEMS, systems),
        vocabularies=[
            vocabularies.vocabulary(name.strip()).name
            for name in (args.vocabularies or "").split(",")
            if name
        ]
        or (["o200k_base"] if quick else ["o200k_base", "cl100k_base", "r50k_base"]),
        jobs=names(args.jobs, MEASURED_JOBS, list(MEASURED_JOBS)),
        corpora=names(args.corpora, texts, ["mix"] if quick else list(texts)),
        rounds=rounds,
        peer_rounds=rounds if has_names else min(rounds, PEER_ROUNDS_MAX),
        megabytes=megabytes,
        memory_megabytes=megabytes * MEMORY_SHARE,
        memory_corpus="mix" if quick else corpora.EVERYTHING,
        cores=machine.core_count(),
        goals=args.goals or not quick,
        comparison=not args.goals,
        slow=[] if has_names or quick else list(SLOW),
    )


def names(given: str | None, known: Any, default: list[str]) -> list[str]:
    if given is None:
        return default
    chosen = [name.strip() for name in given.split(",")]
    if unknown := [name for name in chosen if name not in known]:
        sys.exit(f"unknown: {', '.join(unknown)}; expected some of {', '.join(known)}")
    return chosen


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
        if find_spec("tiktoken") is None:
            sys.exit("tiktoken not found; install bench/requirements.txt")
        self.prepare()
        work = plan(self.settings)
        self.check_all(work)
        self.measure_all(work)
        self.complete = True
        self.write()
        say(f"{without_folders(self.path)} after {time.monotonic() - self.started:.0f} s")

    def prepare(self) -> None:
        say("preparing texts and vocabularies")
        settings = self.settings
        for system in settings.systems:
            if not install_side(SYSTEMS[system].side):
                say(f"cannot install {SYSTEMS[system].side}; its cells get no figures")
        for name in settings.vocabularies:
            vocabularies.prepare(name)
        memory = [settings.memory_corpus] if set(settings.jobs) & set(MEMORY_JOBS) else []
        texts = {c: corpora.prepare(c) for c in dict.fromkeys([*settings.corpora, *memory])}
        available = [name for name in settings.corpora if texts[name]["documents"]]
        for name in settings.corpora:
            if name not in available:
                say(f"no text for {name} on this machine; skipped")
        self.settings = replace(settings, corpora=available)
        self.head = describe(self.settings, texts)

    def check_all(self, work: Work) -> None:
        """Check the ids of each system on all of its texts, and estimate its speed."""
        wanted: dict[tuple[str, str], dict[str, None]] = {}
        for cell, systems in work.items():
            known = cell.corpus in self.settings.corpora
            for system in systems:
                texts = wanted.setdefault((cell.vocabulary, system), {})
                texts[cell.corpus if known else self.settings.middle] = None
        for (v, system), texts in wanted.items():
            if SYSTEMS[system].has_ids:
                result = measure(system, v, "check", ",".join(texts), self.settings.cores, 0)
                self.checks[system, v] = result
                for corpus, speed in result.get("rough_mb_s", {}).items():
                    self.rough[system, v, corpus] = speed
                say(f"check {v} {system}: {verdict(result)}")

    def measure_all(self, work: Work) -> None:
        todo = [turn for number in range(self.settings.rounds) for turn in turns(work, number)]
        started = time.monotonic()
        for done, (system, cell) in enumerate(todo):
            left = (time.monotonic() - started) / done * (len(todo) - done) if done else 0.0
            result = self.measure_one(system, cell)
            self.samples.setdefault((system, cell), []).append(result)
            figures = " ".join(f"{k} {v:.4g}" for k, v in result.get("metrics", {}).items())
            label = f"{cell.vocabulary} {cell.job} {cell.corpus} {cell.threads} {system}"
            say(f"{done + 1}/{len(todo)} {left:.0f} s left: {label}: {figures or result['status']}")
            self.write()

    def measure_one(self, system: str, cell: Cell) -> Result:
        if why := self.failed_check(system, cell):
            return {"status": why}
        megabytes = (
            self.settings.memory_megabytes if cell.job in MEMORY_JOBS else self.share(system, cell)
        )
        corpus = cell.corpus or self.settings.middle
        result = measure(system, cell.vocabulary, cell.job, corpus, cell.threads, megabytes)
        if result["status"] == "ok" and cell.job in TIMED_JOBS and SYSTEMS[system].has_ids:
            self.verify(result, cell, megabytes)
        return result

    def failed_check(self, system: str, cell: Cell) -> str | None:
        """Return the failed check of a system, which then is not measured in this cell."""
        if not SYSTEMS[system].has_ids:
            return None
        result = self.checks[system, cell.vocabulary]
        if result["status"] != "ok":
            return str(result["status"])
        call = "list" if cell.job == "load" else CALLS.get(cell.job, cell.job)
        checks = result["checks"]
        found = [checks[cell.corpus]] if cell.corpus in checks else list(checks.values())
        return next((outcome[call] for outcome in found if outcome[call] != "ok"), None)

    def share(self, system: str, cell: Cell) -> float:
        """Return the megabytes of a measurement, fewer for a slow system.

        The two systems of the goals always get the same text.
        """
        megabytes = self.settings.megabytes
        speed = self.rough.get((system, cell.vocabulary, cell.corpus))
        if speed is None or system in (goals.OURS, goals.RIVAL):
            return megabytes
        size = corpora.seen_bytes(cell.corpus, megabytes) / 1e6
        if size / speed <= PASS_SECONDS_MAX:
            return megabytes
        while size > 0.1 and size / speed > PASS_SECONDS_MAX:
            size /= 2
        return size

    def verify(self, result: Result, cell: Cell, megabytes: float) -> None:
        """Remove the figures of a timed pass whose ids differ from those of tiktoken."""
        wanted = reference(cell.vocabulary, cell.corpus, megabytes)
        ids = wanted["documents" if cell.job in BATCH_JOBS else "text"]
        if cell.job == "count":
            ids = ids.split()[0]
        expected = {"ids": ids, "ids_again": ids, "ids_unseen": wanted["unseen"]}
        for name, want in expected.items():
            if result.get(name, want) != want:
                result["status"] = f"ids differ in a timed pass: {name} {result[name]}, not {want}"
                result.pop("metrics", None)

    def rows(self) -> list[Result]:
        return [row(system, cell, found) for (system, cell), found in self.samples.items()]

    def write(self) -> None:
        checks = [
            {"system": system, "vocabulary": v, "verdict": verdict(result)}
            for (system, v), result in self.checks.items()
        ]
        rows = self.rows()
        whole = self.head | {
            "versions": {
                r["system"]: r["version"] for r in self.checks.values() if r.get("version")
            },
            "complete": self.complete,
            "elapsed_s": round(time.monotonic() - self.started),
            "checks": checks,
            "goals": goals.judge(rows),
            "rows": rows,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".part")
        partial.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", "utf-8")
        partial.replace(self.path)


def row(system: str, cell: Cell, found: list[Result]) -> Result:
    """Return all samples of a system in a cell, with median, minimum and maximum."""
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


def verdict(result: Result) -> str:
    """Return 'ok' or the first failure of a system."""
    if result["status"] != "ok":
        return str(result["status"])
    for corpus, outcome in result["checks"].items():
        for job, found in outcome.items():
            if found != "ok":
                return f"{job} of {corpus}: {found}"
    return "ok"


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
