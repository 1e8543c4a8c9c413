"""The five steps → times of encoding one text, each in a fresh process.

The ids of a step are compared with the reference before it is timed. Slow steps encode the text
fewer times per run, so the tables compare the time of one encode.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder import runner
from ladder.encoding import texts
from ladder.errors import LadderError
from ladder.runner import Statistics, measure_runs
from tokenmill import reference
from tokenmill.formats import ranks as rank_file

PATTERN = reference.GPT2_PATTERN
_LONG_ENCODES = 3
_CHECKED_TEXTS = 100


@dataclass(frozen=True, slots=True)
class Step:
    """A way to encode. A run does one encode per `share` encodes of the fastest step."""

    number: int
    name: str
    module: str
    share: int
    idea: str


STEPS = (
    Step(1, "naive", "step01_naive", 100, "a new list per merge"),
    Step(2, "in place", "step02_in_place", 100, "ranks in a list, the lowest is searched"),
    Step(3, "priority queue", "step03_heap", 100, "a heap, and symbols in a linked list"),
    Step(4, "cache", "step04_cached", 20, "a cache of pretokens"),
    Step(5, "native", "native", 1, "the core"),
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The runs of one step, each of `encodes` encodes, and one encode of the long pretoken."""

    step: Step
    encodes: int
    run: Statistics
    long_seconds: float
    peak_mb: float

    @property
    def each(self) -> Statistics:
        """The time of one encode."""
        return self.run * (1 / self.encodes)

    def as_json(self) -> dict[str, Any]:
        return {
            "step": self.step.number,
            "name": self.step.name,
            "encodes": self.encodes,
            "seconds": self.each.mean,
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
    arguments = [step.module, str(vocabulary), str(count), str(runs), str(warmup), expected]
    row, peak = runner.run_fresh("ladder.encoding.steps", arguments, step.name)
    if not row["ids_equal"]:
        raise LadderError(f"step {step.name!r} returns other ids than the reference")
    return Measurement(step, count, Statistics(**row["run"]), row["long_seconds"], peak / 1e6)


def main(arguments: list[str]) -> None:
    name, vocabulary, encodes, runs, warmup, expected = arguments
    module = importlib.import_module(f"ladder.encoding.{name}")
    ranks = rank_file.parse(Path(vocabulary).read_bytes(), vocabulary)
    encode = module.prepare(ranks, PATTERN)
    count = int(encodes)

    def run() -> None:
        text = texts.TEXT
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
