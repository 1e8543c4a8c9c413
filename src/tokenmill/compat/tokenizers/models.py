"""Models: how pieces of text become tokens. Here there is one, BPE."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, SupportsFloat, TypeAlias

import numpy as np

from tokenmill.compat.tokenizers import engine, trainers, values
from tokenmill.compat.tokenizers.components import Changes, Component, Field, Struct, dump
from tokenmill.errors import TokenizersError
from tokenmill.files import write_together

Vocabulary: TypeAlias = dict[str, int]
Merges: TypeAlias = list[tuple[str, str]]
_OPTIONS = (
    *("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk"),
    *("byte_fallback", "ignore_merges"),
)


class Token:
    """A token with its place in bytes."""

    __slots__ = ("id", "offsets", "value")

    def __init__(self, id: int, value: str, offsets: tuple[int, int]) -> None:
        self.id, self.value, self.offsets = id, value, offsets

    def as_tuple(self) -> tuple[int, str, tuple[int, int]]:
        """Id, value and offsets."""
        return self.id, self.value, self.offsets


class Model(Component):
    """The base of all models."""

    KIND = "Model"


def _maybe_text(value: object) -> str | None:
    return None if value is None else values.text(value)


def _dropout(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, SupportsFloat):
        raise TypeError(f"must be real number, not {type(value).__name__}")
    return float(np.float32(value))


class BPE(Model):
    """Byte-pair encoding."""

    # Of a model of a file each is spelled out when it is first asked for.
    _held_vocab: Vocabulary | Callable[[], Vocabulary]
    _held_merges: Merges | Callable[[], Merges]
    _tokens: dict[int, str] | None
    _serial = 0  # of the vocabulary, which only training changes

    def __init__(
        self,
        vocab: Vocabulary | str | None = None,
        merges: Sequence[tuple[str, str]] | str | None = None,
        **kwargs: Any,
    ) -> None:
        values.ignore(kwargs, (*_OPTIONS, "cache_capacity"))
        if (vocab is None) != (merges is None):
            raise ValueError("`vocab` and `merges` must be both specified")
        self._hold(vocab, merges)
        self._data = {
            "dropout": _dropout_of_new(kwargs.get("dropout")),
            "unk_token": _maybe_text(kwargs.get("unk_token")),
            "continuing_subword_prefix": _maybe_text(kwargs.get("continuing_subword_prefix")),
            "end_of_word_suffix": _maybe_text(kwargs.get("end_of_word_suffix")),
            "fuse_unk": values.flag(kwargs.get("fuse_unk", False)),
            "byte_fallback": values.flag(kwargs.get("byte_fallback", False)),
            "ignore_merges": values.flag(kwargs.get("ignore_merges", False)),
        }

    def _hold(self, vocab: object, merges: object) -> None:
        if isinstance(vocab, str) and isinstance(merges, str):
            try:
                vocab, merges = self.read_file(vocab, merges)
            except TokenizersError as error:
                text = str(error).removeprefix("Error while reading vocab & merges files: ")
                raise TokenizersError(f"Error while initializing BPE: {text}") from None
        self._tokens = None
        self._held_vocab = _vocabulary(vocab or {})
        self._held_merges = _merges(merges or [])
        check_merges(self._held_vocab, self._held_merges, "Error while initializing BPE: ")

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Component:
        made = cls.__new__(cls)
        options = {"fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
        made._data = {name: data.get(name, options.get(name)) for name in _OPTIONS}
        made._data["dropout"] = _dropout(made._data["dropout"])
        made._tokens = None
        pairs = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in data["merges"]]
        made._held_vocab, made._held_merges = dict(data["vocab"]), _merges(pairs)
        return made

    @classmethod
    def _later(
        cls,
        options: Mapping[str, Any],
        vocabulary: Callable[[], Vocabulary],
        merges: Callable[[], Merges],
    ) -> BPE:
        """A model of a file, whose tokens are only spelled out when they are asked for."""
        made = cls.__new__(cls)
        vars(made).update(vars(cls.from_data({**options, "vocab": {}, "merges": []})))
        made._held_vocab, made._held_merges = vocabulary, merges
        return made

    dropout = Field("dropout", _dropout)
    unk_token = Field("unk_token", _maybe_text)
    continuing_subword_prefix = Field("continuing_subword_prefix", _maybe_text)
    end_of_word_suffix = Field("end_of_word_suffix", _maybe_text)
    fuse_unk = Field("fuse_unk", values.flag)
    byte_fallback = Field("byte_fallback", values.flag)
    ignore_merges = Field("ignore_merges", values.flag)

    @property
    def _vocab(self) -> Vocabulary:
        if not isinstance(self._held_vocab, dict):
            self._held_vocab = self._held_vocab()
        return self._held_vocab

    @property
    def _merge_list(self) -> Merges:
        if not isinstance(self._held_merges, list):
            self._held_merges = self._held_merges()
        return self._held_merges

    def _learn(self, vocabulary: Vocabulary, merges: Merges, by: trainers.BpeTrainer) -> None:
        """Becomes what training found; the marks of words are the trainer's, too."""
        marks = ("continuing_subword_prefix", "end_of_word_suffix")
        self._data = {**self._data, **{name: getattr(by, name) for name in marks}}
        self._tokens = None
        self._held_vocab, self._held_merges = vocabulary, merges
        self._serial += 1
        Changes.count += 1

    def to_json(self) -> dict[str, Any]:
        vocabulary = dict(sorted(self._vocab.items(), key=lambda entry: entry[1]))
        return {**self._options(), "vocab": vocabulary, "merges": self._merge_list}

    def _options(self) -> dict[str, Any]:
        """What tokenizer.json says besides the tokens."""
        dropout = self._data["dropout"]
        # It has 32 bits there, and is written with as few digits as say that.
        short = None if dropout is None else float(str(np.float32(dropout)))
        return {"type": "BPE", **self._data, "dropout": short}

    def _shown(self) -> Struct:
        held = self.to_json()
        data = {**self._data, "vocab": held["vocab"], "merges": held["merges"]}
        return Struct("BPE", data)

    def __setstate__(self, state: bytes) -> None:
        vars(self).update(vars(self.from_data(json.loads(state))))

    def token_to_id(self, token: str) -> int | None:
        """The id of a token, or None."""
        return self._vocab.get(values.text(token))

    def id_to_token(self, id: int) -> str | None:
        """The token of an id, or None."""
        return self._token_map().get(values.unsigned(id, 32))

    def _token_map(self) -> dict[int, str]:
        """The token of each id."""
        if self._tokens is None:
            self._tokens = {id_: token for token, id_ in self._vocab.items()}
        return self._tokens

    def tokenize(self, sequence: str) -> list[Token]:
        """The tokens of a piece of text, which is not cut before."""
        text = values.text(sequence)
        starts = [0]
        for character in text:
            starts.append(starts[-1] + len(character.encode()))
        ids, spans, _ = engine.bare_engine(self.to_json()).details(text, None)
        names = self._token_map()
        return [
            Token(id_, names[id_], (starts[start], starts[stop]))
            for id_, (start, stop) in zip(ids, spans, strict=True)
        ]

    def get_trainer(self) -> trainers.BpeTrainer:
        """A trainer with its usual options."""
        return trainers.BpeTrainer()

    def save(self, folder: str, prefix: str | None = None, name: str | None = None) -> list[str]:
        """Writes vocab.json and merges.txt."""
        front = prefix if prefix is not None else name
        start = "" if front is None else f"{front}-"
        paths = [
            Path(values.text(folder)) / f"{start}{end}" for end in ("vocab.json", "merges.txt")
        ]
        lines = [f"{left} {right}\n" for left, right in self._merge_list]
        texts = [dump(self.to_json()["vocab"]), "#version: 0.2\n" + "".join(lines)]
        try:
            write_together({p: text.encode() for p, text in zip(paths, texts, strict=True)})
        except OSError as error:
            raise TokenizersError(system_text(error)) from None
        return [str(path) for path in paths]

    @staticmethod
    def read_file(vocab: str, merges: str) -> tuple[Vocabulary, Merges]:
        """The contents of vocab.json and merges.txt."""
        try:
            tokens = json.loads(Path(values.text(vocab)).read_text(encoding="utf-8"))
            lines = Path(values.text(merges)).read_text(encoding="utf-8").split("\n")
        except OSError as error:
            said = f"Error while reading vocab & merges files: {system_text(error)}"
            raise TokenizersError(said) from None
        found: Merges = []
        for line in (line.removesuffix("\r") for line in lines):
            if not line or line.startswith("#version"):
                continue
            parts = line.split(" ")
            if len(parts) != 2:
                raise TokenizersError(
                    "Error while reading vocab & merges files: Merges text file invalid at line "
                    f"{len(found) + 1}"
                )
            found.append((parts[0], parts[1]))
        return tokens, found

    @classmethod
    def from_file(cls, vocab: str, merges: str, **kwargs: Any) -> BPE:
        """A model of vocab.json and merges.txt."""
        try:
            read = cls.read_file(vocab, merges)
        except TokenizersError as error:
            text = str(error).replace("reading vocab & merges files", "reading BPE files")
            raise TokenizersError(text) from None
        return cls(*read, **kwargs)

    def _clear_cache(self) -> None:
        """What is remembered belongs to tokenmill, whose bound is `cache.set_limit`."""

    def _resize_cache(self, capacity: int) -> None:
        values.unsigned(capacity)


