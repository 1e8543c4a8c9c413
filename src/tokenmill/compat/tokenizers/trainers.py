"""Trainers: the options of learning a vocabulary. Only BPE is supported."""

from __future__ import annotations

import json
from typing import Any

from tokenmill.compat.tokenizers.components import (
    AddedToken,
    Component,
    Option,
    check_sequence,
    check_text,
    check_unsigned,
    maybe,
    options_of,
    refused_class,
    tokens_of,
)

_PROGRESS_FORMATS = {"indicatif": "Indicatif", "json": "JsonLines", "silent": "Silent"}
_PROGRESS_NAMES = {format_: name for name, format_ in _PROGRESS_FORMATS.items()}


def _check_alphabet(value: object) -> list[str]:
    """Return the first character of each text, in order and without duplicates."""
    return sorted({text[0] for text in map(check_text, check_sequence(value)) if text})


class Trainer(Component):
    """The base class of all trainers."""


class BpeTrainer(
    Trainer,
    options=(
        *options_of(vocab_size=30000, min_frequency=0, show_progress=True),
        Option(
            "progress_format",
            lambda name: _PROGRESS_FORMATS.get(check_text(name), "Indicatif"),
            "indicatif",
            read=_PROGRESS_NAMES.__getitem__,
        ),
        Option("special_tokens", lambda x: tokens_of(list(check_sequence(x)), True), (), read=list),
        Option("limit_alphabet", maybe(check_unsigned), None),
        Option("initial_alphabet", _check_alphabet, ()),
        Option("continuing_subword_prefix", maybe(check_text), None),
        Option("end_of_word_suffix", maybe(check_text), None),
        Option("max_token_length", maybe(check_unsigned), None),
        Option("words", dict, {}, is_argument=False),
    ),
    unknown="warn",
    is_keyword_only=True,
):
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
