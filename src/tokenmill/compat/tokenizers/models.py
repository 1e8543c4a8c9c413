"""Models: they map pretokens to tokens. Only BPE is supported."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np

from tokenmill import arguments
from tokenmill.compat.tokenizers import trainers
from tokenmill.compat.tokenizers.components import (
    Component,
    check_instance,
    check_text,
    check_unsigned,
    dump,
    refused_class,
)
from tokenmill.errors import TokenizersError
from tokenmill.files import write_together
from tokenmill.formats import tokenizer_json
from tokenmill.formats.build import build

Vocabulary: TypeAlias = dict[str, int]
Merges: TypeAlias = list[tuple[str, str]]


class Token:
    """A token with its offsets in bytes."""

    __slots__ = ("id", "offsets", "value")

    def __init__(self, id: int, value: str, offsets: tuple[int, int]) -> None:
        self.id, self.value, self.offsets = id, value, offsets

    def as_tuple(self) -> tuple[int, str, tuple[int, int]]:
        """Return id, value and offsets."""
        return self.id, self.value, self.offsets


class Model(Component):
    """The base class of all models."""


class BPE(Model):
    """Byte-pair encoding."""

    # A function while a model of a file is not spelled out: the first use of the tokens calls it.
    _lazy_vocab: Vocabulary | Callable[[], Vocabulary]
    _lazy_merges: Merges | Callable[[], Merges]
    _tokens: dict[int, str] | None = None
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
        vocabulary, pairs = _check_vocabulary(vocab or {}), _check_merges(merges or [])
        for left, right in pairs:
            for token in (left, right, left + right):
                if token not in vocabulary:
                    raise TokenizersError(f"merge {left!r} {right!r}: no token {token!r}")
        self._lazy_vocab, self._lazy_merges = vocabulary, pairs

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        made = super().from_data(data)
        made._data["dropout"] = cls._row.options[0].check(made._data["dropout"])
        pairs = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in data["merges"]]
        made._lazy_vocab, made._lazy_merges = dict(data["vocab"]), _check_merges(pairs)
        return made

    @classmethod
    def _of_file(
        cls,
        options: Mapping[str, Any],
        vocabulary: Callable[[], Vocabulary],
        merges: Callable[[], Merges],
    ) -> BPE:
        """Return a model whose tokens are spelled out when they are first used."""
        made = cls.from_data({**options, "vocab": {}, "merges": []})
        made._lazy_vocab, made._lazy_merges = vocabulary, merges
        return made

    @property
    def _vocab(self) -> Vocabulary:
        if not isinstance(self._lazy_vocab, dict):
            self._lazy_vocab = self._lazy_vocab()
        return self._lazy_vocab

    @property
    def _merges(self) -> Merges:
        if not isinstance(self._lazy_merges, list):
            self._lazy_merges = self._lazy_merges()
        return self._lazy_merges

    def _replace(self, vocabulary: Vocabulary, merges: Merges, by: trainers.BpeTrainer) -> None:
        """Take the result of training. The marks of words are the trainer's as well."""
        marks = ("continuing_subword_prefix", "end_of_word_suffix")
        self._data = {**self._data, **{name: getattr(by, name) for name in marks}}
        self._tokens = None
        self._lazy_vocab, self._lazy_merges = vocabulary, merges
        self._version += 1
        Component.changes += 1

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
        return self._vocab.get(check_text(token))

    def id_to_token(self, id: int) -> str | None:
        """Return the token of an id, or None."""
        return self._token_map().get(check_unsigned(id, 32))

    def _token_map(self) -> dict[int, str]:
        if self._tokens is None:
            self._tokens = {id_: token for token, id_ in self._vocab.items()}
        return self._tokens

    def tokenize(self, sequence: str) -> list[Token]:
        """Return the tokens of a pretoken."""
        text = check_text(sequence)
        starts = [0]
        for character in text:
            starts.append(starts[-1] + len(character.encode()))
        # Without a pre-tokenizer, so that the text is not split.
        document = {"version": "1.0", "added_tokens": [], "model": self.to_json()}
        spec = tokenizer_json.read(json.dumps(document).encode(), "the model")
        ids, spans, _ = arguments.read(build(spec).encode_words, text, None)
        names = self._token_map()
        return [
            Token(id_, names[id_], (starts[start], starts[stop]))
            for id_, (start, stop) in zip(ids, spans, strict=True)
        ]

    def get_trainer(self) -> trainers.BpeTrainer:
        """Return a trainer with the default options."""
        return trainers.BpeTrainer()

    def save(self, folder: str, prefix: str | None = None, name: str | None = None) -> list[str]:
        """Write vocab.json and merges.txt, and return their paths."""
        start = next((f"{each}-" for each in (prefix, name) if each is not None), "")
        paths = [Path(check_text(folder)) / f"{start}{end}" for end in ("vocab.json", "merges.txt")]
        lines = [f"{left} {right}\n" for left, right in self._merges]
        texts = [dump(self.to_json()["vocab"]), "#version: 0.2\n" + "".join(lines)]
        try:
            write_together({p: text.encode() for p, text in zip(paths, texts, strict=True)})
        except OSError as error:
            raise TokenizersError(os_error_text(error)) from None
        return [str(path) for path in paths]

    @staticmethod
    def read_file(vocab: str, merges: str) -> tuple[Vocabulary, Merges]:
        """Return the contents of vocab.json and merges.txt."""
        try:
            tokens = json.loads(Path(check_text(vocab)).read_text(encoding="utf-8"))
            lines = Path(check_text(merges)).read_text(encoding="utf-8").split("\n")
        except OSError as error:
            raise TokenizersError(os_error_text(error)) from None
        found: Merges = []
        for number, line in enumerate(lines, 1):
            line = line.removesuffix("\r")
            if not line or line.startswith("#version"):
                continue
            left, space, right = line.partition(" ")
            if not space or " " in right:
                raise TokenizersError(f"{merges}, line {number}: expected two tokens, got {line!r}")
            found.append((left, right))
        return tokens, found

    @classmethod
    def from_file(cls, vocab: str, merges: str, **kwargs: Any) -> BPE:
        """Return a model of vocab.json and merges.txt."""
        return cls(*cls.read_file(vocab, merges), **kwargs)

    def _clear_cache(self) -> None:
        """Keep the cache: tokenmill limits its size."""

    def _resize_cache(self, capacity: int) -> None:
        check_unsigned(capacity)


