"""The core learns the merges of the reference for all trainers, threads and memory limits.

Tests of training/merging.py.
"""

import contextlib
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import training_cases
import training_reference
from conftest import SEED, examples, write_ranks

from tokenmill import Tokenizer
from tokenmill.errors import VocabularyError
from tokenmill.native import _native
from tokenmill.training.merging import Merging
from tokenmill.training.options import VOCAB_SIZE_MAX

each_trainer = pytest.mark.parametrize("trainer", training_reference.TRAINERS)
REAL_BYTES = max(100_000, examples(400_000))


def inventory(counts):
    lengths = np.array([len(word) for word in counts], np.uint32)
    return _native.Inventory(
        b"".join(counts), lengths, np.array(list(counts.values()), dtype=np.uint64)
    )


def learn(
    counts,
    alphabet,
    first_id,
    merges_max,
    trainer,
    min_frequency=0,
    max_token_length=None,
    taken=None,
    **options,
):
    """Return the result of training_reference.learn."""
    tokens = {id: bytes([byte]) for byte, id in alphabet.items()}
    tokens |= {id: token for token, id in (taken or {}).items()}
    with Merging(
        tokens=tokens,
        first_id=first_id,
        ids_end=first_id + merges_max,
        trainer=trainer,
        min_frequency=min_frequency,
        max_token_length=max_token_length,
        **options,
    ) as merging:
        merging.add(inventory(counts))
        merges, check = merging.run()
    assert check.min_tracked_count <= check.last_count or len(merges) == 0
    return merges[["left", "right", "count"]].tolist()


@each_trainer
def test_merges_equal_the_reference(trainer):
    for round, case in enumerate(training_cases.with_options(max(20, examples(200)))):
        rng = random.Random(f"{SEED} {round}")
        threads, memory = rng.choice([1, 2, 3]), rng.choice([0, 0, 1, 100_000])
        counts = training_reference.count(case.documents, case.pattern)
        alphabet = range(256) if case.all_bytes else ()
        slow, fast = (
            training_reference.train(
                counts,
                case.vocab_size,
                trainer,
                case.special_tokens,
                case.min_frequency,
                case.max_token_length,
                alphabet,
                learn=function,
            )
            for function in (
                training_reference.learn_fast,
                lambda *given, t=threads, m=memory: learn(*given, threads=t, memory=m),
            )
        )
        assert slow == fast, f"round {round}, TOKENMILL_SEED={SEED}"


@each_trainer
def test_merges_of_real_text_equal_the_reference_at_every_memory_level(trainer, tmp_path):
    real = training_cases.real(REAL_BYTES)
    counts = training_reference.count(real.documents, real.pattern)
    alphabet = {byte: byte for byte in range(256)}
    count = max(1000, examples(3000))
    expected = training_reference.learn_fast(counts, alphabet, 256, count, trainer)
    memory = (2 << 20) * REAL_BYTES // 400_000  # for some of the words
    for options in (
        {},
        {"threads": 2},
        {"threads": 2, "memory": 1},
        {"threads": 2, "memory": memory},
        {"threads": 2, "memory": 1, "spill": tmp_path},
        {"threads": 2, "memory": memory, "spill": tmp_path},
    ):
        assert learn(counts, alphabet, 256, count, trainer, **options) == expected


def test_ids_beyond_two_bytes_are_learned_the_same():
    counts = training_reference.count(training_cases.real(REAL_BYTES).documents, r"\S+")
    narrow = learn(counts, {byte: byte for byte in range(256)}, 256, 2000, "rustbpe")
    shift = 70_000
    wide = learn(counts, {byte: byte + shift for byte in range(256)}, shift + 256, 2000, "rustbpe")
    assert [(left - shift, right - shift, count) for left, right, count in wide] == narrow


