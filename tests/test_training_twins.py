"""The twins of training agree with one another and with the lesson: oracles need a check, too."""

from collections import Counter

import pytest
import sentencepiece_twin
import training_cases
import training_twin
from conftest import SEED

from tokenmill import reference

each_ties = pytest.mark.parametrize("ties", training_twin.TIES)


def counted(case):
    return training_twin.count(case.documents, case.pattern)


@each_ties
def test_fast_twin_learns_what_the_slow_one_does(ties):
    for round, case in enumerate(training_cases.with_options(150)):
        alphabet = range(256) if case.all_bytes else ()
        slow, fast = (
            training_twin.train(
                counted(case),
                case.vocab_size,
                ties,
                case.specials,
                case.min_frequency,
                case.max_token_length,
                alphabet,
                learn=learn,
            )
            for learn in (training_twin.learn, training_twin.learn_fast)
        )
        assert slow == fast, f"round {round}, TOKENMILL_SEED={SEED}"


def test_twin_learns_what_the_lesson_does():
    for case in training_cases.plain(60):
        twin = training_twin.train(counted(case), case.vocab_size, "rustbpe")
        assert twin.tokens == reference.train(case.documents, case.pattern, case.vocab_size)


@each_ties
def test_every_merge_makes_a_new_string_and_counts_never_rise(ties):
    for case in training_cases.plain(100):
        trained = training_twin.train(counted(case), 1256, ties)
        assert trained.counts == sorted(trained.counts, reverse=True)
        assert min(trained.counts, default=1) > 0
        assert len(trained.tokens) == 256 + len(trained.merges)


@each_ties
def test_vocabulary_counts_everything(ties):
    case = training_cases.real(60_000)
    trained = training_twin.train(counted(case), 500, ties, ["<s>", "</s>"])
    assert len(trained.tokens) + len(trained.specials) == 500
    ids = [*trained.tokens.values(), *trained.specials.values()]
    assert sorted(ids) == list(range(500))


def test_ties_are_told_apart():
    """One corpus, four rules, and each rule's own first merge."""
    counts = {b"xy": 2, b"ab": 2, b"\xff\x01": 2}
    first = {ties: training_twin.train(counts, 1000, ties).merges[0] for ties in training_twin.TIES}
    assert first == {
        "huggingface": (b"a", b"b"),  # the letter of byte 255 is ÿ, behind those of ASCII
        "rustbpe": (b"a", b"b"),
        "cs336": (b"\xff", b"\x01"),
        "minbpe": (b"x", b"y"),
    }
    letters = {b"\x01a": 2, b"!a": 2}  # byte 1 is ā for tokenizers, behind the exclamation mark
    assert training_twin.train(letters, 1000, "huggingface").merges[0] == (b"!", b"a")
    assert training_twin.train(letters, 1000, "rustbpe").merges[0] == (b"\x01", b"a")


def test_counts_beyond_32_bits_are_right():
    counts = {b"ab": 2**40, b"cd": 2**40 + 1, b"ef": 2**31 + 5}
    merges = training_twin.train(counts, 1000, "rustbpe")
    assert merges.merges == [(b"c", b"d"), (b"a", b"b"), (b"e", b"f")]
    assert merges.counts == [2**40 + 1, 2**40, 2**31 + 5]


def test_sentencepiece_twins_agree():
    for lines, size, options in training_cases.lines(150):
        chosen = sentencepiece_twin.Options(**options)
        sentences = (sentencepiece_twin.normalised(line, chosen) for line in lines)
        words = Counter(w for s in sentences for w in sentencepiece_twin.split(s))
        slow = sentencepiece_twin.merge(words, size, chosen)
        assert slow == sentencepiece_twin.merge_fast(words, size, chosen), f"TOKENMILL_SEED={SEED}"
