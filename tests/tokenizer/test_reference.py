"""The reference against tiktoken, against Python's own UTF-8, and against manual counts."""

from __future__ import annotations

import doctest
import random
import sys

import hard_inputs
import pytest
from conftest import FIXTURES, SEED, examples, sample
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill import errors, reference
from tokenmill.reference import GPT2_PATTERN

# One for each of the three patterns.
NAMES = ("r50k_base", "cl100k_base", "o200k_base")


def test_header_example_is_true():
    assert doctest.testmod(reference) == doctest.TestResults(failed=0, attempted=4)


# ── encode and decode ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", NAMES)
def test_hard_strings_encode_as_in_tiktoken(ranks, encodings, name):
    encoding = encodings[name]
    for text in sample(hard_inputs.STRINGS, name):
        expected = encoding.encode_ordinary(text)
        assert reference.encode(text, ranks[name], encoding._pat_str) == expected, repr(text)


@pytest.mark.parametrize("name", NAMES)
def test_fixtures_encode_as_in_tiktoken(ranks, encodings, name):
    encoding = encodings[name]
    for path in FIXTURES:
        text = path.read_text(encoding="utf-8")[: max(500, examples(5000))]
        expected = encoding.encode_ordinary(text)
        assert reference.encode(text, ranks[name], encoding._pat_str) == expected, path.name


@pytest.mark.parametrize("name", NAMES)
def test_random_text_encodes_as_in_tiktoken(ranks, encodings, name):
    encoding = encodings[name]
    texts = hard_inputs.random_code_points(SEED, 200_000)
    texts += hard_inputs.joined_fragments(SEED, 200_000)
    for text in sample(texts, name):
        expected = encoding.encode_ordinary(text)
        got = reference.encode(text, ranks[name], encoding._pat_str)
        assert got == expected, f"{text!r} TOKENMILL_SEED={SEED}"


@pytest.mark.parametrize("name", NAMES)
def test_specials_encode_as_in_tiktoken(ranks, encodings, name):
    encoding, rng = encodings[name], random.Random(SEED)
    pieces = [*hard_inputs.SPECIALS, *hard_inputs.NEAR_SPECIALS, " ", "a", "\n", "\ud83d", "🙂"]
    for _ in range(examples(1000)):
        text = "".join(rng.choices(pieces, k=rng.randrange(1, 8)))
        expected = encoding.encode(text, allowed_special="all")
        special_tokens = encoding._special_tokens
        got = reference.encode(text, ranks[name], encoding._pat_str, special_tokens)
        assert got == expected, f"{text!r} TOKENMILL_SEED={SEED}"


def test_longest_special_wins_at_the_leftmost_place():
    ranks = {bytes([byte]): byte for byte in range(256)}
    special_tokens = {"<a>": 300, "<a><b>": 301, "<b>": 302, "a><": 303}
    assert reference.encode("<a><b><b><a>a><", ranks, r"(?s).", special_tokens) == [
        301,
        302,
        300,
        303,
    ]


def test_decode_restores_the_bytes_of_every_hard_string(ranks, encodings):
    tokens, pattern = ranks["cl100k_base"], encodings["cl100k_base"]._pat_str
    for data in [*map(reference.to_bytes, hard_inputs.STRINGS[::50]), *hard_inputs.BYTES[::50]]:
        ids = reference.encode(data, tokens, pattern)
        assert reference.decode(ids, tokens) == data


def test_decode_gives_a_special_its_name():
    ranks = {bytes([byte]): byte for byte in range(256)}
    assert reference.decode([60, 256, 62], ranks, {"<é>": 256}) == "<<é>>".encode()


def test_whole_pretoken_is_its_token_even_if_no_merge_reaches_it():
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"abc": 256}
    assert reference.encode("abc abcd", ranks, r"\S+|\s") == [256, 32, 97, 98, 99, 100]


def test_text_that_no_match_covers_is_dropped(ranks):
    tokens = ranks["r50k_base"]
    assert reference.encode("1 a-b 2", tokens, r"\p{L}") == [tokens[b"a"], tokens[b"b"]]