def _dropout_of_new(value: object) -> float | None:
    found = _dropout(value)
    if found is not None and not 0 <= found <= 1:
        raise TokenizersError(
            "Error while initializing BPE: Dropout should be between 0 and 1, inclusive"
        )
    return found


def _vocabulary(given: object) -> Vocabulary:
    if not isinstance(given, Mapping):
        raise TypeError(f"'{type(given).__name__}' object is not an instance of 'dict'")
    return {values.text(token): values.unsigned(id_, 32) for token, id_ in given.items()}


def _merges(given: object) -> Merges:
    """Pairs in order; one that comes twice has the place of its last."""
    if not isinstance(given, Iterable):
        raise TypeError(f"'{type(given).__name__}' object is not an instance of 'Sequence'")
    last: dict[tuple[str, str], None] = {}
    for merge in given:
        if not isinstance(merge, tuple) or len(merge) != 2:
            raise TypeError(f"merges must be tuples of two tokens, not {merge!r}")
        pair = (values.text(merge[0]), values.text(merge[1]))
        last.pop(pair, None)
        last[pair] = None
    return list(last)


def check_merges(vocabulary: Vocabulary, merges: Merges, start: str) -> None:
    """Refuses merges of tokens that are not there."""
    for left, right in merges:
        for token in (left, right, left + right):
            if token not in vocabulary:
                raise TokenizersError(f"{start}Token `{token}` out of vocabulary")


def system_text(error: OSError) -> str:
    """What the system says, as the real library puts it."""
    return f"{os.strerror(error.errno or 0)} (os error {error.errno})"


def _other(name: str) -> type[Model]:
    def refuse(self: Model, *_: object, **__: object) -> NoReturn:
        values.not_there(f"the model {name}")

    return type(name, (Model,), {"__init__": refuse, "__doc__": f"{name}: not here."})


Unigram = _other("Unigram")
WordLevel = _other("WordLevel")
WordPiece = _other("WordPiece")
