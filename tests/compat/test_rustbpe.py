"""tokenmill.compat.rustbpe → the results and exceptions of rustbpe, for the same calls."""

from __future__ import annotations

import inspect
import pickle

import hard_inputs
import numpy as np
import pytest
import rustbpe as theirs
from conftest import examples, sample
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tokenmill.compat.rustbpe as ours
from tokenmill.patterns.schemes import PATTERNS

pytestmark = pytest.mark.filterwarnings("ignore:the text contains only")

# No halves of surrogate pairs, which are an error.
HARD = [text for text in hard_inputs.STRINGS if text.isascii() or text.isprintable()]
TEXTS = [
    "the mill mills the meal at the mill",
    "grain goes in, and tokens come out. 1994 mills aren't 12345",
    "naïve 中文 🙂🙂\n\n  'LL\t  ",
    "a" * 40,
    "",
    *sample(HARD[:200]),
]
NANOCHAT = PATTERNS["nanochat"][0]
# Text outside the matches of the third pattern has no ids. The last one matches no text at all.
EXPRESSIONS = [None, NANOCHAT, "[a-m]+", r"\w+|\s", "(?i)THE|.", "the", "llama3", ""]
# Patterns of fancy-regex, right or wrong, with the same outcome in both.
SAME_OUTCOME = r"""
[[:ascii:]]+ [[:xdigit:]]+ [[:digit:]]+ [:alpha:]+ \N+ \X \v+ \z \Z \A\w+ ^\w+ \w+$ (?m)^\w+
(?s).+ (?i)LL (?u)\w+ (?-u)\w (?R).. \pL+ \PL+ \p{Alphabetic}+ \p{Script=Han}+ \p{scx=Han}
\p{Han}+ \p{Lu}\p{Ll}* \p{Letter}+ \p{Emoji}+ \p{Any} \p{ASCII}+ \p{Nope} \p{L}\p{M}*
[a-z&&[^m]]+ [a-z--m]+ [a-z~~m]+ [^\W\d]+ []a]+ [^]a]+ [a-]+ [a\]]+ [[a-c][x-z]]+ [\w-z] [z-a]
[a a] a{2} a{,3} a{3,2} a{ { *a a** a*+ a{2}+ a?? (?>a+) (?=the)\w (?<!a)\w+ (?<=a+)b (?#c)a
(?(1)a|b) \x41 \x{41} \u0041 \u{41} \101 \e \a \cA \Q.\E \d+ \D+ \s+ \S+ \b\w+\b \B.
\b{start}\w+ \_ \- \/ \y \i \j | a| |a () ^ $ (?i)[a-k]+ (?i:ſ) (?i)ß (?:the|mill){1,2}
(?<=\s)\w (?|a|b) \w++\s .*+x (*FAIL) \g1 [[.a.]] [\b] (
"""
# A reader could mean other characters by these, or they need the text before the match.
REJECTED = r"""
[[:alpha:]]+ [[:^alpha:]]+ [[:space:]] [[:punct:]]+ [[:word:]]+ [[:upper:]] \h+ [\h]+ \H+ \< \>
(a)\1 (?P<x>a)(?P=x) (?<x>a)\k<x> (a)?(?(1)a|b) a\Kb \Gthe (?U)\w+ \p{age=3.0}
"""
ACCEPTED = [r"\R", r"\p{^L}+", r"\0", r"\w{1000}"]


def trained(library, texts=TEXTS, size=300, **options):
    tokenizer = library.Tokenizer()
    tokenizer.train_from_iterator(iter(texts), size, **options)
    return tokenizer


def assert_equal_tokenizers(mine, other, texts):
    assert mine.vocab_size == other.vocab_size
    assert mine.get_pattern() == other.get_pattern()
    assert mine.get_mergeable_ranks() == other.get_mergeable_ranks()
    ids = other.batch_encode(texts)
    assert mine.batch_encode(texts) == ids == [mine.encode(text) for text in texts]
    assert [mine.decode(one) for one in ids] == [other.decode(one) for one in ids]


def outcome(call, *args, **kwargs):
    """The result of a call, or the type of its exception."""
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("pattern", EXPRESSIONS)
def test_ranks_and_ids_are_those_of_rustbpe(pattern):
    pair = [trained(library, pattern=pattern) for library in (ours, theirs)]
    assert_equal_tokenizers(*pair, [*TEXTS, " ".join(TEXTS)])


