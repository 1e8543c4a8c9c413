"""Documents → counts: the core counts what the reference does, on any threads, in any memory."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import hard_inputs
import numpy as np
import pytest
from conftest import FIXTURES, SEED
from hypothesis import given
from hypothesis import strategies as st

from tokenmill import _native, reference
from tokenmill.schemes import PATTERNS, scheme_of

SCHEMES = ("r50k", "cl100k", "o200k")


def counter(
    scheme: str = "r50k", specials: Iterable[str | bytes] = (), ordered: bool = False
) -> _native.Counter:
    compiled = scheme_of(PATTERNS[scheme][0] if scheme in PATTERNS else scheme)
    return _native.Counter(compiled, list(specials), SEED, ordered)


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
    """What the reference counts, in the order of first occurrence."""
    pattern = PATTERNS[scheme][0] if scheme in PATTERNS else scheme
    counts: Counter[bytes] = Counter()
    for text in texts:
        counts.update(reference.pretokens(reference.to_bytes(text), pattern))
    return counts


def split_counts(texts: Iterable[str | bytes], scheme: str | bytes) -> Counter[bytes]:
    """The same by the core's scalar twin, which other tests compare with the reference."""
    counts: Counter[bytes] = Counter()
    for text in texts:
        data = reference.to_bytes(text)
        counts.update(data[start:end] for start, end in _native.split(scheme, data))
    return counts


@pytest.mark.parametrize("scheme", SCHEMES)
def test_counts_are_those_of_the_reference(scheme):
    texts = [path.read_bytes() for path in FIXTURES]
    counts = expected(texts, scheme)
    for threads in (1, 3):
        made = counter(scheme)
        made.add(texts, threads)
        assert made.total() == counts.total()
        assert entries(made.take()) == counts


@given(st.lists(st.text(max_size=60) | st.binary(max_size=60), max_size=20), st.integers(1, 4))
def test_counts_of_any_text(texts, threads):
    texts = [reference.to_bytes(text) for text in texts]
    made = counter("o200k")
    made.add(texts, threads)
    assert entries(made.take()) == expected(texts, "o200k")


@pytest.mark.parametrize("scheme", PATTERNS)
def test_a_long_text_is_cut_for_threads_and_counts_are_the_same(scheme):
    rng = random.Random(SEED)
    texts = []
    for _, data in hard_inputs.files(150_000):
        texts.append(reference.to_bytes(data))
    rng.shuffle(texts)
    whole = b"".join(texts)
    assert len(whole) > 4 << 20
    one = counter(scheme)
    one.add([whole], 1)
    counts = entries(one.take())
    assert counts == split_counts([whole], scheme)
    for threads in (2, 5):
        made = counter(scheme)
        made.add([whole], threads)
        assert entries(made.take()) == counts


def test_specials_are_cut_out_and_count_nowhere():
    names = ["<|endoftext|>", "<|end", "ab", "b a", " x y", ""]
    rng = random.Random(SEED)
    pieces = [*names, "<|endoftext", "|>", " ", "a", "b", "x", " y", "1", "word word"]
    for length, rounds in ((30, 60), (500_000, 1)):
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
    """Where specials stand: the leftmost, then the longest."""
    import re

    longest_first = sorted((name.encode() for name in names), key=len, reverse=True)
    for match in re.finditer(b"|".join(map(re.escape, longest_first)), text):
        yield match.span()


def test_many_specials_beside_each_other():
    names = [f"<|{number}|>" for number in range(500)]
    text = "".join(f"a b<|{number % 700}|>" for number in range(20_000))
    pieces = reference.re.split("|".join(map(reference.re.escape, sorted(names, key=len))), text)
    made = counter("r50k", names)
    made.add([text], 2)
    assert entries(made.take()) == split_counts(pieces, "r50k")


def test_what_a_pattern_leaves_out_is_not_counted():
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
def test_a_long_text_and_any_pattern(pattern):
    rng = random.Random(SEED)
    text = "".join(rng.choices("ab 12.\n中", k=3_000_000)).encode()
    special = text[:2_900_000] + b"<|s|>" + text[2_900_000:] + b"<|s|>x"
    for data, names in ((text, []), (special, ["<|s|>"])):
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
    texts = [path.read_bytes()[:20_000] for path in FIXTURES]
    made = counter("cl100k", ordered=True)
    for text in texts:
        made.add([text], 4)
    found = entries(made.take())
    wanted = expected(texts, "cl100k")
    assert list(found.items()) == list(wanted.items())


def test_lone_surrogates_are_refused_as_by_the_encoder():
    with pytest.raises(UnicodeEncodeError):
        counter().add(["a\ud800b"], 1)


def test_a_counter_is_empty_after_take_and_goes_on():
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
