"""The success criteria of the source → figures of tokenmill and rustbpe, each in a fresh process.

    python -m ladder.encoding.criteria training tokenmill 3 1
    python -m ladder.encoding.criteria memory rustbpe

Training learns 2,048 tokens from 15,000 short texts. Memory is the growth of the process per
tokenizer. `apart` has another vocabulary in each tokenizer, and `shared` the same one in all.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ladder import runner
from ladder.encoding import libraries, texts
from ladder.runner import Statistics, duration, measure_runs
from tokenmill import reference
from tokenmill.errors import import_package
from tokenmill.native import _native
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.train import train_from_iterator

PATTERN = reference.GPT2_PATTERN
# Kind of tokenizer → the number of them whose memory is measured.
TOKENIZERS = {"shared": 200_000, "apart": 20, "rustbpe": 20}
_MODULE = "ladder.encoding.criteria"


class Criterion(NamedTuple):
    """A line of the checklist."""

    text: str
    figure: str
    holds: bool


def checklist(native: Statistics, rustbpe: Statistics, runs: int, warmup: int) -> list[Criterion]:
    """Return the criteria that figures decide. `native` and `rustbpe` encode the whole workload."""
    ours, theirs = (measure_training(each, runs, warmup).cpu for each in ("tokenmill", "rustbpe"))
    memory = {kind: measure_memory(kind) for kind in TOKENIZERS}
    library, peer = library_sizes()
    encodes = "60,000 encodes in less than"
    return [
        _below(f"{encodes} 150 ms", native.cpu, 0.15, duration),
        _below(f"{encodes} 120 ms", native.cpu, 0.12, duration),
        _below(f"{encodes} 100 ms", native.cpu, 0.1, duration),
        _at_least("encoding 1.95 times as fast as rustbpe", rustbpe.cpu / native.cpu, 1.95),
        _below("training in less than 10 ms", ours, 0.01, duration),
        _at_least("training twice as fast as rustbpe", theirs / ours, 2),
        _below("less than 1 KB per tokenizer, shared vocabulary", memory["shared"], 1e3, _size),
        _below("less than 1 KB per tokenizer, its own vocabulary", memory["apart"], 1e3, _size),
        _below(
            f"less than rustbpe's {_size(memory['rustbpe'])} per tokenizer, its own vocabulary",
            memory["apart"], memory["rustbpe"], _size,
        ),
        _below(f"a library smaller than rustbpe's {_size(peer)}", library, peer, _size),
    ]  # fmt: skip


def _below(text: str, value: float, limit: float, show: Callable[[float], str]) -> Criterion:
    return Criterion(text, show(value), value < limit)


def _at_least(text: str, ratio: float, limit: float) -> Criterion:
    return Criterion(text, f"{ratio:.1f} ×", ratio >= limit)


def _size(count: float) -> str:
    for unit, name in ((1e6, "MB"), (1e3, "KB")):
        if count >= unit:
            return f"{runner.number(count / unit)} {name}"
    return f"{count:.0f} bytes"


def measure_training(library: str, runs: int, warmup: int) -> Statistics:
    row, _ = runner.run_fresh(_MODULE, ["training", library, str(runs), str(warmup)], library)
    return Statistics(**row)


def measure_memory(kind: str) -> float:
    """Return the bytes per tokenizer."""
    row, _ = runner.run_fresh(_MODULE, ["memory", kind], kind)
    return max(0.0, float(row["bytes"]))


def library_sizes() -> tuple[int, int]:
    """Return the sizes of the native libraries of tokenmill and rustbpe."""
    peer = import_package("rustbpe", "the ladder of encoding")
    [theirs] = Path(peer.__file__).parent.glob("*.so")
    return Path(_native.__file__).stat().st_size, theirs.stat().st_size


def train_tokenmill(pattern: str) -> Tokenizer:
    return train_from_iterator(
        texts.short_texts(), texts.VOCAB_SIZE, pattern=pattern, trainer="rustbpe"
    )


def training(library: str, runs: str, warmup: str) -> dict[str, Any]:
    found = texts.short_texts()
    peer = import_package("rustbpe", "the ladder of encoding")

    def ours() -> None:
        train_from_iterator(found, texts.VOCAB_SIZE, pattern=PATTERN, trainer="rustbpe")

    def theirs() -> None:
        peer.Tokenizer().train_from_iterator(found, texts.VOCAB_SIZE, pattern=PATTERN)

    work = ours if library == "tokenmill" else theirs
    return measure_runs(work, int(runs), int(warmup)).as_json()


def memory(kind: str) -> dict[str, Any]:
    from ladder.encoding.native import tokenizer_of

    tokens = train_tokenmill(PATTERN)._tokens()
    shared = tokenizer_of({token: id_ for id_, token in tokens.items()}, PATTERN)

    def make(number: int) -> Any:
        if kind == "rustbpe":
            return libraries.train_rustbpe(PATTERN)
        if kind == "shared":
            return Tokenizer._of(shared._shared)
        # The last token differs, so no vocabulary is shared.
        changed = {**tokens, texts.VOCAB_SIZE - 1: f"token {number}".encode()}
        return tokenizer_of({token: id_ for id_, token in changed.items()}, PATTERN)

    count = TOKENIZERS[kind]
    # The first half takes the memory that earlier work has freed.
    kept = [make(number) for number in range(count)]
    before = _memory_bytes()
    kept += [make(number) for number in range(count, 2 * count)]
    return {"bytes": (_memory_bytes() - before) / count}


def _memory_bytes() -> int:
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line[:7] == "RssAnon")


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    row = training(*arguments) if what == "training" else memory(*arguments)
    sys.stdout.write(json.dumps(row) + "\n")
