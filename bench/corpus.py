"""A corpus → ids on the disk, by tokenmill and by others → bench/results/corpus.json and a table.

    corpus.py                     200 MB of text: about 6 minutes on two cores
    corpus.py --text 10MB         less text
    corpus.py --render            only renders the measured results

Every measurement is a new process. Processes run one at a time, interleaved in rounds. Wall time,
CPU time and peak memory are those of the process and its workers, from the first import to the
last byte on the disk. Each run's ids are then read back and compared, document by document, with
those of the encoder. A run with other ids gets no figure. `encoder` is tokenmill's encoder alone,
with documents in memory before it is measured, without loading, reading or writing.
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import tokenmill

# isort: split
import machine
import training_corpora
import vocabularies
from corpus_systems import SYSTEMS, VOCABULARY
from markdown import number, table, write_block

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "corpus.json"
PAGE = HERE.parent / "docs" / "scaling.md"
SECONDS_MAX = 3600
SAMPLE_SECONDS = 0.1
# (ours, theirs, figure, factor): this figure of ours is at most `factor` times that of theirs.
GOALS = (
    ("jsonl", "gigatoken, encode_files", "cpu_seconds", 0.4),
    ("jsonl", "gigatoken, Megatron loop", "cpu_seconds", 0.4),
    ("text", "encoder", "seconds", 1 / 0.85),
    ("jsonl", "encoder", "seconds", 1 / 0.85),
)


def main() -> None:
    args = arguments()
    if args.render:
        write_block(PAGE, "corpus", block(json.loads(args.out.read_text())))
        return
    if args.one:
        run_one(args)
        return
    names = args.systems.split(";") if args.systems else list(SYSTEMS)
    inputs = prepare(args.text)
    compileall.compile_dir(Path(tokenmill.__file__).parent, quiet=1)  # as pip does
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(dir=args.folder) as temporary:
        digests = Path(temporary) / "digests.npy"
        for round_ in range(args.rounds):
            for name in ["encoder", *(name for name in names if name != "encoder")]:
                if round_ and SYSTEMS[name].is_slow:
                    continue
                row = measure(name, inputs[SYSTEMS[name].suffix], digests, args)
                rows.setdefault(name, []).append(row)
                figures = f"{row['seconds']:.1f} s, {row['cpu_seconds']:.1f} CPU s"
                print(f"{name}: {figures}, {row['peak_bytes'] / 1e6:.0f} MB", flush=True)
    result = summary(rows, inputs["txt"].stat().st_size, args)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    show(result)
    if args.out == RESULTS:
        write_block(PAGE, "corpus", block(result))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures the conversion of a corpus to ids.")
    parser.add_argument("--text", default="200MB", choices=list(training_corpora.SIZES))
    parser.add_argument("--systems", help=f"systems, separated by semicolons: {'; '.join(SYSTEMS)}")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; slow systems run once")
    parser.add_argument("--folder", help="folder for the ids (default: a temporary one)")
    parser.add_argument("--threads", type=int, default=machine.core_count())
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--render", action="store_true", help="render the measured results")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--input", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--digests", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def prepare(name: str) -> dict[str, Path]:
    """Write the documents as text, as JSON lines and as compressed JSON lines."""
    training_corpora.prepare(name)
    vocabularies.prepare(VOCABULARY)
    text = training_corpora.path(name)
    jsonl = text.with_suffix(".jsonl")
    packed = text.with_suffix(".jsonl.zst")
    if not packed.exists():
        import zstandard

        with jsonl.open("w", encoding="utf-8") as file:
            for index, document in enumerate(training_corpora.read(name)):
                file.write(json.dumps({"id": index, "text": document}) + "\n")
        partial = packed.with_suffix(".partial")
        with jsonl.open("rb") as source, partial.open("wb") as target:
            zstandard.ZstdCompressor().copy_stream(source, target)
        partial.rename(packed)
    return {"txt": text, "jsonl": jsonl, "jsonl.zst": packed}


# ── One run, in a process of its own ─────────────────────────────────────────────────────────


def run_one(args: argparse.Namespace) -> None:
    """Run a system, print its figures, then compare its ids with those of the encoder."""
    folder = Path(args.folder)
    system = SYSTEMS[args.one].make(args.input)
    if hasattr(system, "prepare"):
        system.prepare(folder, args.threads)
    with Peak() as peak:
        before = cpu_seconds()
        started = time.perf_counter()
        system.run(folder, args.threads)
        os.sync()
        seconds = time.perf_counter() - started
        cpu = cpu_seconds() - before
    cpu -= peak.cpu_seconds
    found = np.fromiter((hash_ids(ids) for ids in system.written(folder)), np.uint64)
    if args.one == "encoder":
        np.save(args.digests, found)
    compare(found, np.load(args.digests))
    row = {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "peak_bytes": peak.bytes,
        "documents": len(found),
    }
    print(json.dumps(row | {"ids": sum(map(len, system.written(folder)))}))


def compare(found: Any, expected: Any) -> None:
    """Exit if the digests of the documents differ from those of the encoder."""
    if len(found) != len(expected):
        sys.exit(f"{len(found)} documents instead of {len(expected)}")
    different = np.flatnonzero(found != expected)
    if len(different):
        sys.exit(f"{len(different)} documents have other ids; the first is {different[0]}")


def hash_ids(ids: Any) -> int:
    return int.from_bytes(hashlib.blake2b(ids.tobytes(), digest_size=8).digest(), "little")


def cpu_seconds() -> float:
    """The CPU time of this process and of those below it, also of those that have ended.

    A pool's processes may be below a server process, which waits for them and is alive.
    """
    ticks = 0
    for pid in descendants(os.getpid()):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


class Peak:
    """The largest proportional set size (PSS) of this process and those below it.

    `cpu_seconds` is the CPU time that it took to measure it.
    """

    def __enter__(self) -> Peak:
        self.bytes, self.cpu_seconds = 0, 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            self.bytes = max(self.bytes, sum(map(pss, descendants(os.getpid()))))
        self.cpu_seconds = time.thread_time()


def descendants(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for path in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += map(int, path.read_text().split())
            except OSError:  # the thread has ended
                continue
    return found


def pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # the process has ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


# ── All runs ─────────────────────────────────────────────────────────────────────────────────


def measure(name: str, source: Path, digests: Path, args: argparse.Namespace) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(dir=args.folder))
    command = [sys.executable, __file__, "--one", name, "--input", str(source)]
    command += ["--folder", str(folder / "out"), "--threads", str(args.threads)]
    command += ["--digests", str(digests)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-2000:]}")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def summary(
    rows: dict[str, list[dict[str, Any]]], size: int, args: argparse.Namespace
) -> dict[str, Any]:
    """Return the medians and the goals."""
    systems: dict[str, dict[str, Any]] = {}
    for name, measured in rows.items():
        figures = ("seconds", "cpu_seconds", "peak_bytes")
        systems[name] = {
            figure: statistics.median(row[figure] for row in measured) for figure in figures
        }
        systems[name] |= {"runs": measured}
    goals = []
    for ours, theirs, figure, factor in GOALS:
        if ours in systems and theirs in systems:
            ratio = systems[ours][figure] / systems[theirs][figure]
            goal = {"ours": ours, "theirs": theirs, "figure": figure}
            goals.append(goal | {"goal": factor, "ratio": ratio})
    return {
        "text": args.text,
        "bytes": size,
        "vocabulary": VOCABULARY,
        "workers": args.threads,
        "machine": machine.describe(),
        "systems": systems,
        "goals": goals,
    }


def block(result: dict[str, Any]) -> str:
    systems = result["systems"]
    base = systems["jsonl"]["cpu_seconds"]
    lines = [["", "seconds", "CPU seconds", "CPU, `jsonl` = 1", "peak MB", "runs"]]
    for name, system in systems.items():
        figures = [number(system[figure]) for figure in ("seconds", "cpu_seconds")]
        figures += [number(system["cpu_seconds"] / base), f"{system['peak_bytes'] / 1e6:,.0f}"]
        lines.append([name, *figures, str(len(system["runs"]))])
    run = systems["jsonl"]["runs"][0]
    at = result["machine"]
    return (
        f"{table(lines)}\n\n{result['bytes'] / 1e6:,.0f} MB of text, "
        f"{run['documents']:,} documents, {run['ids']:,} ids, "
        f"`{result['vocabulary']}`, {result['workers']} workers, medians; "
        f"{at['cpu']}, {at['cores']} cores, {at['system']}. All ids are equal. `make bench-corpus`."
    )


def show(result: dict[str, Any]) -> None:
    for goal in result["goals"]:
        mark = "met" if goal["ratio"] <= goal["goal"] else "NOT MET"
        ratio = f"{goal['ratio']:.2f} of {goal['theirs']}"
        print(f"{goal['ours']:8} {goal['figure']:12} {ratio:36} goal {goal['goal']:.2f} {mark}")


if __name__ == "__main__":
    main()