def pattern_outcome(library, pattern):
    def result():
        tokenizer = trained(library, pattern=pattern)
        return tokenizer.get_mergeable_ranks(), tokenizer.batch_encode(TEXTS)

    return outcome(result)


@pytest.mark.parametrize("pattern", SAME_OUTCOME.split())
def test_outcome_of_a_pattern_is_that_of_rustbpe(pattern):
    assert pattern_outcome(ours, pattern) == pattern_outcome(theirs, pattern)


def test_patterns_of_one_library_are_an_error_in_the_other():
    for pattern in REJECTED.split():
        found = pattern_outcome(ours, pattern), type(pattern_outcome(theirs, pattern))
        assert found == (ValueError, tuple), pattern
    for pattern in ACCEPTED:
        found = type(pattern_outcome(ours, pattern)), pattern_outcome(theirs, pattern)
        assert found == (tuple, ValueError), pattern
    with pytest.raises(ValueError, match=r"position 1: the POSIX class \[:alpha:\]"):
        trained(ours, pattern="[[:alpha:]]+")


@pytest.mark.parametrize("size", [(1 << 21) - 257, (1 << 24) + 1, (1 << 32) - 1])
def test_texts_with_fewer_merges_take_any_size(size):
    pair = [trained(library, size=size) for library in (ours, theirs)]
    assert_equal_tokenizers(*pair, TEXTS)


def test_more_merges_than_the_largest_vocabulary_are_an_error(monkeypatch):
    monkeypatch.setattr(ours, "VOCAB_SIZE_MAX", 300)
    with pytest.raises(ValueError, match="must be at most 300 for these texts"):
        trained(ours, size=301)
    assert trained(ours, size=300).vocab_size == 300


@settings(deadline=None, max_examples=max(20, examples(200)))
@given(
    st.lists(st.text("aab é中\n'1", max_size=60) | st.text(max_size=20), max_size=6),
    st.integers(256, 320),
)
@example([], 300)
@example(["aaaaaaaaaaa", "aaaaaaa", "aaaaa"], 270)
def test_any_texts_give_the_tokenizer_of_rustbpe(texts, size):
    pair = [trained(library, texts, size) for library in (ours, theirs)]
    assert_equal_tokenizers(*pair, [*texts, "".join(texts)])


def test_tokenizer_without_training_is_that_of_rustbpe():
    mine, other = ours.Tokenizer(), theirs.Tokenizer()
    assert mine.get_pattern() == other.get_pattern() == ""
    assert mine.vocab_size == other.vocab_size == 256
    assert mine.get_mergeable_ranks() == other.get_mergeable_ranks()
    assert mine.encode("abc") == other.encode("abc") == []
    assert mine.batch_encode(["abc"]) == other.batch_encode(["abc"]) == [[]]
    assert mine.decode([97, 98]) == other.decode([97, 98]) == "ab"


def test_second_training_replaces_the_first():
    pair = [trained(library) for library in (ours, theirs)]
    for tokenizer in pair:
        tokenizer.train_from_iterator(["other words, other merges"] * 2, 262, 1, r"\w+")
    assert_equal_tokenizers(*pair, TEXTS)
    for tokenizer in pair:
        tokenizer.train_from_iterator(iterator=TEXTS, vocab_size=258, buffer_size=2, pattern=None)
    assert_equal_tokenizers(*pair, TEXTS)


