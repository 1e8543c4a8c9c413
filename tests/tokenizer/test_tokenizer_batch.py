"""Many texts → ids: arrays, batches and ragged arrays, the same for any number of threads.

Tests of tokenmill/tokenizer.py.
"""

from __future__ import annotations

import gc
import os
import random
import select
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import hard_inputs
import numpy as np
import pyarrow
import pytest
from conftest import FIXTURES, SEED, TEXT, examples

from tokenmill import Tokenizer
from tokenmill.errors import UnknownTokenError

THREADS = (1, 2, 3, 8)


@pytest.fixture(scope="module")
def mixed_texts(mixed_texts) -> list[str | bytes]:
    """All of these texts. By default long ones are cut, but they still make several jobs."""
    return [text[: max(20_000, examples(len(text)))] for text in mixed_texts]


# ── arrays, batches, ragged arrays ───────────────────────────────────────────────────────────


def test_encode_array_holds_the_ids_of_encode(tokenizer, name):
    for text in (TEXT, "", TEXT.encode(), b"\xff", *hard_inputs.SURROGATES):
        for special_tokens in (False, True):
            expected = tokenizer.encode(text, allowed_special=special_tokens)
            ids = tokenizer.encode_array(text, allowed_special=special_tokens)
            assert ids.dtype == np.uint32
            assert ids.tolist() == expected
            if tokenizer.vocab_size <= 65_536:
                small = tokenizer.encode_array(
                    text, allowed_special=special_tokens, dtype=np.uint16
                )
                assert small.dtype == np.uint16
                assert small.tolist() == expected


def test_encode_array_takes_a_dtype_by_name(tokenizers):
    assert tokenizers["r50k_base"].encode_array("a", dtype="uint16").dtype == np.uint16
    assert tokenizers["o200k_base"].encode_array("a", dtype="uint32").dtype == np.uint32


def test_encode_array_is_made_without_a_copy(cl100k):
    """The array looks into memory that the core has filled, so it does not own it."""
    ids = cl100k.encode_array(TEXT)
    assert ids.base is not None
    assert not ids.flags.owndata


def test_encode_is_independent_of_thread_count(cl100k, mixed_texts):
    expected = [cl100k.encode(text) for text in mixed_texts]
    for threads in (None, *THREADS):
        assert cl100k.encode_batch(mixed_texts, threads=threads) == expected


def test_specials_are_independent_of_thread_count(tokenizers, mixed_texts):
    tokenizer = tokenizers["o200k_harmony"]
    texts = [text for text in mixed_texts if isinstance(text, str)]
    expected = [tokenizer.encode(text, allowed_special=True) for text in texts]
    for threads in (None, *THREADS):
        assert tokenizer.encode_batch(texts, allowed_special=True, threads=threads) == expected


def test_ragged_is_independent_of_thread_count(cl100k, mixed_texts):
    expected = [cl100k.encode(text) for text in mixed_texts]
    for threads in (None, *THREADS):
        ragged = cl100k.encode_ragged(mixed_texts, threads=threads)
        assert [ids.tolist() for ids in ragged] == expected


def test_count_is_independent_of_thread_count(cl100k, mixed_texts):
    expected = [len(cl100k.encode(text)) for text in mixed_texts]
    for threads in (None, *THREADS):
        assert cl100k.count_batch(mixed_texts, threads=threads) == expected


def test_one_large_document_is_independent_of_thread_count(tokenizer):
    """Several megabytes of everything, in jobs of many sizes."""
    pieces = [data for _, data in hard_inputs.files(20_000)]
    fixtures = [path.read_bytes() for path in FIXTURES]
    pieces += [data[: max(15_000, examples(len(data)))] for data in fixtures]
    random.Random(SEED).shuffle(pieces)
    text = b" ".join(p.encode() if isinstance(p, str) else p for p in pieces)
    expected = tokenizer.encode_array(text)
    for threads in THREADS:
        got = tokenizer.encode_ragged([text], threads=threads).ids
        assert np.array_equal(got, expected), f"threads={threads} TOKENMILL_SEED={SEED}"


