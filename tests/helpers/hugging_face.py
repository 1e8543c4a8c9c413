"""Hugging Face's library as the oracle: small tokenizers of it, and cores that should agree."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from tokenmill.formats.build import pack_added
from tokenmill.formats.spec import Added, Prefix
from tokenmill.native import _native

hf = pytest.importorskip("tokenizers")

CORPUS = "the cat sat on the mat, and the bat said: hello hello world! 123 héé 你好 <a> [b] AB ab\n"


@functools.cache
def _trained() -> str:
    tokenizer = hf.Tokenizer(hf.models.BPE())
    tokenizer.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = hf.trainers.BpeTrainer(
        vocab_size=330,
        show_progress=False,
        initial_alphabet=hf.pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator([CORPUS] * 3, trainer)
    saved: str = tokenizer.to_str()
    return saved


@functools.cache
def byte_characters() -> dict[str, int]:
    """The characters by which a byte-level vocabulary spells bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {
        chr(256 + index): byte for index, byte in enumerate(hidden)
    }


def byte_level(added: Iterable[Added], prefix: bool = False) -> Any:
    """A byte-level tokenizer; its ids of the added tokens are Hugging Face's own."""
    tokenizer = hf.Tokenizer.from_str(_trained())
    tokenizer.pre_tokenizer = hf.pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    add(tokenizer, added)
    return tokenizer


def add(tokenizer: Any, added: Iterable[Added]) -> None:
    """Adds tokens with their flags."""
    for entry in added:
        flags = {
            name: getattr(entry, name)
            for name in ("special", "lstrip", "rstrip", "single_word", "normalized")
        }
        tokenizer.add_tokens([hf.AddedToken(entry.content, **flags)])


def with_ids(tokenizer: Any, added: Iterable[Added]) -> list[Added]:
    """The same added tokens with the ids that they have, in the core's order."""
    names = ("special", "lstrip", "rstrip", "single_word", "normalized")
    made = [
        Added(
            entry.content,
            tokenizer.token_to_id(entry.content),
            **{name: getattr(entry, name) for name in names},
        )
        for entry in added
    ]
    return sorted(made, key=lambda entry: entry.content.encode())


def core_of(
    tokenizer: Any, added: Sequence[Added], steps: bytes = b"", prefix: Prefix = "never"
) -> _native.Core:
    """The core of a byte-level tokenizer."""
    spelled = byte_characters()
    names = {entry.content for entry in added}
    tokens = {
        bytes(spelled[character] for character in token): id_
        for token, id_ in tokenizer.get_vocab(with_added_tokens=False).items()
        if token not in names or all(character in spelled for character in token)
    }
    bundle = _native.pack_bundle(
        "ranks",
        b"".join(tokens),
        "r50k",
        lengths=np.fromiter(map(len, tokens), np.uint32),
        ids=np.fromiter(tokens.values(), np.uint32),
        **pack_added(added),
        steps=steps,
        prefix=prefix,
    )
    return _native.load(bundle, 7)


def random_text(generator: random.Random, parts: Sequence[str], longest: int = 14) -> str:
    """A text of a few parts, some of them often."""
    some = generator.choices(parts, k=4) + list(parts)
    return "".join(generator.choices(some, k=generator.randrange(longest)))


FLAGS = [
    dict(zip(("lstrip", "rstrip", "single_word"), chosen, strict=True))
    for chosen in itertools.product((False, True), repeat=3)
]
