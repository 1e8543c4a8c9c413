"""Parts → what encodes with them: the one place where this package meets the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tokenmill.errors import VocabularyError
from tokenmill.formats import hub, models, spelling, tokenizer_json
from tokenmill.formats.parts import Model, Parts


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
    return tokenizer_json.read(data, source)


def vocabulary_of(model: Model) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The tokens and merges of a model, as tokenizer.json spells them."""
    if not len(model.ids):
        return {}, []
    names = spelling.write_all(model)
    vocabulary = dict(zip(names, model.ids.tolist(), strict=True))
    return vocabulary, list(models.write_merges(model, names))


def find_pretrained(name: str, revision: str) -> str:
    """The tokenizer.json of a name that was downloaded before."""
    if not hub.is_name(name if "/" in name else f"models/{name}"):
        raise VocabularyError(f"{name!r} is no name of a model in the hub; write org/name")
    return str(hub.find(name, revision) / "tokenizer.json")


def bare_engine(model: Mapping[str, Any]) -> Engine:
    """The engine of a model alone."""
    raise NotImplementedError("the core does not run `Parts` yet")