def test_general_engine_is_independent_of_thread_count(letters_only, mixed_texts):
    expected = [letters_only.encode(text) for text in mixed_texts]
    for threads in THREADS:
        assert letters_only.encode_batch(mixed_texts, threads=threads) == expected


def test_document_has_the_same_ids_in_any_order(cl100k, mixed_texts):
    order = list(range(len(mixed_texts)))
    random.Random(SEED).shuffle(order)
    ids = cl100k.encode_batch(mixed_texts)
    shuffled = cl100k.encode_batch([mixed_texts[i] for i in order])
    assert shuffled == [ids[i] for i in order]


def test_batches_take_any_iterable(cl100k):
    expected = [cl100k.encode("a b"), cl100k.encode(b"\xff")]
    for texts in (["a b", b"\xff"], ("a b", b"\xff"), iter(["a b", b"\xff"])):
        assert cl100k.encode_batch(texts) == expected
    assert cl100k.encode_batch(text for text in ("a b", b"\xff")) == expected
    assert cl100k.count_batch(iter(["a b"])) == [2]
    assert len(cl100k.encode_ragged(iter(["a b"]))) == 1


def test_empty_batch_is_empty(cl100k):
    assert cl100k.encode_batch([]) == []
    assert cl100k.count_batch([]) == []
    assert cl100k.decode_batch([]) == []
    ragged = cl100k.encode_ragged([])
    assert len(ragged) == 0
    assert ragged.offsets.tolist() == [0]
    assert ragged.ids.tolist() == []


def test_ragged_has_ids_and_offsets(cl100k):
    texts = ["", "a", TEXT, b"\xff\xff", ""]
    ragged = cl100k.encode_ragged(texts, allowed_special=True)
    expected = cl100k.encode_batch(texts, allowed_special=True)
    assert ragged.ids.dtype == np.uint32
    assert ragged.offsets.dtype == np.int64
    assert len(ragged) == 5
    assert len(ragged.offsets) == 6
    assert ragged.ids.tolist() == [id for ids in expected for id in ids]
    assert ragged.offsets.tolist() == np.cumsum([0, *map(len, expected)]).tolist()
    assert [ragged[index].tolist() for index in range(5)] == expected
    assert [ragged[index].tolist() for index in range(-5, 0)] == expected
    assert [ids.tolist() for ids in ragged] == expected
    for index in (5, -6):
        with pytest.raises(IndexError, match=str(index)):
            ragged[index]


def test_ragged_item_is_a_view(cl100k):
    ragged = cl100k.encode_ragged(["some text", "more text"])
    assert np.shares_memory(ragged[1], ragged.ids)
    assert not ragged.ids.flags.owndata
    assert not ragged.offsets.flags.owndata


def test_ragged_outlives_its_tokenizer():
    ragged = Tokenizer.load("r50k_base").encode_ragged(["some text", "more text"])
    item = ragged[1]
    expected = item.tolist()
    del ragged
    assert [bytes(1000) for _ in range(1000)]
    assert item.tolist() == expected


def test_arrow_reads_a_ragged_without_a_copy(cl100k):
    texts = ["", "a", TEXT, b"\xff\xff", ""]
    ragged = cl100k.encode_ragged(texts)
    imported = pyarrow.array(ragged)
    assert imported.type == pyarrow.large_list(pyarrow.uint32())
    imported.validate(full=True)
    assert imported.to_pylist() == cl100k.encode_batch(texts)
    assert imported.values.buffers()[1].address == ragged.ids.ctypes.data
    del ragged
    assert imported.to_pylist() == cl100k.encode_batch(texts)
    assert pyarrow.array(cl100k.encode_ragged([])).to_pylist() == []


