"""ids → text by the decoders of tokenizer.json, compared with Hugging Face."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
import tokenizers
from conftest import SEED, examples
from tokenizers import models

from tokenmill.compat import tokenizers as compat
from tokenmill.decoding import Decoder, flatten, run_chain, step_of
from tokenmill.errors import TokenizersError, VocabularyError

SPACE = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
BYTES = {"type": "ByteFallback"}
FUSE = {"type": "Fuse"}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}


def strip(start: int, stop: int) -> dict[str, Any]:
    return {"type": "Strip", "content": " ", "start": start, "stop": stop}


def metaspace(scheme: str) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}


def sequence(*decoders: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "decoders": list(decoders)}


DECODERS: list[dict[str, Any] | None] = [
    None,
    {**BYTE_LEVEL, "use_regex": True},
    BYTES,
    FUSE,
    SPACE,
    {"type": "Replace", "pattern": {"Regex": "[a▁]+b?"}, "content": "$1"},
    {"type": "BPEDecoder", "suffix": "▁"},
    metaspace("always"),
    metaspace("first"),
    metaspace("never"),
    sequence(),
    sequence(SPACE, BYTES, FUSE, strip(1, 0)),
    sequence(SPACE, BYTES, FUSE),
    sequence(SPACE, BYTES),
    sequence(SPACE, FUSE, strip(2, 0)),
    sequence(BYTES, SPACE, FUSE, strip(1, 0)),
    sequence(sequence(SPACE), sequence(BYTES, sequence(FUSE)), strip(1, 0)),
    sequence(SPACE, strip(1, 0), BYTES, strip(0, 0)),
    sequence(metaspace("always"), BYTES, FUSE),
    sequence(BYTES, BYTE_LEVEL),
    sequence(SPACE, BYTES, FUSE, BYTE_LEVEL),
]
TOKENS = [
    *("a", "b", "▁", "▁▁a", "a▁b", "Ġa", "Ã", "©", "é", "漢", "漢Ġ", " ", "  a b ", "\n", "�"),
    *("<0xC3>", "<0xc3>", "<0xA9>", "<0xE6>", "<0xBC>", "<0xA2>", "<0x20>", "<0x+F>", "<0x0>"),
    *("<0xG0>", "<0x41>x", "<s>", "</s>", "<０xA9>", "Ċ", "ł"),
]


def real(decoder: dict[str, Any] | None) -> tokenizers.Tokenizer:
    """Return the tokenizer of Hugging Face; "<s>" and "</s>" are special tokens."""
    made = tokenizers.Tokenizer(models.BPE({token: id_ for id_, token in enumerate(TOKENS)}, []))
    made.add_special_tokens(["<s>", "</s>", "<more>"])
    return tokenizers.Tokenizer.from_str(
        json.dumps({**json.loads(made.to_str()), "decoder": decoder})
    )


def ours(decoder: dict[str, Any] | None) -> Decoder:
    tokens = dict(enumerate([*TOKENS, "<more>"]))
    special_tokens = {id_ for id_, token in tokens.items() if token in ("<s>", "</s>", "<more>")}
    return Decoder(decoder, tokens.get, special_tokens)


def random_ids(rng: random.Random) -> list[int]:
    # Few kinds of ids give runs of byte tokens.
    kinds = rng.sample(range(len(TOKENS) + 3), rng.randint(1, 6))
    return rng.choices(kinds, k=rng.randint(0, 9))


@pytest.mark.parametrize("decoder", DECODERS, ids=str)
def test_text_equals_hugging_face(decoder: dict[str, Any] | None) -> None:
    rng, theirs, mine = random.Random(SEED), real(decoder), ours(decoder)
    for _ in range(examples(1_000)):
        ids, skip = random_ids(rng), rng.random() < 0.5
        expected = theirs.decode(ids, skip_special_tokens=skip)
        assert mine.decode(ids, skip) == expected, ids
        assert mine.decode_slowly(ids, skip) == expected, ids


@pytest.mark.parametrize("decoder", DECODERS[1:], ids=str)
def test_chain_equals_hugging_face(decoder: dict[str, Any]) -> None:
    rng, theirs = random.Random(SEED), real(decoder).decoder
    chain = [step_of(step) for step in flatten(decoder)]
    for _ in range(examples(300)):
        tokens = ["".join(rng.choices(TOKENS, k=rng.randint(0, 2))) for _ in range(4)]
        assert "".join(run_chain(chain, tokens)) == theirs.decode(tokens), tokens


@pytest.mark.parametrize("decoder", DECODERS, ids=str)
def test_decode_stream_equals_hugging_face(decoder: dict[str, Any] | None) -> None:
    rng, theirs = random.Random(SEED), real(decoder)
    mine = compat.Tokenizer.from_str(theirs.to_str())
    for _ in range(examples(300)):
        skip, start = rng.random() < 0.5, random_ids(rng)
        their_stream = tokenizers.decoders.DecodeStream(start, skip_special_tokens=skip)
        my_stream = compat.decoders.DecodeStream(start, skip_special_tokens=skip)
        for id_ in random_ids(rng):
            try:
                expected: str | None = their_stream.step(theirs, id_)
            except Exception as error:
                with pytest.raises(TokenizersError) as raised:
                    my_stream.step(mine, id_)
                assert str(raised.value) == str(error)
                break
            assert my_stream.step(mine, id_) == expected


def test_empty_token_separates_byte_tokens() -> None:
    tokens = {0: "<0xC3>", 1: "", 2: "<0xA9>"}
    decoder = Decoder(sequence(BYTES, FUSE), tokens.get, set())
    assert decoder.decode([0, 2]) == "é"
    assert decoder.decode([0, 1, 2]) == decoder.decode_slowly([0, 1, 2]) == "��"


@pytest.mark.parametrize(
    "decoder, message",
    [
        (
            {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "decoder WordPiece is not supported",
        ),
        (sequence({"type": "CTC"}), "decoder CTC is not supported: it joins the tokens of speech"),
        ({"type": "Other"}, "decoder 'Other' is unknown; use one of ByteLevel, "),
        ({"type": "Replace", "pattern": {"String": ""}, "content": ""}, "an empty pattern"),
    ],
)
def test_unsupported_decoder_is_a_vocabulary_error(decoder: dict[str, Any], message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        Decoder(decoder, {}.get, set())
