"""Text, a number of tokens → the longest part with at most that number, of all parts."""

from __future__ import annotations

import random

import hard_inputs
import pytest
from compare import brute_truncate
from conftest import FIXTURES, SEED, TEXT, each_pattern, examples, repaired, sample
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tokenmill import Tokenizer


@each_pattern
@pytest.mark.parametrize("side", ["right", "left"])
def test_truncate_is_the_longest_prefix_or_suffix(tokenizer, side):
    rng = random.Random(SEED)
    count = examples(1500)
    texts = rng.sample([text for text in hard_inputs.STRINGS if text == repaired(text)], count)
    texts += [text[:120] for text in sample(hard_inputs.joined_fragments(SEED, 4000))]
    texts += [text[:60] for text in sample(hard_inputs.random_code_points(SEED, 4000))]
    texts += rng.sample(hard_inputs.BYTES, examples(300))
    texts += [data[:60] for data in sample(hard_inputs.random_bytes(SEED, 4000))]
    for text in texts:
        for max_tokens in {0, 1, 2, rng.randrange(12)}:
            expected = brute_truncate(tokenizer, text[:300], max_tokens, side)
            got = tokenizer.truncate(text[:300], max_tokens, side)
            assert got == expected, f"{text[:300]!r} {max_tokens} TOKENMILL_SEED={SEED}"


@settings(max_examples=examples(400))
@given(
    text=st.lists(st.sampled_from(hard_inputs.FRAGMENTS) | st.text(max_size=4), max_size=10),
    max_tokens=st.integers(0, 12),
    side=st.sampled_from(["right", "left"]),
)
@example(text=["a" * 17], max_tokens=1, side="right")
@example(text=["indivisible"], max_tokens=1, side="right")
@example(text=[" " * 9, "x"], max_tokens=1, side="left")
def test_truncate_is_the_longest_part_of_any_text(tokenizers, text, max_tokens, side):
    text = "".join(text)
    for name in ("r50k_base", "cl100k_base", "o200k_base"):
        expected = brute_truncate(tokenizers[name], text, max_tokens, side)
        assert tokenizers[name].truncate(text, max_tokens, side) == expected, name


@settings(max_examples=max(20, examples(100)))
@given(data=st.binary(max_size=24), max_tokens=st.integers(0, 12), left=st.booleans())
def test_truncate_is_the_longest_part_of_any_bytes(tokenizers, data, max_tokens, left):
    side = "left" if left else "right"
    expected = brute_truncate(tokenizers["o200k_base"], data, max_tokens, side)
    assert tokenizers["o200k_base"].truncate(data, max_tokens, side) == expected


@each_pattern
@pytest.mark.parametrize("side", ["right", "left"])
def test_truncate_is_the_longest_part_with_any_vocabulary(pairs_file, tokenizers, name, side):
    tokenizer = Tokenizer.load(pairs_file, pattern=tokenizers[name].pattern)
    rng = random.Random(SEED)
    texts = [text[:80] for text in sample(hard_inputs.joined_fragments(SEED, 10_000))]
    texts += [data[:60] for data in sample(hard_inputs.random_bytes(SEED, 10_000))]
    for text in texts:
        max_tokens = rng.randrange(30)
        expected = brute_truncate(tokenizer, text, max_tokens, side)
        got = tokenizer.truncate(text, max_tokens, side)
        assert got == expected, f"{text!r} {max_tokens} TOKENMILL_SEED={SEED}"


@pytest.mark.parametrize("side", ["right", "left"])
def test_truncate_keeps_text_that_the_pattern_drops(letters_only, side):
    """Text without tokens is free, so the longest part contains it."""
    for text in ("123", "ab 123", "12 ab 3 cd 4", "", "é-é-é", b"1\xff2ab\xff3cd"):
        for max_tokens in range(5):
            expected = brute_truncate(letters_only, text, max_tokens, side)
            assert letters_only.truncate(text, max_tokens, side) == expected, (text, max_tokens)


