"""Schemes → pretokens: each hand-written scanner compared with the general engine and `regex`.

MODELS has the patterns as the models' own files spell them, so that one of them cannot fall back
to the general engine unnoticed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import hard_inputs
import pytest
import regex
from compare import SOURCES, brute_truncate
from conftest import FIXTURES, SEED, examples, sample
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tokenmill import Tokenizer, _native
from tokenmill.patterns import compile_pattern
from tokenmill.patterns.schemes import PATTERNS, pattern_of, scheme_of

SPELLINGS = [(name, spelling) for name, each in PATTERNS.items() for spelling in each]
each_scheme = pytest.mark.parametrize("scheme", PATTERNS)
each_spelling = pytest.mark.parametrize(
    ("scheme", "spelling"), SPELLINGS, ids=[f"{n}-{PATTERNS[n].index(s)}" for n, s in SPELLINGS]
)

# One character of each kind that any of the patterns tells apart, and those of contractions.
EDGES = [*"aB中1!/' \n\rslſ", "\u0301", "\u0e31", "\u01c5", "²", "\u3000", "\t", "…", "🙂"]
ENDS = ["", " ", "\n", " \n", "\n ", " \n ", "  ", "\t\n\n  ", "\r\n", "1", "12", "!\n", "'", "'l"]

MODELS = {
    "gpt2": (
        "r50k",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    ),
    "cl100k_base": (
        "cl100k",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    ),
    "minbpe": (
        "llama3",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+",
    ),
    "Llama 3": (
        "llama3",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "nanochat": (
        "nanochat",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*"
        r"|\s*[\r\n]|\s+(?!\S)|\s+",
    ),
    "Qwen 3": (
        "qwen2",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "Qwen 3.5": (
        "qwen35",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
        r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "o200k_base, GPT-OSS, Llama 4": (
        "o200k",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
    "Mistral Nemo, Nemotron 3": (
        "tekken",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
        r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
}


def random_texts(rng: random.Random, count: int, length: int) -> Iterator[str]:
    """A few kinds of characters at a time, so that runs of one are common, and an end."""
    for _ in range(count):
        kinds = rng.sample(EDGES, rng.randrange(1, 6))
        yield "".join(rng.choices(kinds, k=rng.randrange(length))) + rng.choice(ENDS)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    _native.use_simd(_native.simd_levels()[-1])


@pytest.fixture(scope="module")
def tokenizers(pairs_file) -> dict[str, tuple[Tokenizer, Tokenizer]]:
    """Two tokenizers per spelling, one with the scanner and one with the general engine.
    Their ids show the pretoken boundaries."""
    loaded = {}
    for _, spelling in SPELLINGS:
        fast = Tokenizer.load(pairs_file, pattern=spelling)
        loaded[spelling] = (fast, Tokenizer.load(pairs_file, pattern=f"(?:{spelling})"))
    return loaded


@pytest.mark.parametrize("model", MODELS)
def test_model_patterns_use_their_scanner(model):
    scheme, pattern = MODELS[model]
    assert scheme_of(pattern) == scheme
    assert scheme_of(pattern_of(scheme)) == scheme
    assert isinstance(scheme_of(f"(?:{pattern})"), bytes)  # no scanner for the group


def test_spellings_of_schemes_are_unique():
    assert len({spelling for _, spelling in SPELLINGS}) == len(SPELLINGS)


@each_spelling
def test_every_short_text_splits_as_in_regex_and_on_the_general_engine(scheme, spelling):
    program, compiled = compile_pattern(spelling), regex.compile(spelling.replace("$", r"\Z"))
    texts = ["".join(t) for size in range(3) for t in itertools.product(EDGES, repeat=size)]
    texts += map("".join, sample(list(itertools.product(EDGES, repeat=3)), spelling))
    texts += random_texts(random.Random(SEED), examples(3000), 12)
    for text in texts:
        spans = _native.split(scheme, text)
        assert spans == _native.split(program, text), f"{text!r} TOKENMILL_SEED={SEED}"
        data = text.encode()
        pieces = [data[start:end].decode() for start, end in spans]
        assert pieces == compiled.findall(text), f"{text!r} TOKENMILL_SEED={SEED}"


@settings(max_examples=examples(300))
@given(st.lists(st.sampled_from(EDGES) | st.sampled_from(hard_inputs.FRAGMENTS), max_size=12))
@example(["a", " \n ", " "])
@example(["a", "\n \n", " \t", "\n\n "])
@example(["'ſ", "a"])
@example(["a'ſ", "'S"])
@example(["!", "\u0301", "a"])
@example(["!!", "\u0301", "\u0301"])
@example([" ", "\u0301", "'s"])
@example(["中B", "中", "'ll"])
@example(["1²3", "٣", "4567"])
def test_any_text_splits_as_on_the_general_engine(tokenizers, parts):
    for spelling, (fast, general) in tokenizers.items():
        assert fast.encode("".join(parts)) == general.encode("".join(parts)), spelling


@each_spelling
def test_every_cpu_feature_level_splits_as_the_general_engine(tokenizers, scheme, spelling):
    fast, general = tokenizers[spelling]
    texts: list[str | bytes] = sample([*hard_inputs.STRINGS, *hard_inputs.BYTES], spelling)
    texts += random_texts(random.Random(SEED), examples(3000), 300)  # longer than a block
    for source in SOURCES:
        texts += sample(source(SEED, 100_000), spelling)
    texts += [path.read_text(encoding="utf-8")[: examples(20_000)] for path in FIXTURES]
    expected = general.encode_batch(texts)
    for level in _native.simd_levels():
        _native.use_simd(level)
        for text, ids, wanted in zip(texts, fast.encode_batch(texts), expected, strict=True):
            assert ids == wanted, f"{scheme} {level} {text[:400]!r} TOKENMILL_SEED={SEED}"


@each_scheme
@pytest.mark.parametrize("side", ["right", "left"])
def test_truncate_returns_the_longest_prefix_or_suffix_in_every_scheme(pairs_file, scheme, side):
    tokenizer, rng = Tokenizer.load(pairs_file, pattern=scheme), random.Random(SEED)
    for text in random_texts(rng, examples(500), 40):
        max_tokens = rng.randrange(20)
        expected = brute_truncate(tokenizer, text, max_tokens, side)
        got = tokenizer.truncate(text, max_tokens, side)
        assert got == expected, f"{text!r} {max_tokens} TOKENMILL_SEED={SEED}"