def test_bytes_like_text_encodes_as_bytes(ranks):
    data = "é \xff".encode("latin-1") + "é".encode()
    expected = reference.encode(data, ranks["r50k_base"], GPT2_PATTERN)
    for text in (bytearray(data), memoryview(data)):
        assert reference.encode(text, ranks["r50k_base"], GPT2_PATTERN) == expected


# ── invalid UTF-8 ────────────────────────────────────────────────────────────────────────────


def assert_characters_are_pythons(data: bytes) -> None:
    pieces = reference.characters(data)
    assert b"".join(pieces) == data
    text = data.decode(errors="replace")
    assert [piece.decode(errors="replace") for piece in pieces] == list(text)


def test_characters_of_hard_bytes_are_pythons():
    for data in hard_inputs.BYTES:
        assert_characters_are_pythons(data)


@settings(max_examples=max(20, examples(100)))
@given(st.binary(max_size=40))
def test_characters_of_any_bytes_are_pythons(data):
    assert_characters_are_pythons(data)


def test_pattern_sees_an_invalid_sequence_as_one_character():
    assert list(reference.pretokens(b"a\xf0\x9f\x98b\xff\xffc", r"\ufffd|[a-z]")) == [
        *(b"a", b"\xf0\x9f\x98", b"b", b"\xff", b"\xff", b"c")
    ]


# ── train ────────────────────────────────────────────────────────────────────────────────────


def learned(*documents: str | bytes, pattern: str = r"\S+", count: int = 1) -> list[bytes]:
    ranks = reference.train(documents, pattern, 256 + count)
    assert list(ranks.values()) == list(range(len(ranks)))
    return list(ranks)[256:]


def test_most_frequent_pair_merges_first():
    assert learned("ab cd cd", count=3) == [b"cd", b"ab"]


def test_equal_pairs_merge_by_smaller_ids():
    assert learned("yz ba az ab", count=4) == [b"ab", b"az", b"ba", b"yz"]


def test_neighbours_are_counted_even_where_they_overlap():
    # (a, a) is twice in aaa, so it equals the two (b, c) and has the smaller ids.
    assert learned("aaa bc bc", count=2) == [b"aa", b"bc"]


def test_run_merges_from_the_left():
    assert learned("aaaaa", count=2) == [b"aa", b"aaa"]  # aa, aa, a: (aa, a) has the smaller ids
    assert learned("aaa", count=2) == [b"aa", b"aaa"]


def test_pairs_do_not_cross_pretokens():
    assert learned("ab ab", pattern=r"a|b|\s") == []


def test_training_stops_when_every_pretoken_is_one_token():
    assert learned("abab", count=100) == [b"ab", b"abab"]


def test_training_counts_all_documents():
    assert learned("ab", "cd", b"cd", count=1) == [b"cd"]


def test_training_takes_any_bytes():
    assert learned(b"\xff\xfe \xff\xfe", "\ud83d\ude00", count=1) == [b"\xff\xfe"]


def test_smaller_vocabulary_is_the_beginning_of_a_larger_one():
    text = FIXTURES[-1].read_text(encoding="utf-8")[:4000]
    large = list(reference.train([text], GPT2_PATTERN, 400))
    assert list(reference.train([text], GPT2_PATTERN, 300)) == large[:300]


def test_trained_tokens_are_distinct_and_join_two_earlier_ones():
    text = FIXTURES[-1].read_text(encoding="utf-8")[:4000]
    ranks = reference.train([text, "aaaaaaa aaaa aaa"], GPT2_PATTERN, 500)
    assert len(ranks) == 500
    for token, rank in list(ranks.items())[256:]:
        cuts = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        assert any(ranks.get(a, rank) < rank and ranks.get(b, rank) < rank for a, b in cuts)


def test_trained_vocabulary_encodes_its_tokens_to_themselves():
    text = FIXTURES[-1].read_text(encoding="utf-8")[:4000]
    ranks = reference.train([text], GPT2_PATTERN, 500)
    for token, rank in ranks.items():
        assert reference.merge(token, ranks) == [rank]


def test_missing_regex_module_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "regex", None)
    with pytest.raises(errors.MissingExtraError, match="pip install regex"):
        reference.encode("a", {b"a": 0}, ".")
