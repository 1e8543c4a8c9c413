"""Documents → ids in batches of several sizes: the guide's benchmark, "batching gives 5–10 ×".

That held for an encoder that is called through layers of Python for each text. Here a call costs a
microsecond, so a batch saves little but what threads and arrays save. Where `tokenizers` is
installed it is measured beside ours, with the same vocabulary.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.errors import TokenizeError
from tokenmill.tokenizer import Tokenizer

SIZES = (32, 64, 100)
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Method:
    """One way to encode all documents, and the best of its times."""

    name: str
    seconds: float
    documents: int
    tokens: int


def measure(texts: list[str], tokenizer: Tokenizer) -> list[Method]:
    """All methods, interleaved in rounds; each must give as many tokens as the first."""
    methods = dict(_methods(tokenizer))
    best: dict[str, float] = {}
    tokens: dict[str, int] = {}
    for _ in range(_ROUNDS):
        for name, encode in methods.items():
            started = time.perf_counter()
            tokens[name] = encode(texts)
            seconds = time.perf_counter() - started
            best[name] = min(best.get(name, seconds), seconds)
    [first, *others] = tokens
    for name in others:
        if tokens[name] != tokens[first]:
            raise TokenizeError(
                f"{name} gives {tokens[name]:,} tokens and {first} {tokens[first]:,}: their times "
                "cannot be compared"
            )
    found = [Method(name, best[name], len(texts), tokens[name]) for name in methods]
    return sorted(found, key=lambda method: method.seconds)


def _methods(tokenizer: Tokenizer) -> Iterator[tuple[str, Callable[[list[str]], int]]]:
    yield "single", lambda texts: sum(len(tokenizer.encode(text)) for text in texts)
    for size in SIZES:
        yield f"batch_{size}", _in_batches(tokenizer.encode_batch, size)
    yield "batch_all", _in_batches(tokenizer.encode_batch, 1 << 60)
    yield "arrays", lambda texts: len(tokenizer.encode_ragged(texts).ids)
    other = _tokenizers(tokenizer)
    if other is None:
        return
    yield "tokenizers single", lambda texts: sum(len(other.encode(text).ids) for text in texts)

    def encode(texts: list[str]) -> list[list[int]]:
        return [found.ids for found in other.encode_batch(texts)]

    for size in SIZES:
        yield f"tokenizers batch_{size}", _in_batches(encode, size)


def _in_batches(
    encode: Callable[[list[str]], list[list[int]]], size: int
) -> Callable[[list[str]], int]:
    def run(texts: list[str]) -> int:
        count = 0
        for start in range(0, len(texts), size):
            count += sum(map(len, encode(texts[start : start + size])))
        return count

    return run


def _tokenizers(tokenizer: Tokenizer) -> Any:
    """The same tokenizer in Hugging Face's library, if that is installed and takes it."""
    try:
        library = importlib.import_module("tokenizers")
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        tokenizer.save(path)
        found = library.Tokenizer.from_file(str(path))
    found.encode_special_tokens = True  # names of specials in documents are text, as in ours
    return found
