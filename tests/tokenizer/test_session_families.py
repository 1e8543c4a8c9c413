"""Tokenizer families with normalizers: sessions and truncation agree with `encode`.

Tests of tokenmill/session.py and tokenmill/tokenizer.py.
"""

from __future__ import annotations

import functools
import random
import tempfile
from pathlib import Path

import families
import hard_inputs
import pytest
from compare import brute_truncate
from conftest import FIXTURES, SEED, examples, sample
from hf_documents import BYTE_LEVEL, added, byte_vocabulary, document, dumps, sequence
from test_session import append_in_parts, change_at_random

from tokenmill import Tokenizer

NAMES = [*families.BYTE_LEVEL, *families.PIECES]
# Characters that normalization joins or splits, kinds of spaces, and added tokens of the families.
PIECES = [
    *(
        "e\u0301",
        "\u0301",
        "a\u0327\u0301",
        "\u1100",
        "\u1161",
        "\u11a8",
        "가",
        "ﬁ",
        "Å",
        ">\u0338",
    ),
    *(
        "▁",
        "▁▁",
        " ",
        "  ",
        " " * 24,
        "\n",
        "\n\n",
        "\t",
        "é",
        "中文",
        "hello",
        " world",
        "12",
        "’s",
    ),
    *("<b>", "<table>", "<tool_call>", "<think>", "<pad>", " <mask>", "<s>", "</s>", "<sep>"),
    *("<|endoftext|>", "<|im_start|>", "<EOT>", "<｜begin▁of▁sentence｜>", "<BOS_TOKEN>", "<|im_"),
]
FRAGMENTS = [
    piece for piece in hard_inputs.FRAGMENTS if not any("\ud800" <= c <= "\udfff" for c in piece)
]

each_family = pytest.mark.parametrize("name", NAMES)
each_choice = pytest.mark.parametrize("special_tokens", [False, True])


@functools.cache
def loaded(name: str) -> Tokenizer:
    made = families.byte_level if name in families.BYTE_LEVEL else families.pieces
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.json")
        path.write_text(made(name), encoding="utf-8")
        return Tokenizer.load(path)


def real_texts(size: int) -> list[str]:
    return [path.read_text(encoding="utf-8")[:size] for path in FIXTURES[::4]]


# Sessions


@each_family
@each_choice
def test_every_change_is_exact(name, special_tokens):
    rng, tokenizer = random.Random(SEED), loaded(name)
    change_at_random(tokenizer, PIECES, special_tokens, rng, 150)
    change_at_random(tokenizer, [*FRAGMENTS, *PIECES * 3], special_tokens, rng, 150)
    parts = [piece.encode() for piece in PIECES] + [bytes([byte]) for byte in range(256)]
    change_at_random(tokenizer, parts, special_tokens, rng, 150)


@each_family
@each_choice
def test_every_prefix_is_exact(name, special_tokens):
    rng, tokenizer = random.Random(SEED), loaded(name)
    text = "".join(rng.choices(PIECES, k=max(50, examples(150))))
    append_in_parts(tokenizer, text, special_tokens, rng)
    append_in_parts(tokenizer, text.encode(), special_tokens, rng)
    for text in real_texts(max(50, examples(300))):
        append_in_parts(tokenizer, text, special_tokens, rng)


@each_family
@each_choice
def test_an_append_encodes_only_the_end(name, special_tokens):
    tokenizer = loaded(name)
    for text in sample(real_texts(12_000), name):
        session, end = tokenizer.session(text[:6_000], allowed_special=special_tokens), 6_000
        while end < min(len(text), 7_000):
            end += 5
            before = session._core.bytes_encoded()
            session.append(text[end - 5 : end])
            assert session._core.bytes_encoded() - before < 1000
        assert session.ids == tokenizer.encode(session.text, allowed_special=special_tokens)


def test_a_copy_and_a_pickle_go_their_own_way():
    tokenizer = loaded("qwen2")
    session = tokenizer.session("e" * 200 + "\u0301<tool_call>e")
    twin = session.copy()
    twin.append("\u0301")
    session.append("x")
    assert session.text[-2:] == "ex" and twin.text[-2:] == "e\u0301"
    for one in (session, twin, type(twin).__reduce__(twin)[0](*type(twin).__reduce__(twin)[1])):
        assert one.ids == tokenizer.encode(one.text)


# Cuts


