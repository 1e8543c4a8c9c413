"""Added tokens → found where Hugging Face finds them, whatever their flags are."""

import random

import pytest
from conftest import SEED, examples
from hugging_face import FLAGS, add, byte_level, core_of, hf, random_text, with_ids

from tokenmill.errors import VocabularyError
from tokenmill.formats.build import pack_steps
from tokenmill.formats.spec import Added, Lower, Strip


def expect_equal(tokenizer, core, text, allowed):
    try:
        expected = tokenizer.encode(text, add_special_tokens=False)
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # its bug: a token in what another one took
            return
        raise
    ids, spans = core.encode_with_offsets(text, allowed)
    assert ids == expected.ids, text
    assert core.encode(text, allowed) == expected.ids, text
    assert spans == expected.offsets, text


# name, flags; and texts that were tried by hand
PROBES = [
    (
        [Added("abc", 0, single_word=True), Added("bcd", 0), Added("de", 0)],
        ["abcde", "abc", "abc de", ".abc.", "éabc", "abcé", "abc_", "1abc", "abc1", "bcde"],
    ),
    (
        [Added("<a>", 0, rstrip=True), Added("<b>", 0, lstrip=True), Added("<c>", 0)],
        [
            "x <a> \n y",
            "x \t<b> y",
            "<a>  <b>",
            "<c>  <b>",
            "<a>\x1c",
            "\u3000<b>",
            "<a>\x85\u2028x",
        ],
    ),
    (
        [Added("<a>", 0, rstrip=True), Added(" b", 0), Added("  ", 0)],
        ["<a> b", "<a>  b", "<a>   b", "<a>    b", "<a>     c", "<a>", "<a> "],
    ),
    (
        [Added("<a>", 0, lstrip=True), Added(" ", 0), Added("<b>", 0, special=False, lstrip=True)],
        ["b  <a>", "b  <b>", "  <b>", "<b> <a>"],
    ),
    (
        [Added("<a>", 0), Added("bb", 0, single_word=True, normalized=True)],
        ["a<a>bb<a>", "abb", "1<a>bb1", "bb é", "bbé", "<a>bb"],
    ),
    ([Added("a", 0), Added("aa", 0), Added("aab", 0)], ["aaab", "aaaa", "aab", "baaba"]),
]


@pytest.mark.parametrize("prefix", ["never", "missing"])
@pytest.mark.parametrize("probe", range(len(PROBES)))
def test_added_tokens_are_found_as_hugging_face_does(probe, prefix):
    added, texts = PROBES[probe]
    tokenizer = byte_level(added, prefix == "missing")
    added = with_ids(tokenizer, added)
    core = core_of(tokenizer, added, prefix=prefix)
    for drops in (False, True):
        tokenizer.encode_special_tokens = drops
        allowed = bytes(2 if drops and entry.special else 1 for entry in added)
        for text in texts:
            expect_equal(tokenizer, core, text, allowed)


NAMES = ["<a>", " ", "  ", "ab", "abc", "b c", "é", "\n", "he", "<", "a>", "[x]", "X", "你", " <a>"]
PIECES = [
    *NAMES,
    *("a", "b", "c", "_", ".", "\t", "\u3000", "the", " hello", "!", "1", "é", "x", "\u200d"),
]


@pytest.mark.parametrize("prefix", ["never", "missing", "always"])
def test_added_tokens_of_any_flags_are_found_in_any_text(prefix):
    generator = random.Random(SEED)
    for _ in range(examples(60)):
        added = [
            Added(name, 0, generator.random() < 0.5, normalized=generator.random() < 0.3, **flags)
            for name in generator.sample(NAMES, generator.randrange(1, 8))
            for flags in [generator.choice(FLAGS)]
        ]
        tokenizer = byte_level(added, prefix == "missing")
        if prefix == "always":
            tokenizer.normalizer = hf.normalizers.Prepend(" ")
        added = with_ids(tokenizer, added)
        core = core_of(tokenizer, added, prefix=prefix)
        for drops in (False, True):
            tokenizer.encode_special_tokens = drops
            allowed = bytes(2 if drops and entry.special else 1 for entry in added)
            for _ in range(60):
                expect_equal(tokenizer, core, random_text(generator, PIECES), allowed)


@pytest.mark.parametrize("normalized", [False, True])
def test_long_names_that_share_much_are_found_as_hugging_face_does(normalized):
    generator = random.Random(SEED)
    names = ["a", *("a" * n + "b" for n in range(1, 120)), "b" + "a" * 90, " " * 70 + "a", "\n"]
    for flags in FLAGS:
        added = [Added(name, 0, False, normalized=normalized, **flags) for name in names]
        tokenizer = byte_level(added)
        added = with_ids(tokenizer, added)
        core = core_of(tokenizer, added)
        for _ in range(4):
            runs = [generator.choice("aaaab \nc") * generator.randrange(400) for _ in range(40)]
            expect_equal(tokenizer, core, "".join(runs), bytes([1]) * len(added))


