"""What the tests of training share: a few texts, and what is learned from them."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import training_twin
from conftest import FIXTURES

import tokenmill
from tokenmill import Tokenizer, _native, reference
from tokenmill.schemes import pattern_of, scheme_of

GPT2 = reference.GPT2_PATTERN
TEXTS = [path.read_text(encoding="utf-8")[:6_000] for path in FIXTURES[::4]]


def raises(error: type[Exception], *parts: object):
    return pytest.raises(error, match="(?s)" + ".*".join(re.escape(str(part)) for part in parts))


def tokens(tokenizer: Tokenizer) -> dict[int, bytes]:
    return {id: tokenizer.id_to_bytes(id) for id in range(tokenizer.vocab_size)}


def expected(texts=TEXTS, size=500, pattern="r50k", ties="rustbpe") -> dict[int, bytes]:
    """The vocabulary of the twin."""
    counts: Counter[bytes] = Counter()
    for text in texts:
        raw = text.encode() if isinstance(text, str) else text
        split = _native.split(scheme_of(pattern_of(pattern)), raw)
        counts.update(raw[start:end] for start, end in split)
    trained = training_twin.train(counts, size, ties)
    return {id: token for token, id in trained.tokens.items()}


def train(source, **options):
    return tokenmill.train(
        source, **{"vocab_size": 500, "pattern": "r50k", "ties": "rustbpe", **options}
    )


def write_files(folder):
    """The texts as files of text."""
    folder.mkdir()
    for index, text in enumerate(TEXTS):
        (folder / f"{index:02}.txt").write_text(text)
    return folder
