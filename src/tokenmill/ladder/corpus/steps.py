"""The four steps → their times, rates and memory, each in a fresh process."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import tokenmill
from tokenmill.errors import TokenizeError
from tokenmill.tokenizer import Tokenizer

STEPS = ("original", "streaming", "ultra", "extreme")
_SAMPLE_SECONDS = 0.01


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
    root = str(Path(tokenmill.__file__).parent.parent)
    paths = [root, os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            settings = [name, tokenizer, str(eos), folder, *map(str, inputs)]
            process = subprocess.Popen(
                [sys.executable, "-m", "tokenmill.ladder.corpus.steps", *settings],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            peak = _watch(process)
            said, wrong = process.communicate()
            peak.join()
        if process.returncode:
            lines = wrong.strip().splitlines() or ["it said nothing"]
            raise TokenizeError(f"the step {name!r} failed: {lines[-1]}")
        row = json.loads(said)
        yield Measured(STEPS.index(name) + 1, name, peak_mb=peak.bytes / 1e6, **row)


class _Watch(threading.Thread):
    """Looks again and again at how much memory a process and its children have."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self._process = process
        self.bytes = 0

    def run(self) -> None:
        while self._process.poll() is None:
            self.bytes = max(self.bytes, _tree_bytes(self._process.pid))
            time.sleep(_SAMPLE_SECONDS)


def _watch(process: subprocess.Popen[str]) -> _Watch:
    watch = _Watch(process)
    watch.start()
    return watch


def _tree_bytes(pid: int) -> int:
    """What a process and all below it have in memory, without pages of files."""
    total = 0
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        total = sum(
            int(line.split()[1]) * 1024 for line in status.splitlines() if line[:7] == "RssAnon"
        )
        for task in Path(f"/proc/{pid}/task").iterdir():
            children = (task / "children").read_text().split()
            total += sum(_tree_bytes(int(child)) for child in children)
    except OSError:
        pass  # gone in the meantime, or no Linux
    return total


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
