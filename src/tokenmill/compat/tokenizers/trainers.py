"""A trainer's options and texts → tokens and merges, equal to the real library's. Only BPE.

tokenmill trains on bytes. The pre-tokenizer must be ByteLevel, alone or after a Split by a pattern
of a known pre-tokenizer. Training on characters is not supported.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenmill.compat.tokenizers.components import (
    AddedToken,
    Component,
    Option,
    check,
    check_items,
    check_sequence,
    maybe,
    options_of,
    os_errors,
    refuse,
    refused_class,
    tokens_of,
)
from tokenmill.formats.names import byte_characters, spell
from tokenmill.patterns.schemes import PATTERNS
from tokenmill.training.options import TrainingWarning
from tokenmill.training.train import train_from_iterator as learn

_PROGRESS_FORMATS = {"indicatif": "Indicatif", "json": "JsonLines", "silent": "Silent"}
_PROGRESS_NAMES = {format_: name for name, format_ in _PROGRESS_FORMATS.items()}


def _check_alphabet(value: object) -> list[str]:
    """Return the first character of each text, in order and without duplicates."""
    return sorted({text[0] for text in check_items(value, str) if text})


class Trainer(Component):
    """The base class of all trainers."""


class BpeTrainer(
    Trainer,
    options=(
        *options_of(vocab_size=30000, min_frequency=0, show_progress=True),
        Option(
            "progress_format",
            lambda name: _PROGRESS_FORMATS.get(check(name, str), "Indicatif"),
            "indicatif",
            read=_PROGRESS_NAMES.__getitem__,
        ),
        Option("special_tokens", lambda x: tokens_of(list(check_sequence(x)), True), (), read=list),
        Option("limit_alphabet", maybe(int), None),
        Option("initial_alphabet", _check_alphabet, ()),
        Option("continuing_subword_prefix", maybe(str), None),
        Option("end_of_word_suffix", maybe(str), None),
        Option("max_token_length", maybe(int), None),
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


# Training


def lines_of(files: Sequence[Any]) -> Iterator[str]:
    """Return the lines of files with their line ends; each line is a text."""
    paths = [Path(check(name, str)) for name in files]
    with os_errors():  # a missing file is an error before training begins
        for path in paths:
            path.open("rb").close()

    def lines() -> Iterator[str]:
        for path in paths:
            with path.open(encoding="utf-8", newline="\n") as file:
                yield from file

    return lines()


def texts_of(source: Iterable[Any]) -> Iterator[str]:
    """Return texts; the source has texts or lists of them."""
    lists = ([item] if isinstance(item, str) else item for item in source)
    return (check(text, str) for texts in lists for text in texts)


def train(
    texts: Iterable[str], trainer: BpeTrainer, parts: Mapping[str, Any], added: Sequence[str] = ()
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return the vocabulary and the merges, in the order of the real library.

    The real library splits texts at `added` tokens, so a text that contains one is refused.
    """
    pattern, adds_space = _pattern(parts["pre_tokenizer"])
    _check_options(trainer, parts["normalizer"])
    with warnings.catch_warnings():  # the real library does not warn about a text that is too short
        warnings.simplefilter("ignore", TrainingWarning)
        tokenizer = learn(
            list(_prepare(texts, added, adds_space)),
            vocab_size=trainer.vocab_size,
            pattern=pattern,
            trainer="tokenizers",
            special_tokens=[token.content for token in trainer.special_tokens],
            min_frequency=trainer.min_frequency,
            max_token_length=trainer.max_token_length,
            initial_alphabet="bytes" if trainer.initial_alphabet else "seen",
        )
    vocabulary = {spell(token): id_ for id_, token in tokenizer._tokens().items()}
    merges = [(spell(left), spell(right)) for left, right in tokenizer._merges()]
    return {**vocabulary, **tokenizer.special_tokens}, merges


def _check_options(trainer: BpeTrainer, normalizer: Mapping[str, Any] | None) -> None:
    if normalizer is not None:
        refuse("training with a normalizer")
    if trainer.vocab_size < 256 + len(trainer.special_tokens):
        refuse(f"training with vocab_size={trainer.vocab_size}, below 256 plus special tokens,")
    if trainer.initial_alphabet and set(trainer.initial_alphabet) != set(byte_characters()):
        refuse("training with an initial_alphabet other than ByteLevel.alphabet()")
    for name in ("limit_alphabet", "continuing_subword_prefix", "end_of_word_suffix"):
        if getattr(trainer, name) not in (None, ""):
            refuse(f"training with {name}={getattr(trainer, name)!r}")


def _prepare(texts: Iterable[str], added: Sequence[str], adds_space: bool) -> Iterator[str]:
    for text in texts:
        for name in added:
            if name in text:
                refuse(f"training on a text with the added token {name!r}")
        yield " " + text if adds_space and text[:1] not in ("", " ") else text


def _pattern(pre_tokenizer: Mapping[str, Any] | None) -> tuple[str, bool]:
    """Return the pattern of a pre-tokenizer, and whether it adds a space before each text."""
    steps = [pre_tokenizer] if pre_tokenizer is not None else []
    if pre_tokenizer is not None and pre_tokenizer["type"] == "Sequence":
        steps = pre_tokenizer["pretokenizers"]
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"] and steps[0]["use_regex"]:
        return PATTERNS["r50k"][1], steps[0]["add_prefix_space"]
    if kinds == ["Split", "ByteLevel"] and not steps[1]["use_regex"]:
        split, last = steps
        pattern = split["pattern"].get("Regex")
        is_plain = (split["behavior"], split["invert"]) in (("Isolated", False), ("Removed", True))
        is_known = any(pattern in spellings for spellings in PATTERNS.values())
        if is_plain and is_known and not last["add_prefix_space"]:
            return str(pattern), False
    return refuse(
        f"training with the pre-tokenizer {', '.join(kinds) or None} (it must be ByteLevel, alone "
        "or after a Split by a known pattern)"
    )
