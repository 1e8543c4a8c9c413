"""Segments of different trust, and `drift`.

Tests of tokenmill/segments.py.
"""

from __future__ import annotations

import functools
import itertools
import json
import lzma
import random
import re
import tempfile
from pathlib import Path

import families
import numpy as np
import pytest
from conftest import SEED, SHARED_DATA, examples
from hf_documents import BYTE_LEVEL, byte_vocabulary, document, dumps
from test_session_families import loaded
from test_untrusted import UNKNOWN

from tokenmill import Tokenizer
from tokenmill.errors import UnknownTokenError

WORDS = [
    "hello",
    " world",
    "\n",
    "\n\n",
    "  ",
    " ",
    "'s",
    "12",
    "é",
    "e\u0301",
    "中文",
    "🙂",
    "<|",
    "x>",
]
FAMILIES = [*families.BYTE_LEVEL, *families.PIECES]


def names_of(tokenizer: Tokenizer) -> list[str]:
    return [token.content for token in tokenizer._spec.added]


def random_text(rng: random.Random, names: list[str]) -> str:
    return "".join(rng.choice([*WORDS, *names]) for _ in range(rng.randrange(5)))


def owners(text_lengths: list[int], spans: list[tuple[int, int]]) -> list[int]:
    """The segment of each token's first byte."""
    ends = list(itertools.accumulate(text_lengths))
    return [next(i for i, end in enumerate(ends) if start < end) for start, _ in spans]


@pytest.mark.parametrize("name", FAMILIES)
def test_trusted_texts_have_the_ids_of_the_whole_text(name):
    tokenizer, rng = loaded(name), random.Random(f"{SEED} {name}")
    names = names_of(tokenizer)
    for _ in range(examples(400)):
        texts = [random_text(rng, names) for _ in range(rng.randrange(1, 6))]
        whole = "".join(texts)
        ids, segments = tokenizer.encode_segments([(text, True) for text in texts])
        expected, spans = tokenizer.encode_with_offsets(whole.encode(), allowed_special=True)
        assert ids.tolist() == expected == tokenizer.encode(whole, allowed_special=True), texts
        if not any(token.lstrip for token in tokenizer._spec.added):
            assert segments.tolist() == owners([len(text.encode()) for text in texts], spans)


@pytest.mark.parametrize("name", FAMILIES)
def test_other_texts_have_the_ids_of_ordinary_text(name):
    tokenizer, rng = loaded(name), random.Random(f"{SEED} {name}")
    names = names_of(tokenizer)
    for _ in range(examples(200)):
        texts = [random_text(rng, names) for _ in range(rng.randrange(1, 5))]
        ids, _ = tokenizer.encode_segments([(text, False) for text in texts])
        assert ids.tolist() == tokenizer.encode_ordinary("".join(texts)), texts


# The reference: a second tokenizer with other texts of the added tokens. A trusted text is written
# with these texts. Then nothing in another text equals an added token.


def renamed(names: list[str]) -> dict[str, str]:
    return {name: f"\ue000{chr(0xE001 + at)}\ue000" for at, name in enumerate(names)}


@functools.cache
def tokenizer_with(flags: tuple[tuple[str, bool], ...], other: bool, kind: str) -> Tokenizer:
    """A tokenizer of a kind whose added tokens have flags, or the same with other token texts."""
    names = ["<a>", "<a>b", "<|x", "x|>", "<|im|>"]
    texts = renamed(names) if other else dict(zip(names, names, strict=True))
    merges = [["h", "e"], ["l", "l"], ["he", "ll"], ["Ġ", "w"], ["Ċ", "Ċ"], ["<", "|"]]
    merged = {first + second: 256 + at for at, (first, second) in enumerate(merges)}
    model = {"vocab": {**byte_vocabulary(), **merged}, "merges": merges}
    tokens = [
        {"id": FIRST + at, "content": texts[name], "special": at % 2 == 0, **dict(flags)}
        for at, name in enumerate(names)
    ]
    parts = {"normalizer": {"type": "NFC"}} if kind == "nfc" else {}
    made = document(model, added_tokens=tokens, pre_tokenizer=BYTE_LEVEL, **parts)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tokenizer.json")
        path.write_bytes(dumps(made))
        return Tokenizer.load(path)


WORD = re.compile("[\\w\u0300-\u036f]")
FIRST = 262
NAMES_OF_FLAGS = ("lstrip", "rstrip", "single_word", "normalized")
FLAGS = [
    dict(zip(NAMES_OF_FLAGS, values, strict=True))
    for values in itertools.product([False, True], repeat=4)
]


