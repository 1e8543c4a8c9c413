"""Models of any file → the ids that the library gives which the file is of."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable

import numpy as np
import pytest
from conftest import DATA, SEED, examples
from model_cases import BYTE_NAMES, Case, core_of, random_case, random_text
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tokenmill import _native
from tokenmill.errors import VocabularyError


def numbers(buffer: _native.Buffer) -> list[int]:
    return np.frombuffer(buffer, np.uint32).tolist()


@pytest.mark.parametrize("part", range(4))
def test_random_models_equal_hugging_face(part: int) -> None:
    for index in range(examples(150)):
        source = random.Random(f"{SEED} {part} {index}")
        case = random_case(source)
        core, peer = case.core(), case.peer()
        for _ in range(6):
            text = random_text(source)
            expected = peer.encode(text).ids
            assert core.encode(text, None) == expected, (case, text)
            assert core.encode(text, None) == expected, "from the cache"
            assert core.count(text, None, 1) == len(expected)
            assert numbers(core.encode_buffer(text, None, False, 1)) == expected
            assert core.encode_with_offsets(text, None)[0] == expected


def test_batches_sessions_and_cuts_agree_with_encode() -> None:
    for index in range(examples(60)):
        source = random.Random(f"{SEED} {index}")
        core = random_case(source).core()
        texts = [random_text(source) for _ in range(20)]
        lists = [core.encode(text, None) for text in texts]
        assert core.encode_batch(texts, None, 2) == lists
        ids, offsets = core.encode_ragged(texts, None, 2)
        assert numbers(ids) == [id_ for ids in lists for id_ in ids]
        assert np.diff(np.frombuffer(offsets, np.int64)).tolist() == [len(ids) for ids in lists]
        assert core.count_batch(texts, None, 2) == [len(ids) for ids in lists]
        session = core.session(None, 64)
        whole = ""
        for text in texts:
            keep = source.randrange(len(whole) + 1) if source.random() < 0.3 else len(whole)
            whole = whole[:keep] + text
            session.update(whole)
            assert session.ids(0, 1 << 30) == core.encode(whole, None)
            assert numbers(session.buffer(0, 1 << 30)) == core.encode(whole, None)
        for text in texts[:3]:
            for tokens_max in range(4):
                kept = core.truncate(text, tokens_max, False)
                fits = [
                    n for n in range(len(text) + 1) if core.count(text[:n], None, 1) <= tokens_max
                ]
                assert len(kept) == max(fits)
                kept = core.truncate(text, tokens_max, True)
                fits = [
                    n for n in range(len(text) + 1) if core.count(text[n:], None, 1) <= tokens_max
                ]
                assert text.endswith(kept) and len(text) - len(kept) == min(fits)


def trained(texts: list[str], *, whole: bool) -> tuple[Case, Tokenizer]:
    """A vocabulary of characters with bytes for others, as Llama 2 has one."""
    peer = Tokenizer(models.BPE(byte_fallback=True))
    trainer = trainers.BpeTrainer(
        vocab_size=1200, special_tokens=BYTE_NAMES, limit_alphabet=300, show_progress=False
    )
    splitter = pre_tokenizers.Split(" ", "merged_with_next")
    peer.pre_tokenizer = splitter
    peer.train_from_iterator(texts, trainer)
    if whole:
        peer.pre_tokenizer = None  # type: ignore[assignment]
    model = json.loads(peer.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    return Case(model["vocab"], merges, byte_fallback=True), peer


def corpus() -> list[str]:
    return [path.read_text("utf-8", "replace")[:20_000] for path in sorted(DATA.glob("udhr/*"))]


def test_character_models_with_byte_fallback_equal_hugging_face() -> None:
    texts = corpus()
    case, peer = trained(texts, whole=True)
    core = case.core()
    words = case.core(" ?[^ ]*")
    for text in [*texts, "🦀" * 500 + "漢" * 700, "\x00é" * 300]:
        expected = peer.encode(text).ids
        assert core.encode(text, None) == expected
        assert core.count(text, None, 1) == len(expected)
        session = core.session(None, 64)
        for end in range(0, len(text), 997):
            session.update(text[:end])
        session.update(text)
        assert session.ids(0, 1 << 30) == expected
        kept = core.truncate(text, 300, False)
        assert core.count(kept, None, 1) <= 300
        longer = text[: len(kept) + 1]
        assert longer == kept or core.count(longer, None, 1) > 300
        start = len(text) - len(core.truncate(text, 300, True))
        assert core.count(text[start:], None, 1) <= 300
        assert words.encode(text, None) == [
            id_ for word in re.findall(" ?[^ ]*", text) for id_ in core.encode(word, None)
        ]
    joined = "".join(texts) * 3
    assert numbers(words.encode_buffer(joined, None, False, 4)) == words.encode(joined, None)


def test_invalid_utf_8_becomes_byte_tokens() -> None:
    case, _ = trained(corpus()[:3], whole=True)
    core = case.core()
    for broken in [b"\xe4", b"\xe4\xb8", b"a\xff\x80\xe4b", "é".encode()[:1]]:
        ids = core.encode(broken, None)
        assert core.decode(ids) == broken


def test_spaces_are_kept() -> None:
    vocab = {"▁": 7, "a": 3, "▁a": 5, "▁▁": 9, "a b": 11, "<s>": 1}
    merges = [("▁", "a"), ("▁", "▁")]
    core = core_of(vocab, merges, blank=True, decoded=["<s>"], special_tokens={"<s>": 1})
    assert core.encode("  a a<s>", b"\x01") == [7, 5, 5, 1]
    assert core.encode("   ", None) == [9, 7]
    assert core.decode([5, 9, 11, 1]) == b" a  a b<s>"
    assert core.find(b" a") == 5 and core.find(b"a b") == 11 and core.find(b"<s>") == 1
    assert core.find("▁a".encode()) == -1


def test_ids_are_those_of_the_file() -> None:
    vocab = {"c": 40, "b": 2, "a": 31, "ab": 1, "abc": 30, "<x>": 50}
    core = core_of(
        vocab,
        [("a", "b"), ("ab", "c")],
        characters=True,
        decoded=["<x>"],
        special_tokens={"<x>": 50},
    )
    assert core.ids_end() == 51
    assert core.encode("abcab<x>c", b"\x01") == [30, 1, 50, 40]
    assert core.decode([30, 1, 50, 40]) == b"abcab<x>c"
    tokens, ends = core.tokens()
    bounds = [0, *numbers(ends)]
    pieces = {id_: tokens[bounds[id_] : bounds[id_ + 1]] for id_ in range(51)}
    assert {id_: token for id_, token in pieces.items() if token} == {
        id_: name.encode() for name, id_ in vocab.items()
    }
    assert [core.find(name.encode()) for name in vocab] == list(vocab.values())
    for unknown in [0, 3, 51, 10_000]:
        with pytest.raises(KeyError, match=f"id {unknown} is not in this vocabulary, which has 6"):
            core.decode([unknown])


def tied(text: str, order: dict[str, int]) -> list[str]:
    """Any two neighbours that spell a token: the lowest first, of equal ones the leftmost."""
    parts = list(text)
    while True:
        pairs = [
            (order[a + b], i)
            for i, (a, b) in enumerate(itertools.pairwise(parts))
            if a + b in order
        ]
        if not pairs:
            return parts
        at = min(pairs)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def test_of_tokens_with_one_score_the_leftmost_is_merged() -> None:
    for index in range(examples(200)):
        source = random.Random(f"{SEED} {index}")
        letters = "ab 漢"
        names = list(letters)
        for _ in range(source.randrange(30)):
            names.append(source.choice(names) + source.choice(names))
        names = [name for name in dict.fromkeys(names) if len(name) < 12]
        classes = source.choice([1, 3, 1000])
        order = {name: source.randrange(classes) for name in names}
        vocab = {name: id_ for id_, name in enumerate(names)}
        core = core_of(vocab, None, order=list(order.values()), missing="fail")
        for _ in range(10):
            text = random_text(source, letters)
            expected = [vocab[part] for part in tied(text, order)]
            assert core.encode(text, None) == expected, (order, text)
            assert core.count(text, None, 1) == len(expected)
            session = core.session(None, 64)
            for end in range(len(text) + 1):
                session.update(text[:end])
            assert session.ids(0, 1 << 30) == expected


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: core_of({"a": 0, "b": 1}, [("a", "b")]), "merge 0 produces no token"),
    (
        lambda: core_of({n: i for i, n in enumerate([*BYTE_NAMES[1:], "a"])}, [], missing="bytes"),
        "requires a token for each of the 256 bytes",
    ),
    (lambda: core_of({"a": 0}, [], missing="unk", unk=9), "the unk token is not in the vocabulary"),
    (
        lambda: core_of({"<unk>": 0, "a": 1, "<unk>a": 2}, [("<unk>", "a")], missing="unk", unk=0),
        "merge 0 produces no token, or has a token that never occurs in text",
    ),
    (lambda: core_of({"a": 3, "b": 3}, []), "id 3 is used by two tokens"),
    (lambda: core_of({"a": 1 << 21}, []), "id 2097152 is too large"),
    (lambda: core_of({"a": 0, "é": 1}, [], special_tokens={"<x>": 7}), "id 7 of an added token"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_inexact_models_are_rejected(make: Callable[[], object], message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        make()


def test_character_without_a_token_is_an_error_if_the_file_requires_it() -> None:
    core = core_of({"a": 0, "é": 1}, [], missing="fail")
    assert core.encode("aé", None) == [0, 1]
    with pytest.raises(ValueError, match="contains byte 0xc3"):
        core.encode("aèa", None)
