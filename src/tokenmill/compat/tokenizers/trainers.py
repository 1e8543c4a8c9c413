"""Trainers: the options of learning a vocabulary. Only BPE is supported."""

from __future__ import annotations

import json
from typing import Any

from tokenmill.compat.tokenizers.components import AddedToken, Component, refused_class


class Trainer(Component):
    """The base class of all trainers."""


class BpeTrainer(Trainer):
    """The options of training BPE."""

    def get_word_count(self) -> int:
        return 0  # training counts words when it begins, and the counts are not stored here

    def to_json(self) -> dict[str, Any]:
        first = {"min_frequency": self.min_frequency}  # as in the pickles of the real library
        special_tokens = [token.__getstate__() for token in self.special_tokens]
        return {"BpeTrainer": {**first, **self._data, "special_tokens": special_tokens}}

    def __setstate__(self, state: bytes) -> None:
        data = json.loads(state)["BpeTrainer"]
        tokens = [AddedToken(**token) for token in data["special_tokens"]]
        self._data = {**data, "special_tokens": tokens}


ParityBpeTrainer, UnigramTrainer, WordLevelTrainer, WordPieceTrainer = (
    refused_class(Trainer, name, f"the trainer {name}")
    for name in ("ParityBpeTrainer", "UnigramTrainer", "WordLevelTrainer", "WordPieceTrainer")
)
