"""A BpeTrainer's options and texts → tokens and merges, by tokenmill's own training.

It learns what the real library would, or refuses: tokenmill trains on bytes, so the pre-tokenizer
must end in ByteLevel, and there must be no normalizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tokenmill.compat.tokenizers import models, values
from tokenmill.compat.tokenizers.trainers import BpeTrainer
from tokenmill.errors import TokenizersError
from tokenmill.formats.huggingface import byte_characters, shown
from tokenmill.schemes import PATTERNS
from tokenmill.training.train import train as learn


def lines_of(files: Sequence[Any]) -> Iterator[str]:
    """The lines of files with their ends, each of which is a text."""
    paths = [Path(values.text(name)) for name in files]
    for path in paths:  # before anything else is done or refused
        try:
            path.open("rb").close()
        except OSError as error:
            raise TokenizersError(models.system_text(error)) from None
    return (line for path in paths for line in _lines(path))


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        yield from lines


def texts_of(source: Iterable[Any]) -> Iterator[str]:
    """Texts, or lists of them."""
    given = iter(source)
    return (text for each in given for text in _texts(each))


def _texts(each: Any) -> Iterable[str]:
    if isinstance(each, str):
        return [each]
    return [values.text(text) for text in values.sequence(each)]


def train(
    texts: Iterable[str], trainer: BpeTrainer, parts: Mapping[str, Any]
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The vocabulary and the merges, in the order of the real library."""
    refused = {
        "a normalizer": parts["normalizer"] is not None,
        "limit_alphabet": trainer.limit_alphabet is not None,
        "continuing_subword_prefix": bool(trainer.continuing_subword_prefix),
        "end_of_word_suffix": bool(trainer.end_of_word_suffix),
    }
    for name, given in refused.items():
        if given:
            _refuse(name)
    pattern, prefix = _pattern(parts["pre_tokenizer"])
    alphabet = set(trainer.initial_alphabet)
    if alphabet and alphabet != set(byte_characters()):
        _refuse("an initial_alphabet that is neither empty nor ByteLevel.alphabet()")
    tokenizer = learn(
        ([" " + text if prefix and text[:1] not in ("", " ") else text for text in texts]),
        vocab_size=trainer.vocab_size,
        pattern=pattern,
        ties="huggingface",
        specials=[token.content for token in trainer.special_tokens],
        min_frequency=trainer.min_frequency,
        max_token_length=trainer.max_token_length,
        initial_alphabet="bytes" if alphabet else "seen",
    )
    contents = tokenizer._contents()
    vocabulary = {shown(token): id_ for id_, token in contents.tokens.items()}
    merges = [(shown(left), shown(right)) for left, right in contents.merges]
    return {**vocabulary, **contents.specials}, merges


def _pattern(pre_tokenizer: Mapping[str, Any] | None) -> tuple[str, bool]:
    """How text is cut, and whether each has a blank in front."""
    steps = [pre_tokenizer] if pre_tokenizer is not None else []
    if pre_tokenizer is not None and pre_tokenizer["type"] == "Sequence":
        steps = pre_tokenizer["pretokenizers"]
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"] and steps[0]["use_regex"]:
        return PATTERNS["r50k"][1], steps[0]["add_prefix_space"]
    if kinds == ["Split", "ByteLevel"] and not steps[1]["use_regex"]:
        split, last = steps
        pattern = split["pattern"].get("Regex")
        plain = (split["behavior"], split["invert"]) in (("Isolated", False), ("Removed", True))
        known = any(pattern in spellings for spellings in PATTERNS.values())
        if plain and known and not last["add_prefix_space"]:
            return str(pattern), False
    return _refuse("a pre-tokenizer that is neither ByteLevel nor a known Split before it")


def _refuse(what: str) -> NoReturn:
    values.not_there(f"training with {what}")
