"""Hugging Face's tokenizer as the engine below ours: what is above it is compared by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tokenizers

from tokenmill.formats import tokenizer_json
from tokenmill.formats.parts import Added, Parts

EMPTY: dict[str, Any] = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": None, "post_processor": None, "decoder": None,
}  # fmt: skip
NO_MODEL = {"type": "BPE", "vocab": {}, "merges": []}


class StandIn:
    """Ids, places and words of one sequence, by the real library."""

    def __init__(self, document: Mapping[str, Any], added: tuple[Added, ...]) -> None:
        plain = {name: document.get(name) for name in ("normalizer", "pre_tokenizer", "model")}
        tokens = [{name: getattr(each, name) for name in Added.__slots__} for each in added]
        tokens.sort(key=lambda each: each["id"])
        self._added = sorted(added, key=lambda each: each.content.encode())
        made = {**EMPTY, **plain, "added_tokens": tokens}
        self._real = tokenizers.Tokenizer.from_str(json.dumps(made))
        ids = {each.content: each.id for each in added}
        assert {n: self._real.token_to_id(n) for n in ids} == ids

    def _encode(self, text: str, allowed: bytes | None) -> tokenizers.Encoding:
        marks = (
            set()
            if allowed is None
            else set(zip((each.special for each in self._added), allowed, strict=True))
        )
        assert marks <= {(False, 1), (True, 1)} or marks <= {(False, 1), (True, 2)}
        self._real.encode_special_tokens = (True, 2) in marks
        return self._real.encode(text, add_special_tokens=False)

    def encode(self, text: str, allowed: bytes | None) -> list[int]:
        return self._encode(text, allowed).ids

    def encode_batch(self, texts: Sequence[str], allowed: bytes | None) -> list[list[int]]:
        return [self.encode(text, allowed) for text in texts]

    def details(
        self, text: str, allowed: bytes | None
    ) -> tuple[list[int], list[tuple[int, int]], list[int]]:
        found = self._encode(text, allowed)
        return found.ids, found.offsets, [-1 if word is None else word for word in found.word_ids]


def make_engine(parts: Parts) -> StandIn:
    return StandIn(json.loads(tokenizer_json.write(parts)), parts.added)


def bare_engine(model: Mapping[str, Any]) -> StandIn:
    return StandIn({"model": model}, ())