def test_counts_beyond_32_bits_are_exact():
    counts = {b"ab": 2**40, b"abc": 2**33 + 1, b"bc": 2**33, b"aaa": 2**61}
    merges = learn(counts, {97: 0, 98: 1, 99: 2}, 3, 9, "rustbpe")
    assert merges[:3] == [(0, 0, 2**62), (3, 0, 2**61), (0, 1, 2**40 + 2**33 + 1)]
    assert merges == training_reference.learn(counts, {97: 0, 98: 1, 99: 2}, 3, 9, "rustbpe")


def test_overflowing_counts_are_rejected():
    with pytest.raises(ValueError, match="2\\^63"):
        learn({b"abc": 2**62}, {97: 0, 98: 1, 99: 2}, 3, 9, "rustbpe")


def test_counts_file_gives_the_same_merges(tmp_path):
    counts = training_reference.count(training_cases.real(REAL_BYTES).documents, r"\S+")
    path = tmp_path / "counts.tmc"
    inventory(dict(sorted(counts.items()))).write(str(path), b"{}")
    tokens = {byte: bytes([byte]) for byte in range(256)}
    found = []
    for source in (inventory(counts), _native.CountsFile(str(path))):
        merging = Merging(
            tokens=tokens,
            first_id=256,
            ids_end=1256,
            trainer="rustbpe",
            threads=3,
        )
        merging.add(source)
        merges, _ = merging.run()
        found.append(merges.tolist())
    assert found[0] == found[1]


def test_words_of_ids_resume_at_the_end_of_an_earlier_run():
    counts = training_reference.count(training_cases.real(REAL_BYTES).documents, r"\S+")
    alphabet = {byte: byte for byte in range(256)}
    whole = learn(counts, alphabet, 256, 1500, "rustbpe")
    tokens = {byte: bytes([byte]) for byte in range(256)}
    words = [list(word) for word in counts]
    for id, (left, right, _) in enumerate(whole[:700], 256):
        tokens[id] = tokens[left] + tokens[right]
        for word in words:
            training_reference.reference.replace(word, left, right, id)
    merging = Merging(
        tokens=tokens,
        first_id=956,
        made_from=256,
        ids_end=1756,
        trainer="rustbpe",
        threads=2,
    )
    merging.add_ids(
        np.array([id for word in words for id in word], np.uint32),
        np.array(list(map(len, words)), np.uint32),
        np.array(list(counts.values()), np.uint64),
    )
    rest, _ = merging.run()
    assert rest[["left", "right", "count"]].tolist() == whole[700:]


def test_progress_callback_can_read_the_merges():
    counts = training_reference.count(training_cases.real(REAL_BYTES).documents, r"\S+")
    told = []
    merging = Merging(
        tokens={byte: bytes([byte]) for byte in range(256)},
        first_id=256,
        ids_end=3000,
        trainer="rustbpe",
        memory=1,
    )
    merging.add(inventory(counts))
    merges, _ = merging.run(lambda done, count: told.append((done, count, merging.merges())))
    assert [done for done, *_ in told] == sorted(done for done, *_ in told)
    for done, count, so_far in told:
        assert len(so_far) == done
        assert so_far.tolist() == merges[:done].tolist()
        assert done == 0 or so_far["count"][-1] == count


def test_an_exception_of_progress_ends_the_run():
    def stop(done, count):
        raise KeyError("enough")

    merging = Merging(
        tokens={97: b"a", 98: b"b"},
        first_id=99,
        ids_end=200,
        trainer="rustbpe",
        threads=2,
    )
    merging.add(inventory({b"ab": 1}))
    with pytest.raises(KeyError, match="enough"):
        merging.run(stop)
    with pytest.raises(RuntimeError, match="has already run"):
        merging.run()