@pytest.mark.parametrize("kind", ["plain", "nfc"])
@pytest.mark.parametrize(
    "flags", FLAGS, ids=lambda flags: "-".join(k for k, v in flags.items() if v)
)
def test_added_tokens_are_found_in_trusted_texts_only(flags, kind):
    key = tuple(flags.items())
    mine, other = tokenizer_with(key, False, kind), tokenizer_with(key, True, kind)
    names = renamed(names_of(mine))
    pattern = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    rng = random.Random(f"{SEED} {key} {kind}")
    for _ in range(examples(600)):
        count = rng.randrange(1, 6)
        parts = [(random_text(rng, [*names, "<a", ">"]), rng.random() < 0.5) for _ in range(count)]
        whole, written = "".join(text for text, _ in parts), ""
        start = 0
        filled = [part for part in parts if part[0]]  # an empty text separates nothing
        for is_trusted, group in itertools.groupby(filled, key=lambda part: part[1]):
            end = start + sum(len(text) for text, _ in group)
            for match in pattern.finditer(whole, start, end) if is_trusted else ():
                around = whole[max(match.start() - 1, 0) : match.start()], whole[match.end() :][:1]
                if not (flags["single_word"] and any(map(WORD.match, around))):
                    written += whole[start : match.start()] + names[match[0]]
                    start = match.end()
            written += whole[start:end]
            start = end
        ids, segments = mine.encode_segments(parts)
        expected = other.encode(written, allowed_special=True)
        assert ids.tolist() == expected, parts
        added = np.isin(ids, np.arange(FIRST, FIRST + len(names)))
        assert all(parts[at][1] for at in segments[added]), parts


def test_a_token_text_across_a_boundary_is_not_found():
    tokenizer = loaded("qwen2")
    start = tokenizer.special_tokens["<|im_start|>"]
    for parts in ([("<|im_", True), ("start|>", False)], [("<|im_", False), ("start|>", True)]):
        assert start not in tokenizer.encode_segments(parts)[0]
    ids, segments = tokenizer.encode_segments([("<|im_", True), ("start|>", True)])
    assert ids.tolist() == [start] and segments.tolist() == [0]


def test_ids_stay_and_texts_next_to_them_are_apart():
    tokenizer = loaded("qwen2")
    start = tokenizer.special_tokens["<|im_start|>"]
    parts = [("hel", True), [start, 5], ("lo wor", False), (), np.array([7]), ("ld", False)]
    ids, segments = tokenizer.encode_segments(parts)
    pieces = [tokenizer.encode("hel"), [start, 5], tokenizer.encode("lo wor"), [7]]
    pieces.append(tokenizer.encode("ld"))
    assert ids.tolist() == [*itertools.chain(*pieces)]
    numbers = [[at] * len(piece) for at, piece in zip([0, 1, 2, 4, 5], pieces, strict=True)]
    assert segments.tolist() == [*itertools.chain(*numbers)]
    assert [len(array) for array in tokenizer.encode_segments([])] == [0, 0]
    # An empty list of ids separates nothing.
    joined, _ = tokenizer.encode_segments([("hel", True), [], ("lo", False)])
    assert joined.tolist() == tokenizer.encode("hello")


def test_text_after_ids_is_not_the_start_of_a_conversation():
    tokenizer = loaded("llama2_metaspace")
    end = tokenizer.special_tokens["</s>"]
    expected = tokenizer.encode("</s>hello", allowed_special=True)
    assert tokenizer.encode_segments([[end], ("hello", False)])[0].tolist() == expected
    assert tokenizer.encode("hello") != expected[1:]


def test_without_join_each_text_is_encoded_alone():
    for name in ("qwen2", "llama2_metaspace", "llama2"):
        tokenizer = loaded(name)
        special = next(iter(tokenizer.special_tokens))
        parts = [("hel" + special, True), ("lo" + special, False), [3], ("ho", False)]
        ids, segments = tokenizer.encode_segments(parts, join=False)
        pieces = [tokenizer.encode("hel" + special, allowed_special=True)]
        pieces += [tokenizer.encode_ordinary("lo" + special), [3], tokenizer.encode("ho")]
        assert ids.tolist() == [*itertools.chain(*pieces)]
        assert segments.tolist() == [at for at, piece in enumerate(pieces) for _ in piece]


def test_a_token_belongs_to_the_segment_of_its_first_character(cl100k):
    ids, segments = cl100k.encode_segments([("hel", True), ("lo wor", False), ("ld", False)])
    assert ids.tolist() == cl100k.encode("hello world") and segments.tolist() == [0, 1]
    # Bytes of one character in two segments.
    ids, segments = cl100k.encode_segments([("é".encode()[:1], False), ("é".encode()[1:], False)])
    assert ids.tolist() == cl100k.encode("é") and segments.tolist() == [0] * len(ids)


