"""Step 15, the native core: the same, in a language that has no objects to fight with.

The idea: `tokenmill.train`, whose hot part is written in Zig. Its ideas are the ladder's: types
with frequencies, positions in flat arrays, an index of places, windowed updates, and a queue whose
entries can only be too high. It adds what Python cannot: a scanner for each pattern that reads
bytes, tables in which a word is one look-up, memory that is laid out by hand, and threads.

Costs: a compiler, and a second language. Its twin in plain Python is `tokenmill/reference.py`.
Saves: the interpreter.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tokenmill.training.train import train as native_train

Pair = tuple[int, int]


def train(text: str, pattern: str, vocab_size: int) -> list[Pair]:
    return [(left, right) for left, right, _ in traced(text, pattern, vocab_size)]


def traced(text: str, pattern: str, vocab_size: int) -> list[tuple[int, int, int]]:
    """The merges with their counts, from the trace of the run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "merges.jsonl"
        native_train([text], vocab_size=vocab_size, pattern=pattern, ties="rustbpe", trace=path)
        _, *lines = path.read_text(encoding="utf-8").splitlines()
    merges = map(json.loads, lines)
    return [(merge["left"], merge["right"], merge["count"]) for merge in merges]
