"""The cost of growing runs → results/scaling.json, and the tables of docs/scaling.md.

    scaling.py                    all parts, half an hour on two idle cores; requires ray
    scaling.py --only tasks       one of tasks, bytes, files, pretokens, workers, ray
    scaling.py --only cores       for a machine with more than two cores
    scaling.py --render           renders the measured results

Every measurement is a new process, and processes run one at a time. The text is the gigabyte of the
training benchmarks (training_corpora.py) as JSON lines. A larger job reads it several times, under
other names. Tasks without work are simulated: they have no inputs and no shards, and their journal
entries are invented, but the driver runs as usual. Sixty-four workers are simulated on a real Ray
cluster that is configured for 64 cores. Their tasks sleep for the time of a real task.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

# isort: split
import machine
import scaling_tables
import training_corpora
import training_memory

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "scaling.json"
TASKS = ((1_000, 100), (10_000, 100), (100_000, 100), (100_000, 100_000))  # (tasks, files)
MEGABYTES = (64, 256, 1024)
FILES = (1, 100, 10_000)
FILES_MB = 64
PRETOKENS = (10_000, 100_000, 1_000_000, 4_000_000)
OCCURRENCES = 1_000_000_000
VOCAB_SIZE = 32_000
WORKERS_MB = 512
RAY_COPIES = 8
CORES_COPIES = 8
SIMULATED_WORKERS = 64
SIMULATED_TASKS = 64 * 20
IN_FLIGHT = 12_800
DRIVEN = 100_000
TASK_BYTES = 64_000_000
TASK_SECONDS = 1.5  # 64 MB at 43 MB/s, the rate of one core
TEXT = "1GB"
RECIPE = 2  # increase it when the files would change
DOCUMENT_CHARS = 3000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=[*PARTS, *ELSEWHERE], action="append")
    parser.add_argument(
        "--rounds", type=int, default=3, help="number of interleaved rounds (default: 3)"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--render", action="store_true", help="render the measured results")
    parser.add_argument("--simulate", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--cluster", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--drive", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--text", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.simulate is not None:
        print(json.dumps(measure_tasks(*args.simulate)))
        return
    if args.cluster is not None:
        print(json.dumps(measure_cluster(args.cluster)))
        return
    if args.drive is not None:
        print(json.dumps(measure_driver(args.drive)))
        return
    if args.text is not None:
        print(json.dumps({"bytes": write_text(args.text)}))
        return
    results = json.loads(args.out.read_text()) if args.out.exists() else {}
    for name in () if args.render else args.only or PARTS:
        print(name, flush=True)
        results[name] = (PARTS | ELSEWHERE)[name](args.rounds)
        results.setdefault("machines", {})[name] = machine.describe()
        args.out.write_text(json.dumps(results, indent=1) + "\n")
    scaling_tables.render(results)


# ── tasks without work ───────────────────────────────────────────────────────────────────────


def tasks(_: int) -> list[dict[str, Any]]:
    rows = [_fresh("--simulate", str(count), str(files)) for count, files in TASKS]
    return [*rows, _fresh("--drive", str(DRIVEN))]


def measure_tasks(count: int, files: int) -> dict[str, Any]:
    """Measure the time and memory of a driver for `count` tasks of `files` files."""
    from tokenmill import Tokenizer
    from tokenmill.corpus import Source

    tokenizer = Tokenizer.load("cl100k_base")
    size = TASK_BYTES * (count // files)
    sources = [Source(f"/data/{n:06d}.txt", "text", None, size, n) for n in range(files)]
    before = _peak_mb()
    with tempfile.TemporaryDirectory() as folder:
        times, manifest_bytes = simulate(Path(folder), sources, tokenizer)
    peak = _peak_mb()
    names = ("plan_seconds", "journal_seconds", "finalize_seconds")
    return {
        "tasks": count, "files": files, "start_mb": before, "peak_mb": peak,
        "manifest_bytes": manifest_bytes,
    } | dict(zip(names, times, strict=True))  # fmt: skip


def simulate(folder: Path, sources: list[Any], tokenizer: Any) -> tuple[list[float], int]:
    """Plan, record and finalize; return the three times and the size of the manifest."""
    from tokenmill.tokenizing import journal, plan
    from tokenmill.tokenizing.options import PLANNED, resolve_options, spec_of
    from tokenmill.tokenizing.output import open_output

    values = resolve_options({"task_bytes": TASK_BYTES}, tokenizer)
    options = {name: values[name] for name in PLANNED}
    output, real = open_output(folder), plan.cuts
    plan.cuts = _evenly
    try:
        times = [time.perf_counter()]
        planned = plan.make_plan(sources, options, tokenizer)
        output.write_new(plan.NAME, planned.dump())
        times.append(time.perf_counter())
        entries = journal.Entries()
        for task in planned.tasks:
            names = [segment.source.name for segment in task.segments]
            entry = entry_of(task.number, task.id, names)
            journal.write_entry(output, entry)
            entries.add(entry)
        times.append(time.perf_counter())
        with output.staging() as staging:
            journal.finalize(output, planned, entries, spec_of(options, tokenizer), staging)
        times.append(time.perf_counter())
    finally:
        plan.cuts = real
    return [b - a for a, b in pairwise(times)], (folder / journal.MANIFEST).stat().st_size


def _evenly(source: Any, _: Any, task_bytes: int) -> list[Any]:
    from tokenmill.corpus.documents import Segment

    return [
        Segment(source, start, start + task_bytes) for start in range(0, source.size, task_bytes)
    ]


def entry_of(number: int, task_id: str, sources: list[str]) -> dict[str, Any]:
    """Return an invented journal entry."""
    counts = {"documents": 100_000, "tokens": 60_000_000, "bytes": 250_000_000, "quarantined": 0}
    shard = {
        "stem": f"{number:05d}-000", "documents": 100_000, "tokens": 60_000_000,
        "files": [{"suffix": ".bin", "bytes": 240_000_000, "checksum": "0" * 16}],
    }  # fmt: skip
    segments = [{"source": name, "start": 0, "end": None} | counts for name in sources]
    entry = {"task": number, "id": task_id, "input": "0" * 16, "shards": [shard]}
    return entry | counts | {"segments": segments}


# ── real runs ────────────────────────────────────────────────────────────────────────────────


def growing_bytes(rounds: int) -> list[dict[str, Any]]:
    return _medians(rounds, {f"{size} MB": partial(tokenize, [_text(size)]) for size in MEGABYTES})


def growing_files(rounds: int) -> list[dict[str, Any]]:
    names = [f"{count:,} file{'s'[: count > 1]}" for count in FILES]
    runs = [partial(tokenize, [_parts(count)]) for count in FILES]
    return _medians(rounds, dict(zip(names, runs, strict=True)))


def pretokens(_: int) -> list[dict[str, Any]]:
    """Measure training from counts of a growing number of unique pretokens."""
    return [_learn(unique) for unique in PRETOKENS]


def _learn(unique: int) -> dict[str, Any]:
    settings = argparse.Namespace(text=0, unique=unique, total=OCCURRENCES)
    counts = training_memory.prepare(settings)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "learned.tokenmill"
        words = ["--vocab-size", str(VOCAB_SIZE), "--output", str(out), "--json"]
        found = _timed("train", str(counts), *words)
    found["seconds_in_train"] = found.pop("summary")["seconds"]
    print(unique, found, flush=True)
    return {"pretokens": unique} | found


def workers(rounds: int) -> list[dict[str, Any]]:
    runs: dict[str, Callable[[Path], dict[str, Any]]] = {}
    for count in (1, 2):
        for engine in ("local", "ray"):
            more = ["--threads", str(count), *_engine(engine)]
            runs[f"{engine}, {count}"] = partial(tokenize, [_text(WORKERS_MB)], more=more)
    rows = _medians(rounds, runs)
    return [*rows, _fresh("--cluster", str(SIMULATED_WORKERS))]


def cores(rounds: int) -> list[dict[str, Any]]:
    """Measure 1, 2, 4, … workers, up to the number of cores."""
    counts = [1 << n for n in range((os.cpu_count() or 1).bit_length())]
    text = _copies(CORES_COPIES)
    more = {f"{n} worker{'s'[: n > 1]}": ["--threads", str(n)] for n in counts}
    return _medians(rounds, {name: partial(tokenize, [text], more=m) for name, m in more.items()})


def on_ray(rounds: int) -> list[dict[str, Any]]:
    """Measure a job of a minute with both engines on the same cores."""
    copies = _copies(RAY_COPIES)
    runs = {name: partial(tokenize, [copies], more=_engine(name)) for name in ("local", "ray")}
    return _medians(rounds, runs)


def _engine(name: str) -> list[str]:
    return ["--engine", "ray"] if name == "ray" else []


def _medians(
    rounds: int, runs: dict[str, Callable[[Path], dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Run all in interleaved rounds; return the medians of their figures."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            with tempfile.TemporaryDirectory(dir=training_corpora.FOLDER) as folder:
                found[name].append(run(Path(folder) / "out"))
            print(name, found[name][-1], flush=True)
    return [
        {"run": name, "rounds": rounds, "each_seconds": [row["seconds"] for row in rows]}
        | {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        for name, rows in found.items()
    ]


def tokenize(inputs: list[Path], out: Path, more: Sequence[str] = ()) -> dict[str, Any]:
    words = [*map(str, inputs), "--tokenizer", "cl100k_base", "--output", str(out), *more]
    found = _timed("tokenize", *words, "--json", "--progress", "none")
    shutil.rmtree(out)
    return {"bytes": found.pop("summary")["bytes"]} | found


def _timed(*words: str) -> dict[str, Any]:
    """Run a command; return its time, its CPU time and the memory of its largest process."""
    command = [sys.executable, "-m", "tokenmill", *words]
    # An installed package has bytecode, so the first run may write that of this checkout.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        if status:
            sys.exit(f"exit code {os.waitstatus_to_exitcode(status)}: {' '.join(command)}")
        output.seek(0)
        summary = json.loads(output.read())
    cpu = usage.ru_utime + usage.ru_stime
    return {"summary": summary, "seconds": seconds, "cpu_seconds": cpu, "mb": usage.ru_maxrss / 1e3}


def _fresh(*words: str) -> dict[str, Any]:
    """Run this script in a new process and return its result."""
    command = [sys.executable, __file__, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(found, flush=True)
    return found


# ── texts ────────────────────────────────────────────────────────────────────────────────────


def _text(megabytes: int) -> Path:
    """Return a file of the generated text as JSON lines.

    Another process writes it, since later forks start with the memory of this process.
    """
    path = _text_path(megabytes)
    if not path.exists():
        _fresh("--text", str(megabytes))
    return path


def _text_path(megabytes: int) -> Path:
    return training_corpora.FOLDER / f"scaling-{RECIPE}-{megabytes}.jsonl"


def write_text(megabytes: int) -> int:
    training_corpora.prepare(TEXT)
    left = megabytes * 1_000_000
    with _text_path(megabytes).open("w", encoding="utf-8") as file:
        for document in _documents():
            line = json.dumps({"text": document}, ensure_ascii=False) + "\n"
            left -= len(line.encode())
            if left < 0:
                break
            file.write(line)
        return file.tell()


def _documents() -> Iterator[str]:
    data = training_corpora.path(TEXT).read_bytes()
    end = training_corpora.END.encode()
    start = 0
    while start < len(data):
        stop = data.find(end, start)
        stop = len(data) if stop < 0 else stop
        text = data[start:stop].decode("utf-8", "replace")
        for first in range(0, len(text), DOCUMENT_CHARS):
            yield text[first : first + DOCUMENT_CHARS]
        start = stop + len(end)


def _parts(count: int) -> Path:
    """Return a folder with the same text in `count` files."""
    folder = training_corpora.FOLDER / f"scaling-{RECIPE}-files-{count}"
    if not folder.exists():
        with _text(FILES_MB).open("rb") as text:  # read in lines to save memory: see _text
            total = sum(1 for _ in text)
            text.seek(0)
            folder.mkdir()
            for number in range(count):
                lines = (number + 1) * total // count - number * total // count
                with (folder / f"{number:05d}.jsonl").open("wb") as part:
                    part.writelines(islice(text, lines))
    return folder


def _copies(count: int) -> Path:
    """Return a folder with `count` hard links to a gigabyte."""
    folder = training_corpora.FOLDER / f"scaling-{RECIPE}-copies-{count}"
    if not folder.exists():
        text = _text(max(MEGABYTES))
        folder.mkdir()
        for number in range(count):
            (folder / f"{number}.jsonl").hardlink_to(text)
    return folder


# ── sixty-four workers ───────────────────────────────────────────────────────────────────────


def measure_cluster(count: int) -> dict[str, Any]:
    """Run tasks that sleep on a Ray cluster configured for `count` cores."""
    from tokenmill.tokenizing import ray_executor
    from tokenmill.tokenizing.executors import Order, Settings, run_orders
    from tokenmill.tokenizing.ray_executor import RayExecutor

    ray_executor.do_remotely = _sleep
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        with RayExecutor(Settings(folder, count, count << 30), None) as executor:
            messages = run_orders(executor, map(Order, range(SIMULATED_TASKS)))
            ends = [time.perf_counter() for message in messages if "entry" in message]
            wait_seconds = _wait(executor)
    # The rate of the second half: 64 processes start slowly on two cores.
    first = ends[len(ends) // 2]
    rate = (len(ends) - len(ends) // 2 - 1) / (ends[-1] - first)
    return {
        "run": f"ray, {count} simulated", "tasks": len(ends), "seconds": ends[-1] - began,
        "tasks_per_second": rate, "ideal": count / TASK_SECONDS,
        "in_flight": IN_FLIGHT, "wait_seconds": wait_seconds,
    }  # fmt: skip


def _wait(executor: Any) -> float:
    """Measure one `ray.wait` of the driver with the tasks of 6,400 workers."""
    waiting = [executor._remote.remote({}, (number, 0)) for number in range(IN_FLIGHT)]
    times = []
    for _ in range(11):
        began = time.perf_counter()
        executor._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def measure_driver(count: int) -> dict[str, Any]:
    """Measure the memory and rate of a driver for empty tasks on a local Ray cluster."""
    from tokenmill.tokenizing import ray_executor
    from tokenmill.tokenizing.executors import Order, Settings, run_orders
    from tokenmill.tokenizing.ray_executor import RayExecutor

    ray_executor.do_remotely = _empty
    with (
        tempfile.TemporaryDirectory() as folder,
        RayExecutor(Settings(folder, 2, 2 << 30), None) as executor,
    ):
        messages = run_orders(executor, map(Order, range(count)))
        entries = (message for message in messages if "entry" in message)
        began = time.perf_counter()
        for _ in islice(entries, count // 10):
            pass
        tenth_mb = _peak_mb()
        for _ in entries:
            pass
        seconds = time.perf_counter() - began
    return {
        "run": "ray, empty tasks", "tasks": count, "tenth_mb": tenth_mb,
        "mb": _peak_mb(), "tasks_per_second": count / seconds,
    }  # fmt: skip


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _empty(common: dict[str, Any], order: tuple[int, int]) -> Iterator[dict[str, Any]]:
    yield {"entry": entry_of(order[0], "0" * 16, ["/data/000000.txt"])}


def _sleep(common: dict[str, Any], order: tuple[int, int]) -> Iterator[dict[str, Any]]:
    time.sleep(TASK_SECONDS)
    counts = {"documents": 100_000, "tokens": 60_000_000, "bytes": TASK_BYTES, "quarantined": 0}
    yield {"counts": [TASK_BYTES, 60_000_000, 100_000]}
    yield {"entry": {"task": order[0], "shards": []} | counts}


PARTS: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "tasks": tasks,
    "bytes": growing_bytes,
    "files": growing_files,
    "pretokens": pretokens,
    "workers": workers,
    "ray": on_ray,
}
ELSEWHERE = {"cores": cores}

if __name__ == "__main__":
    main()