def test_segments_that_cannot_be_read_are_errors(cl100k):
    for segments, message in [
        ("text", "segments must be a list"),
        ([("a", True), "text"], r"segments\[1\] must be \(text, trusted\) or a list of ids"),
        ([("a", 1)], "trusted is True or False, not 1"),
        ([(None, True)], r"segments\[0\] must be a str or bytes-like"),
        (
            [["a", True]],
            r"segments\[0\] must be \(text, trusted\) or a list of ids, not \['a', True",
        ),
        ([("a",)], r"segments\[0\] must be \(text, trusted\)"),
        ([[1.5]], r"segments\[0\]: ids\[0\] must be an int"),
        ([5], r"segments\[0\] must be"),
        ([(5, True)], r"segments\[0\] must be a str or bytes-like, not int 5"),
        ([(np.array([1, 2]), False)], r"segments\[0\] must be .* with items of 8 bytes"),
        ([bytearray(b"text")], r"segments\[0\] must be \(text, trusted\)"),
        ([{"text": True}], r"segments\[0\] must be \(text, trusted\)"),
        ({("a", True)}, "segments must be a list"),
        ({"text": True}, "segments must be a list"),
        (memoryview(b"text"), "segments must be a list"),
    ]:
        with pytest.raises(TypeError, match=message):
            cl100k.encode_segments(segments)
    for join in ("no", 1, None):
        with pytest.raises(TypeError, match=f"join must be True or False, not {join!r}"):
            cl100k.encode_segments([("a", True)], join=join)
    assert cl100k.encode_segments([(1, 2)])[0].tolist() == [1, 2]
    with pytest.raises(UnknownTokenError, match=r"segments\[1\]: id 5000000 is not in this"):
        cl100k.encode_segments([("a", True), [5_000_000]])


def test_lone_surrogates_are_replaced_in_each_text(cl100k):
    ids, _ = cl100k.encode_segments([("a\ud800", False), ("b", False)])
    assert ids.tolist() == cl100k.encode("a\ufffdb")


# drift


def apply(ids: list[int], drift: list) -> list[int]:
    for start, end, new in reversed(drift):
        ids = [*ids[:start], *new, *ids[end:]]
    return ids


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in UNKNOWN])
def test_drift_says_how_ids_change(name):
    tokenizer, rng = loaded(name), random.Random(f"{SEED} drift {name}")
    names = names_of(tokenizer)
    for _ in range(examples(300)):
        texts = [random_text(rng, names) for _ in range(4)]
        ids = [*itertools.chain.from_iterable(map(tokenizer.encode, texts))]
        text = tokenizer.decode_bytes(ids) if tokenizer._decodes_bytes else tokenizer.decode(ids)
        again = tokenizer.encode(text, allowed_special=True)
        found = tokenizer.drift(ids)
        assert apply(ids, found) == again
        assert (found == []) is (ids == again)
        ends = [0, *(end for part in found for end in part[:2])]
        assert ends == sorted(ends)


def test_drift_is_split_where_both_sides_end_together(cl100k):
    hello = [*cl100k.encode("hel"), *cl100k.encode("lo")]
    same = cl100k.encode(" and then")
    found = cl100k.drift(np.array([*hello, *same, *hello]))
    first, second = len(hello), len(hello) + len(same)
    new = cl100k.encode("hello")
    assert found == [(0, first, new), (second, second + first, new)]
    assert found[0].ids == new and found[1].start == second
    assert cl100k.drift(cl100k.encode("hello world")) == cl100k.drift([]) == []


def test_drift_finds_text_that_looks_like_a_special_token(cl100k):
    ids = cl100k.encode("a<|endoftext|>b")
    end = cl100k.special_tokens["<|endoftext|>"]
    assert cl100k.drift(ids) == [(1, len(ids) - 1, [end])]
    assert cl100k.drift(ids, allowed_special=False) == []


if SHARED_DATA is not None:

    @pytest.mark.parametrize("name", ["qwen3", "deepseek_v3", "mistral_nemo", "mistral_v1_spm"])
    def test_a_chat_of_a_real_model_has_the_ids_of_the_whole_text(name, tmp_path):
        packed = SHARED_DATA / "vocab" / "hf" / f"{name}.tokenizer.json.xz"
        path = tmp_path / "tokenizer.json"
        path.write_bytes(lzma.decompress(packed.read_bytes()))
        tokenizer = Tokenizer.load(path)
        names = names_of(tokenizer)
        assert json.loads(path.read_text("utf-8"))["added_tokens"]
        rng = random.Random(f"{SEED} {name}")
        for _ in range(examples(300)):
            parts = [(random_text(rng, names), True), (random_text(rng, []), False)] * 3
            whole = "".join(text for text, _ in parts)
            if any(n in text for n in names for text, is_trusted in parts if not is_trusted):
                continue
            ids, _ = tokenizer.encode_segments(parts)
            assert ids.tolist() == tokenizer.encode(whole, allowed_special=True), parts
            hostile = [(text + rng.choice(names), is_trusted) for text, is_trusted in parts]
            ids, segments = tokenizer.encode_segments(hostile)
            added = np.isin(ids, [token.id for token in tokenizer._spec.added])
            assert all(hostile[at][1] for at in segments[added]), hostile
