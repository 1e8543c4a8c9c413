"""Many small jobs on several threads: ids, offsets and errors are those of one thread."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
from collections.abc import Iterator

import hard_inputs
import numpy as np
import pytest
import regex
from conftest import FIXTURES, SEED, each_pattern, examples, write_ranks

from tokenmill import Tokenizer, _native, cache_limit
from tokenmill.errors import VocabularyError
from tokenmill.patterns.schemes import pattern_of

JOB_BYTES = 512 << 10  # as in the core
THREADS = (2, 3, 8)
MB = 1 << 20


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    limit = cache_limit()
    yield
    cache_limit(limit)
    _native.use_job_bytes(JOB_BYTES)


def same(tokenizer: Tokenizer, texts: list[bytes], rng: random.Random, **options: bool) -> None:
    """For jobs of any size, also smaller than a word, and for any number of threads."""
    # Each chunk reads far past its end, so a long text in the smallest jobs takes long.
    least = 0 if max(map(len, texts)) < 10_000 else 2
    expected = tokenizer.encode_ragged(texts, threads=1, **options)
    counts = np.diff(expected.offsets).tolist()
    for threads in THREADS:
        job_bytes = int(10 ** rng.uniform(least, 4.5))
        _native.use_job_bytes(job_bytes)
        got = tokenizer.encode_ragged(texts, threads=threads, **options)
        assert np.array_equal(got.offsets, expected.offsets), (threads, job_bytes)
        assert np.array_equal(got.ids, expected.ids), (threads, job_bytes)
        assert tokenizer.count_batch(texts, threads=threads, **options) == counts, job_bytes


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    """Texts of all lengths, empty ones too, that are `data` together."""
    texts = []
    while data:
        length = int(10 ** rng.uniform(0, 5.5)) - 1
        texts.append(data[:length])
        data = data[length:]
    return [*texts, b""]


@each_pattern
@pytest.mark.parametrize("round_", range(3))
def test_texts_of_any_length(tokenizers, name, round_):
    rng = random.Random(SEED + round_)
    size = max(20_000, examples(100_000))
    data = b"".join(rng.choice(FIXTURES).read_bytes()[:size] for _ in range(6))
    same(tokenizers[name], cut(data, rng), rng)
    same(tokenizers[name], [data], rng)
    same(tokenizers[name], [data[:9000]], rng)


@each_pattern
def test_hard_inputs_as_one_text(tokenizers, name):
    rng = random.Random(SEED)
    for _, hard in hard_inputs.files(max(5_000, examples(30_000))):
        same(tokenizers[name], [hard.encode() if isinstance(hard, str) else hard], rng)


@pytest.mark.parametrize("round_", range(3))
def test_specials_at_and_across_the_edges_of_jobs(tokenizers, round_):
    tokenizer = tokenizers["o200k_base"]
    rng = random.Random(SEED + round_)
    words = FIXTURES[0].read_bytes().split(b" ")
    marks = [b"<|endoftext|>", b"<|endofprompt|>", b"<|endoftext", b"|>", b""]
    pieces = []
    for _ in range(max(15, examples(60))):
        pieces.append(b" ".join(rng.choices(words, k=int(10 ** rng.uniform(0, 3.5)))))
        pieces.append(rng.choice(marks) * rng.randrange(1, 4))
    text = b"".join(pieces)
    for texts in ([text], cut(text, rng)):
        same(tokenizer, texts, rng, allowed_special=True)
        same(tokenizer, texts, rng)


def test_text_without_spaces_has_the_same_ids(tokenizers):
    rng = random.Random(SEED)
    han = "".join(chr(rng.randrange(0x4E00, 0x9FA5)) for _ in range(40_000))
    letters = "".join(rng.choices("abcdefgh", k=60_000))
    for text in (han, letters, han + letters + han, "a" * 60_000, "的" * 20_000, "-" * 60_000):
        same(tokenizers["o200k_base"], [text.encode()], rng)


@each_pattern
def test_runs_of_letters_without_case_between_any_texts(tokenizers, name):
    """A run is cut inside. The pretokens of the pattern as `regex` finds them are the reference.

    o200k_base has the token 无码AV, which its pattern finds only if no lower-case letter is before.
    """
    tokenizer, rng = tokenizers[name], random.Random(SEED)
    pattern = regex.compile(pattern_of(name))
    before = ["", "x", "B", "xB", " ", " x", "'s", "1", "\n", "\u01c5", "e\u0301", "! "]
    for start, end in itertools.product(before, ["AVx", "AV", "AV一", "aV", "1", "! "]):
        run = "".join(rng.choices("一二三四五六七八九十", k=rng.randrange(3_000, 6_000))) + "无码"
        text = start + run + end
        words = pattern.findall(text)
        assert "".join(words) == text
        expected = [id_ for ids in tokenizer.encode_batch(words) for id_ in ids]
        _native.use_job_bytes(rng.randrange(4_200, 5_000))
        ids = tokenizer.encode_ragged([text], threads=rng.choice(THREADS)).ids.tolist()
        assert ids == expected, (start, end)


def test_any_pattern(tmp_path, tokenizers):
    """Scans that start at different places may never meet: then a part is encoded again."""
    tokens = tmp_path / "r50k.tiktoken"
    tokenizers["r50k_base"].save(tokens)
    rng = random.Random(SEED)
    text = "".join(rng.choices("ab 12.\n中", k=40_000)).encode()
    for pattern in (r"\p{L}+", r"(?<=a)b+|[^b]+|b", r"\d{1,3}(?=(?:\d{3})*\b)|\D+|\d", r"(?s:..?)"):
        same(Tokenizer.load(tokens, pattern=pattern), [text], rng)
        same(Tokenizer.load(tokens, pattern=pattern), [b"ab" * 20_000], rng)


def test_more_ids_than_most_texts_have(tokenizers):
    """The result has to grow, again and again, while others copy to it."""
    rng = random.Random(SEED)
    text = rng.randbytes(max(100_000, examples(400_000)))
    for texts in ([text], cut(text, rng)):
        same(tokenizers["r50k_base"], texts, rng)


@pytest.mark.parametrize("limit", [0, MB // 4, MB, 5 * MB])
def test_caches_that_come_and_go_with_the_threads(tokenizers, limit):
    rng = random.Random(SEED)
    tokenizer = tokenizers["o200k_base"]
    data = b"".join(path.read_bytes()[: examples(50_000)] for path in FIXTURES)
    cache_limit(0)
    expected = tokenizer.encode_array(data, threads=1)
    cache_limit(limit)
    for _ in range(12):
        _native.use_job_bytes(int(10 ** rng.uniform(3, 5)))
        ids = tokenizer.encode_ragged([data], threads=rng.randrange(1, 5)).ids
        assert np.array_equal(ids, expected)


# ── bytes that no token covers ───────────────────────────────────────────────────────────────


def test_first_byte_without_a_token_is_named_with_any_thread_count(tmp_path):
    letters = [bytes([byte]) for byte in b"abcdefgh \n"]
    tokenizer = Tokenizer.load(write_ranks(tmp_path / "few.tiktoken", letters), pattern="cl100k")
    rng = random.Random(SEED)
    for _ in range(examples(20)):
        text = bytearray(rng.choices(b"abcdefgh \n", k=20_000))
        places = sorted(rng.sample(range(len(text)), 3))
        for place, byte in zip(places, b"XYZ", strict=True):
            text[place] = byte
        for texts in ([bytes(text)], cut(bytes(text), rng)):
            for threads in THREADS:
                _native.use_job_bytes(int(10 ** rng.uniform(1, 4)))
                for method in (tokenizer.encode_ragged, tokenizer.count_batch):
                    with pytest.raises(VocabularyError, match="0x58"):
                        method(texts, threads=threads)


def test_chunk_borders_never_raise_missing_byte_errors(tmp_path):
    """Spaces occur only in tokens that begin with a letter, and splits come before spaces."""
    tokens = [bytes([byte]) for byte in b"abcdefgh"] + [b"a ", b"b "]
    path = write_ranks(tmp_path / "blanks.tiktoken", tokens)
    rng = random.Random(SEED)
    words = [bytes(rng.choices(b"abcdefgh", k=rng.randrange(9))) + b"a" for _ in range(200)]
    text = b" ".join(rng.choices(words, k=4000))
    for pattern in (r"\p{L}+ ?", r"(?s:.)+", r"[a-h]+ [a-h]+ ?|[a-h]+"):
        same(Tokenizer.load(path, pattern=pattern), [text], rng)


def test_signal_ends_a_call_without_common_split_points(tmp_path, tokenizers):
    """The final part on one thread, after wrong guesses, can be interrupted as well."""
    path = tmp_path / "r50k.tiktoken"
    tokenizers["r50k_base"].save(path)
    code = (
        "import signal; from tokenmill import Tokenizer;"
        f"t = Tokenizer.load({str(path)!r}, pattern=r'(?s:..)');"
        "text = b'abcdefg' * 20_000_000;"
        "signal.signal(signal.SIGALRM, signal.default_int_handler);"
        "signal.setitimer(signal.ITIMER_REAL, 0.3);"
        "t.encode_ragged([text], threads=2)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "KeyboardInterrupt" in done.stderr
