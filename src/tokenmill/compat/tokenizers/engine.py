"""Parts → what encodes with them: the one place where this package meets the core."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tokenmill import arguments, loading
from tokenmill.errors import VocabularyError
from tokenmill.formats import hub, models, spelling, tokenizer_json
from tokenmill.formats.parts import Added, Parts
from tokenmill.formats.places import Place


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


class CoreEngine:
    """The core as an engine."""

    def __init__(self, parts: Parts) -> None:
        self._core = loading.core_of_parts(parts)

    def encode(self, text: str, allowed: bytes | None) -> list[int]:
        return arguments.read(self._core.encode, text, allowed)

    def encode_batch(self, texts: Sequence[str], allowed: bytes | None) -> list[list[int]]:
        threads = arguments.thread_count(None)
        return arguments.read_all(self._core.encode_batch, list(texts), allowed, threads)

    def details(
        self, text: str, allowed: bytes | None
    ) -> tuple[list[int], list[tuple[int, int]], list[int]]:
        return arguments.read(self._core.encode_words, text, allowed)


def make_engine(parts: Parts) -> Engine:
    """What encodes with `parts`."""
    return CoreEngine(parts)


def read_parts(data: bytes, source: str) -> Parts:
    """The parts of a tokenizer.json; raises VocabularyError for what cannot be done exactly."""
    return tokenizer_json.read(data, source)


def with_added(parts: Parts, added: tuple[Added, ...], pre_tokenizer: Any) -> Parts:
    """The parts with these tokens; raises VocabularyError for what cannot be done exactly."""
    place = Place("this tokenizer")
    tokenizer_json.check_normalized(added, parts.blank, parts.steps, pre_tokenizer, place)
    return dataclasses.replace(parts, added=added)


def vocabulary_of(parts: Parts) -> dict[str, int]:
    """The tokens of a model, as tokenizer.json spells them."""
    return dict(zip(spelling.write_all(parts.model), parts.model.ids.tolist(), strict=True))


def merges_of(parts: Parts) -> list[tuple[str, str]]:
    """The merges of a model, as tokenizer.json spells them."""
    return models.write_merges(parts, spelling.write_all(parts.model))


def find_pretrained(name: str, revision: str) -> str:
    """The tokenizer.json of a name that was downloaded before."""
    if not hub.is_name(name if "/" in name else f"models/{name}"):
        raise VocabularyError(f"{name!r} is no name of a model in the hub; write org/name")
    return str(hub.find(name, revision) / "tokenizer.json")


def bare_engine(model: Mapping[str, Any]) -> Engine:
    """The engine of a model alone: text is spelled as its tokens are, and not cut."""
    document = {"version": "1.0", "added_tokens": [], "model": model}
    return CoreEngine(tokenizer_json.read(json.dumps(document).encode(), "the model"))
