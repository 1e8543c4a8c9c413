"""Documents → counts: the core equals the reference for all threads and memory limits."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import hard_inputs
import numpy as np
import pytest
from conftest import FIXTURES, SEED, examples, sample
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill import _native, reference
from tokenmill.patterns.schemes import PATTERNS, scheme_of

SCHEMES = ("r50k", "cl100k", "o200k")
HARD_BYTES = max(80_000, examples(150_000))


def counter(
    scheme: str = "r50k", special_tokens: Iterable[str | bytes] = (), ordered: bool = False
) -> _native.Counter:
    compiled = scheme_of(PATTERNS[scheme][0] if scheme in PATTERNS else scheme)
    return _native.Counter(compiled, list(special_tokens), SEED, ordered)


def entries(inventory: _native.Inventory) -> dict[bytes, int]:
    """The entries of an inventory in its order."""
    data, lengths, counts = inventory.arrays()
    ends = np.cumsum(np.frombuffer(lengths, np.uint32), dtype=np.int64)
    starts = ends - np.frombuffer(lengths, np.uint32)
    whole = bytes(data)
    found = {
        whole[start:end]: int(count)
        for start, end, count in zip(starts, ends, np.frombuffer(counts, np.uint64), strict=True)
    }
    assert len(found) == len(inventory)
    return found


def expected(texts: Iterable[str | bytes], scheme: str = "r50k") -> Counter[bytes]:
    """Return the counts of the reference, in the order of first occurrence."""
    pattern = PATTERNS[scheme][0] if scheme in PATTERNS else scheme
    counts: Counter[bytes] = Counter()
    for text in texts:
        counts.update(reference.pretokens(reference.to_bytes(text), pattern))
    return counts


def split_counts(texts: Iterable[str | bytes], scheme: str | bytes) -> Counter[bytes]:
    """Return the counts of the core's scalar implementation."""
    counts: Counter[bytes] = Counter()
    for text in texts:
        data = reference.to_bytes(text)
        counts.update(data[start:end] for start, end in _native.split(scheme, data))
    return counts


@pytest.mark.parametrize("scheme", SCHEMES)
def test_counts_are_those_of_the_reference(scheme):
    texts = [path.read_bytes() for path in FIXTURES]
    texts = [text[: max(3_000, examples(len(text)))] for text in texts]
    counts = expected(texts, scheme)
    for threads in (1, 3):
        made = counter(scheme)
        made.add(texts, threads)
        assert made.total() == counts.total()
        assert entries(made.take()) == counts


@settings(max_examples=max(20, examples(100)))
@given(st.lists(st.text(max_size=60) | st.binary(max_size=60), max_size=20), st.integers(1, 4))
def test_counts_of_any_text(texts, threads):
    texts = [reference.to_bytes(text) for text in texts]
    made = counter("o200k")
    made.add(texts, threads)
    assert entries(made.take()) == expected(texts, "o200k")


@functools.cache
def hard_texts() -> list[bytes]:
    return [reference.to_bytes(data) for _, data in hard_inputs.files(HARD_BYTES)]


