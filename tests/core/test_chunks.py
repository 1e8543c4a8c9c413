"""One long text on several threads: the ids of one thread, wherever the text is cut."""

from __future__ import annotations

import functools
import random

import hard_inputs
import numpy as np
import pytest
from conftest import FIXTURES, SEED, each_pattern, examples, sample

from tokenmill import Tokenizer, reference
from tokenmill.patterns.schemes import PATTERNS

LONG = 1_200_000
THREADS = sample((2, 5))
HARD = [name for name, _ in hard_inputs.files(0)]


@functools.cache
def hard_files() -> dict[str, bytes]:
    """The hard files. By default each is a small one many times."""
    size = examples(LONG)
    files = ((name, reference.to_bytes(data)) for name, data in hard_inputs.files(size))
    return {name: data * (LONG // size) for name, data in files}


def same(tokenizer: Tokenizer, text: bytes | str, **options: object) -> None:
    expected = tokenizer.encode_array(text, threads=1, **options)
    for threads in THREADS:
        ids = tokenizer.encode_array(text, threads=threads, **options)
        assert np.array_equal(ids, expected), threads
        assert tokenizer.count(text, threads=threads, **options) == len(expected), threads


@each_pattern
@pytest.mark.parametrize("file", HARD)
def test_hard_inputs_of_any_kind(tokenizers, name, file):
    same(tokenizers[name], hard_files()[file])


@pytest.mark.parametrize("scheme", PATTERNS)
def test_texts_in_which_runs_of_every_kind_meet_the_cuts(rank_files, scheme):
    rng = random.Random(SEED)
    kinds = [
        " ",
        "\n",
        "\t ",
        "a",
        "aB",
        "中文",
        "中B",
        "B中c",
        "1",
        "-",
        "!\n/",
        "'s",
        "é",
        "🙂",
        "ก็",
        "!\u0301",
    ]
    runs = []
    while sum(map(len, runs)) < LONG:
        length = int(10 ** rng.uniform(0, 5.3))
        kind = rng.choice(kinds)
        runs.append(kind * (length // len(kind) + 1))
    same(Tokenizer.load(rank_files["o200k_base"], pattern=scheme), "".join(runs))


@each_pattern
def test_one_run_of_letters_with_and_without_safe_split_points(tokenizers, name):
    rng = random.Random(SEED)
    han = "".join(chr(rng.randrange(0x4E00, 0x9FA5)) for _ in range(LONG // 3))
    for text in (han, "的" * (LONG // 3), "x" + han, han + "Ab", "“" + han + "B" * 100_000 + "c"):
        same(tokenizers[name], text)


def test_specials_between_and_inside_of_parts(tokenizers):
    tokenizer = tokenizers["o200k_base"]
    rng = random.Random(SEED)
    words = FIXTURES[0].read_text("utf-8", "replace").split(" ")
    pieces = []
    while sum(map(len, pieces)) < 3 * LONG:
        pieces.append(" ".join(rng.choices(words, k=int(10 ** rng.uniform(0, 5)))))
    text = "<|endoftext|>".join(pieces) + "<|endoftext|>"
    same(tokenizer, text, allowed_special=True)
    same(tokenizer, "<|endoftext|>" * 3 + text, allowed_special=True)
    same(tokenizer, text)


def test_any_pattern(tmp_path, tokenizers):
    """A pattern with gaps, and one whose matches depend on the text before them."""
    tokens = tmp_path / "r50k.tiktoken"
    tokenizers["r50k_base"].save(tokens)
    rng = random.Random(SEED)
    text = "".join(rng.choices("ab 12.\n中", k=LONG))
    for pattern in (r"\p{L}+", r"(?<=a)b+|[^b]+|b", r"\d{1,3}(?=(?:\d{3})*\b)|\D+|\d"):
        same(Tokenizer.load(tokens, pattern=pattern), text)


def test_long_texts_among_short_ones(tokenizers):
    tokenizer = tokenizers["cl100k_base"]
    rng = random.Random(SEED)
    source = FIXTURES[-1].read_bytes().decode("utf-8", "replace")
    lengths = (3, 2_000_000, 0, 100, 700_000, 1_200_000, 1)
    texts = [(source * (n // len(source) + 1))[:n] for n in lengths]
    rng.shuffle(texts)
    expected = [tokenizer.encode(text) for text in texts]
    for threads in THREADS:
        assert tokenizer.encode_batch(texts, threads=threads) == expected
        assert tokenizer.count_batch(texts, threads=threads) == [len(ids) for ids in expected]
