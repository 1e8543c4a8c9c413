"""Random texts and options → the drop-in's `Encoding` compared with the real one by field."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from typing import Any

import sides
import tokenizers
from sides import Sides

import tokenmill.compat.tokenizers as drop_in

FIELDS = (
    *("ids", "type_ids", "tokens", "offsets", "attention_mask", "special_tokens_mask"),
    *("word_ids", "sequence_ids"),
)


def compare(side: Sides, count: int, seed: int) -> tuple[int, list[str]]:
    """How many calls were compared, and which differ."""
    real = tokenizers.Tokenizer.from_str(side.source)
    ours = drop_in.Tokenizer.from_str(side.source)
    rng = random.Random(seed)
    texts = sides.generated(side.names, 2 * count, seed + 1)
    wrong: list[str] = []
    done = 0
    while done < count:
        options = _options(rng)
        for tokenizer in (real, ours):
            _set(tokenizer, options)
        # Changing options is slow; a few calls for each choice.
        for _ in range(20):
            first, second = rng.choice(texts), rng.choice([None, rng.choice(texts)])
            adds = rng.random() < 0.8
            with _quiet():
                expected = _outcome(real, first, second, adds)
            got = _outcome(ours, first, second, adds)
            done += 1
            if got != expected:
                wrong.append(f"{options} {first!r} {second!r} {adds}: {got}, not {expected}")
    return done, wrong


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The real library writes its panics to standard error, also if they are caught."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _options(rng: random.Random) -> dict[str, Any]:
    truncation = rng.choice([None, None, 8, 16, 40])
    padding = rng.choice([None, None, 10, 32])
    return {
        "truncation": truncation
        and {
            "max_length": truncation,
            "stride": rng.choice([0, 0, 2]),
            "strategy": rng.choice(["longest_first", "longest_first", "only_first"]),
            "direction": rng.choice(["right", "left"]),
        },
        "padding": padding
        and {
            "length": padding,
            "direction": rng.choice(["right", "left"]),
            "pad_to_multiple_of": rng.choice([None, 8]),
            "pad_id": 0,
            "pad_token": "!",
        },
        "special_tokens": rng.random() < 0.2,
    }


def _set(tokenizer: Any, options: dict[str, Any]) -> None:
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if options["truncation"]:
        tokenizer.enable_truncation(**options["truncation"])
    if options["padding"]:
        tokenizer.enable_padding(**options["padding"])
    tokenizer.encode_special_tokens = options["special_tokens"]


def _outcome(tokenizer: Any, first: str, second: str | None, adds: bool) -> Any:
    try:
        encoding = tokenizer.encode(first, second, add_special_tokens=adds)
    except BaseException as error:  # a panic of the real library is one
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return "an error"
    found = {field: getattr(encoding, field) for field in FIELDS}
    found["overflowing"] = [
        {field: getattr(one, field) for field in FIELDS} for one in encoding.overflowing
    ]
    return found
