"""The four steps → their times, rates and memory, each in a fresh process."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from tokenmill.ladder import fresh
from tokenmill.tokenizer import Tokenizer

STEPS = ("original", "streaming", "ultra", "extreme")


@dataclass(frozen=True, slots=True)
class Measured:
    """What one step took, and a hash of what it wrote."""

    step: int
    name: str
    seconds: float
    documents: int
    tokens: int
    bytes: int
    peak_mb: float
    digest: str


def measure(
    inputs: list[Path], tokenizer: str, eos: int, names: tuple[str, ...] = STEPS
) -> Iterator[Measured]:
    """Runs the steps one after the other."""
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            settings = [name, tokenizer, str(eos), folder, *map(str, inputs)]
            row, peak = fresh.run("tokenmill.ladder.corpus.steps", settings, name)
        yield Measured(STEPS.index(name) + 1, name, peak_mb=peak / 1e6, **row)


def as_json(rows: list[Measured]) -> dict[str, object]:
    """The table for programs."""
    first = rows[0].digest if rows else ""
    return {
        "steps": [
            {key: value for key, value in asdict(row).items() if key != "digest"}
            | {"same_bytes": row.digest == first}
            for row in rows
        ]
    }


def main(arguments: list[str]) -> None:
    name, tokenizer_name, eos, folder, *inputs = arguments
    module = importlib.import_module(f"tokenmill.ladder.corpus.{name}")
    tokenizer = Tokenizer.load(tokenizer_name)
    dtype = "uint16" if tokenizer.vocab_size <= 1 << 16 else "uint32"
    paths = [Path(path) for path in inputs]
    target = Path(folder) / "out"
    target.mkdir()
    started = time.perf_counter()
    outputs = module.run(paths, tokenizer, target, dtype, int(eos))
    seconds = time.perf_counter() - started
    digest, tokens, documents = hashlib.sha256(), 0, 0
    for output in outputs:
        data = np.fromfile(output, dtype)
        digest.update(data.data)
        tokens += len(data)
        documents += int(np.count_nonzero(data == int(eos)))
    row = {
        "seconds": seconds,
        "documents": documents,
        "tokens": tokens,
        "bytes": sum(path.stat().st_size for path in paths),
        "digest": digest.hexdigest(),
    }
    sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
