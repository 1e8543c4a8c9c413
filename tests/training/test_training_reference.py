"""The reference implementations of training are equal to each other and to the lesson."""

from collections import Counter

import pytest
import sentencepiece_reference
import training_cases
import training_reference
from conftest import SEED, examples

from tokenmill import reference

each_trainer = pytest.mark.parametrize("trainer", training_reference.TRAINERS)


def counted(case):
    return training_reference.count(case.documents, case.pattern)


@each_trainer
def test_fast_reference_equals_the_slow_one(trainer):
    for round, case in enumerate(training_cases.with_options(max(20, examples(150)))):
        alphabet = range(256) if case.all_bytes else ()
        slow, fast = (
            training_reference.train(
                counted(case),
                case.vocab_size,
                trainer,
                case.special_tokens,
                case.min_frequency,
                case.max_token_length,
                alphabet,
                learn=learn,
            )
            for learn in (training_reference.learn, training_reference.learn_fast)
        )
        assert slow == fast, f"round {round}, TOKENMILL_SEED={SEED}"


def test_reference_equals_the_lesson():
    for case in training_cases.plain(max(10, examples(60))):
        twin = training_reference.train(counted(case), case.vocab_size, "rustbpe")
        assert twin.tokens == reference.train(case.documents, case.pattern, case.vocab_size)


@each_trainer
def test_every_merge_makes_a_new_string_and_counts_never_rise(trainer):
    for case in training_cases.plain(max(10, examples(100))):
        trained = training_reference.train(counted(case), 1256, trainer)
        assert trained.counts == sorted(trained.counts, reverse=True)
        assert min(trained.counts, default=1) > 0
        assert len(trained.tokens) == 256 + len(trained.merges)


@each_trainer
def test_vocabulary_counts_everything(trainer):
    case = training_cases.real(max(30_000, examples(60_000)))
    trained = training_reference.train(counted(case), 500, trainer, ["<s>", "</s>"])
    assert len(trained.tokens) + len(trained.special_tokens) == 500
    ids = [*trained.tokens.values(), *trained.special_tokens.values()]
    assert sorted(ids) == list(range(500))


def test_trainers_break_ties_differently():
    """One corpus, four rules, and each rule's own first merge."""
    counts = {b"xy": 2, b"ab": 2, b"\xff\x01": 2}
    first = {
        trainer: training_reference.train(counts, 1000, trainer).merges[0]
        for trainer in training_reference.TRAINERS
    }
    assert first == {
        "tokenizers": (b"a", b"b"),  # the character of byte 255 is ÿ, after those of ASCII
        "rustbpe": (b"a", b"b"),
        "cs336": (b"\xff", b"\x01"),
        "minbpe": (b"x", b"y"),
    }
    letters = {b"\x01a": 2, b"!a": 2}  # byte 1 is ā for tokenizers, after the exclamation mark
    assert training_reference.train(letters, 1000, "tokenizers").merges[0] == (b"!", b"a")
    assert training_reference.train(letters, 1000, "rustbpe").merges[0] == (b"\x01", b"a")


def test_counts_beyond_32_bits_are_right():
    counts = {b"ab": 2**40, b"cd": 2**40 + 1, b"ef": 2**31 + 5}
    merges = training_reference.train(counts, 1000, "rustbpe")
    assert merges.merges == [(b"c", b"d"), (b"a", b"b"), (b"e", b"f")]
    assert merges.counts == [2**40 + 1, 2**40, 2**31 + 5]


def test_sentencepiece_references_are_equal():
    for lines, size, options in training_cases.lines(max(20, examples(150))):
        chosen = sentencepiece_reference.Options(**options)
        sentences = (sentencepiece_reference.normalised(line, chosen) for line in lines)
        words = Counter(w for s in sentences for w in sentencepiece_reference.split(s))
        slow = sentencepiece_reference.merge(words, size, chosen)
        assert slow == sentencepiece_reference.merge_fast(words, size, chosen), (
            f"TOKENMILL_SEED={SEED}"
        )
