"""Models: they map pretokens to tokens. Only BPE is supported."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Self, SupportsFloat, TypeAlias

import numpy as np

from tokenmill.compat.tokenizers import trainers
from tokenmill.compat.tokenizers.components import (
    Component,
    Option,
    check,
    check_id,
    dump,
    flag_or,
    maybe,
    once,
    options_of,
    os_errors,
    refused_class,
)
from tokenmill.errors import TokenizersError
from tokenmill.files import write_together
from tokenmill.formats import tokenizer_json
from tokenmill.formats.names import NamesById, names_of
from tokenmill.formats.spec import TokenizerSpec

Vocabulary: TypeAlias = dict[str, int]
Merges: TypeAlias = list[tuple[str, str]]


@dataclass(slots=True)
class Token:
    """A token with its offsets in bytes."""

    id: int
    value: str
    offsets: tuple[int, int]

    def as_tuple(self) -> tuple[int, str, tuple[int, int]]:
        """Return id, value and offsets."""
        return self.id, self.value, self.offsets


class Model(Component):
    """The base class of all models."""


def _check_dropout(value: object) -> float:
    if not isinstance(value, SupportsFloat):
        raise TypeError(f"dropout must be a number, got {value!r}")
    return float(np.float32(value))


class BPE(
    Model,
    options=(
        Option("dropout", maybe(_check_dropout), None),
        Option("unk_token", maybe(str), None),
        Option("continuing_subword_prefix", maybe(str), None),
        Option("end_of_word_suffix", maybe(str), None),
        Option("fuse_unk", flag_or(False), None),
        *options_of(byte_fallback=False, ignore_merges=False),
    ),
    unknown="warn",
):
    """Byte-pair encoding."""

    _spec: TokenizerSpec  # of a file, whose tokens are spelled out when they are first used
    _version = 0  # of the vocabulary, which only training changes

    def __init__(
        self,
        vocab: Vocabulary | str | None = None,
        merges: Sequence[tuple[str, str]] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if (vocab is None) != (merges is None):
            raise ValueError("`vocab` and `merges` must be both specified")
        if self.dropout is not None and not 0 <= self.dropout <= 1:
            raise TokenizersError(f"dropout must be from 0 to 1, got {self.dropout}")
        if isinstance(vocab, str) and isinstance(merges, str):
            vocab, merges = self.read_file(vocab, merges)
        tokens = check(vocab or {}, dict)
        self._vocab = {check(token, str): check_id(id_) for token, id_ in tokens.items()}
        self._merges = _check_merges(merges or [])
        for left, right in self._merges:
            for token in (left, right, left + right):
                if token not in self._vocab:
                    raise TokenizersError(f"merge {left!r} {right!r}: no token {token!r}")

    @classmethod
    def _of_file(cls, options: Mapping[str, Any], spec: TokenizerSpec) -> Self:
        """Return the model of a file, whose JSON without tokens and merges is `options`."""
        made = super().from_data(options)
        made._data["dropout"] = maybe(_check_dropout)(made._data["dropout"])
        made._spec = spec
        return made

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        made = super().from_data(data)
        made._vocab, made._merges = data["vocab"], [(a, b) for a, b in data["merges"]]
        return made

    @once
    def _vocab(self) -> Vocabulary:
        model = self._spec.model
        return dict(zip(names_of(model), model.ids.tolist(), strict=True))

    @once
    def _merges(self) -> Merges:
        return tokenizer_json.write_merges(self._spec, names_of(self._spec.model))

    @once
    def _token_of(self) -> Callable[[int], str | None]:
        if "_vocab" not in vars(self):
            return NamesById(self._spec.model).__getitem__
        return {id_: token for token, id_ in self._vocab.items()}.get

    def _replace(self, vocabulary: Vocabulary, merges: Merges, by: trainers.BpeTrainer) -> None:
        """Take the result of training. The marks of words are the trainer's as well."""
        for name in ("continuing_subword_prefix", "end_of_word_suffix"):
            setattr(self, name, getattr(by, name))
        vars(self).pop("_token_of", None)
        self._vocab, self._merges = vocabulary, merges
        self._version += 1

    def to_json(self) -> dict[str, Any]:
        vocabulary = dict(sorted(self._vocab.items(), key=lambda entry: entry[1]))
        return {**self._options(), "vocab": vocabulary, "merges": self._merges}

    def _options(self) -> dict[str, Any]:
        """Return the JSON without the tokens and merges."""
        dropout = self._data["dropout"]
        # The real library stores 32 bits and writes the shortest digits that round to them.
        short = None if dropout is None else float(str(np.float32(dropout)))
        return {"type": "BPE", **self._data, "dropout": short}

    def token_to_id(self, token: str) -> int | None:
        """Return the id of a token, or None."""
        return self._vocab.get(check(token, str))

    def id_to_token(self, id: int) -> str | None:
        """Return the token of an id, or None."""
        return self._token_of(check_id(id))

    def tokenize(self, sequence: str) -> list[Token]:
        """Return the tokens of a pretoken."""
        from tokenmill.compat.tokenizers.tokenizer import Tokenizer

        found = Tokenizer(self).encode(sequence)
        starts = [0, *accumulate(len(character.encode()) for character in sequence)]
        rows = zip(found.ids, found.tokens, found.offsets, strict=True)
        return [Token(id_, token, (starts[a], starts[b])) for id_, token, (a, b) in rows]

    def get_trainer(self) -> trainers.BpeTrainer:
        """Return a trainer with the default options."""
        return trainers.BpeTrainer()

    def save(self, folder: str, prefix: str | None = None, name: str | None = None) -> list[str]:
        """Write vocab.json and merges.txt, and return their paths."""
        start = next((f"{each}-" for each in (prefix, name) if each is not None), "")
        paths = [Path(check(folder, str)) / f"{start}{end}" for end in ("vocab.json", "merges.txt")]
        lines = [f"{left} {right}\n" for left, right in self._merges]
        texts = [dump(self.to_json()["vocab"]), "#version: 0.2\n" + "".join(lines)]
        with os_errors():
            write_together({p: text.encode() for p, text in zip(paths, texts, strict=True)})
        return [str(path) for path in paths]

    @staticmethod
    def read_file(vocab: str, merges: str) -> tuple[Vocabulary, Merges]:
        """Return the contents of vocab.json and merges.txt."""
        with os_errors():
            tokens = json.loads(Path(check(vocab, str)).read_text(encoding="utf-8"))
            lines = Path(check(merges, str)).read_text(encoding="utf-8").split("\n")
        found: Merges = []
        for number, line in enumerate(lines, 1):
            if not line or line.startswith("#version"):
                continue
            pair = line.split(" ")
            if len(pair) != 2:
                raise TokenizersError(f"{merges}, line {number}: expected two tokens, got {line!r}")
            found.append((pair[0], pair[1]))
        return tokens, found

    @classmethod
    def from_file(cls, vocab: str, merges: str, **kwargs: Any) -> BPE:
        """Return a model of vocab.json and merges.txt."""
        return cls(*cls.read_file(vocab, merges), **kwargs)

    def _clear_cache(self) -> None:
        """Keep the cache: tokenmill limits its size."""

    def _resize_cache(self, capacity: int) -> None:
        check(capacity, int)


_FIRST = ("vocab", "merges", "cache_capacity")
BPE.__signature__ = inspect.Signature(
    [inspect.Parameter(x, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None) for x in _FIRST]
    + list(BPE.__signature__.parameters.values())
)
Unigram, WordLevel, WordPiece = (
    refused_class(Model, name, f"the model {name}")
    for name in ("Unigram", "WordLevel", "WordPiece")
)


def _check_merges(merges: object) -> Merges:
    """Return pairs in order; a duplicate has the position of its last occurrence."""
    if not isinstance(merges, Iterable):
        raise TypeError(f"merges must be a sequence, got {type(merges).__name__}")
    last: dict[tuple[str, str], None] = {}
    for merge in merges:
        pair = check(merge, tuple)
        if len(pair) != 2:
            raise TypeError(f"a merge must be a tuple of two tokens, got {merge!r}")
        last.pop(pair, None)
        last[check(pair[0], str), check(pair[1], str)] = None
    return list(last)
