"""Tokens → displayed text: all of it is visible, and it has no terminal commands."""

import unicodedata

import pytest
from conftest import each_pattern, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill import Tokenizer
from tokenmill.display import fold_runs, shorten, visible


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b" the", "·the"),
        (b"a\n\t\r", r"a\n\t\r"),
        (b"\x1b[31m", r"\x1b[31m"),
        ("\u202eabc".encode(), r"\u202eabc"),
        ("\u009b31m".encode(), r"\u009b31m"),
        (b"\x9b31m", r"\x9b31m"),
        (b" \xe4\xb8", r"·\xe4\xb8"),
        ("\u0301e".encode(), "◌\u0301e"),
        ("e\u0301".encode(), "e\u0301"),
        ("·".encode(), r"\u00b7"),
        (b"\\n", r"\\n"),
        ("\u2028\u00ad\u3164".encode(), r"\u2028\u00ad\u3164"),
        ("➡\ufe0f".encode(), "➡\ufe0f"),
        ("\U000e0041".encode(), r"\U000e0041"),
        ("世界".encode(), "世界"),
    ],
)
def test_invisible_characters_are_escaped(token, text):
    assert visible(token) == text


@settings(max_examples=max(20, examples(100)))
@given(
    st.binary(max_size=30) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace"))
)
def test_nothing_that_is_shown_commands_a_terminal(token):
    for text in (visible(token), fold_runs(token)):
        assert text.isprintable()
        assert not any(unicodedata.bidirectional(char) in _BIDI for char in text)


_BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@each_pattern
def test_no_two_tokens_look_the_same(name):
    tokens = Tokenizer.load(name)._tokens().values()
    assert len({visible(token) for token in tokens}) == len(tokens)


def test_runs_are_counted():
    assert fold_runs(b" " * 128) == "·×128"
    assert fold_runs(b"a" * 7) == "a" * 7
    assert fold_runs(b"x" + b"\n" * 9 + b"-" * 8) == r"x\n×9-×8"
    assert fold_runs(b"\xff" * 10) == r"\xff×10"


def test_the_middle_is_left_out():
    assert shorten("abc", 3) == "abc"
    assert shorten("0123456789", 7) == "0123…89"
    assert all(len(shorten("x" * 50, most)) == most for most in range(1, 40))
