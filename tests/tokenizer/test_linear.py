"""No input is quadratic: a megabyte of `a`, of spaces, of digits or of random Han encodes at a
rate within 20 × of English, and no other hard file is slower by a factor that only a quadratic
path explains.

The only tests that compare speeds. The input and English are measured in turn in one process, by
its CPU time. The best of three rounds counts, so a busy machine does not fail them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import hard_inputs
import pytest
from conftest import DATA, SEED, examples

from tokenmill import Tokenizer

SIZE = 1_000_000
SLOWER_MAX = 20
# The rates of linear code differ by up to 40 (count of spaces.txt with cl100k_base, 2 cores of a
# Zen 3); a quadratic path differs by the length of the text.
QUADRATIC_MIN = 200
QUADRATIC_SIZE = max(SIZE // 4, examples(SIZE))
NAMES = ("r50k_base", "cl100k_base", "o200k_base")
# Not one that has a scanner of its own: it runs on the general engine.
GENERAL = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+(?!\S)|\s+"

Call = Callable[[bytes], object]


@pytest.fixture(scope="module")
def english() -> bytes:
    """A megabyte of English: the comments of a C header."""
    text = (DATA / "code/sqlite3.h").read_bytes() + (DATA / "udhr/eng.txt").read_bytes()
    return (text * 2)[:SIZE]


@pytest.fixture(scope="module")
def megabytes() -> dict[str, bytes]:
    """A megabyte of each hard file. By default it is a tenth of it ten times."""
    size = max(SIZE // 10, examples(SIZE))
    files = hard_inputs.files(size)
    texts = {name: d.encode() if isinstance(d, str) else d for name, d in files if d}
    return {name: text * (SIZE // size) for name, text in texts.items()}


def seconds(call: Call, text: bytes) -> float:
    """The time of the process alone: other processes do not count."""
    start = time.process_time()
    call(text)
    return time.process_time() - start


def times_slower(call: Call, text: bytes, english: bytes, limit: float) -> float:
    """How many times slower than English a text is; the best of at most three rounds."""
    slow = fast = float("inf")
    for _ in range(3):
        slow = min(slow, seconds(call, text) / len(text))
        fast = min(fast, seconds(call, english) / len(english))
        if slow / fast < limit / 2:  # far from the limit: no need to look again
            break
    return slow / fast


def assert_none_is_quadratic(call: Call, files: dict[str, bytes], english: bytes) -> None:
    factors = {}
    for name, text in files.items():
        beginning = text[:QUADRATIC_SIZE]
        factors[name] = times_slower(call, beginning, english[:QUADRATIC_SIZE], QUADRATIC_MIN)
    slow = {name: f"{factor:.0f} ×" for name, factor in factors.items() if factor > QUADRATIC_MIN}
    assert not slow, f"slower than English by these factors: {slow}"


@pytest.mark.parametrize("file", ["a.txt", "spaces.txt", "digits.txt", "han_random.txt"])
@pytest.mark.parametrize("name", NAMES)
def test_a_megabyte_of_one_kind_encodes_within_20_times_of_english(
    tokenizers, megabytes, english, name, file
):
    factor = times_slower(tokenizers[name].encode, megabytes[file], english, SLOWER_MAX)
    assert factor <= SLOWER_MAX, f"{factor:.1f} × slower than English"


@pytest.mark.parametrize("name", NAMES)
def test_no_hard_file_encodes_in_quadratic_time(tokenizers, megabytes, english, name):
    assert_none_is_quadratic(tokenizers[name].encode, megabytes, english)


@pytest.mark.parametrize("method", ["count", "encode_with_offsets"])
def test_no_method_is_quadratic(tokenizers, megabytes, english, method):
    assert_none_is_quadratic(getattr(tokenizers["cl100k_base"], method), megabytes, english)


def test_general_engine_is_not_quadratic(rank_files, megabytes, english):
    tokenizer = Tokenizer.load(rank_files["cl100k_base"], pattern=GENERAL)
    assert_none_is_quadratic(tokenizer.encode, megabytes, english)


def test_specials_are_not_quadratic(tokenizers, megabytes, english):
    """1,091 special tokens, and text that is full of their beginnings."""
    tokenizer = tokenizers["o200k_harmony"]
    near = {
        "openings": b"<|" * (SIZE // 2),
        "reserved": b"<|reserved_2000" * (SIZE // 15),
        "special_tokens": megabytes["specials.txt"],
    }
    assert_none_is_quadratic(
        lambda text: tokenizer.encode(text, allowed_special=True), near, english
    )


@pytest.mark.parametrize("short", [[], ["a"]])
def test_specials_that_share_much_are_not_quadratic(rank_files, english, short):
    """Names of up to a thousand bytes. Nearly all of them match at each position of a text."""
    names = [*("a" * count + "b" for count in range(1, 1000)), *short]
    special_tokens = {name: 200_000 + index for index, name in enumerate(names)}
    tokenizer = Tokenizer.load(
        rank_files["cl100k_base"], pattern=GENERAL, special_tokens=special_tokens
    )
    near = {"a.txt": b"a" * SIZE}
    assert_none_is_quadratic(
        lambda text: tokenizer.encode(text, allowed_special=True), near, english
    )


@pytest.mark.parametrize("side", ["right", "left"])
def test_truncate_is_not_quadratic(tokenizers, megabytes, side):
    """Four times the text takes about four times as long: not sixteen times."""
    tokenizer = tokenizers["cl100k_base"]

    def truncate(text: bytes) -> bytes:
        return tokenizer.truncate(text, tokenizer.count(text) // 2, side)

    for name in ("a.txt", "spaces.txt", "digit_same.txt", "dashes.txt", "han_random.txt"):
        whole, quarter = megabytes[name], megabytes[name][: len(megabytes[name]) // 12 * 3]
        # The added second is the cost of a cut in a text of any size.
        assert seconds(truncate, whole) < 12 * seconds(truncate, quarter) + 1, name


def test_a_text_in_many_appends_is_not_quadratic(tokenizers, rank_files, megabytes, english):
    """Ten thousand appends make a megabyte of anything, also of one run that stays open."""
    tokenizer = tokenizers["o200k_base"]
    general = Tokenizer.load(rank_files["cl100k_base"], pattern=GENERAL)

    def grow(text: bytes, tokenizer: Tokenizer = tokenizer) -> None:
        session = tokenizer.session(b"")
        for start in range(0, len(text), 100):
            session.append(text[start : start + 100])

    # Linear code differs by up to 6; scanning the run again each time, by 60.
    names = random.Random(SEED).sample(list(megabytes), max(6, examples(len(megabytes))))
    factors = {name: times_slower(grow, megabytes[name], english, 30) for name in names}
    assert max(factors.values()) < 30, factors
    for name in ("a.txt", "newlines.txt", "han_random.txt"):
        factor = times_slower(lambda text: grow(text, general), megabytes[name], english, 30)
        assert factor < 30, (name, factor)
