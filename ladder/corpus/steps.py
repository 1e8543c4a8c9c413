"""The steps → their times, rates and memory, each in a fresh process."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ladder import runner
from ladder.corpus import encoders

_CHECKED = 1 << 18  # ids of the output that are read at once
STEPS = ("original", "streaming", "ultra", "extreme", "native")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement(runner.Measurement):
    """The figures of one step with all of its processes, and a hash of its output."""

    documents: int
    tokens: int
    bytes: int
    digest: str


def steps_of(library: str) -> tuple[str, ...]:
    """Return the steps that run with a library. The native step has an encoder of its own."""
    return STEPS if library == "tokenmill" else STEPS[:-1]


def measure(name: str, inputs: list[Path], library: str, tokenizer: str, eos: int) -> Measurement:
    """Measure one step in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [name, library, tokenizer, str(eos), folder, *map(str, inputs)]
        row, peak = runner.run_fresh("ladder.corpus.steps", arguments, name)
    return Measurement(step=STEPS.index(name) + 1, name=name, peak_mb=peak / 1e6, **row)


def as_json(rows: list[Measurement]) -> dict[str, object]:
    """Return the table as JSON values."""
    first = rows[0].digest if rows else ""
    return {
        "steps": [
            {key: value for key, value in asdict(row).items() if key != "digest"}
            | {"same_bytes": row.digest == first}
            for row in rows
        ]
    }


def main(arguments: list[str]) -> None:
    name, library, tokenizer_name, eos, folder, *inputs = arguments
    module = importlib.import_module(f"ladder.corpus.{name}")
    encoder = encoders.load(library, tokenizer_name)
    dtype = "uint16" if encoder.tokenizer.vocab_size <= 1 << 16 else "uint32"
    paths = [Path(path) for path in inputs]
    target = Path(folder) / "out"
    target.mkdir()
    started, cpu_started = time.perf_counter(), cpu_seconds()
    outputs = module.run(paths, encoder, target, dtype, int(eos))
    seconds, cpu = time.perf_counter() - started, cpu_seconds() - cpu_started
    digest, tokens, documents = hashlib.sha256(), 0, 0
    for output in outputs:
        with output.open("rb") as file:
            while len(data := np.fromfile(file, dtype, _CHECKED)):  # less memory than any step
                digest.update(data.data)
                tokens += len(data)
                documents += int(np.count_nonzero(data == int(eos)))
    row = {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "documents": documents,
        "tokens": tokens,
        "bytes": sum(path.stat().st_size for path in paths),
        "digest": digest.hexdigest(),
    }
    sys.stdout.write(json.dumps(row) + "\n")


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    return time.process_time() + sum(os.times()[2:4])


if __name__ == "__main__":
    main(sys.argv[1:])
