"""The steps and the markers → times of encoding one text, each in a fresh process.

Ids are compared with the reference's before anything is timed. Slow steps encode the text fewer
times in a run; what is compared is the time of one encode.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill import reference
from tokenmill.errors import LadderError
from tokenmill.formats import ranks as rank_file
from tokenmill.ladder import fresh
from tokenmill.ladder.encoding import markers, texts
from tokenmill.ladder.statistics import Statistics
from tokenmill.ladder.statistics import measure as measure_runs

PATTERN = reference.GPT2_PATTERN
_BATCH = 100
_LONG_ENCODES = 3
_CHECKED_TEXTS = 100


@dataclass(frozen=True, slots=True)
class Step:
    """A way to encode: a step with its number, or a marker. It does one encode in `share`."""

    number: int | None
    name: str
    share: int
    idea: str
    package: str = ""
    is_batch: bool = False


STEPS = (
    Step(1, "rebuild", 100, "a new list for each merge"),
    Step(2, "scan", 100, "ranks are kept, the lowest is searched"),
    Step(3, "heap", 100, "a heap, and parts as a linked list"),
    Step(4, "cached", 20, "pretokens are remembered"),
    Step(5, "native", 1, "the core"),
)
MARKERS = (
    Step(None, "native_batch", 1, "a hundred texts in a call", is_batch=True),
    Step(None, "rustbpe", 1, "one text in a call", "rustbpe"),
    Step(None, "rustbpe_batch", 10, "a hundred texts in a call", "rustbpe", is_batch=True),
    Step(None, "tiktoken", 10, "one text in a call", "tiktoken"),
    Step(None, "tiktoken_ordinary", 10, "without names of specials", "tiktoken"),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What one step took: runs of `encodes` encodes, and one encode of the long pretoken."""

    step: Step
    encodes: int
    run: Statistics
    long_seconds: float
    peak_mb: float
    ids_equal: bool

    @property
    def each(self) -> Statistics:
        """The time of one encode."""
        return self.run * (1 / self.encodes)


def installed(steps: Iterable[Step]) -> list[Step]:
    return [step for step in steps if not step.package or markers.version_of(step.package)]


def write_vocabulary(path: Path) -> None:
    """What all of them encode with: 2,048 entries of the short texts, in a rank file."""
    from tokenmill.training.train import train

    tokenizer = train(
        texts.short_texts(), vocab_size=texts.VOCAB_SIZE, pattern=PATTERN, ties="rustbpe"
    )
    tokenizer.save(path)


def expected_digest(vocabulary: Path) -> str:
    """The digest that a step has whose ids are right."""
    ranks = rank_file.read(vocabulary)
    return _digest(lambda text: reference.encode(text, ranks, PATTERN))


def measure(
    step: Step, vocabulary: Path, encodes: int, runs: int, warmup: int, expected: str
) -> Measured:
    """One step in a process of its own."""
    count = max(1, encodes // step.share)
    settings = [step.name, str(vocabulary), str(count), str(runs), str(warmup), expected]
    row, peak = fresh.run("tokenmill.ladder.encoding.steps", settings, step.name)
    if not row["ids_equal"]:
        raise LadderError(f"the step {step.name!r} gives other ids than the reference")
    run = Statistics(**row["run"])
    return Measured(step, count, run, row["long_seconds"], peak / 1e6, row["ids_equal"])


def main(arguments: list[str]) -> None:
    name, vocabulary, encodes, runs, warmup, expected = arguments
    step = next(step for step in (*STEPS, *MARKERS) if step.name == name)
    encode, many = _prepare(step, Path(vocabulary), int(encodes))
    row: dict[str, Any] = {"ids_equal": _digest(encode) == expected}
    if row["ids_equal"]:
        row["run"] = measure_runs(many, int(runs), int(warmup)).as_json()
        row["long_seconds"] = _long_seconds(encode)
    sys.stdout.write(json.dumps(row) + "\n")


def _prepare(
    step: Step, vocabulary: Path, encodes: int
) -> tuple[Callable[[str], list[int]], Callable[[], None]]:
    """How it encodes one text, and a run of it."""
    ranks = rank_file.read(vocabulary)
    if step.is_batch:
        encode_all = getattr(markers, step.name)(ranks, PATTERN)
        batch, rest = [texts.TEXT] * _BATCH, [texts.TEXT] * (encodes % _BATCH)

        def run_batches() -> None:
            for _ in range(encodes // _BATCH):
                encode_all(batch)
            encode_all(rest)

        return (lambda text: encode_all([text])[0]), run_batches
    if step.number is None:
        encode = getattr(markers, step.name)(ranks, PATTERN)
    else:
        module = importlib.import_module(f"tokenmill.ladder.encoding.{step.name}")
        encode = module.prepare(ranks, PATTERN)

    def run() -> None:
        text = texts.TEXT
        for _ in range(encodes):
            encode(text)

    return encode, run


def _digest(encode: Callable[[str], list[int]]) -> str:
    """A hash of the ids of the texts that are timed, and of some others."""
    digest = hashlib.sha256()
    for text in (texts.TEXT, texts.LONG, *texts.short_texts(_CHECKED_TEXTS)):
        digest.update(json.dumps(encode(text)).encode())
    return digest.hexdigest()


def _long_seconds(encode: Callable[[str], list[int]]) -> float:
    """Processor time of one encode of the long pretoken, the best of three.

    Nobody can remember it: it begins elsewhere each time.
    """
    best = float("inf")
    for start in range(1, 1 + _LONG_ENCODES):
        text = texts.LONG[start:] + texts.LONG[:start]
        started = time.process_time()
        encode(text)
        best = min(best, time.process_time() - started)
    return best


if __name__ == "__main__":
    main(sys.argv[1:])