@each_family
@pytest.mark.parametrize("side", ["right", "left"])
def test_truncate_is_the_longest_prefix_or_suffix(name, side):
    rng, tokenizer = random.Random(SEED), loaded(name)
    for pieces in (PIECES, [*FRAGMENTS, *PIECES * 3]):
        for _ in range(max(4, examples(40))):
            text: str | bytes = "".join(rng.choices(pieces, k=rng.randrange(40)))[:300]
            if rng.random() < 0.3:
                text = text.encode()[: rng.randrange(300)]
            for max_tokens in {0, 1, 2, rng.randrange(60)}:
                expected = brute_truncate(tokenizer, text, max_tokens, side)
                got = tokenizer.truncate(text, max_tokens, side)
                assert got == expected, f"{text!r} {max_tokens} TOKENMILL_SEED={SEED}"


@each_family
@pytest.mark.parametrize("side", ["right", "left"])
def test_truncate_of_real_text_is_the_longest_of_all(name, side):
    rng, tokenizer = random.Random(SEED), loaded(name)
    texts = [*real_texts(1500)[:2], "".join(rng.choices(PIECES, k=500))[:1500]]
    for text in texts:
        sizes = range(len(text) + 1)
        parts = [text[:n] if side == "right" else text[len(text) - n :] for n in sizes]
        counts = tokenizer.count_batch(parts)
        for max_tokens in {1, 7, *rng.choices(range(max(counts)), k=4), max(counts)}:
            expected = max(n for n, count in enumerate(counts) if count <= max_tokens)
            got = len(tokenizer.truncate(text, max_tokens, side))
            assert got == expected, f"{text[:50]!r} {max_tokens} TOKENMILL_SEED={SEED}"


@each_family
@pytest.mark.parametrize("side", ["right", "left"])
def test_truncate_of_large_text_is_as_long_as_it_can_be(name, side):
    tokenizer, text = loaded(name), "".join(real_texts(4_000))
    total = tokenizer.count(text)
    for max_tokens in (7, total // 3, total - 1):
        part = tokenizer.truncate(text, max_tokens, side)
        assert text.startswith(part) if side == "right" else text.endswith(part)
        sizes = range(len(part), min(len(part) + 20, len(text)) + 1)
        parts = [text[:n] if side == "right" else text[len(text) - n :] for n in sizes]
        counts = tokenizer.count_batch(parts)
        assert counts[0] <= max_tokens < min(counts[1:]), max_tokens


def bytes_with(tmp_path: Path, *, normalizer: dict, tokens: tuple[str, ...] = (), **parts):
    """A tokenizer of bytes, and of tokens that no merge reaches."""
    vocab = byte_vocabulary()
    vocab |= {token: len(vocab) + index for index, token in enumerate(tokens)}
    model = {"vocab": vocab, "merges": [], "ignore_merges": True}
    made = document(model, normalizer=normalizer, pre_tokenizer=BYTE_LEVEL, **parts)
    path = tmp_path / "tokenizer.json"
    path.write_bytes(dumps(made))
    return Tokenizer.load(path)


@pytest.mark.parametrize("side", ["right", "left"])
def test_truncate_finds_the_longest_where_a_character_is_a_thousand_tokens(tmp_path, side):
    grow = [
        {"type": "Replace", "pattern": {"String": old}, "content": new * 32}
        for old, new in ("by", "yz")
    ]
    tokenizer = bytes_with(tmp_path, normalizer=sequence(*grow))
    text = "x" * 17 + "b" + "x" * 16
    for max_tokens in (1, 16, 17, 18, 40):
        expected = brute_truncate(tokenizer, text, max_tokens, side)
        assert tokenizer.truncate(text, max_tokens, side) == expected


@pytest.mark.parametrize("side", ["right", "left"])
def test_truncate_finds_a_long_token_that_one_more_character_would_break(tmp_path, side):
    names = [added("<n>", 257)]
    nfc = {"type": "NFC"}
    tokenizer = bytes_with(tmp_path, normalizer=nfc, tokens=("x" * 300,), added_tokens=names)
    for text in ("x" * 300 + "y", "y" + "x" * 300, "<n>" + "x" * 300 + "y"):
        for max_tokens in (1, 2, 3):
            expected = brute_truncate(tokenizer, text, max_tokens, side)
            assert tokenizer.truncate(text, max_tokens, side) == expected
