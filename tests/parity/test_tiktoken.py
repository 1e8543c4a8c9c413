"""Our ids are tiktoken's ids, for every embedded vocabulary."""

from __future__ import annotations

import functools
import random

import hard_inputs
import numpy as np
import pytest
import tiktoken
import tiktoken.model
from compare import SOURCES, as_text, assert_same_ids, read_corpus, special_texts
from conftest import (
    EMBEDDED,
    FIXTURES,
    SEED,
    SHARED_DATA,
    each_pattern,
    examples,
    read_ranks,
    sample,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill import Tokenizer

# All random text of a run; each of six tokenizers takes a part of it from each of three sources.
RANDOM_BYTES = examples(21_000_000)


def test_vocabulary_equals_tiktokens(tokenizer, encoding, ranks, name):
    assert tokenizer.vocab_size == encoding.n_vocab
    assert dict(tokenizer.special_tokens) == encoding._special_tokens
    assert tokenizer.pattern == encoding._pat_str
    for token, rank in sample(list(ranks[name].items()), name):
        assert tokenizer.id_to_token(rank) == encoding.decode_single_token_bytes(rank) == token
        assert tokenizer.token_to_id(token) == rank
    for special, id in encoding._special_tokens.items():
        assert tokenizer.id_to_token(id) == encoding.decode_single_token_bytes(id), special


def test_model_names_map_as_in_tiktoken(tokenizers, encodings):
    models = [*tiktoken.model.MODEL_TO_ENCODING]
    for prefix in tiktoken.model.MODEL_PREFIX_TO_ENCODING:
        models += [prefix + "2024-08-06", prefix + "-mini:acme::x"]
    models += ["gpt-4-turbo", "gpt-4o-mini", "gpt-5-nano", "o1-preview", "gpt-oss-120b"]
    for model in models:
        name = tiktoken.model.encoding_name_for_model(model)
        name = {"gpt2": "r50k_base"}.get(name, name)
        assert Tokenizer.load(model) == tokenizers[name], f"{model} should load {name}"


def test_gpt2_is_r50k_base(encodings):
    tokenizer = Tokenizer.load("gpt2")
    assert dict(tokenizer.special_tokens) == encodings["gpt2"]._special_tokens
    assert_same_ids(tokenizer, encodings["gpt2"], sample(hard_inputs.STRINGS), "hard strings")


@functools.cache
def fixture_texts() -> list[str]:
    """All fixtures. By default each is cut to its beginning."""
    texts = [path.read_text(encoding="utf-8") for path in FIXTURES]
    return [text[: max(3_000, examples(len(text)))] for text in texts]


def test_fixtures_encode_as_in_tiktoken(tokenizer, encoding):
    texts = fixture_texts()
    assert len(texts) == 58
    assert_same_ids(tokenizer, encoding, texts, "fixtures")


@pytest.mark.parametrize("file", [file for file, _ in hard_inputs.files(0)])
def test_hard_files_encode_as_in_tiktoken(tokenizers, encodings, hard_files, file):
    text = hard_files[file][: examples(200_000)]
    for name in EMBEDDED:
        assert_same_ids(tokenizers[name], encodings[name], [text], file)


def test_hard_strings_encode_as_in_tiktoken(tokenizer, encoding, name):
    assert_same_ids(tokenizer, encoding, sample(hard_inputs.STRINGS, name), "hard strings")


def test_hard_strings_encode_alone_as_in_a_batch(tokenizer):
    batch = tokenizer.encode_batch(hard_inputs.STRINGS)
    for text, ids in zip(hard_inputs.STRINGS, batch, strict=True):
        assert tokenizer.encode(text) == ids, repr(text)


def test_hard_strings_encode_as_in_tiktoken_at_every_alignment(tokenizer, encoding):
    """The same strings at each offset of a 64-byte block, where a scanner's blocks meet."""
    strings = random.Random(SEED).sample(hard_inputs.STRINGS, examples(300))
    for pad in ("x", " ", "é", "0", "\n", "中", "-"):
        texts = [pad * n + s + pad * 3 for s in strings for n in range(0, 68, 3)]
        assert_same_ids(tokenizer, encoding, texts, f"hard strings after a run of {pad!r}")


@functools.cache
def every_code_point() -> list[str]:
    """All 1,114,112, surrogates too, in places where their class decides the pretokens.

    By default these are all up to U+2FFF and a sample of the others.
    """
    points = [chr(point) for point in (*range(0x3000), *sample(range(0x3000, 0x110000)))]
    return [
        "".join(f"a{c}'s{c} {c}1" for c in points[first : first + 4096])
        for first in range(0, len(points), 4096)
    ]


@each_pattern
def test_every_code_point_encodes_as_in_tiktoken(tokenizer, encoding):
    assert_same_ids(tokenizer, encoding, every_code_point(), "all code points")


def test_surrogates_encode_as_in_tiktoken(tokenizer, encoding):
    rng = random.Random(SEED)
    pieces = [*hard_inputs.SURROGATES, "a", " ", "\n", "🙂", "\ufffd", "'s", "中"]
    texts = ["".join(rng.choices(pieces, k=rng.randrange(1, 12))) for _ in range(examples(3000))]
    assert_same_ids(tokenizer, encoding, texts, "surrogates")


@pytest.fixture(scope="module")
def by_pairs(pairs_file, tokenizers) -> dict[str, tuple[Tokenizer, tiktoken.Encoding]]:
    """The three patterns with a vocabulary whose ids show where pretokens begin and end."""
    ranks = read_ranks(pairs_file.read_bytes())
    loaded = {}
    for name in ("r50k_base", "cl100k_base", "o200k_base"):
        pattern = tokenizers[name].pattern
        encoding = tiktoken.Encoding(
            name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
        )
        loaded[name] = (Tokenizer.load(pairs_file, pattern=pattern), encoding)
    return loaded


@each_pattern
def test_hard_strings_split_as_in_tiktoken(by_pairs, name):
    assert_same_ids(*by_pairs[name], hard_inputs.STRINGS, "hard strings")


@each_pattern
def test_every_code_point_splits_as_in_tiktoken(by_pairs, name):
    assert_same_ids(*by_pairs[name], every_code_point(), "all code points")


@each_pattern
def test_fixtures_split_as_in_tiktoken(by_pairs, name):
    assert_same_ids(*by_pairs[name], fixture_texts(), "fixtures")


@each_pattern
def test_random_text_splits_as_in_tiktoken(by_pairs, name):
    for source in SOURCES:
        texts = [as_text(document) for document in source(SEED, examples(700_000))]
        assert_same_ids(*by_pairs[name], texts, source.__name__)


# ── special tokens ────────────────────────────────────────────────────────────────────────────────


def test_all_specials_encode_as_in_tiktoken(tokenizer, encoding, name):
    for text in sample(special_texts(list(tokenizer.special_tokens)), name):
        expected = encoding.encode(text, allowed_special="all")
        assert tokenizer.encode(text, allowed_special=True) == expected, (
            f"{text!r} TOKENMILL_SEED={SEED}"
        )


def test_some_specials_encode_as_in_tiktoken(tokenizer, encoding, name):
    rng = random.Random(SEED)
    names = list(tokenizer.special_tokens)
    for text in sample(special_texts(names), name):
        some = set(rng.sample(names, rng.randrange(len(names) + 1)))
        expected = encoding.encode(text, allowed_special=some, disallowed_special=())
        got = tokenizer.encode(text, allowed_special=some)
        assert got == expected, f"{text!r} with {len(some)} special tokens TOKENMILL_SEED={SEED}"


def test_specials_in_long_documents_encode_as_in_tiktoken(tokenizer, encoding, hard_files):
    texts = [hard_files["specials.txt"], "<|endoftext|>" * 10_000, "a" * 70_000 + "<|endoftext|>"]
    texts += [
        "word " * 20_000 + special + " word" * 20_000 for special in tokenizer.special_tokens
    ][:3]
    expected = [encoding.encode(text, allowed_special="all") for text in texts]
    assert tokenizer.encode_batch(texts, allowed_special=True) == expected


# ── random text ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.__name__)
def test_random_text_encodes_as_in_tiktoken(tokenizers, encodings, source):
    part = RANDOM_BYTES // len(SOURCES) // len(EMBEDDED)
    for number, name in enumerate(EMBEDDED):
        texts = [as_text(document) for document in source(SEED + number, part)]
        assert sum(len(text.encode()) for text in texts) >= part
        assert_same_ids(tokenizers[name], encodings[name], texts, source.__name__)


fragments = st.one_of(
    st.sampled_from(hard_inputs.FRAGMENTS),
    st.sampled_from(hard_inputs.WHITESPACE).flatmap(lambda w: st.integers(1, 5).map(w.__mul__)),
    st.sampled_from(hard_inputs.CONTRACTIONS).map(lambda suffix: "'" + suffix),
    st.text(st.sampled_from("aAbBzZéÉ"), min_size=1, max_size=4),
    st.text(st.sampled_from("0123456789"), min_size=1, max_size=5),
    st.text(max_size=3),
    st.characters(categories=["L", "M", "N", "Z", "Cc", "Cf", "Cs"]),
)


@settings(max_examples=examples(1000))
@given(text=st.lists(fragments, max_size=12).map("".join))
def test_generated_strings_encode_as_in_tiktoken(tokenizers, encodings, text):
    for name in ("r50k_base", "cl100k_base", "o200k_base"):
        assert tokenizers[name].encode(text) == encodings[name].encode_ordinary(text), name


# ── decoding ─────────────────────────────────────────────────────────────────────────────────


def test_random_ids_decode_as_in_tiktoken(tokenizer, encoding, ranks, name):
    rng = np.random.default_rng(SEED)
    every = np.array([*ranks[name].values(), *tokenizer.special_tokens.values()])
    sizes = rng.integers(0, 200, examples(500))
    batch = [rng.choice(every, size=size).tolist() for size in sizes]
    batch.append(every.tolist())
    for ids in batch:
        assert tokenizer.decode_bytes(ids) == encoding.decode_bytes(ids), f"TOKENMILL_SEED={SEED}"
        assert tokenizer.decode(ids) == encoding.decode(ids), f"TOKENMILL_SEED={SEED}"
    assert tokenizer.decode_batch(batch) == encoding.decode_batch(batch)


def test_spans_start_where_tiktokens_do(tokenizer, encoding):
    texts = [as_text(text) for text in hard_inputs.random_code_points(SEED, examples(200_000))]
    paths = [path for path in FIXTURES if path.parent.name == "udhr"]
    texts += [path.read_text(encoding="utf-8") for path in sample(paths, tokenizer.name)]
    for text in texts:
        ids, spans = tokenizer.encode_with_offsets(text)
        decoded, starts = encoding.decode_with_offsets(ids)
        assert decoded == text
        assert [start for start, _ in spans] == starts, f"{text[:100]!r} TOKENMILL_SEED={SEED}"


# ── the corpora, where they are ──────────────────────────────────────────────────────────────

if SHARED_DATA:

    @pytest.mark.parametrize("file", sorted(SHARED_DATA.glob("corpus/*.xz")), ids=lambda f: f.name)
    def test_corpora_encode_as_in_tiktoken(tokenizers, encodings, file):
        texts = read_corpus(file, examples(12_000_000))
        for name in ("r50k_base", "cl100k_base", "o200k_base"):
            assert_same_ids(tokenizers[name], encodings[name], texts, file.name)