@pytest.mark.parametrize("pattern", [r"\s+(?!\S)|\S+|\s", r"(?s:.)+", r"\p{L}+(?=\d)|\S", r"a+$|."])
@pytest.mark.parametrize("side", ["right", "left"])
def test_truncate_sees_the_pattern_at_the_cut(rank_files, pattern, side):
    """The end of the text decides the match of a look-ahead or $ before it."""
    tokenizer, rng = Tokenizer.load(rank_files["r50k_base"], pattern=pattern), random.Random(SEED)
    pieces = ["a", "b", " ", "\n", "1", "é", "the", "  "]
    for _ in range(examples(300)):
        text = "".join(rng.choices(pieces, k=rng.randrange(15)))
        max_tokens = rng.randrange(8)
        expected = brute_truncate(tokenizer, text, max_tokens, side)
        got = tokenizer.truncate(text, max_tokens, side)
        assert got == expected, f"{text!r} {max_tokens} TOKENMILL_SEED={SEED}"


def test_truncate_cuts_on_the_right_by_default(cl100k):
    assert cl100k.truncate("one two three", 2) == "one two"
    assert cl100k.truncate("one two three", 2, side="left") == " two three"
    assert cl100k.truncate("one two three", max_tokens=0) == ""


def test_truncate_gives_back_the_type_that_it_took(cl100k):
    assert cl100k.truncate("one two three", 2) == "one two"
    assert type(cl100k.truncate("one two three", 2)) is str
    assert type(cl100k.truncate("one", 9)) is str
    for text in (b"one two three", b"one"):
        assert type(cl100k.truncate(text, 2)) is bytes
        assert cl100k.truncate(bytearray(text), 2) == cl100k.truncate(text, 2)
        assert bytes(cl100k.truncate(memoryview(text), 2)) == cl100k.truncate(text, 2)


def test_truncate_leaves_short_text_as_it_is(tokenizer):
    for text in ("", TEXT, TEXT.encode(), b"\xff"):
        assert tokenizer.truncate(text, 10_000) == text
        assert tokenizer.truncate(text, tokenizer.count(text)) == text
        assert tokenizer.truncate(text, 10**30) == text


def test_truncate_never_cuts_a_surrogate_pair(cl100k):
    for text in hard_inputs.SURROGATES:
        for max_tokens in range(8):
            for side in ("right", "left"):
                expected = brute_truncate(cl100k, repaired(text), max_tokens, side)
                assert repaired(cl100k.truncate(text, max_tokens, side)) == expected, repr(text)


@each_pattern
@pytest.mark.parametrize("side", ["right", "left"])
def test_truncate_of_large_text_is_as_long_as_it_can_be(tokenizer, side):
    size = max(10_000, examples(60_000))
    texts = [path.read_text(encoding="utf-8")[:size] for path in FIXTURES[::6]]
    texts += [data for _, data in hard_inputs.files(4_000) if isinstance(data, str)]
    for text in texts:
        total = tokenizer.count(text)
        for max_tokens in {1, 7, total // 3, max(0, total - 1), total}:
            part = tokenizer.truncate(text, max_tokens, side)
            assert text.startswith(part) if side == "right" else text.endswith(part)
            assert tokenizer.count(part) <= max_tokens
            for more in range(len(part) + 1, min(len(part) + 20, len(text) + 1)):
                longer = text[:more] if side == "right" else text[len(text) - more :]
                assert tokenizer.count(longer) > max_tokens, (text[:50], max_tokens, more)


@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
def test_truncate_of_long_runs_is_the_longest_of_all(tokenizers, name):
    """Long pretokens are cut with another algorithm than short ones. A cut after one changes it."""
    tokenizer, rng = tokenizers[name], random.Random(SEED)
    for run, rest in (
        (" ", "x"),
        (" ", "\nx"),
        ("a", " b"),
        ("-", "\n"),
        ("aB", ""),
        ("你好", "!"),
    ):
        text = (run * 2400)[: rng.randrange(1100, 2400)] + rest
        for side in ("right", "left"):
            sizes = range(len(text) + 1)
            parts = [text[:n] if side == "right" else text[len(text) - n :] for n in sizes]
            counts = tokenizer.count_batch(parts)
            for max_tokens in {0, 1, *rng.choices(range(max(counts) + 1), k=12)}:
                expected = max(n for n, count in enumerate(counts) if count <= max_tokens)
                got = len(tokenizer.truncate(text, max_tokens, side))
                assert got == expected, f"{run!r} {len(text)} {max_tokens} {side} {SEED}"
