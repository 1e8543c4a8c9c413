"""The steps → times of encoding one text, each in a fresh process.

The ids of a step are compared with the reference before it is timed. Slow steps encode the text
fewer times per run, so the tables compare the time of the same number of encodes.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ladder import runner
from ladder.encoding import texts
from ladder.encoding.pretokens import Encode
from ladder.errors import LadderError
from ladder.runner import Statistics, measure_runs
from tokenmill import reference
from tokenmill.formats import ranks as rank_file

PATTERN = reference.GPT2_PATTERN
_LONG_ENCODES = 3
_CHECKED_TEXTS = 100


@dataclass(frozen=True, slots=True)
class Step:
    """A way to encode. A run does one encode per `share` encodes of the fastest step.

    `source_ms` is the time that the source notes for the whole workload.
    """

    number: int
    name: str
    language: str
    module: str
    share: int = 1
    source_ms: int | None = None

    def prepare(self, ranks: Mapping[bytes, int], pattern: str) -> Encode:
        module = importlib.import_module(f"ladder.encoding.{self.module}")
        if self.module == "compiled":
            return cast("Encode", module.prepare(ranks, pattern, self.number))
        if self.module == "libraries":
            return cast("Encode", getattr(module, f"prepare_{self.name}")(ranks, pattern))
        return cast("Encode", module.prepare(ranks, pattern))

    def path(self) -> str:
        """Return the file of the step, from the root of the repository."""
        if self.module != "compiled":
            return f"ladder/encoding/{self.module}.py"
        folder = Path(__file__).parent / "zig"
        [file] = folder.glob(f"step{self.number:02}_*.zig")
        return f"ladder/encoding/zig/{file.name}"


STEPS = (
    Step(1, "naive", "Python", "step01_naive", 100),
    Step(2, "in place", "Python", "step02_in_place", 100),
    Step(3, "priority queue", "Python", "step03_heap", 100),
    Step(4, "cache", "Python", "step04_cached", 20),
    Step(5, "naive", "Zig", "compiled", 4, source_ms=5300),
    Step(6, "in place", "Zig", "compiled", 4),
    Step(7, "priority queue", "Zig", "compiled", 4, source_ms=800),
    Step(8, "SIMD", "Zig", "compiled", 2, source_ms=300),
    Step(9, "compile-time tables", "Zig", "compiled", 2, source_ms=200),
    Step(10, "cache", "Zig", "compiled", source_ms=120),
    Step(11, "native", "tokenmill", "native"),
    Step(12, "rustbpe", "Rust", "libraries", 4, source_ms=234),
    Step(13, "tiktoken", "Rust", "libraries", 4),
)
NATIVE, RUSTBPE = STEPS[10], STEPS[11]
# Variants in zig/tried.zig, with the step that each changes.
TRIED = {
    Step(21, "perfect hash", "Zig", "compiled", 2): STEPS[8],
    Step(22, "automaton", "Zig", "compiled", 2): STEPS[8],
    Step(23, "branchless selection", "Zig", "compiled", 2): STEPS[8],
    Step(24, "separate keys", "Zig", "compiled"): STEPS[9],
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """The runs of one step, each of `encodes` encodes, and one encode of the long pretoken."""

    step: Step
    encodes: int
    run: Statistics
    long_seconds: float
    peak_mb: float

    def of(self, encodes: int) -> Statistics:
        """Return the time of a number of encodes."""
        return self.run * (encodes / self.encodes)

    def as_json(self) -> dict[str, Any]:
        return {
            "step": self.step.number,
            "name": self.step.name,
            "language": self.step.language,
            "encodes": self.encodes,
            "run": self.run.as_json(),
            "long_seconds": self.long_seconds,
            "peak_mb": self.peak_mb,
            "ids_equal": True,
        }


def write_vocabulary(path: Path) -> None:
    """Write the vocabulary of all steps: 2,048 tokens learned from the short texts."""
    from tokenmill.training.train import train_from_iterator

    tokenizer = train_from_iterator(
        texts.short_texts(), texts.VOCAB_SIZE, pattern=PATTERN, trainer="rustbpe"
    )
    tokenizer.save(path)


def expected_digest(vocabulary: Path) -> str:
    """Return the digest of the reference's ids."""
    ranks = rank_file.parse(vocabulary.read_bytes(), str(vocabulary))
    return _digest(lambda text: reference.encode(text, ranks, PATTERN))


def measure(
    step: Step, vocabulary: Path, encodes: int, runs: int, warmup: int, expected: str
) -> Measurement:
    """Measure one step in a fresh process."""
    count = max(1, encodes // step.share)
    arguments = [str(step.number), str(vocabulary), str(count), str(runs), str(warmup), expected]
    row, peak = runner.run_fresh("ladder.encoding.steps", arguments, step.name)
    if not row["ids_equal"]:
        raise LadderError(f"step {step.name!r} returns other ids than the reference")
    return Measurement(step, count, Statistics(**row["run"]), row["long_seconds"], peak / 1e6)


def main(arguments: list[str]) -> None:
    number, vocabulary, encodes, runs, warmup, expected = arguments
    [step] = [step for step in (*STEPS, *TRIED) if step.number == int(number)]
    ranks = rank_file.parse(Path(vocabulary).read_bytes(), vocabulary)
    encode = step.prepare(ranks, PATTERN)
    count = int(encodes)
    repeat = getattr(encode, "repeat", None)  # a loop in Zig instead of Python

    def run() -> None:
        text = texts.TEXT
        if repeat is not None:
            repeat(text, count)
        else:
            for _ in range(count):
                encode(text)

    row: dict[str, Any] = {"ids_equal": _digest(encode) == expected}
    if row["ids_equal"]:
        row["run"] = measure_runs(run, int(runs), int(warmup)).as_json()
        row["long_seconds"] = _long_seconds(encode)
    sys.stdout.write(json.dumps(row) + "\n")


def _digest(encode: Callable[[str], list[int]]) -> str:
    """Return a hash of the ids of the timed texts and some others."""
    digest = hashlib.sha256()
    for text in (texts.TEXT, texts.LONG, *texts.short_texts(_CHECKED_TEXTS)):
        digest.update(json.dumps(encode(text)).encode())
    return digest.hexdigest()


def _long_seconds(encode: Callable[[str], list[int]]) -> float:
    """Return the CPU time of one encode of the long pretoken, the best of three.

    The text is rotated each time, so the cache never contains it.
    """
    best = float("inf")
    for start in range(1, 1 + _LONG_ENCODES):
        text = texts.LONG[start:] + texts.LONG[:start]
        cpu_start = time.process_time()
        encode(text)
        best = min(best, time.process_time() - cpu_start)
    return best


if __name__ == "__main__":
    main(sys.argv[1:])