BPE.__signature__ = inspect.Signature(
    [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
        for name in ("vocab", "merges", "cache_capacity")
    ]
    + list(BPE.__signature__.parameters.values())
)
Unigram, WordLevel, WordPiece = (
    refused_class(Model, name, f"the model {name}")
    for name in ("Unigram", "WordLevel", "WordPiece")
)


def _check_vocabulary(vocabulary: object) -> Vocabulary:
    entries = check_instance(vocabulary, dict)
    return {check_text(token): check_unsigned(id_, 32) for token, id_ in entries.items()}


def _check_merges(merges: object) -> Merges:
    """Return pairs in order; a duplicate has the position of its last occurrence."""
    if not isinstance(merges, Iterable):
        raise TypeError(f"merges must be a sequence, got {type(merges).__name__}")
    last: dict[tuple[str, str], None] = {}
    for merge in merges:
        if not isinstance(merge, tuple) or len(merge) != 2:
            raise TypeError(f"a merge must be a tuple of two tokens, got {merge!r}")
        pair = (check_text(merge[0]), check_text(merge[1]))
        last.pop(pair, None)
        last[pair] = None
    return list(last)


def os_error_text(error: OSError) -> str:
    """Return the text of an OS error as the real library writes it."""
    return f"{os.strerror(error.errno or 0)} (os error {error.errno})"
