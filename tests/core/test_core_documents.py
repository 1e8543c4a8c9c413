"""Blocks of bytes → documents, in the core: as plain Python splits, decodes and sums them."""

from __future__ import annotations

import random
import threading

import hard_inputs
import numpy as np
import pytest
import xxhash
from buffers import numbers, pieces
from conftest import FIXTURES, SEED, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill import Tokenizer, _native

# ── separators ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("separator", [b"\n", b"\n\n", b"<|end|>", b"aba", b"", b"-" * 50])
def test_split_is_that_of_bytes(separator):
    rng = random.Random(SEED)
    alphabet = [separator, b"a", b"b", b"\n", b"ab", b"-", b"x" * 40, b""]
    for _ in range(examples(500)):
        data = b"".join(rng.choices(alphabet, k=rng.randrange(40)))
        whole = data.split(separator) if separator else [data]
        for is_last in (True, False):
            spans, used = _native.split_documents(data, separator, is_last)
            expected = whole if is_last and whole[-1] else whole[:-1]
            assert pieces(data, spans) == expected
            assert used == (len(data) if is_last else len(data) - len(whole[-1]))


def test_encode_block_equals_encode_documents(tokenizers):
    core = tokenizers["cl100k_base"]._core
    data = b"".join(path.read_bytes() for path in FIXTURES)
    for separator in (b"\n\n", b"\n", b". ", b"nowhere"):
        for is_last in (True, False):
            spans, _ = _native.split_documents(data, separator, is_last)
            ids, offsets = core.encode_block(data, spans, None, 1)
            got, ends = core.encode_documents(data, spans, None, b"", b"", False, 1)
            assert bytes(got) == bytes(ids)
            assert [0, *numbers(ends)] == numbers(offsets)


# ── UTF-8 ────────────────────────────────────────────────────────────────────────────────────


def is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def check_utf8(texts: list[bytes]) -> None:
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    spans = np.stack([ends - [len(text) for text in texts], ends], axis=1)
    expected = [index for index, text in enumerate(texts) if not is_utf8(text)]
    assert numbers(_native.utf8_problems(b"".join(texts), spans)) == expected


