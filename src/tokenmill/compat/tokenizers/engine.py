"""Parts → what encodes with them: the one place where this package meets the core."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tokenmill.errors import TokenizersError
from tokenmill.formats.parts import Parts


class Engine(Protocol):
    """Text → ids of one sequence, without templates, truncation or padding.

    `allowed` has a byte for each added token in the order of their names: 0 is not looked for, 1
    is found, 2 is found and dropped.
    """

    def encode(self, text: str, allowed: bytes | None) -> list[int]: ...
    def encode_batch(self, texts: Sequence[str], allowed: bytes | None) -> list[list[int]]: ...
    def details(
        self, text: str, allowed: bytes | None
    ) -> tuple[list[int], list[tuple[int, int]], list[int]]:
        """Ids, their places in characters, and the number of the word; -1 is none."""
        ...


def make_engine(parts: Parts) -> Engine:
    raise NotImplementedError("the core does not run `Parts` yet")


def read_parts(data: bytes, source: str) -> Parts:
    """The parts of a tokenizer.json; raises VocabularyError for what cannot be done exactly."""
    raise NotImplementedError("tokenizer.json is not read yet")


def read_document(
    data: bytes,
) -> tuple[dict[str, Any], Callable[[], tuple[dict[str, int], list[tuple[str, str]]]]]:
    """A tokenizer.json without its tokens and merges, and what spells those out."""
    try:
        document = json.loads(data)
    except ValueError as error:
        raise TokenizersError(str(error)) from None
    if not isinstance(document, dict) or not isinstance(document.get("model"), dict):
        raise TokenizersError("Model missing.")
    model = document["model"]
    vocabulary, merges = model.pop("vocab", {}), model.pop("merges", [])

    def spell() -> tuple[dict[str, int], list[tuple[str, str]]]:
        pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
        return vocabulary, [(left, right) for left, right in pairs]

    return document, spell


def find_pretrained(name: str, revision: str) -> str:
    """The tokenizer.json of a name that was downloaded before."""
    raise NotImplementedError("names of the hub are not looked up yet")


def bare_engine(model: Mapping[str, Any]) -> Engine:
    """The engine of a model alone."""
    raise NotImplementedError("the core does not run `Parts` yet")


def normalize(normalizer: Mapping[str, Any], text: str) -> str:
    """What a normalizer of tokenizer.json makes of a text."""
    raise NotImplementedError("the core does not normalize yet")


def pre_tokenize(pre_tokenizer: Mapping[str, Any], text: str) -> list[tuple[str, tuple[int, int]]]:
    """The pieces that a pre-tokenizer of tokenizer.json cuts, with their places in characters."""
    raise NotImplementedError("the core does not run stages yet")
