"""Texts for the tests of training, and their vocabularies."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
import training_reference
from conftest import FIXTURES

import tokenmill
from tokenmill import Tokenizer, _native, reference
from tokenmill.patterns.schemes import pattern_of, scheme_of

GPT2 = reference.GPT2_PATTERN
TEXTS = [path.read_text(encoding="utf-8")[:6_000] for path in FIXTURES[::4]]


def raises(error: type[Exception], *parts: object):
    return pytest.raises(error, match="(?s)" + ".*".join(re.escape(str(part)) for part in parts))


def tokens(tokenizer: Tokenizer) -> dict[int, bytes]:
    return {id: tokenizer.id_to_token(id) for id in range(tokenizer.vocab_size)}


def expected(texts=TEXTS, size=500, pattern="r50k", trainer="rustbpe") -> dict[int, bytes]:
    """The vocabulary of the reference implementation."""
    counts: Counter[bytes] = Counter()
    for text in texts:
        raw = text.encode() if isinstance(text, str) else text
        split = _native.split(scheme_of(pattern_of(pattern)), raw)
        counts.update(raw[start:end] for start, end in split)
    trained = training_reference.train(counts, size, trainer)
    return {id: token for token, id in trained.tokens.items()}


def train(source, **options):
    """A tokenizer from anything that training takes."""
    return train_on(
        source, **{"vocab_size": 500, "pattern": "r50k", "trainer": "rustbpe", **options}
    )


def train_on(source, vocab_size, **options):
    """The public function for a source: paths, counts or texts."""
    if isinstance(source, Mapping):
        return tokenmill.train_from_counts(source, vocab_size, **options)
    is_list = isinstance(source, list) and all(isinstance(one, Path) for one in source)
    if isinstance(source, str | Path) or (source and is_list):
        return tokenmill.train(source, vocab_size, **options)
    return tokenmill.train_from_iterator(source, vocab_size, **options)


def count(texts, path, **options):
    """Counts of texts in a file."""
    rows = path.with_suffix(".jsonl")
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return tokenmill.count_pretokens(rows, path, **options)


def write_files(folder):
    """The texts as files of text."""
    folder.mkdir()
    for index, text in enumerate(TEXTS):
        (folder / f"{index:02}.txt").write_text(text)
    return folder