def test_utf8_check_equals_python():
    rng = random.Random(SEED)
    edges = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF]
    edges += [0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
    texts = [bytes([a, b]) for a in range(256) for b in range(256)]
    texts += [bytes([a, b, c]) for a in edges for b in edges for c in edges]
    texts += [bytes(rng.choices(edges, k=4)) for _ in range(examples(20_000))]
    check_utf8(texts)
    # At every place of the vectors, and cut off by the end.
    good = "aé中🌾".encode()
    for bad in rng.sample(texts, examples(300)):
        check_utf8([b"x" * n + bad + b"y" * (70 - n) for n in range(70)])
        check_utf8([b"x" * n + bad for n in range(70)])
        check_utf8([(good * 9)[:n] + bad + good * 9 for n in range(80)])
    check_utf8([(good * 20)[:n] for n in range(200)])


@settings(max_examples=max(20, examples(100)))
@given(st.lists(st.binary(max_size=100) | st.text(max_size=100).map(str.encode)))
def test_utf8_of_any_bytes(texts):
    if texts:
        check_utf8(texts)


def test_utf8_of_the_fixtures():
    check_utf8([path.read_bytes() for path in FIXTURES] + list(map(bytes, hard_inputs.BYTES)))


# ── ids of documents ─────────────────────────────────────────────────────────────────────────


def expected_of(tokenizer: Tokenizer, texts: list[bytes], before: list[int], after: list[int]):
    ragged = tokenizer.encode_ragged(texts, threads=1)
    ids: list[int] = []
    ends = []
    for start, end in zip(ragged.offsets[:-1], ragged.offsets[1:], strict=True):
        ids += before + ragged.ids[start:end].tolist() + after
        ends.append(len(ids))
    return ids, ends


@pytest.mark.parametrize("name", ["r50k_base", "o200k_base"])
@pytest.mark.parametrize("round_", range(3))
def test_encode_documents_is_encode_ragged_with_ids_around(tokenizers, name, round_):
    rng = random.Random(SEED + round_)
    tokenizer = tokenizers[name]
    data = b"".join(rng.choice(FIXTURES).read_bytes()[:60_000] for _ in range(8))
    texts, start, places = [], 0, []
    while start < len(data):
        end = min(len(data), start + int(10 ** rng.uniform(0, 5.3)) - 1)
        texts.append(data[start:end])
        places.append((start, end))
        # Documents may be anywhere and may overlap.
        start = end + rng.randrange(5)
    spans = np.array(places, dtype=np.int64)
    try:
        for before, after in (([], []), ([7], []), ([], [50256]), ([1, 2], [3, 4, 5])):
            ids, ends = expected_of(tokenizer, texts, before, after)
            around = [np.array(some, dtype=np.uint32).tobytes() for some in (before, after)]
            for threads in (1, 2, 5):
                _native.use_job_bytes(int(10 ** rng.uniform(2.5, 5.7)))
                for narrow in (False, True)[: 2 if name == "r50k_base" else 1]:
                    got, got_ends = tokenizer._core.encode_documents(
                        data, spans, None, *around, narrow, threads
                    )
                    assert memoryview(got).format == ("H" if narrow else "I")
                    assert numbers(got_ends) == ends
                    assert numbers(got) == ids
    finally:
        _native.use_job_bytes(512 << 10)


def test_encode_documents_takes_spans_as_they_come(tokenizers):
    core = tokenizers["r50k_base"]._core
    data = b"one two three"
    empty = core.encode_documents(data, np.empty((0, 2), np.int64), None, b"", b"", True, 2)
    assert [numbers(some) for some in empty] == [[], []]
    spans = np.array([[0, 0], [13, 13], [0, 13], [4, 7], [0, 3]])
    ids, ends = core.encode_documents(data, spans, None, b"", b"\1\0\0\0", False, 1)
    assert numbers(ends)[:2] == [1, 2]
    assert numbers(ids)[:2] == [1, 1]
    for same in (spans.reshape(-1), memoryview(spans), memoryview(spans.tobytes()).cast("q")):
        got = core.encode_documents(data, same, None, b"", b"\1\0\0\0", False, 1)
        assert [bytes(some) for some in got] == [bytes(ids), bytes(ends)]


@given(st.binary(min_size=1, max_size=200))
def test_newlines_are_counted(part):
    some = part + b"\n"
    many = some * (1 + (1 << 17) // len(some))  # counted without the GIL
    for data in (some, many, memoryview(many)[1:]):
        assert _native.count_newlines(data) == bytes(data).count(b"\n")


@pytest.mark.parametrize(
    "span", [(-1, 2), (0, 14), (3, 2), (14, 14), (-(2**63), 2**63 - 1), (2**63 - 1, 2**63 - 1)]
)
def test_spans_outside_the_data_are_rejected(tokenizers, span):
    core = tokenizers["r50k_base"]._core
    spans = np.array([(0, 3), span, (0, 1)], dtype=np.int64)
    message = f"span {span[0]} to {span[1]} is outside the data, which has 13 bytes"
    with pytest.raises(ValueError, match=message):
        core.encode_documents(b"one two three", spans, None, b"", b"", False, 1)
    with pytest.raises(ValueError, match=message):
        _native.utf8_problems(b"one two three", spans)


def test_spans_of_another_type_are_rejected(tokenizers):
    core = tokenizers["r50k_base"]._core
    good = np.array([[0, 1]], dtype=np.int64)
    for wrong in (
        *(good.astype(kind) for kind in (np.int32, np.uint64, np.float64, np.int8)),
        *(np.array([0, 1, 2]), b"", good.tobytes()),
    ):
        with pytest.raises(TypeError, match="spans must be pairs of i64 numbers"):
            core.encode_documents(b"one", wrong, None, b"", b"", False, 1)
        with pytest.raises(TypeError, match="spans must be pairs of i64 numbers"):
            _native.utf8_problems(b"one", wrong)
    with pytest.raises(TypeError):
        _native.utf8_problems(b"one", [(0, 1)])
    with pytest.raises((BufferError, ValueError)):  # numpy's error
        _native.utf8_problems(b"one two", np.arange(8)[::2])


def test_ids_above_16_bits_are_rejected_for_16_bit_output(tokenizers):
    spans = np.array([[0, 1]])
    with pytest.raises(ValueError, match="does not fit into 16 bits"):
        tokenizers["o200k_base"]._core.encode_documents(b"a", spans, None, b"", b"", True, 1)
    core = tokenizers["r50k_base"]._core
    for number, fits in ((65_535, True), (65_536, False)):
        edge = np.array([number], np.uint32)
        if fits:
            assert numbers(core.encode_documents(b"a", spans, None, edge, b"", True, 1)[0])
            continue
        for before, after in ((edge, b""), (b"", edge)):
            with pytest.raises(ValueError, match="id 65536 does not fit into 16 bits"):
                core.encode_documents(b"a", spans, None, before, after, True, 1)


# ── checksums ────────────────────────────────────────────────────────────────────────────────


def test_checksums_are_those_of_xxhash():
    rng = random.Random(SEED)
    data = rng.randbytes(70_000)
    assert _native.Checksum().value() == xxhash.xxh3_64_intdigest(b"")
    for length in [*range(1100), 2047, 2048, 2049, 4096, 65_536, 70_000]:
        checksum = _native.Checksum()
        checksum.update(data[:length])
        assert checksum.value() == xxhash.xxh3_64_intdigest(data[:length]), length


def test_checksums_in_pieces():
    rng = random.Random(SEED)
    data = rng.randbytes(20_000)
    for _ in range(examples(300)):
        checksum, twin_ = _native.Checksum(), xxhash.xxh3_64()
        at = 0
        while at < len(data):
            piece = data[at : at + int(10 ** rng.uniform(0, 3.7)) - 1]
            checksum.update(memoryview(piece))
            twin_.update(piece)
            at += max(1, len(piece))
            if rng.random() < 0.3:
                assert checksum.value() == twin_.intdigest()
        assert checksum.value() == twin_.intdigest()


def test_checksum_rejects_use_by_two_threads():
    data = bytes(64 << 20)
    checksum = _native.Checksum()
    outcomes: list[str] = []

    def work() -> None:
        try:
            checksum.update(data)
            outcomes.append("")
        except RuntimeError as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = outcomes.count("")
    assert set(outcomes) <= {"", "another thread is using this checksum"}
    assert checksum.value() == xxhash.xxh3_64_intdigest(data * done)


def test_checksum_accepts_only_bytes():
    with pytest.raises(TypeError):
        _native.Checksum().update(1)
    with pytest.raises(TypeError, match="takes 0 arguments"):
        _native.Checksum(1)  # type: ignore[call-arg]
