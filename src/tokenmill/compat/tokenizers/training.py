"""A BpeTrainer's options and texts → tokens and merges, equal to the real library's.

tokenmill trains on bytes. The pre-tokenizer must be ByteLevel, alone or after a Split by a pattern
of a known pre-tokenizer. Training on characters is not supported.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenmill.compat.tokenizers.components import check_text, os_errors, refuse
from tokenmill.compat.tokenizers.trainers import BpeTrainer
from tokenmill.formats.names import byte_characters, spell
from tokenmill.patterns.schemes import PATTERNS
from tokenmill.training.options import TrainingWarning
from tokenmill.training.train import train_from_iterator as learn


def lines_of(files: Sequence[Any]) -> Iterator[str]:
    """Return the lines of files with their line ends; each line is a text."""
    paths = [Path(check_text(name)) for name in files]
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
    return (check_text(text) for texts in lists for text in texts)


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