@contextlib.contextmanager
def interrupted(seconds: float) -> Iterator[None]:
    """Raise KeyboardInterrupt inside after a time, and expect it."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
            time.sleep(seconds + 1)  # a fast machine has finished
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_interrupt_ends_a_run():
    rng = np.random.default_rng(0)
    words = {bytes(rng.integers(97, 123, 12, np.uint8)): 1 for _ in range(100_000)}
    merging = Merging(
        tokens={byte: bytes([byte]) for byte in range(256)},
        first_id=256,
        ids_end=1 << 20,
        trainer="rustbpe",
        memory=1,
        threads=2,
    )
    merging.add(inventory(words))
    start = time.monotonic()
    with interrupted(0.3):
        merging.run()
    assert time.monotonic() - start < 10


def test_interrupt_ends_a_run_with_uneven_threads():
    word = bytes(np.random.default_rng(0).integers(97, 123, 4_000_000, np.uint8))
    for words in ({word: 1}, {bytes([a, b]) * 200_000: 1 for a in range(20) for b in range(9)}):
        merging = of_bytes(ids_end=1 << 18, threads=2)
        for entry in words.items():
            merging.add(inventory(dict([entry])))
        start = time.monotonic()
        with interrupted(0.3):
            merging.run()
        assert time.monotonic() - start < 5


def of_bytes(**options):
    return Merging(
        **{
            "tokens": {byte: bytes([byte]) for byte in range(256)},
            "first_id": 256,
            "ids_end": 1000,
            "trainer": "rustbpe",
        }
        | options
    )


def learn_again(words, counts, tokens, first_id, ids_end, trainer):
    """The reference for words of any tokens: a merge that spells one of those reuses it."""
    words, tokens = [list(word) for word in words], dict(tokens)
    known = {token: id for id, token in reversed(tokens.items())}
    merges, new = [], first_id
    while new < ids_end:
        found = Counter()  # in order of first occurrence
        for word, count in zip(words, counts, strict=True):
            for pair in pairwise(word):
                found[pair] += count
        if not found:
            break
        equals = [pair for pair in found if found[pair] == max(found.values())]
        if trainer == "rustbpe":
            equals.sort()
        if trainer == "cs336":
            equals = sorted(sorted(equals), key=lambda p: [tokens[id] for id in p], reverse=True)
        left, right = equals[0]
        id = known.get(tokens[left] + tokens[right], new)
        new += id == new
        tokens[id] = tokens[left] + tokens[right]
        merges.append((left, right, id, found[left, right]))
        for word in words:
            training_reference.reference.replace(word, left, right, id)
    return merges


@pytest.mark.parametrize("trainer", ["rustbpe", "cs336", "minbpe"])
def test_existing_tokens_are_reused(trainer):
    for round in range(examples(300)):
        rng = random.Random(f"{SEED} {round}")
        texts = [b"a", b"b", b"c"][: rng.choice([2, 3])]
        for _ in range(rng.choice([0, 1, 3, 6])):
            texts.append(rng.choice(texts) + rng.choice(texts))
        tokens = dict(enumerate(dict.fromkeys(texts)))
        first_id, ids_end = len(tokens), len(tokens) + rng.choice([5, 30])
        words = [
            [rng.randrange(first_id) for _ in range(rng.choice([1, 2, 5, 9, 30]))]
            for _ in range(rng.choice([1, 3, 10, 40]))
        ]
        counts = [rng.choice([1, 1, 2, 3, 5]) for _ in words]
        merging = Merging(
            tokens=tokens,
            first_id=first_id,
            ids_end=ids_end,
            trainer=trainer,
            threads=rng.choice([1, 2, 3]),
            memory=rng.choice([0, 0, 1, 5000]),
            revives=True,
        )
        merging.add_ids(
            np.array([id for word in words for id in word], np.uint32),
            np.array([len(word) for word in words], np.uint32),
            np.array(counts, np.uint64),
        )
        merges, _ = merging.run()
        expected = learn_again(words, counts, tokens, first_id, ids_end, trainer)
        assert merges.tolist() == expected, f"round {round}, TOKENMILL_SEED={SEED}"


def test_merges_cannot_be_read_during_a_run_on_another_thread():
    merging = of_bytes(ids_end=30_000, memory=1)
    rng = np.random.default_rng(0)
    merging.add(inventory({bytes(rng.integers(97, 123, 12, np.uint8)): 1 for _ in range(20_000)}))
    refused, stopped = Counter(), threading.Event()

    def look():
        while not stopped.is_set():
            for ask in (merging.merges, merging._learner.certificate):
                try:
                    ask()
                except RuntimeError as error:
                    refused[str(error)] += 1

    other = threading.Thread(target=look)

    def progress(done, count):
        if not other.is_alive():
            other.start()
        if done > 300:
            raise KeyError("enough")

    with pytest.raises(KeyError):
        merging.run(progress)
    stopped.set()
    other.join()
    assert list(refused) == ["another thread is using this learner"]


def test_counts_file_rejects_two_readers(tmp_path):
    path = tmp_path / "counts.tmc"
    counts = {number.to_bytes(4, "big"): 1 + number for number in range(200_000)}
    inventory(counts).write(str(path), b"{}")
    file = _native.CountsFile(str(path))
    others = [threading.Thread(target=of_bytes().add, args=(file,)) for _ in range(3)]
    for other in others:
        other.start()
        try:
            assert file.load().total() == sum(counts.values())
        except RuntimeError as error:
            assert "another thread is reading" in str(error)
        other.join()


@pytest.mark.parametrize(
    "options",
    [
        {"tokens": {256: b"ab"}},
        {"tokens": {256: b"a"}},
        {"min_frequency": -1},
        {"threads": -1},
        {"first_id": 2**24 + 1},
    ],
)
def test_invalid_numbers_are_rejected(options):
    with pytest.raises(ValueError):
        of_bytes(**options)


def test_the_largest_vocabulary_can_be_loaded(tmp_path):
    """A larger one would be trained for hours, and then refused."""
    with of_bytes(ids_end=VOCAB_SIZE_MAX) as merging:
        merging.add(inventory({b"ab": 2}))
        assert len(merging.run()[0]) == 1
    with pytest.raises(ValueError, match=f"at most {VOCAB_SIZE_MAX} ids, got {VOCAB_SIZE_MAX + 1}"):
        of_bytes(ids_end=VOCAB_SIZE_MAX + 1)
    path = write_ranks(tmp_path / "ranks", [bytes([byte]) for byte in range(256)])
    ranks = path.read_text()
    path.write_text(f"{ranks}YWI= {VOCAB_SIZE_MAX - 1}\n")
    assert Tokenizer.load(path, pattern="o200k").encode("ab") == [VOCAB_SIZE_MAX - 1]
    path.write_text(f"{ranks}YWI= {VOCAB_SIZE_MAX}\n")
    with pytest.raises(VocabularyError, match=f"ids must be below {VOCAB_SIZE_MAX}"):
        Tokenizer.load(path, pattern="o200k")


def test_words_with_future_ids_are_rejected():
    merging, ones = of_bytes(), np.array([1], np.uint64)
    with pytest.raises(ValueError, match="unknown token id"):
        merging.add_ids(np.array([1, 256], np.uint32), np.array([2], np.uint32), ones)


def test_files_for_words_leave_other_files_alone(tmp_path):
    with of_bytes(memory=1, spill=tmp_path) as merging:
        merging.add(inventory({b"abc" * 50_000: 1, b"xyz": 2}))
    others = [(tmp_path / str(number)).open("w+b") for number in range(9)]
    for other in others:
        other.write(b"mine")
        other.flush()
    merges, _ = merging.run()
    assert len(merges) > 2
    assert [(tmp_path / str(number)).read_bytes() for number in range(9)] == [b"mine"] * 9
    for files in ([999_999], [2**32 - 1], [others[0].fileno()] * 2):
        with pytest.raises(ValueError, match=r"not open|a file per thread"):
            of_bytes(threads=len(files))._learner.spill(np.array(files, np.uint32))
    for other in others:
        other.close()
    with of_bytes(spill=tmp_path) as merging, pytest.raises(ValueError, match="before words"):
        merging._learner.spill(np.array([1], np.uint32))
