"""The fifteen steps → their times and memory, each in a fresh process.

A step that traverses all types, or all of the text, for each merge may take hours. A few merges are
therefore timed first. The core has already learned all merges in milliseconds, with the length of
the text at each merge, so the time of all merges can be estimated.

Invariant: the merges of a step are compared with the core's, and a wrong step has no speed-up.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import sys
import time
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from types import ModuleType
from typing import Any

from ladder import runner
from ladder.training.patterns import pattern_for
from ladder.training.step15_native import traced
from ladder.training.texts import read

_TRIED = 4  # merges


@dataclass(frozen=True, slots=True)
class Step:
    number: int
    name: str
    module: str
    walks: bool = False  # each merge traverses all types or all text
    built_on: int | None = None  # if that is not the previous step

    @property
    def base(self) -> int:
        """The number of the step that it builds on."""
        return self.built_on or self.number - 1

    def code(self) -> list[str]:
        """Return the lines of the step without its header."""
        source = (Path(__file__).parent / f"{self.module}.py").read_text(encoding="utf-8")
        header = ast.parse(source).body[0]
        return source.splitlines()[header.end_lineno or 0 :]

    def changes(self) -> list[str]:
        """Return the lines of a unified diff from the step that it builds on."""
        if self.number == 1:
            return [f"+{line}" for line in self.code()]
        base = STEPS[self.base - 1]
        names = (f"{base.module}.py", f"{self.module}.py")
        return list(unified_diff(base.code(), self.code(), *names, lineterm=""))


STEPS = (
    Step(1, "naive", "step01_naive", walks=True),
    Step(2, "type frequency", "step02_types", walks=True),
    Step(3, "stream type counting", "step03_stream", walks=True),
    Step(4, "the same by regex", "step04_regex", walks=True),
    Step(5, "incremental pair updates", "step05_incremental", walks=True),
    Step(6, "pair-to-type index", "step06_index"),
    Step(7, "memory-lean representations", "step07_lean"),
    Step(8, "windowed pair updates", "step08_windows"),
    Step(9, "lazy index compaction", "step09_compaction"),
    Step(10, "heap pair selection", "step10_heap"),
    Step(11, "array storage", "step11_arrays"),
    Step(12, "batch delta application", "step12_batches"),
    Step(13, "adaptive compaction", "step13_adaptive", built_on=11),
    Step(14, "structure of arrays", "step14_columns"),
    Step(15, "native core", "step15_native"),
)


@dataclass(frozen=True, slots=True)
class Task:
    """The input of all steps, with the pattern as a regular expression."""

    path: Path
    bytes_max: int
    vocab_size: int
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement(runner.Measurement):
    """The figures of one step."""

    added_mb: float  # by training: without the interpreter, the modules and the text
    merges_equal: bool
    compactions: int | None = None  # rebuilt lists of the index


@dataclass(frozen=True, slots=True)
class Skipped:
    step: int
    name: str
    estimated_seconds: float


@dataclass(frozen=True, slots=True)
class Learned:
    """The result of the core: a hash of the merges, and the work that they take."""

    merges: int
    text_bytes: int
    digest: str
    walks: float  # the work of all merges, in traversals of the original text


def learn(task: Task) -> Learned:
    text = read(task.path, task.bytes_max)
    size = left = len(text.encode())
    walks = 0.0
    merges = traced(text, task.pattern, task.vocab_size)
    for _, _, count in merges:
        walks += left / size
        left -= count
    return Learned(len(merges), size, digest([merge[:2] for merge in merges]), walks)


def estimate(step: Step, task: Task, learned: Learned) -> float:
    """Estimate the CPU seconds of a step from a few of its merges."""
    sizes = [256, min(256 + _TRIED, task.vocab_size)]
    counting, tried = (row["cpu_seconds"] for row in _run(step, task, sizes))
    return float(counting + (tried - counting) / (sizes[1] - sizes[0]) * learned.walks)


def measure(step: Step, task: Task, learned: Learned) -> Measurement:
    """Measure one run of a step."""
    [row] = _run(step, task, [task.vocab_size])
    peak = max(row["peak_bytes"], row["start_bytes"])
    return Measurement(
        step=step.number,
        name=step.name,
        seconds=row["seconds"],
        cpu_seconds=row["cpu_seconds"],
        peak_mb=peak / 1e6,
        added_mb=(peak - row["start_bytes"]) / 1e6,
        merges_equal=row["digest"] == learned.digest,
        compactions=row["compactions"],
    )


def digest(merges: list[tuple[int, ...]]) -> str:
    return hashlib.sha256(json.dumps(merges).encode()).hexdigest()


def _run(step: Step, task: Task, vocab_sizes: list[int]) -> list[dict[str, Any]]:
    """Run a step in a fresh process, once per vocabulary size."""
    settings = [step.module, task.path, task.bytes_max, task.pattern, *vocab_sizes]
    output, peak = runner.run_fresh("ladder.training.steps", list(map(str, settings)), step.name)
    return [row | {"peak_bytes": peak} for row in output["runs"]]


def main(name: str, path: str, bytes_max: str, pattern: str, *vocab_sizes: str) -> None:
    module = importlib.import_module(f"ladder.training.{name}")
    text = read(Path(path), int(bytes_max))
    prepared = pattern_for(pattern, text)
    runs = []
    for vocab_size in vocab_sizes:
        start_bytes = _memory_bytes()
        started, cpu_started = time.perf_counter(), time.process_time()
        merges = module.train(text, prepared, int(vocab_size))
        row = {
            "seconds": time.perf_counter() - started,
            "cpu_seconds": time.process_time() - cpu_started,
            "start_bytes": start_bytes,
            "digest": digest(merges),
            "compactions": compactions_of(module),
        }
        runs.append(row)
    sys.stdout.write(json.dumps({"runs": runs}) + "\n")


def compactions_of(module: ModuleType) -> int | None:
    """Return how many lists a step has rebuilt, or None for a step without compaction."""
    count: int | None = getattr(getattr(module, "Trainer", None), "compactions", None)
    return count


def _memory_bytes() -> int:
    """Return the anonymous memory of this process, or 0 if the system does not report it."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line[:7] == "RssAnon")


if __name__ == "__main__":
    main(*sys.argv[1:])
