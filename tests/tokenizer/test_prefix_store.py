"""Texts that share beginnings: tests of tokenmill/prefix_store.py."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import LETTERS_ONLY, SEED, examples
from test_session_families import FRAGMENTS, PIECES, loaded

from tokenmill import PrefixStore, Tokenizer
from tokenmill.errors import OptionError, UnknownTokenError, VocabularyError

NAMES = ["gpt2", "llama2_metaspace", "roberta", "qwen2", "gemma", "deepseek_v3", "unknowns"]


def next_text(rng: random.Random, texts: list[str]) -> str:
    """A text that shares a beginning with one of `texts`."""
    end = "".join(rng.choices([*PIECES, *FRAGMENTS], k=rng.randrange(6)))
    if not texts or rng.random() < 0.1:
        return end
    text = rng.choice(texts)
    cut = len(text) - min(len(text), rng.choice([0, 1, 5, 30, 1000]))
    more = "the mill grinds " * rng.choice([0, 0, 1, 400])
    return text[: rng.randrange(cut, len(text) + 1)] + end + more


def shared(first: Sequence, second: Sequence) -> int:
    """The number of equal items at the start of two sequences."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))


def check_store(store: PrefixStore) -> None:
    """The texts are sorted, and memory is the sum of all conversations."""
    texts = [text_of(text) for text in store._texts]
    assert texts == sorted(texts)
    conversations = store._conversations.values()
    assert store.memory == sum(conversation.memory for conversation in conversations)
    assert len(store) == sum(1 + len(each.earlier) for each in conversations)


def text_of(stored) -> bytes:
    whole = stored.conversation.session.text(0)
    return whole if stored.cut is None else whole[: stored.cut] + stored.end


@pytest.mark.parametrize("choice", [False, True, "none"])
@pytest.mark.parametrize("name", NAMES)
def test_ids_and_kept_equal_those_of_whole_texts(name, choice):
    tokenizer, rng = loaded(name), random.Random(f"{SEED} {name} {choice}")
    for _ in range(max(2, examples(8))):
        store, texts = PrefixStore(tokenizer, allowed_special=choice), []
        known: dict[bytes, np.ndarray] = {}
        for _ in range(60):
            text = next_text(rng, texts[-8:])
            ids, kept = store.encode(text if rng.random() < 0.5 else text.encode())
            expected = tokenizer.encode_array(text, allowed_special=choice)
            assert ids.tolist() == expected.tolist(), text
            data = text.encode()
            lengths = {other: shared(data, other) for other in known}
            longest = max(lengths.values(), default=0)
            nearest = [known[other] for other, size in lengths.items() if size == longest]
            # Of equally near texts any may be the one. A conversation may have a better one.
            least = min((shared(ids, other) for other in nearest), default=0)
            most = max((shared(ids, other) for other in known.values()), default=0)
            assert least <= kept <= most, (kept, least, most)
            known[data] = ids
            texts.append(text)
        check_store(store)
        for stored in store._texts:
            expected = tokenizer.encode(text_of(stored), allowed_special=choice)
            assert stored.all_ids().tolist() == expected


def test_a_conversation_with_rewritten_ends_is_one_session(cl100k):
    store, text, ends = PrefixStore(cl100k), "You are a miller. " * 200, []
    for turn in range(60):
        ids, kept = store.encode(text + "<think>\n")
        assert ids.tolist() == cl100k.encode(text + "<think>\n")
        assert turn == 0 or kept >= ends[-1] - 8
        ends.append(len(ids))
        text += f"Turn {turn} grinds wheat.\n"
    assert len(store._conversations) == 1 and len(store) == 60
    # An earlier turn, of which all ids are known.
    first = "You are a miller. " * 200 + "<think>\n"
    assert store.encode(first)[1] == ends[0]
    assert store.encode(first + "hm")[1] >= ends[0] - 1


def test_texts_that_share_a_beginning_are_all_stored(cl100k):
    store, system = PrefixStore(cl100k), "You are a miller. " * 500
    texts = [f"{system}Question {number}: how?" for number in range(50)]
    for text in texts:
        store.encode(text)
    for text in texts:
        ids, kept = store.encode(text + " And why?")
        assert kept >= len(cl100k.encode(text)) - 1 and ids.tolist() == cl100k.encode(
            text + " And why?"
        )
    check_store(store)


