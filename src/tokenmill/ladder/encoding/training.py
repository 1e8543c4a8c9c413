"""15,000 short texts → 2,048 entries: what training takes, by us and by others.

Trainers learn in fresh processes, one after the other. Each is checked by its ids of the texts:
where it breaks ties as another library does, with those ties of ours.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from typing import Any

from tokenmill.errors import LadderError
from tokenmill.ladder import fresh
from tokenmill.ladder.encoding import markers
from tokenmill.ladder.encoding.markers import EncodeAll
from tokenmill.ladder.encoding.steps import PATTERN
from tokenmill.ladder.encoding.texts import TEXT, VOCAB_SIZE, short_texts
from tokenmill.ladder.statistics import Statistics
from tokenmill.ladder.statistics import measure as measure_runs
from tokenmill.training.train import BytesTies, train

TRAINERS = {"tokenmill": "", "rustbpe": "rustbpe", "tokenizers": "tokenizers"}


@dataclass(frozen=True, slots=True)
class Trained:
    """What one trainer took."""

    name: str
    run: Statistics
    peak_mb: float


def installed() -> list[str]:
    return [
        name for name, package in TRAINERS.items() if not package or markers.version_of(package)
    ]


def measure(name: str, runs: int, warmup: int) -> Trained:
    """One trainer in a process of its own."""
    settings = [name, str(runs), str(warmup)]
    row, peak = fresh.run("tokenmill.ladder.encoding.training", settings, name)
    if not row["ids_equal"]:
        raise LadderError(f"the trainer {name!r} learns other merges than tokenmill does")
    return Trained(name, Statistics(**row["run"]), peak / 1e6)


def by_tokenmill(texts: list[str], ties: BytesTies = "rustbpe") -> EncodeAll:
    tokenizer = train(texts, vocab_size=VOCAB_SIZE, pattern=PATTERN, ties=ties)
    return tokenizer.encode_batch


def by_rustbpe(texts: list[str]) -> EncodeAll:
    tokenizer: Any = importlib.import_module("rustbpe").Tokenizer()
    tokenizer.train_from_iterator(iter(texts), VOCAB_SIZE, pattern=PATTERN)
    return lambda more: [list(ids) for ids in tokenizer.batch_encode(more)]


def by_tokenizers(texts: list[str]) -> EncodeAll:
    library: Any = importlib.import_module("tokenizers")
    tokenizer = library.Tokenizer(library.models.BPE())
    # Its own form of the same pattern.
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = library.pre_tokenizers.ByteLevel.alphabet()
    trainer = library.trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return lambda more: [found.ids for found in tokenizer.encode_batch(more)]


def main(arguments: list[str]) -> None:
    name, runs, warmup = arguments
    texts = short_texts()
    learn = {"tokenmill": by_tokenmill, "rustbpe": by_rustbpe, "tokenizers": by_tokenizers}[name]
    ours = by_tokenmill(texts, "huggingface" if name == "tokenizers" else "rustbpe")
    row: dict[str, Any] = {"ids_equal": learn(texts)([TEXT, *texts]) == ours([TEXT, *texts])}
    if row["ids_equal"]:
        row["run"] = measure_runs(lambda: learn(texts), int(runs), int(warmup)).as_json()
    sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
