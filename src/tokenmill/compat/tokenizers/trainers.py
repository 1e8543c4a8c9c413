"""Trainers: what a vocabulary is learned with. Here there is one, for BPE."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from tokenmill.compat.tokenizers import values
from tokenmill.compat.tokenizers.added import AddedToken, tokens_of
from tokenmill.compat.tokenizers.components import Bare, Component, Field, Struct, dump

_FORMATS = {"indicatif": "Indicatif", "json": "JsonLines", "silent": "Silent"}


class Trainer(Component):
    """The base of all trainers."""

    KIND = "Trainer"


def _maybe_size(value: object) -> int | None:
    return None if value is None else values.unsigned(value)


def _maybe_text(value: object) -> str | None:
    return None if value is None else values.text(value)


def _alphabet(value: object) -> list[str]:
    """The first character of each text, none twice."""
    return sorted({text[0] for text in map(values.text, values.sequence(value)) if text})


def _format(value: object) -> Bare:
    return Bare(_FORMATS.get(values.text(value), "Indicatif"))


class BpeTrainer(Trainer):
    """The options of training BPE."""

    def __init__(
        self,
        *,
        vocab_size: int = 30000,
        min_frequency: int = 0,
        show_progress: bool = True,
        progress_format: str = "indicatif",
        special_tokens: Sequence[str | AddedToken] = (),
        limit_alphabet: int | None = None,
        initial_alphabet: Sequence[str] = (),
        continuing_subword_prefix: str | None = None,
        end_of_word_suffix: str | None = None,
        max_token_length: int | None = None,
        **kwargs: object,
    ) -> None:
        values.ignore(kwargs, word="kwargs")
        said = "special_tokens must be a List[Union[str, AddedToken]]"
        self._specials = tokens_of(list(special_tokens), True, said)
        self._data = {
            "min_frequency": values.unsigned(min_frequency),
            "vocab_size": values.unsigned(vocab_size),
            "show_progress": values.flag(show_progress),
            "progress_format": _format(progress_format),
            "special_tokens": (),
            "limit_alphabet": _maybe_size(limit_alphabet),
            "initial_alphabet": _alphabet(initial_alphabet),
            "continuing_subword_prefix": _maybe_text(continuing_subword_prefix),
            "end_of_word_suffix": _maybe_text(end_of_word_suffix),
            "max_token_length": _maybe_size(max_token_length),
            "words": {},
        }

    vocab_size = Field("vocab_size", values.unsigned)
    min_frequency = Field("min_frequency", values.unsigned)
    show_progress = Field("show_progress", values.flag)
    limit_alphabet = Field("limit_alphabet", _maybe_size)
    initial_alphabet = Field("initial_alphabet", _alphabet)
    continuing_subword_prefix = Field("continuing_subword_prefix", _maybe_text)
    end_of_word_suffix = Field("end_of_word_suffix", _maybe_text)
    max_token_length = Field("max_token_length", _maybe_size)

    @property
    def special_tokens(self) -> list[AddedToken]:
        """The tokens that come first."""
        return list(self._specials)

    @special_tokens.setter
    def special_tokens(self, special_tokens: list[str | AddedToken]) -> None:
        said = "Special tokens must be a List[Union[str, AddedToken]]"
        self._specials = tokens_of(special_tokens, True, said)

    @property
    def progress_format(self) -> str:
        """How progress is shown: nothing is."""
        return next(name for name, shown in _FORMATS.items() if shown == self._format)

    @progress_format.setter
    def progress_format(self, format: str) -> None:
        self._put("progress_format", _format(format))

    @property
    def _format(self) -> str:
        return str(self._data["progress_format"])

    def get_word_count(self) -> int:
        return 0  # words are counted when training begins, and not kept

    def to_json(self) -> dict[str, Any]:
        specials = [token.__getstate__() for token in self._specials]
        return {"BpeTrainer": {**self._data, "special_tokens": specials}}

    def _shown(self) -> Struct:
        specials = [Struct("AddedToken", token.__getstate__()) for token in self._specials]
        data = {**self._data, "special_tokens": specials}
        return Struct("BpeTrainer", data)

    def __repr__(self) -> str:
        return f"BpeTrainer({super().__repr__()})"

    def __str__(self) -> str:
        return f"BpeTrainer({super().__str__()})"

    def __getstate__(self) -> bytes:
        return dump(self.to_json()).encode()

    def __setstate__(self, state: bytes) -> None:
        data = json.loads(state)["BpeTrainer"]
        self._data = {**data, "progress_format": Bare(data["progress_format"])}
        self._specials = []
        for each in data["special_tokens"]:
            token = AddedToken()
            token.__setstate__(each)
            self._specials.append(token)


def _other(name: str) -> type[Trainer]:
    def refuse(self: Trainer, *_: object, **__: object) -> NoReturn:
        values.not_there(f"the trainer {name}")

    return type(name, (Trainer,), {"__init__": refuse, "__doc__": f"{name}: not here."})


ParityBpeTrainer = _other("ParityBpeTrainer")
UnigramTrainer = _other("UnigramTrainer")
WordLevelTrainer = _other("WordLevelTrainer")
WordPieceTrainer = _other("WordPieceTrainer")
