"""Other people's encoders, and batches → what stands beside the steps, where it is installed.

rustbpe can be trained and not loaded, so it learns the vocabulary itself, from the same texts.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from importlib import metadata, util
from typing import Any, TypeAlias

from tokenmill.errors import LadderError
from tokenmill.ladder.encoding import native
from tokenmill.ladder.encoding.pretokens import Encode
from tokenmill.ladder.encoding.texts import VOCAB_SIZE, short_texts

EncodeAll: TypeAlias = Callable[[list[str]], list[list[int]]]


def version_of(package: str) -> str | None:
    """The version of a package that is installed, or None."""
    return metadata.version(package) if util.find_spec(package) is not None else None


def native_batch(ranks: Mapping[bytes, int], pattern: str) -> EncodeAll:
    tokenizer = native.tokenizer_of(ranks, pattern)
    return lambda texts: tokenizer.encode_batch(texts, threads=1)


def rustbpe(ranks: Mapping[bytes, int], pattern: str) -> Encode:
    encode: Encode = _rustbpe(ranks, pattern).encode
    return encode


def rustbpe_batch(ranks: Mapping[bytes, int], pattern: str) -> EncodeAll:
    encode_all: EncodeAll = _rustbpe(ranks, pattern).batch_encode
    return encode_all


def _rustbpe(ranks: Mapping[bytes, int], pattern: str) -> Any:
    tokenizer = importlib.import_module("rustbpe").Tokenizer()
    tokenizer.train_from_iterator(iter(short_texts()), VOCAB_SIZE, pattern=pattern)
    learned = {bytes(token): rank for token, rank in tokenizer.get_mergeable_ranks()}
    if learned != ranks:
        raise LadderError("rustbpe learns another vocabulary; its times cannot be compared")
    return tokenizer


def tiktoken(ranks: Mapping[bytes, int], pattern: str) -> Encode:
    encode: Encode = _tiktoken(ranks, pattern).encode
    return encode


def tiktoken_ordinary(ranks: Mapping[bytes, int], pattern: str) -> Encode:
    """The same without a look for names of specials, as `Tokenizer.encode` has none either."""
    encode: Encode = _tiktoken(ranks, pattern).encode_ordinary
    return encode


def _tiktoken(ranks: Mapping[bytes, int], pattern: str) -> Any:
    library = importlib.import_module("tiktoken")
    return library.Encoding(
        "ladder", pat_str=pattern, mergeable_ranks=dict(ranks), special_tokens={}
    )