@pytest.mark.parametrize("scheme", PATTERNS)
def test_counts_of_a_long_text_are_independent_of_thread_count(scheme):
    rng = random.Random(SEED)
    texts = list(hard_texts())
    rng.shuffle(texts)
    whole = b"".join(texts)
    # A job takes 1 MiB.
    assert len(whole) > max(2 << 20, (4 << 20) * HARD_BYTES // 150_000)
    one = counter(scheme)
    one.add([whole], 1)
    counts = entries(one.take())
    assert counts == split_counts([whole], scheme)
    for threads in (2, 5):
        made = counter(scheme)
        made.add([whole], threads)
        assert entries(made.take()) == counts


def test_special_tokens_are_cut_out_and_not_counted():
    names = ["<|endoftext|>", "<|end", "ab", "b a", " x y", ""]
    rng = random.Random(SEED)
    pieces = [*names, "<|endoftext", "|>", " ", "a", "b", "x", " y", "1", "word word"]
    for length, rounds in ((30, examples(60)), (500_000, 1)):
        for _ in range(rounds):
            text = "".join(rng.choices(pieces, k=length)).encode()
            counts: Counter[bytes] = Counter()
            ids = {name: number for number, name in enumerate(names) if name}
            documents, start = [], 0
            for end, stop in special_spans(text, ids):
                documents.append(text[start:end])
                start = stop
            documents.append(text[start:])
            counts = split_counts(documents, "r50k")
            for threads in (1, 3):
                made = counter("r50k", names)
                made.add([text], threads)
                assert entries(made.take()) == counts


def special_spans(text: bytes, names: dict[str, int]) -> Iterable[tuple[int, int]]:
    """Find special tokens: the leftmost, then the longest."""
    import re

    longest_first = sorted((name.encode() for name in names), key=len, reverse=True)
    for match in re.finditer(b"|".join(map(re.escape, longest_first)), text):
        yield match.span()


def test_many_adjacent_specials_are_found():
    names = [f"<|{number}|>" for number in range(500)]
    text = "".join(f"a b<|{number % 700}|>" for number in range(20_000))
    pieces = reference.re.split("|".join(map(reference.re.escape, sorted(names, key=len))), text)
    made = counter("r50k", names)
    made.add([text], 2)
    assert entries(made.take()) == split_counts(pieces, "r50k")


def test_text_between_matches_is_not_counted():
    made = counter(r"\p{L}+")
    made.add(["one, two; one 3 two 中文 " * 3, "two"], 2)
    assert entries(made.take()) == {b"one": 6, b"two": 7, "中文".encode(): 3}


@pytest.mark.parametrize(
    "pattern",
    [
        r"\p{L}+",
        r"(?<=a)b+|[^b]+|b",
        r"\d{1,3}(?=(?:\d{3})*\b)|\D+|\d",
        r"(?s:.{7})",  # parts that start on a guess never meet, or long after
        r"(?s:.{1,701})",
        r"[^x]+|x",  # one pretoken across several parts
    ],
)
def test_counts_of_a_long_text_equal_the_reference_for_any_pattern(pattern):
    rng = random.Random(SEED)
    size = max(1_700_000, examples(3_000_000))  # in jobs of 1 MiB
    text = "".join(rng.choices("ab 12.\n中", k=size)).encode()
    special = text[: size - 100_000] + b"<|s|>" + text[size - 100_000 :] + b"<|s|>x"
    for data, names in sample([(text, []), (special, ["<|s|>"])], pattern):
        one = counter(pattern, names)
        one.add([data], 1)
        total, counts = one.total(), entries(one.take())
        pieces = data.split(b"<|s|>") if names else [data]
        assert counts == split_counts(pieces, scheme_of(pattern))
        for threads in (2, 3):
            made = counter(pattern, names)
            made.add([b"a few words", data, b"ab"], threads)
            few = counter(pattern, names)
            few.add([b"a few words", b"ab"], 1)
            assert made.total() == total + few.total()
            assert entries(made.take()) == Counter(counts) + Counter(entries(few.take()))


def test_ordered_entries_come_as_they_were_first_seen():
    texts = [path.read_bytes()[: examples(20_000)] for path in FIXTURES]
    made = counter("cl100k", ordered=True)
    for text in texts:
        made.add([text], 4)
    found = entries(made.take())
    wanted = expected(texts, "cl100k")
    assert list(found.items()) == list(wanted.items())


def test_lone_surrogates_are_rejected_as_by_the_encoder():
    with pytest.raises(UnicodeEncodeError):
        counter().add(["a\ud800b"], 1)


def test_counter_is_empty_and_usable_after_take():
    made = counter()
    made.add(["a b", memoryview(b"a b c")], 2)
    assert made.total() == 5
    assert made.unique() >= 3
    assert made.memory() > 0
    assert entries(made.take()) == {b"a": 2, b" b": 2, b" c": 1}
    assert (made.total(), made.unique(), len(made.take())) == (0, 0, 0)
    made.add(["a"], 1)
    assert entries(made.take()) == {b"a": 1}


def test_inventories_are_made_of_arrays():
    lengths = np.array([1, 0, 2], np.uint32)
    counts = np.array([2**40, 3, 2**63], np.uint64)
    made = _native.Inventory(b"abc", lengths, counts)
    assert len(made) == 3
    assert made.total() == 2**40 + 3 + 2**63
    assert entries(made) == {b"a": 2**40, b"": 3, b"bc": 2**63}


CUT_PARTS = [
    " ", "  ", "\n", "\r\n", "\n\n", "\t", "\u00a0", "\u3000", "\u2028", "\u0085", "\x1c", "a",
    "Ab", "don't", "'s", "12345", ".", "...", "/", ".\n/", "中文", "。", "é", "e\u0301", "ſ", "🌾",
    "\ufffd", "'", "_", "<|end|>",
]  # fmt: skip


@pytest.mark.parametrize("scheme", [*PATTERNS, r"\w+|\s+|[^\w\s]+"])
@pytest.mark.parametrize("ordered", [False, True])
def test_add_blocks_counts_the_documents_that_add_counts(scheme, ordered):
    rng = random.Random(SEED)
    for _ in range(examples(60)):
        documents = []
        for _ in range(rng.randrange(1, 5)):
            data = "".join(rng.choices(CUT_PARTS, k=rng.randrange(40))).encode()
            at = rng.randrange(len(data) + 1)
            documents.append(data[:at] + rng.randbytes(rng.randrange(3)) + data[at:])
        whole, blocks = counter(scheme, ["<|end|>"], ordered), counter(scheme, ["<|end|>"], ordered)
        whole.add(documents, 2)
        for batch in random_blocks(rng, documents):
            blocks.add_blocks(batch, rng.randrange(1, 4))
        assert blocks.open_bytes() == 0
        found, wanted = entries(blocks.take()), entries(whole.take())
        assert found == wanted, documents
        assert not ordered or list(found) == list(wanted)


def random_blocks(rng: random.Random, documents: list[bytes]) -> Iterable[list[Any]]:
    """The documents in blocks of random size, in calls of random length."""
    calls: list[list[Any]] = [[]]
    data, spans = b"", []
    for document in documents:
        start = 0
        while True:
            end = min(len(document), start + rng.randrange(1, 60))
            spans.append((len(data), len(data) + end - start))
            data += document[start:end]
            continues = end < len(document)
            if continues or rng.random() < 0.3:
                calls[-1].append((data, np.array(spans, np.int64), continues))
                data, spans = b"", []
                if rng.random() < 0.4:
                    calls.append([])
            if not continues:
                break
            start = end
    calls[-1].append((data, np.array(spans, np.int64).reshape(-1, 2), False))
    return calls


def test_add_blocks_keeps_no_more_than_the_text_after_the_last_cut():
    counts = counter("r50k")
    text = b"some words and more " * 1_000
    counts.add_blocks([(text, np.array([[0, len(text)]]), True)], 1)
    assert 0 < counts.open_bytes() < 30
    counts.add_blocks([(b"", np.zeros((1, 2), np.int64), False)], 1)
    assert counts.open_bytes() == 0
    assert entries(counts.take()) == split_counts([text], "r50k")


def test_add_blocks_rejects_invalid_blocks():
    counts = counter("r50k")
    spans = np.array([[0, 4]])
    for wrong in (5, [5], [(b"text", spans)], [(b"text", spans.astype(np.int32), False)]):
        with pytest.raises(TypeError):
            counts.add_blocks(wrong, 1)
    with pytest.raises(ValueError, match="span 0 to 4 is outside the data, which has 3 bytes"):
        counts.add_blocks([(b"abc", spans, False)], 1)
    assert counts.unique() == 0


@pytest.mark.parametrize("scheme", PATTERNS)
def test_last_cut_keeps_the_pretokens_of_scanners(scheme):
    rng = random.Random(SEED)
    cuts = 0
    rounds = examples(4_000)
    for _ in range(rounds):
        data = "".join(rng.choices(CUT_PARTS, k=rng.randrange(1, 24))).encode()
        if rng.random() < 0.2:  # bytes that are not UTF-8
            at = rng.randrange(len(data) + 1)
            data = data[:at] + rng.randbytes(rng.randrange(1, 4)) + data[at:]
        whole = pretokens(scheme, data)
        # Every cut of a block of some length, not only the last.
        offsets = {_native.last_cut(data[:end], []) for end in range(len(data) + 1)} - {None}
        for offset in offsets:
            parts = pretokens(scheme, data[:offset]) + pretokens(scheme, data[offset:])
            assert parts == whole, (data[:offset], data[offset:])
        cuts += len(offsets)
    assert cuts > rounds // 4


def pretokens(scheme: str | bytes, data: bytes) -> list[bytes]:
    return [data[start:end] for start, end in _native.split(scheme, data)]


@pytest.mark.parametrize("spelling", [s for spellings in PATTERNS.values() for s in spellings[:1]])
def test_last_cut_is_exact_for_the_general_engine_on_the_same_pattern(spelling):
    data = b" ".join(path.read_bytes()[:2_000] for path in FIXTURES[:12])
    cut = _native.last_cut(data, [])
    assert cut is not None
    scheme = scheme_of(spelling)
    assert pretokens(scheme, data[:cut]) + pretokens(scheme, data[cut:]) == pretokens(scheme, data)


def test_last_cut_is_near_the_end_of_real_text():
    for path in FIXTURES:
        data = path.read_bytes()
        cut = _native.last_cut(data, [])
        assert cut is not None, path.name
        assert cut > len(data) - 2_000, path.name


def test_last_cut_is_outside_special_tokens():
    assert _native.last_cut(b"some words and more of them", []) is not None
    special_tokens = [b"words and more", b"<|end of text|>"]
    for end in range(40):
        text = b"x" * 30 + b" some words and more of them <|end of text|> x" + b"y" * 40
        data = text[: 40 + end]
        cut = _native.last_cut(data, special_tokens)
        for name in special_tokens:
            at = data.find(name)
            assert cut is None or at < 0 or not at < cut < at + len(name)


def test_last_cut_without_a_safe_position_is_none():
    for data in (b"", b"x", b" " * 9_000, b"x" * 200_000, b"\r\n" * 5_000, "　".encode() * 99):
        assert _native.last_cut(data, []) is None
