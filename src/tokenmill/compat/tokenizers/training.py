"""A BpeTrainer's options and texts → tokens and merges, as the real library learns them.

tokenmill's own training is on bytes: it is used where the pre-tokenizer ends in ByteLevel, behind
nothing but a pattern that it knows. All else is learned by `learning`, more slowly.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenmill.compat.tokenizers import cutting, learning, models, values
from tokenmill.compat.tokenizers.trainers import BpeTrainer
from tokenmill.errors import TokenizersError
from tokenmill.formats.byte_characters import byte_characters, shown
from tokenmill.schemes import PATTERNS
from tokenmill.training.options import TrainingWarning
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
    return [values.text(text) for text in each]


def train(
    texts: Iterable[str], trainer: BpeTrainer, parts: Mapping[str, Any], added: Sequence[str] = ()
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The vocabulary and the merges, in the order of the real library.

    `added` are the tokens that are cut out of texts before: only texts without them are taken.
    """
    normalizer = parts["normalizer"]
    if normalizer is not None:  # names are looked for in normal text, too
        added = [*added, *(cutting.normalize(normalizer, name) for name in added)]
    texts = _without(texts, added)
    pattern, prefix = _pattern(parts["pre_tokenizer"])
    alphabet = set(trainer.initial_alphabet)
    if (
        pattern is None
        or normalizer is not None
        or trainer.vocab_size < 256 + len(trainer.special_tokens)  # which is too few for the other
        or (alphabet and alphabet != set(byte_characters()))
        or trainer.limit_alphabet is not None
        or trainer.continuing_subword_prefix
        or trainer.end_of_word_suffix
    ):
        return learning.learn(_count_words(texts, parts, added), trainer)
    with warnings.catch_warnings():  # the real library says nothing of a text that is too short
        warnings.simplefilter("ignore", TrainingWarning)
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
    vocabulary = {shown(token): id_ for id_, token in tokenizer._tokens().items()}
    merges = [(shown(left), shown(right)) for left, right in tokenizer._merges()]
    return {**vocabulary, **tokenizer.specials}, merges


def _without(texts: Iterable[str], added: Sequence[str]) -> Iterator[str]:
    """The texts, which are refused if they hold an added token."""
    for text in texts:
        for name in added:
            if name in text:
                values.not_there(f"training on a text with {name!r}, which was added before,")
        yield text


def _count_words(
    texts: Iterable[str], parts: Mapping[str, Any], added: Sequence[str]
) -> Counter[str]:
    """How often each word comes, by the normalizer and the pre-tokenizer."""
    normalizer, pre_tokenizer = parts["normalizer"], parts["pre_tokenizer"]
    if normalizer is not None:
        shown_parts = f"{normalizer}", f"{pre_tokenizer}"
        moves = any(name in shown_parts[0] for name in ("Strip", "Replace", "Precompiled"))
        if moves and "'first'" in shown_parts[1]:
            values.not_there("training with Metaspace's scheme 'first' behind such a normalizer")
        texts = _without((cutting.normalize(normalizer, text) for text in texts), added)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update([text] if pre_tokenizer is None else cutting.words(pre_tokenizer, text))
    return counts


def _pattern(pre_tokenizer: Mapping[str, Any] | None) -> tuple[str | None, bool]:
    """How text is cut, and whether each has a blank in front; None: not as tokenmill trains."""
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
    return None, False
