"""Step 15, the native core: the same in a language without object overhead.

The idea: `tokenmill.train`, whose hot part is written in Zig. Its ideas are those of the ladder:
types with frequencies, positions in flat arrays, an index of positions, windowed updates, and a
queue whose entries can only be too high. It adds scanners that read bytes, tables that find a word
in one look-up, a memory layout by hand, and threads. It has three phases:

    count    texts → types with frequencies    core/count: tables of each thread, then their sum
    select   pairs → a batch of merges         core/train/selection.zig: dozens of merges in each
    merge    batch → changed types and counts  core/train/shard.zig, pairs.zig: a part per thread

`select` and `merge` take turns. A batch ends before a pair whose count the batch could change, so
its merges are the same as one after the other.

Costs: a compiler, and a second language. `tokenmill/reference.py` is the reference implementation.
Saves: the interpreter.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.training.train import train_from_iterator

if TYPE_CHECKING:
    from ladder.training.patterns import Pattern

Pair = tuple[int, int]


def train(text: str, pattern: Pattern, vocab_size: int) -> list[Pair]:
    return [(left, right) for left, right, _ in traced(text, pattern.source, vocab_size)]


def traced(text: str, pattern: str, vocab_size: int) -> list[tuple[int, int, int]]:
    """The merges with their counts, from the trace of the run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "merges.jsonl"
        train_from_iterator([text], vocab_size, pattern=pattern, trainer="rustbpe", trace=path)
        _, *lines = path.read_text(encoding="utf-8").splitlines()
    merges = map(json.loads, lines)
    return [(merge["left"], merge["right"], merge["count"]) for merge in merges]


if __name__ == "__main__":
    from alone import main

    main(train)
