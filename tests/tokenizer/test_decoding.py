"""ids → text by the decoders of tokenizer.json, compared with Hugging Face."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import families
import numpy as np
import pytest
import tokenizers
from conftest import SEED, examples
from test_session_families import FRAGMENTS, loaded
from tokenizers import models

from tokenmill import Tokenizer
from tokenmill.compat import tokenizers as compat
from tokenmill.decoding import Decoder, byte_value, flatten, run_chain, step_of
from tokenmill.errors import TokenizersError, UnknownTokenError, VocabularyError

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
        later = random_ids(rng)
        if rng.random() < 0.3:  # a long run of ids that may give no text
            later += rng.choices(later or [0], k=40) + random_ids(rng)
        for id_ in later:
            try:
                expected: str | None = their_stream.step(theirs, id_)
            except Exception as error:
                with pytest.raises(TokenizersError) as raised:
                    my_stream.step(mine, id_)
                assert str(raised.value) == str(error)
                break
            assert my_stream.step(mine, id_) == expected


# Decoders that let a token change the text before it. Their streams decode a run again and again.
WITHOUT_STREAM = [str(decoder) for decoder in DECODERS if ours(decoder).stream(False) is None]


def test_usual_decoders_have_streams() -> None:
    usual = [*DECODERS[1:5], *DECODERS[11:15], DECODERS[16]]
    assert not [decoder for decoder in usual if str(decoder) in WITHOUT_STREAM]


# Runs of ids that give no text: bytes that are not UTF-8, and skipped tokens.
SILENT = [["<0xC3>"], ["<0xC3>", "<0x+F>"], ["<s>"], ["<s>", "<0xE6>"], ["Ã"], ["▁"]]


@pytest.mark.parametrize("decoder", DECODERS, ids=str)
@pytest.mark.parametrize("names", SILENT, ids=str)
def test_streams_read_each_id_a_few_times(decoder: dict[str, Any] | None, names: list[str]) -> None:
    if names != ["<s>"] and str(decoder) in WITHOUT_STREAM:
        return
    counted = 0

    class Counting(compat.Tokenizer):
        def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
            nonlocal counted
            counted += len(ids)
            return super().decode(ids, skip_special_tokens)

    read = compat.Tokenizer.from_str(real(decoder).to_str())
    mine = Counting(read.model)
    vars(mine).update(vars(read))
    stream, count = compat.decoders.DecodeStream(skip_special_tokens=True), 2_000
    for index in range(count):
        stream.step(mine, TOKENS.index(names[index % len(names)]))
    assert counted < 20 * count


def runs_replaced(decoder: Decoder, ids: list[int], skip: bool) -> Iterator[str]:
    """The texts of runs of byte tokens, whose valid beginnings stay, and of the ids between."""
    kept = [id_ for id_ in ids if not decoder.drops(id_, skip)]
    for is_byte, group in groupby(kept, lambda id_: byte_value(TOKENS[id_]) is not None):
        run = list(group)
        if not is_byte:
            yield decoder.decode_slowly(run, False)
            continue
        data = bytes(byte_value(TOKENS[id_]) or 0 for id_ in run)
        try:
            yield data.decode()
        except UnicodeDecodeError as error:
            yield data[: error.start].decode() + "\ufffd" * (len(data) - error.start)


def test_text_of_a_stream_is_that_of_the_decoder() -> None:
    rng = random.Random(SEED)
    for decoder in [each for each in DECODERS if str(each) not in WITHOUT_STREAM]:
        mine, strips = ours(decoder), str(decoder).count("Strip")
        has_bytes = "ByteFallback" in str(decoder)
        for _ in range(examples(1_000)):
            ids, skip = random_ids(rng) + random_ids(rng), rng.random() < 0.5
            ids = [id_ for id_ in ids if id_ < len(TOKENS)]
            stream = mine.stream(skip)
            assert stream is not None
            text = ""
            for at, id_ in enumerate(ids):
                text += stream.push(id_)
                assert not stream.is_open or mine.decode(ids[: at + 1], skip)[-1:] in ("\ufffd", "")
            text += stream.finish()
            expected = mine.decode(ids, skip)
            if has_bytes and "\ufffd" in expected and not strips:
                expected = "".join(runs_replaced(mine, ids, skip))
            if not (has_bytes and strips and "\ufffd" in expected):
                assert text == expected, (decoder, ids)


# Streams of a tokenizer


def with_decoder(decoder: dict[str, Any], folder: Path) -> Tokenizer:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(families.pieces("llama2")), "decoder": decoder}))
    return Tokenizer.load(path)


def check_stream(tokenizer: Tokenizer, ids: list[int]) -> None:
    """The texts add up to the whole, and a stream may begin after any of the ids."""
    stream = tokenizer.stream_decoder()
    pieces = [stream.push(id_) for id_ in ids]
    rest = stream.finish()
    assert "".join(pieces) + rest == tokenizer.decode(ids)
    for start in range(len(ids) + 1):
        stream = tokenizer.stream_decoder(ids=ids[:start])
        assert [stream.push(id_) for id_ in ids[start:]] == pieces[start:], (start, ids)
        assert stream.finish() == rest


STREAMED = ["gpt2", "qwen2", "deepseek_v3", "llama2", "gemma", "yi", "unknowns"]


@pytest.mark.parametrize("name", STREAMED)
def test_stream_begins_after_any_prompt(name: str) -> None:
    tokenizer, rng = loaded(name), random.Random(f"{SEED} {name}")
    for _ in range(examples(200)):
        parts = rng.choices([*FRAGMENTS, "中🙂é", "  ", " \n\n "], k=rng.randrange(1, 6))
        check_stream(tokenizer, tokenizer.encode("".join(parts))[:60])


@pytest.mark.parametrize("decoder", [*DECODERS[7:10], DECODERS[18]], ids=str)
def test_stream_of_any_decoder_begins_after_any_prompt(
    decoder: dict[str, Any], tmp_path: Path
) -> None:
    tokenizer, rng = with_decoder(decoder, tmp_path), random.Random(f"{SEED} {decoder}")
    for _ in range(examples(100)):
        parts = rng.choices(["the mill", " grinds", "  ", "\n", " 12", "x", " " * 90], k=4)
        check_stream(tokenizer, tokenizer.encode("".join(parts)))


def test_prompts_of_streams_are_checked() -> None:
    tokenizer = loaded("gpt2")
    with pytest.raises(TypeError, match="ids must be a sequence of int, not int 5"):
        tokenizer.stream_decoder(ids=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ids must be a sequence of int, not str 'a'"):
        tokenizer.stream_decoder(ids="a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"ids\[1\] must be an int, not float 1.5"):
        tokenizer.stream_decoder(ids=[1, 1.5])  # type: ignore[list-item]
    with pytest.raises(UnknownTokenError, match="id -1 is not in this vocabulary"):
        tokenizer.stream_decoder(ids=[-1])
    high = tokenizer.token_to_id(b"\xf0")
    for ids in (np.array([high]), (high,), iter([high])):
        assert tokenizer.stream_decoder(ids=ids).finish() == "\ufffd"


def test_stream_never_shows_half_a_character() -> None:
    for name in STREAMED[:6]:
        tokenizer = loaded(name)
        for text in ("中🙂é", "🙂" * 40, "a🙂 中", "e\u0301🇩🇪"):
            ids = tokenizer.encode(text)
            for start in range(len(ids)):
                stream = tokenizer.stream_decoder(ids=ids[:start])
                shown = "".join([stream.push(id_) for id_ in ids[start:]])
                assert "\ufffd" not in shown and tokenizer.decode(ids).endswith(shown)


def test_invalid_bytes_are_shown_when_they_are_known() -> None:
    tokenizer = loaded("llama2")
    high = tokenizer.token_to_id(b"\xff")
    stream = tokenizer.stream_decoder()
    assert [stream.push(high) for _ in range(3)] == ["\ufffd"] * 3
    stream = tokenizer.stream_decoder()
    ids = [tokenizer.token_to_id(bytes([byte])) for byte in "中".encode()]
    assert [stream.push(id_) for id_ in [*ids, high, ids[0]]] == ["", "", "中", "\ufffd", "\ufffd"]


@pytest.mark.parametrize("text", [" " * 3000, "\n" * 3000, "中" * 1000, "the mill" * 500])
@pytest.mark.parametrize("at", [4, 7, 18])
def test_tokenizer_streams_read_each_id_a_few_times(
    at: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, decode = 0, Tokenizer.decode

    def count(tokenizer: Tokenizer, ids: Any, *args: Any) -> str:
        nonlocal counted
        counted += len(ids)
        return decode(tokenizer, ids, *args)

    decoder = DECODERS[at]
    assert decoder is not None
    tokenizer = with_decoder(decoder, tmp_path)
    ids = tokenizer.encode(text)
    assert len(ids) > 30
    monkeypatch.setattr(Tokenizer, "decode", count)
    stream = tokenizer.stream_decoder()
    for id_ in ids * (3000 // len(ids)):
        stream.push(id_)
    assert counted <= 150 * 3000


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