def test_added_tokens_are_found_without_allowed_special():
    added = [Added("<a>", 0), Added("<b>", 0, special=False)]
    tokenizer = byte_level(added)
    core = core_of(tokenizer, with_ids(tokenizer, added))
    ids = core.encode("<a><b>", None)
    assert ids[-1] == tokenizer.token_to_id("<b>")
    assert tokenizer.token_to_id("<a>") not in ids
    assert core.encode("<a><b>", b"\x01\x00")[0] == tokenizer.token_to_id("<a>")


@pytest.mark.parametrize("prefix", ["never", "missing", "missing_first", "always"])
def test_sessions_know_names_of_any_flags(prefix):
    generator = random.Random(SEED)
    for _ in range(max(4, examples(40))):
        added = [
            Added(name, 0, generator.random() < 0.5, normalized=generator.random() < 0.3, **flags)
            for name in generator.sample(NAMES, generator.randrange(1, 8))
            for flags in [generator.choice(FLAGS)]
        ]
        tokenizer = byte_level(added)
        core = core_of(tokenizer, with_ids(tokenizer, added), prefix=prefix)
        for allowed in (None, *(bytes([which]) * len(added) for which in (0, 1, 2))):
            session = core.session(allowed, 64)
            for _ in range(12):
                cut = generator.randrange(session.bytes() // 2, session.bytes() + 1)
                session.replace_from(cut, random_text(generator, PIECES).encode())
                whole = session.text(0)
                assert session.ids(0, session.count()) == core.encode(whole, allowed), whole


def test_sessions_and_truncation_know_names_that_are_always_found():
    added = [Added("<a>", 0), Added("<b>", 0, special=False)]
    tokenizer = byte_level(added)
    core = core_of(tokenizer, with_ids(tokenizer, added))
    session = core.session(None, 64)
    session.append("the <b")
    session.append("> cat <a>")
    assert session.ids(0, session.count()) == core.encode("the <b> cat <a>", None)
    assert core.truncate("the <a>", 1, False) == "the"
    assert core.truncate("the <b>", 2, False) == "the <"
    assert core.truncate("the <b>", 3, False) == "the <b>"
    assert core.truncate("the <b>", 1, True) == "<b>"


@pytest.mark.parametrize("prefix", ["never", "missing", "missing_first", "always"])
def test_ids_of_a_long_text_are_independent_of_thread_count(prefix):
    added = [Added("<a>", 0), Added("<b>", 0, special=False)]
    tokenizer = byte_level(added)
    core = core_of(tokenizer, with_ids(tokenizer, added), prefix=prefix)
    words = ["the cat", " sat", " on", " the mat", "\n", "héé", " 123", "你好"]
    generator = random.Random(3)
    # Texts of more than 1 MiB are encoded on several threads.
    text = "".join(generator.choices(words, k=max(150_000, examples(400_000))))
    text = "<b>" + text + "<a>" + text[:2_000_000] + "<b>" + text[:100] + "<a>" + text[5:900]
    for some in (text, text[3:]):
        whole = core.encode(some, b"\x01\x01")
        for threads in (1, 2, 3, 8):
            buffer = core.encode_buffer(some, b"\x01\x01", False, threads)
            assert list(memoryview(buffer)) == whole
            assert core.count(some, b"\x01\x01", threads) == len(whole)


def test_added_tokens_are_found_in_normalized_text():
    generator = random.Random(SEED)
    names = ["<A>", " ", "  ", "aB", "abc", "b C", "\n", "he", "<", "a>", "[x]", "X", " <a>", "É"]
    pieces = [*names, *("a", "B", "c", "_", ".", "\t", "the", " Hello", "!", "1", "İ", "ß", "x")]
    for _ in range(max(4, examples(40))):
        added = [
            Added(name, 0, normalized=generator.random() < 0.6, **generator.choice(FLAGS))
            for name in generator.sample(names, generator.randrange(1, 8))
        ]
        prefix = generator.choice(["never", "missing", "always"])
        tokenizer = byte_level([], prefix == "missing")
        steps = [hf.normalizers.Lowercase()]
        steps += [hf.normalizers.Prepend(" ")] if prefix == "always" else []
        tokenizer.normalizer = hf.normalizers.Sequence(steps)
        add(tokenizer, added)
        added = with_ids(tokenizer, added)
        core = core_of(tokenizer, added, pack_steps((Lower(),)), prefix)
        for _ in range(80):
            text = random_text(generator, pieces)
            expect_equal(tokenizer, core, text, b"\x01" * len(added))


def test_added_token_that_normalizes_to_empty_text_is_rejected():
    entry = Added(" ", 400, normalized=True)
    with pytest.raises(VocabularyError, match="added token ' ' is empty after normalization"):
        core_of(byte_level([]), [entry], pack_steps((Strip(True, True),)))