CALLS = {
    "encode bytes": lambda one: one.encode(b"a"),
    "encode int": lambda one: one.encode(5),
    "encode a lone surrogate": lambda one: one.encode("a\ud800"),
    "batch of a str": lambda one: one.batch_encode("ab"),
    "batch of an iterator": lambda one: one.batch_encode(iter(["ab"])),
    "batch of a dict": lambda one: one.batch_encode({"a": 1}),
    "batch with an int": lambda one: one.batch_encode(["a", 5]),
    "batch with a lone surrogate": lambda one: one.batch_encode(["\ud800"]),
    "batch of a tuple": lambda one: one.batch_encode(("the", "mill")),
    "batch of no texts": lambda one: one.batch_encode([]),
    "decode an unknown id": lambda one: one.decode([97, 300]),
    "decode a negative id": lambda one: one.decode([-1]),
    "decode a large id": lambda one: one.decode([1 << 32]),
    "decode a str": lambda one: one.decode("ab"),
    "decode strs": lambda one: one.decode(["a"]),
    "decode floats": lambda one: one.decode([1.0]),
    "decode None": lambda one: one.decode(None),
    "decode a tuple": lambda one: one.decode((116, 104)),
    "decode bytes": lambda one: one.decode(b"ab"),
    "decode an array": lambda one: one.decode(np.array([116, 104])),
    "decode no ids": lambda one: one.decode([]),
    "set the size": lambda one: setattr(one, "vocab_size", 3),
    "set another attribute": lambda one: setattr(one, "other", 3),
    "train on an int": lambda one: one.train_from_iterator(5, 300),
    "train on None": lambda one: one.train_from_iterator(None, 300),
    "train on bytes": lambda one: one.train_from_iterator([b"a"], 300),
    "train on a lone surrogate": lambda one: one.train_from_iterator(["\ud800"], 300),
    "train on one str": lambda one: one.train_from_iterator("the mill the mill", 300),
    "train to a str": lambda one: one.train_from_iterator(TEXTS, "300"),
    "train to a float": lambda one: one.train_from_iterator(TEXTS, 300.0),
    "train with another buffer": lambda one: one.train_from_iterator(TEXTS, 300, "8192"),
    "train to a negative size": lambda one: one.train_from_iterator(TEXTS, -1),
    "train to a large size": lambda one: one.train_from_iterator(TEXTS, 1 << 32),
    "train with a negative buffer": lambda one: one.train_from_iterator(TEXTS, 300, -1),
    "train with a wrong pattern": lambda one: one.train_from_iterator(TEXTS, 300, pattern="("),
    "train with a pattern of bytes": lambda one: one.train_from_iterator(TEXTS, 300, pattern=b"a"),
}


@pytest.mark.parametrize("name", CALLS)
def test_outcomes_are_those_of_rustbpe(name):
    mine, other = (outcome(CALLS[name], trained(library)) for library in (ours, theirs))
    assert mine == other


def test_errors_of_an_iterator_reach_the_caller():
    def texts():
        yield "the mill"
        raise RuntimeError("no more texts")

    for library in (ours, theirs):
        with pytest.raises(RuntimeError, match="no more texts"):
            trained(library, texts())


def test_failed_training_leaves_the_tokenizer_unchanged():
    tokenizer = trained(ours)
    before = pickle.dumps(tokenizer)
    for texts, pattern in ((TEXTS, "("), ([5], None)):
        with pytest.raises((ValueError, TypeError)):
            tokenizer.train_from_iterator(texts, 270, pattern=pattern)
    assert pickle.loads(before) == tokenizer


def test_errors_that_rustbpe_lacks_are_clear():
    with pytest.raises(ValueError, match="must be at least 256, got 255"):
        trained(ours, size=255)
    tokenizer = trained(ours)
    with pytest.raises(ValueError, match="Unknown token id: 300"):
        tokenizer.decode([97, 300])
    with pytest.raises(UnicodeDecodeError):
        tokenizer.decode([255])


@pytest.mark.parametrize("make", [ours.Tokenizer, lambda: trained(ours)])
def test_pickled_tokenizer_is_equal(make):
    tokenizer = make()
    copied = pickle.loads(pickle.dumps(tokenizer))
    assert copied == tokenizer
    assert hash(copied) == hash(tokenizer)
    assert_equal_tokenizers(copied, tokenizer, TEXTS)
    assert copied != trained(ours, size=299)
    assert copied != "a tokenizer"


def test_names_and_arguments_are_those_of_rustbpe():
    def public(thing):
        return {name for name in vars(thing) if not name.startswith("_")}

    assert ours.__all__ == theirs.__all__
    assert public(ours.Tokenizer) == public(theirs.Tokenizer)
    for name in public(theirs.Tokenizer) - {"vocab_size"}:
        found, expected = (
            inspect.signature(getattr(one.Tokenizer, name)) for one in (ours, theirs)
        )
        assert [(each.name, each.default) for each in found.parameters.values()] == [
            (each.name, each.default) for each in expected.parameters.values()
        ]
