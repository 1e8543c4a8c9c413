"""A text in any number of changes → after each change, the ids of `encode`."""

from __future__ import annotations

import copy
import pickle
import random
import threading

import hard_inputs
import numpy as np
import pytest
from conftest import FIXTURES, SEED, TEXT, each_pattern, examples, sample, write_ranks
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tokenmill
from tokenmill import Tokenizer
from tokenmill.errors import OptionError, UnknownTokenError, VocabularyError
from tokenmill.patterns import schemes

# Look-ahead and look-behind, the end of the text, text that is left out, all of it as one pretoken.
PATTERNS = [
    r"\s+(?!\S)|\S+|\s",
    r"(?s:.)+",
    r"\p{L}+(?=\d)|\S",
    r"a+$|.",
    r"\p{L}+",
    r"(?<=a)b+|\w(?=.{0,9}!)|(?s:.)",
    r"(?<!\s)\s+|[a-z]+?(?=[A-Z]|$)|\S",
]
SPECIALS = {"<|a|>": 60_000, "<|a|><": 60_001, "a<|": 60_002, "\n\n": 60_003, "é中": 60_004}
each_kind = pytest.mark.parametrize(
    "special_tokens", [False, True, {"<|a|>", "é中"}], ids=["none", "all", "some"]
)


@pytest.fixture(scope="session")
def patterned(rank_files) -> list[Tokenizer]:
    """A tokenizer for each pattern, and for each scheme, all with special tokens that overlap."""
    path = rank_files["r50k_base"]
    names = [*PATTERNS, *schemes.PATTERNS]
    return [Tokenizer.load(path, pattern=name, special_tokens=SPECIALS) for name in names]


def check(
    tokenizer: Tokenizer, session, text, special_tokens, kept: int, before: list[int]
) -> None:
    expected = tokenizer.encode(text, allowed_special=special_tokens)
    assert session.ids == expected, f"{text!r:.400} TOKENMILL_SEED={SEED}"
    assert session[:kept] == before[:kept], f"{text!r:.400} TOKENMILL_SEED={SEED}"
    same = min(len(before), len(expected))
    first = next((i for i in range(same) if before[i] != expected[i]), same)
    assert kept == first, f"{text!r:.400} TOKENMILL_SEED={SEED}"


def append_in_parts(tokenizer: Tokenizer, text, special_tokens, rng: random.Random) -> None:
    """Appends one to three characters or bytes at a time, and checks every prefix."""
    session = tokenizer.session(text[:0], allowed_special=special_tokens)
    end = 0
    while end < len(text):
        before = session.ids
        start, end = end, end + rng.randint(1, 3)
        kept = session.append(text[start:end])
        check(tokenizer, session, text[:end], special_tokens, kept, before)


