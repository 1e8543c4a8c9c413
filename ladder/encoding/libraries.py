"""Ranks → the encoders of rustbpe and tiktoken, in the same table as the steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ladder.encoding import texts
from ladder.encoding.pretokens import Encode
from ladder.errors import LadderError
from tokenmill.errors import import_package


def prepare_rustbpe(ranks: Mapping[bytes, int], pattern: str) -> Encode:
    """rustbpe cannot load ranks, so it learns them from the same texts again."""
    tokenizer = train_rustbpe(pattern)
    if dict(tokenizer.get_mergeable_ranks()) != ranks:
        raise LadderError("rustbpe has learned other ranks than tokenmill")
    encode: Encode = tokenizer.encode
    return encode


def train_rustbpe(pattern: str) -> Any:
    tokenizer = import_package("rustbpe", "the ladder of encoding").Tokenizer()
    tokenizer.train_from_iterator(texts.short_texts(), texts.VOCAB_SIZE, pattern=pattern)
    return tokenizer


def prepare_tiktoken(ranks: Mapping[bytes, int], pattern: str) -> Encode:
    tiktoken = import_package("tiktoken", "the ladder of encoding")
    encoding = tiktoken.Encoding(
        "ladder", pat_str=pattern, mergeable_ranks=dict(ranks), special_tokens={}
    )
    encode: Encode = encoding.encode_ordinary
    return encode