def test_memory_is_bounded_and_the_oldest_conversations_go(cl100k):
    store = PrefixStore(cl100k, memory=400_000)
    texts = [f"{number} " + "the mill grinds wheat and rye. " * 100 for number in range(200)]
    for text in texts:
        store.encode(texts[0])  # in use
        assert store.encode(text)[0].tolist() == cl100k.encode(text)
        assert store.memory <= 400_000
        check_store(store)
    assert store.encode(texts[0])[1] > 100 and store.encode(texts[-1])[1] > 100
    assert store.encode(texts[1])[1] < 3
    assert 10 < len(store) < 100
    store.clear()
    assert (len(store), store.memory) == (0, 0)
    # A text that is larger than the limit is not stored.
    small = PrefixStore(cl100k, memory=1000)
    assert small.encode(texts[0])[0].tolist() == cl100k.encode(texts[0])
    assert (len(small), small.memory) == (0, 0)


def test_threads_share_a_store(cl100k):
    store = PrefixStore(cl100k, memory=3_000_000)
    beginnings = [f"{number % 3} miller {number}. " * 300 for number in range(9)]

    def converse(number: int) -> None:
        rng, text = random.Random(f"{SEED} {number}"), beginnings[number % 9]
        for _ in range(max(20, examples(100))):
            text += rng.choice([" wheat", " and rye", "\n\n", " 12", "é" * 40_000][::1])[:200]
            end = rng.choice(["<think>\n", "", "x" * 300])
            assert store.encode(text + end)[0].tolist() == cl100k.encode(text + end)
            if rng.random() < 0.05:
                long = text + "rye and wheat " * 20_000  # encoded without the lock
                assert store.encode(long)[0].tolist() == cl100k.encode(long)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(converse, range(16)))
    check_store(store)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("is_locked", [False, True])
def test_a_forked_child_can_use_the_store(cl100k, is_locked):
    """Also if another thread of the parent is changing the store at that moment."""
    store, text = PrefixStore(cl100k), "the mill grinds wheat. " * 50
    ids, _ = store.encode(text)
    if is_locked:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(store._lock.acquire).result()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            found, kept = store.encode(text + "rye")
            is_right = found.tolist() == cl100k.encode(text + "rye")
            os._exit(0 if is_right and kept == (0 if is_locked else len(ids) - 1) else 1)
        os._exit(2)
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended == (child, 0)
    if is_locked:
        store._lock.release()
    assert store.encode(text)[1] == len(ids)


def test_a_text_that_cannot_be_encoded_changes_nothing(tmp_path):
    path = tmp_path / "small.tiktoken"
    path.write_bytes(b"YQ== 0\nYg== 1\n")  # the tokens a and b
    store = PrefixStore(Tokenizer.load(path, pattern=LETTERS_ONLY + "|."))
    assert store.encode("ab" * 100)[1] == 0
    for text in ("ab" * 100 + "c", "c", "ab" * 50_000 + "c"):
        with pytest.raises(VocabularyError):
            store.encode(text)
    assert store.encode("ab" * 100 + "a")[1] == 200
    check_store(store)


def test_arguments_are_checked(cl100k):
    with pytest.raises(OptionError, match=r"memory must be 0 or more \(bytes\), not -1"):
        PrefixStore(cl100k, memory=-1)
    with pytest.raises(TypeError, match=r"memory must be an int \(bytes\), not 1\.5"):
        PrefixStore(cl100k, memory=1.5)
    with pytest.raises(TypeError, match=r"expected a Tokenizer from Tokenizer\.load, got 'gpt2'"):
        PrefixStore("gpt2")
    with pytest.raises(UnknownTokenError):
        PrefixStore(cl100k, allowed_special={"<x>"})
    with pytest.raises(TypeError, match="a text must be a str or bytes-like"):
        PrefixStore(cl100k).encode(5)
    with pytest.raises(TypeError, match="with items of 8 bytes; to turn ids into text use decode"):
        PrefixStore(cl100k).encode(np.array([5]))
    store = PrefixStore(cl100k)
    assert store.encode("a\ud800")[0].tolist() == cl100k.encode("a\ufffd")
    assert repr(store).startswith("<PrefixStore of 'cl100k_base': 1 texts, ")
    again = pickle.loads(pickle.dumps(store))
    assert (len(again), again.encode("a")[1]) == (0, 0)