def change_at_random(
    tokenizer: Tokenizer, pieces, special_tokens, rng: random.Random, steps
) -> None:
    """Appends, replaces and cuts off, and checks each time. By default there are fewer steps."""
    empty = pieces[0][:0]
    session, text = tokenizer.session(empty, allowed_special=special_tokens), empty
    for _ in range(max(20, examples(steps))):
        before = session.ids
        # Long enough for checkpoints inside, which can go wrong, and for blocks of 64 bytes.
        new = empty.join(rng.choices(pieces, k=rng.randrange(6) if len(text) > 400 else 100))
        if rng.random() < 0.5:
            text += new
            kept = session.append(new)
        elif rng.random() < 0.8:
            back = min(len(text), rng.randrange(1, rng.choice([40, 400])))
            text = text[: len(text) - back] + new
            kept = session.replace_from(-back if back else 0, new)
        else:
            text = text[: rng.randrange(len(text) // 2, len(text) + 1)] + new
            kept = session.update(text)
        check(tokenizer, session, text, special_tokens, kept, before)
        assert session.text == text


# Exactness


@each_pattern
def test_every_prefix_of_hard_texts_is_encoded_as_a_whole(tokenizer):
    rng = random.Random(SEED)
    texts = ["".join(rng.sample(hard_inputs.STRINGS, 80)) for _ in range(6)]
    texts += [b"".join(rng.sample(hard_inputs.BYTES, 60)) for _ in range(4)]
    texts += ["".join(hard_inputs.joined_fragments(SEED + i, 2000)) for i in range(3)]
    texts.append("".join(hard_inputs.random_code_points(SEED, 2000)))
    texts.append(b"".join(hard_inputs.random_bytes(SEED, 2000)))
    for text in texts:
        append_in_parts(tokenizer, text[: max(100, examples(1000))], True, rng)


@each_kind
def test_every_prefix_is_exact_with_any_pattern(patterned, special_tokens):
    rng = random.Random(SEED)
    pieces = ["a", "b", "ab!", " ", "\n", "1", "é", "中", "the", "  ", "'s", "A", *SPECIALS]
    for tokenizer in patterned:
        for _ in range(examples(4)):
            text = "".join(rng.choices(pieces, k=rng.randrange(max(80, examples(400)))))
            append_in_parts(tokenizer, text, special_tokens, rng)
            append_in_parts(tokenizer, text.encode(), special_tokens, rng)


@each_kind
def test_every_change_is_exact_with_any_pattern(patterned, special_tokens):
    rng = random.Random(SEED)
    pieces = ["a", "ab!", " ", "\n", "1", "é", "中文", "the", "   ", "'ll", "AB"]
    pieces += ["<|", "a|>", "a<|a|>"]
    for tokenizer in patterned:
        change_at_random(tokenizer, pieces, special_tokens, rng, 250)
        change_at_random(tokenizer, [piece.encode() for piece in pieces], special_tokens, rng, 150)


@each_pattern
def test_every_change_of_fragments_is_exact(tokenizer, pairs_file):
    rng = random.Random(SEED)
    fragments = [f for f in hard_inputs.FRAGMENTS if not any("\ud800" <= c <= "\udfff" for c in f)]
    change_at_random(tokenizer, fragments, True, rng, 1500)
    # Ids that show where pretokens are cut.
    pairs = Tokenizer.load(pairs_file, pattern=tokenizer.pattern)
    change_at_random(pairs, fragments, False, rng, 1500)
    change_at_random(pairs, [bytes([byte]) for byte in range(256)], False, rng, 1500)


@pytest.mark.parametrize("scheme", schemes.PATTERNS)
def test_every_change_is_exact_in_every_scheme(pairs_file, scheme):
    rng = random.Random(SEED)
    tokenizer = Tokenizer.load(pairs_file, pattern=scheme)
    pieces = ["a", "B", " ", "\n", "  ", "1", "'", "ll", "!", "/", "中", "\u0301", "ſ"]
    change_at_random(tokenizer, pieces, False, rng, 400)
    change_at_random(tokenizer, [piece.encode() for piece in pieces], False, rng, 400)


@settings(max_examples=examples(200))
@given(
    parts=st.lists(st.sampled_from(hard_inputs.FRAGMENTS) | st.text(max_size=4), max_size=12),
    cuts=st.lists(st.integers(0, 30), max_size=12),
)
@example(parts=["\ud83d", "\ude42", "\ud83d", "x", "\ude42"], cuts=[])
@example(parts=["<|endo", "ftext|>"], cuts=[])
@example(parts=["中A", "B", "b"], cuts=[1, 2])
def test_any_way_to_write_a_text_is_exact(tokenizers, parts, cuts):
    for name in ("r50k_base", "cl100k_base", "o200k_base"):
        tokenizer = tokenizers[name]
        session, text = tokenizer.session(allowed_special=True), ""
        for part in parts:
            text += part
            session.append(part)
            assert session.ids == tokenizer.encode(text, allowed_special=True), name
        text = session.text
        for back in cuts:
            text = text[: max(0, len(text) - back)]
            session.replace_from(len(text))
            assert session.ids == tokenizer.encode(text, allowed_special=True), name


def grow_and_shrink(tokenizer: Tokenizer, size: int) -> None:
    rng = random.Random(SEED)
    files = dict(hard_inputs.files(size))
    files |= {f"{file}, bytes": d.encode() for file, d in files.items() if isinstance(d, str)}
    for file, data in files.items():
        session, end = tokenizer.session(data[:0]), 0
        while end < len(data):
            start, end = end, end + rng.choice([1, 7, 60, 700, 3000])
            session.append(data[start:end])
            assert session.ids == tokenizer.encode(data[:end]), (file, end, SEED)
        for back in (1, 9, 300, 1, 2500):
            other = " 1\nxÉ-" if isinstance(data, str) else b" 1\nx\xc3\x89-\xe4"
            for new in (
                data[:0],
                data[:3],
                data[:40],
                rng.choice([other, other[1:], other[3:]]) * 9,
            ):
                session.replace_from(-min(back, len(session.text)), new)
                assert session.ids == tokenizer.encode(session.text), (file, back, SEED)


@each_pattern
def test_long_runs_grow_and_shrink_exactly(tokenizer):
    """Known tokens and runs are continued."""
    grow_and_shrink(tokenizer, max(3_000, examples(6_000)))


def test_long_runs_grow_and_shrink_exactly_with_any_pattern(patterned):
    for tokenizer in sample(patterned[: len(PATTERNS)]):
        grow_and_shrink(tokenizer, 2_000)


def test_results_do_not_depend_on_the_cache(cl100k):
    limit = tokenmill.cache_limit()
    tokenmill.cache_limit(0)
    try:
        fresh = Tokenizer.load("cl100k_base")
        change_at_random(fresh, ["a", " the", "\n", "中" * 300], True, random.Random(SEED), 60)
    finally:
        tokenmill.cache_limit(limit)


def test_lone_surrogates_are_read_as_encode_reads_them(cl100k):
    for text in hard_inputs.SURROGATES:
        session = cl100k.session()
        for end in range(1, len(text) + 1):
            session.append(text[end - 1 : end])
            session.append("")
            assert session.ids == cl100k.encode(text[:end]), repr(text[:end])
            twin = pickle.loads(pickle.dumps(session))
            twin.append(text[end:])
            assert twin.ids == cl100k.encode(text), repr(text)
    session = cl100k.session("a\ud83d")
    assert session.text == "a\ufffd"
    session.replace_from(1, "\ude42b")
    assert session.text == "a\ufffdb"


# How little is encoded again


def encoded_by(session, change) -> int:
    before = session._core.bytes_encoded()
    change()
    return session._core.bytes_encoded() - before


@each_pattern
@pytest.mark.parametrize("special_tokens", [False, True])
def test_an_append_encodes_only_the_end(tokenizer, special_tokens):
    for path in FIXTURES[::5]:
        text = path.read_text(encoding="utf-8")[:40_000]
        if len(text) < 20_000:
            continue
        session, end = tokenizer.session(text[:10_000], allowed_special=special_tokens), 10_000
        while end < 20_000:
            end += 5
            before = session._core.bytes_encoded()
            session.append(text[end - 5 : end])
            assert session._core.bytes_encoded() - before < 800
        assert session.ids == tokenizer.encode(text[:end], allowed_special=special_tokens)


@pytest.mark.parametrize("pattern", [PATTERNS[0], r" ?\p{L}+|\s+|\S", r"\w+(?!!)|(?s:.)"])
def test_an_append_encodes_only_the_end_with_any_pattern(rank_files, pattern):
    tokenizer = Tokenizer.load(rank_files["r50k_base"], pattern=pattern)
    session = tokenizer.session("the mill grinds grain.\n" * 1000)
    for _ in range(300):
        assert encoded_by(session, lambda: session.append(" word")) < 800


@each_pattern
def test_an_edit_near_the_end_encodes_only_the_end(tokenizer):
    session = tokenizer.session("the mill grinds grain.\n" * 10_000)
    for back in range(1, 200):
        assert encoded_by(session, lambda b=back: session.replace_from(-b, "x")) < 6000 + back
    assert session.ids == tokenizer.encode(session.text)


@each_pattern
@pytest.mark.parametrize("unit", [" ", "a", "-", "\n", "中", "é", "ab", "A", "1", " \n", "!\n"])
def test_a_long_open_run_encodes_only_its_end(tokenizer, unit):
    session = tokenizer.session("x" + unit * (60_000 // len(unit)))
    for _ in range(100):
        assert encoded_by(session, lambda: session.append(unit * 3)) < 6000
    assert session.ids == tokenizer.encode(session.text)


def test_an_update_encodes_only_the_text_after_the_first_difference(cl100k):
    chat = "the mill grinds grain.\n" * 3000
    session = cl100k.session(chat)
    assert encoded_by(session, lambda: session.update(chat + "and more")) < 800
    assert session.text == chat + "and more"
    assert session.update(session.text) == len(session)


# The interface


def test_a_session_shows_its_text_and_ids(cl100k):
    session = cl100k.session("hello")
    assert session.append(" world") == 1
    assert session.text == "hello world"
    assert session.ids == [15339, 1917] == session[:] == list(session)
    assert len(session) == 2
    assert (session[0], session[-1]) == (15339, 1917)
    assert (session[1:], session[::-1]) == ([1917], [1917, 15339])
    assert session.array().dtype == np.uint32
    assert session.array(1).tolist() == session.array(-1).tolist() == [1917]
    assert session.array(99).tolist() == session[99:] == session[2:1] == []
    assert repr(session) == "<Session of 'cl100k_base': 11 characters, 2 ids>"
    assert session.replace_from(5) == 1
    assert session.replace_from(-1, "p!") == 0
    assert session.text == "hellp!"
    assert session.update("") == 0
    assert (session.text, session.ids) == ("", [])


def test_a_session_of_bytes_counts_bytes(cl100k):
    session = cl100k.session(b"na\xc3")
    session.append(bytearray(b"\xafve"))
    session.append(memoryview(b" x1x2x")[::2])
    assert session.text == "naïve 12".encode() and type(session.text) is bytes
    assert session.ids == cl100k.encode("naïve 12")
    session.replace_from(3)
    assert session.ids == cl100k.encode(b"na\xc3")
    session.replace_from(-1, b"")
    assert session.text == b"na"
    assert "2 bytes" in repr(session)


def test_a_copy_goes_its_own_way(cl100k):
    session = cl100k.session(TEXT, allowed_special={"<|endoftext|>"})
    for twin in (session.copy(), copy.copy(session), copy.deepcopy(session)):
        twin.append(" left <|endoftext|>")
        session.append("!")
        for one in (twin, session):
            assert one.ids == cl100k.encode(one.text, allowed_special={"<|endoftext|>"})
        assert twin.text != session.text


def test_a_session_can_be_pickled(cl100k):
    for text in (TEXT, TEXT.encode(), ""):
        session = cl100k.session(text, allowed_special={"<|endoftext|>"})
        twin = pickle.loads(pickle.dumps(session))
        assert (twin.ids, twin.text, type(twin)) == (session.ids, text, type(session))
        twin.append(text)
        assert twin.ids == cl100k.encode(text + text, allowed_special={"<|endoftext|>"})


def test_a_failed_change_leaves_the_session(tmp_path):
    tokenizer = Tokenizer.load(
        write_ranks(tmp_path / "few.tiktoken", [b"a", b"b", b"ab"]), pattern=r"(?s:.)+"
    )
    session = tokenizer.session("abab" * 400)
    for change in (
        lambda: session.append("z"),
        lambda: session.replace_from(-3, "z"),
        lambda: session.update("z"),
        lambda: session.append("ab" * 2000 + "z"),
    ):
        with pytest.raises(VocabularyError, match="0x7a"):
            change()
        assert session.text == "abab" * 400
        assert session.ids == tokenizer.encode(session.text)
    session.append("ab")
    assert session.ids == tokenizer.encode("abab" * 400 + "ab")


def test_bad_arguments_are_named(cl100k):
    session, raw = cl100k.session("abc"), cl100k.session(b"abc")
    with pytest.raises(TypeError, match="text must be str as in this session, got b'x'"):
        session.append(b"x")
    with pytest.raises(TypeError, match="text must be bytes as in this session, got 'x'"):
        raw.append("x")
    with pytest.raises(TypeError, match="got 12"):
        session.update(12)
    with pytest.raises(TypeError, match="bytes-like, not int 12"):
        raw.append(12)
    with pytest.raises(TypeError, match="text must be bytes as in this session, got 'é'"):
        raw.replace_from(0, "é")
    with pytest.raises(TypeError, match="with items of 8 bytes"):
        raw.append(np.arange(3))
    for position in (4, -4):
        with pytest.raises(
            OptionError, match=f"from -3 to 3, the length of the text, got {position}"
        ):
            session.replace_from(position)
    for wrong in (1.0, "1", None, True):
        with pytest.raises(TypeError, match=f"position must be an int, not {wrong!r}"):
            session.replace_from(wrong)
    with pytest.raises(IndexError, match="index 7 is out of range; there are 1 ids"):
        session[7]
    with pytest.raises(UnknownTokenError, match="<x>"):
        cl100k.session(allowed_special={"<x>"})
    with pytest.raises(TypeError, match="bytes-like, not NoneType"):
        cl100k.session(None)
    assert session.text == "abc" and raw.text == b"abc"


def test_two_threads_in_one_session_are_an_error(cl100k):
    session = cl100k.session()
    text, errors = "grain and mill 谷物 " * 400_000, []
    thread = threading.Thread(target=session.append, args=(text,))
    thread.start()
    while thread.is_alive():
        try:
            len(session)
        except RuntimeError as error:
            errors.append(str(error))
            break
    thread.join()
    assert errors and "another thread is changing this session" in errors[0]
    assert session.text == text
