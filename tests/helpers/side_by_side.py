"""Two libraries with one interface: the real one, and ours."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import tokenizers as theirs

import tokenmill.compat.tokenizers as ours

TEXTS = [
    "",
    " ",
    "a",
    "hello world",
    "the quick  brown fox; it's 1,234 days\n\n old",
    " leading and trailing ",
    "naïve café über 漢字 🙂 e\u0301",
    "<s>hello</s> and <mask> <x>y<pad>",
    "hello <mask>  world <extra>\n",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbb",
]
SPECIALS = {"<s>": 0, "</s>": 1, "<pad>": 2, "<mask>": 3}


def trained(kind: str) -> theirs.Tokenizer:
    """A small tokenizer: byte-level, or of characters."""
    made = theirs.Tokenizer(theirs.models.BPE(unk_token=None if kind == "bytes" else "<s>"))
    made.pre_tokenizer = (
        theirs.pre_tokenizers.ByteLevel(add_prefix_space=False)
        if kind == "bytes"
        else theirs.pre_tokenizers.Metaspace()
    )
    alphabet = theirs.pre_tokenizers.ByteLevel.alphabet() if kind == "bytes" else []
    trainer = theirs.trainers.BpeTrainer(
        vocab_size=330 if kind == "bytes" else 60,
        special_tokens=[*SPECIALS],
        initial_alphabet=sorted(alphabet),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS * 3, trainer)
    made.add_tokens([theirs.AddedToken("<x>", lstrip=True, rstrip=True)])
    made.decoder = theirs.decoders.ByteLevel() if kind == "bytes" else theirs.decoders.Metaspace()
    return made


def processors(library: Any) -> list[Any]:
    """Every post-processor, made by one of the libraries."""
    p = library.processors
    template = p.TemplateProcessing(
        "<s> $A </s>", "<s> $A </s> $B:1 </s>:1", [("<s>", 0), ("</s>", 1)]
    )
    other = p.TemplateProcessing(
        "$A:3 <end>",
        ["$B:2", "<end>:5", "$A:1"],
        [{"id": "<end>", "ids": [1, 3], "tokens": ["</s>", "<mask>"]}],
    )
    bert, roberta = ("</s>", 1), ("<s>", 0)
    return [
        None,
        template,
        other,
        p.ByteLevel(),
        p.ByteLevel(add_prefix_space=False),
        p.ByteLevel(trim_offsets=False),
        p.BertProcessing(bert, roberta),
        p.RobertaProcessing(bert, roberta),
        p.RobertaProcessing(bert, roberta, trim_offsets=False, add_prefix_space=False),
        p.Sequence([p.ByteLevel(), template]),
        p.Sequence([p.ByteLevel(trim_offsets=False)]),
        p.Sequence([]),
        p.Sequence([template, p.ByteLevel()]),
    ]


def state(encoding: Any) -> dict[str, Any]:
    """All that an encoding holds."""
    return json.loads(encoding.__getstate__())


def outcome(call: Callable[[], Any]) -> tuple[str, Any]:
    """The result of a call, or the type of its exception: the texts of exceptions are ours.

    A panic of the real library is a TokenizersError here.
    """
    try:
        return "gave", call()
    except BaseException as error:
        kind = type(error).__name__
        if kind in ("Exception", "PanicException", "TokenizersError"):
            kind = "Exception"
        return kind, None


def same(mine: Any, real: Any) -> None:
    """Compare two encodings: first the ids, then all fields."""
    assert mine.ids == real.ids
    assert mine.type_ids == real.type_ids
    assert mine.attention_mask == real.attention_mask
    assert mine.special_tokens_mask == real.special_tokens_mask
    assert len(mine) == len(real)
    assert mine.tokens == real.tokens
    assert mine.offsets == real.offsets
    assert mine.word_ids == real.word_ids
    assert mine.sequence_ids == real.sequence_ids
    assert mine.n_sequences == real.n_sequences
    assert state(mine) == state(real)
    assert repr(mine) == repr(real)


def random_truncation(rng: random.Random) -> dict[str, Any] | None:
    if rng.random() < 0.3:
        return None
    return {
        "max_length": rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 20]),
        "stride": rng.choice([0, 0, 1, 2, 3]),
        "strategy": rng.choice(["longest_first", "longest_first", "only_first", "only_second"]),
        "direction": rng.choice(["right", "left"]),
    }


def random_padding(rng: random.Random) -> dict[str, Any] | None:
    if rng.random() < 0.5:
        return None
    return {
        "direction": rng.choice(["right", "left"]),
        "pad_id": 2,
        "pad_type_id": rng.choice([0, 4]),
        "pad_token": "<pad>",
        "length": rng.choice([None, None, 5, 14]),
        "pad_to_multiple_of": rng.choice([None, None, 0, 4, 7]),
    }


def apply(library: Any, tokenizer: Any, options: dict[str, Any]) -> None:
    """Sets the options of `options` in a tokenizer of one of the libraries."""
    tokenizer.post_processor = processors(library)[options["processor"]]
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if options["truncation"] is not None:
        tokenizer.enable_truncation(**options["truncation"])
    if options["padding"] is not None:
        tokenizer.enable_padding(**options["padding"])


def both(real: theirs.Tokenizer) -> tuple[Any, Any]:
    """The same tokenizer in both libraries: the real one, and ours."""
    return theirs.Tokenizer.from_str(real.to_str()), ours.Tokenizer.from_str(real.to_str())
