"""Our ids, tiktoken's ids → the shortest text on which they differ; and other help for parity/.

Whole batches are compared at once, which is fast. A difference is then reduced to a text as short
as can be, and the message names the seed with which it was found.
"""

from __future__ import annotations

import itertools
import json
import lzma
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import hard_inputs
import pytest
import tiktoken
from conftest import SEED

from tokenmill import Tokenizer, reference

SOURCES = (hard_inputs.random_code_points, hard_inputs.random_bytes, hard_inputs.joined_fragments)


def assert_same_ids(
    tokenizer: Tokenizer, encoding: tiktoken.Encoding, texts: Sequence[str], source: str
) -> None:
    """Every text has tiktoken's ids, all encoded in one batch."""
    expected = encoding.encode_ordinary_batch(list(texts), num_threads=2)
    got = tokenizer.encode_batch(texts)
    if got == expected:
        return
    index = next(i for i in range(len(texts)) if got[i] != expected[i])
    text = shortest(
        texts[index], lambda text: tokenizer.encode(text) != encoding.encode_ordinary(text)
    )
    ours, theirs = tokenizer.encode(text), encoding.encode_ordinary(text)
    alone = f"has the ids {ours[:50]}, in tiktoken {theirs[:50]}"
    if ours == theirs:
        alone = "has tiktoken's ids alone, but not in the batch"
    pytest.fail(
        f"{tokenizer.name}, {source}, document {index}: {text[:1000]!r} {alone}. "
        f"TOKENMILL_SEED={SEED}"
    )


def shortest(text: str, differs: Callable[[str], bool]) -> str:
    """A short part of `text` that still differs; `text` itself if it alone does not."""
    length = len(text) // 2 if differs(text) else 0
    while length > 0:
        start = 0
        while start < len(text):
            shorter = text[:start] + text[start + length :]
            if differs(shorter):
                text = shorter
            else:
                start += length
        length //= 2
    return text


def as_text(data: str | bytes) -> str:
    return data if isinstance(data, str) else data.decode(errors="replace")


def special_texts(names: Sequence[str]) -> list[str]:
    """Specials, parts of them and other text in random order, then all hard strings."""
    rng = random.Random(SEED)
    pieces = [*names[:40], *(name[:-1] for name in names[:5]), *(name[1:] for name in names[:5])]
    pieces += [*hard_inputs.NEAR_SPECIALS, "a", " ", "  ", "\n", "'s", "1", "é", "🙂", "\ud83d"]
    texts = ["".join(rng.choices(pieces, k=rng.randrange(1, 9))) for _ in range(2000)]
    return texts + hard_inputs.STRINGS


def read_corpus(path: Path, size: int) -> list[str]:
    """The first documents of a corpus, of at least `size` bytes in all if it has them."""
    texts: list[str] = []
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            texts.append(json.loads(line)["text"])
            size -= len(texts[-1].encode())
            if size <= 0:
                break
    return texts


def parts(text: str | bytes, side: str) -> list[str | bytes]:
    """All prefixes (of a text that is cut on the right) or suffixes on a character boundary, from
    the empty one to the whole text."""
    pieces = list(text) if isinstance(text, str) else reference.characters(text)
    ends = [0, *itertools.accumulate(map(len, pieces if side == "right" else pieces[::-1]))]
    return [text[:end] if side == "right" else text[len(text) - end :] for end in ends]


def brute_truncate(
    tokenizer: Tokenizer, text: str | bytes, max_tokens: int, side: str
) -> str | bytes:
    """The longest of all parts that take no more tokens."""
    fitting = [part for part in parts(text, side) if tokenizer.count(part) <= max_tokens]
    return fitting[-1]