# ── threads and forks ────────────────────────────────────────────────────────────────────────


def test_threads_share_a_tokenizer(cl100k, mixed_texts):
    expected = [cl100k.encode(text) for text in mixed_texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(cl100k.encode, mixed_texts)) == expected
        batches = pool.map(lambda _: cl100k.encode_batch(mixed_texts[:400], threads=2), range(8))
        assert all(batch == expected[:400] for batch in batches)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_encodes_while_the_parents_threads_run(cl100k):
    texts = [path.read_text(encoding="utf-8") for path in FIXTURES[:12]]
    expected = cl100k.encode_ragged(texts, threads=2).ids.tobytes()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            cl100k.encode_batch(texts, threads=2)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(max(2, examples(5))):
            got = _in_fork(lambda: cl100k.encode_ragged(texts, threads=2).ids.tobytes())
            assert got == expected
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def _in_fork(work) -> bytes:
    """The result of `work` in a forked child. A child that hangs is killed after 60 s."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pytest must not run here: always leave through _exit
        try:
            os.close(reading)
            result = work()
            while result:
                result = result[os.write(writing, result) :]
        finally:
            os._exit(0)
    os.close(writing)
    parts = []
    try:
        while True:
            ready, _, _ = select.select([reading], [], [], 60)
            if not ready:
                os.kill(child, signal.SIGKILL)
                pytest.fail("the forked child hangs")
            parts.append(os.read(reading, 1 << 16))
            if not parts[-1]:
                return b"".join(parts)
    finally:
        os.close(reading)
        os.waitpid(child, 0)


def test_errors_in_one_call_leave_the_next_one_alone(cl100k):
    for _ in range(100):
        with pytest.raises(UnknownTokenError):
            cl100k.decode([64, 10**6])
        with pytest.raises(TypeError):
            cl100k.encode_batch(["a", None, "b"])
        assert cl100k.encode_batch(["a", "b"]) == [[64], [65]]


def test_texts_are_left_as_they_are(cl100k):
    data = bytearray(TEXT.encode())
    texts = [TEXT, data]
    cl100k.encode_batch(texts)
    cl100k.truncate(data, 2)
    assert data == TEXT.encode()
    assert texts == [TEXT, data]
    data.append(1)  # a buffer that is still held could not grow


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_that_changes_during_a_call_changes_no_ids(cl100k, threads):
    """A signal handler runs in the middle of a long call, like another thread would."""
    before, after = b"The one. " * 400_000, b"Another? " * 400_000
    expected = cl100k.encode(before)
    data, calls = bytearray(before), []

    def change(*_: object) -> None:
        data[:] = after
        calls.append(True)

    previous = signal.signal(signal.SIGALRM, change)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        (ids,) = cl100k.encode_batch([data], threads=threads)
        signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert list(ids) == expected
    assert calls, "the call was too short"


def test_arrow_keeps_the_ids_when_everything_else_is_gone(cl100k):
    texts = [f"text {i}" * i for i in range(50)]
    imported = pyarrow.array(cl100k.encode_ragged(texts))
    values = imported.values  # the child lives on without its list
    gc.collect()
    assert imported.to_pylist() == cl100k.encode_batch(texts)
    del imported
    gc.collect()
    assert values.to_pylist() == [id for ids in cl100k.encode_batch(texts) for id in ids]


def test_signal_ends_a_long_call():
    """Ctrl-C does not wait for the end of the text.

    The call would take half a second. A checked core fills its 800 MB of room for ids before.
    """
    code = (
        "import signal; from tokenmill import Tokenizer; t = Tokenizer.load('gpt2');"
        "text = 'the quick brown fox ' * 1_000_000;"
        "signal.signal(signal.SIGALRM, signal.default_int_handler);"
        "signal.setitimer(signal.ITIMER_REAL, 0.05);"
        "t.encode_batch([text] * 10, threads=2)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "KeyboardInterrupt" in done.stderr
