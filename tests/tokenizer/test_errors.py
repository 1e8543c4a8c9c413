"""Every mistake has an error that names the value and the way out; no call ends the process.

Tests of tokenmill/arguments.py and tokenmill/errors.py.
"""

from __future__ import annotations

import array
import base64
import builtins
import inspect
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import write_ranks

from tokenmill import Tokenizer, errors
from tokenmill.errors import (
    OptionError,
    PatternError,
    TokenmillError,
    UnknownTokenError,
    VocabularyError,
)
from tokenmill.patterns import compile_pattern

BYTES = [bytes([byte]) for byte in range(256)]
ALL = r"(?s:.)"


def raises(error: type[Exception], *parts: object):
    """The error, with all `parts` in its message, in this order."""
    return pytest.raises(error, match="(?s)" + ".*".join(re.escape(str(part)) for part in parts))


@pytest.fixture
def rank_file(tmp_path):
    """A file of the given text as a rank file."""

    def make(text: str) -> str:
        path = tmp_path / "file.tiktoken"
        path.write_text(text)
        return str(path)

    return make


@pytest.fixture
def bytes_only(tmp_path):
    return write_ranks(tmp_path / "bytes.tiktoken", BYTES)


# ── the exceptions ───────────────────────────────────────────────────────────────────────────

CLASSES = [value for value in vars(errors).values() if inspect.isclass(value)]
ERRORS = [value for value in CLASSES if not issubclass(value, Warning)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_is_also_the_builtin_that_a_caller_expects(error):
    assert issubclass(error, TokenmillError)
    if error is not TokenmillError:
        expected = {e for e in vars(builtins).values() if inspect.isclass(e)} - {Exception}
        assert expected & set(error.__bases__), f"{error.__name__} is not a builtin"


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_every_error_prints_its_message_and_survives_pickling(error):
    assert str(error("id 7 is unknown")) == "id 7 is unknown"
    again = pickle.loads(pickle.dumps(error("id 7 is unknown")))
    assert (type(again), str(again)) == (error, "id 7 is unknown")


def test_missing_package_has_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    said = f"the test needs the package shtab; run: {sys.executable} -m pip install shtab"
    with raises(errors.MissingExtraError, said):
        errors.import_package("shtab", "the test")


# ── load ─────────────────────────────────────────────────────────────────────────────────────


def test_unknown_name_lists_the_embedded_ones():
    for name in ("cl100k", "gpt4", "no/such/file.tiktoken", ""):
        with raises(VocabularyError, repr(name), "cl100k_base", "o200k_base"):
            Tokenizer.load(name)


def test_mistyped_name_suggests_the_nearest():
    with raises(VocabularyError, "'cl100k-base'", "did you mean", "'cl100k_base'"):
        Tokenizer.load("cl100k-base")


def test_folder_without_a_tokenizer_names_the_supported_files(tmp_path):
    with raises(VocabularyError, tmp_path, "has no tokenizer", "tokenizer.json"):
        Tokenizer.load(tmp_path)


def test_name_that_is_not_a_path_is_a_type_error():
    for value in (None, 5, ["cl100k_base"]):
        with pytest.raises(TypeError):
            Tokenizer.load(value)


def test_rank_file_without_pattern_asks_for_it(bytes_only):
    with raises(VocabularyError, bytes_only, "pattern="):
        Tokenizer.load(bytes_only)


def test_embedded_vocabulary_keeps_its_pattern():
    with raises(
        VocabularyError, "cl100k_base has its own pattern", 'save("x.tiktoken")', "pattern="
    ):
        Tokenizer.load("cl100k_base", pattern=r"\S+")


def test_pattern_of_another_type_is_named(bytes_only):
    for value in (5, b"\\S+"):
        with raises(TypeError, "pattern", repr(value)):
            Tokenizer.load(bytes_only, pattern=value)


def test_pattern_that_cannot_be_read_is_shown(bytes_only):
    for pattern in ("(", "[a", r"\p{Nonsense}", "a{3,1}", "*a", r"(a)\1", "(?P<n"):
        with raises(PatternError, "pattern"):
            Tokenizer.load(bytes_only, pattern=pattern)


def test_specials_of_another_type_are_named(bytes_only):
    for value in (["<s>"], "<s>", {"<s>"}, 5):
        with raises(TypeError, "special_tokens", "<s>" if "s" in str(value) else "5"):
            Tokenizer.load(bytes_only, pattern=ALL, special_tokens=value)


def test_special_needs_a_name(bytes_only):
    for name in ("", 5, b"<s>", None):
        with raises(VocabularyError, "special", repr(name)):
            Tokenizer.load(bytes_only, pattern=ALL, special_tokens={name: 300})


def test_special_with_a_lone_surrogate_is_refused(bytes_only):
    with raises(VocabularyError, repr("<\ud800>"), "surrogate"):
        Tokenizer.load(bytes_only, pattern=ALL, special_tokens={"<\ud800>": 300})


def test_special_needs_an_id(bytes_only):
    for id in (-1, 2**32, "300", 3.0, None, True):
        with raises(VocabularyError, "'<s>'", repr(id)):
            Tokenizer.load(bytes_only, pattern=ALL, special_tokens={"<s>": id})


def test_special_with_the_id_of_a_token_is_an_error_with_a_free_id(bytes_only):
    with raises(VocabularyError, "'<s>'", "97", "b'a'", "256"):
        Tokenizer.load(bytes_only, pattern=ALL, special_tokens={"<s>": 97})
    with raises(VocabularyError, "'<s>'", "100", "50257"):  # 50256 is <|endoftext|>
        Tokenizer.load("r50k_base", special_tokens={"<s>": 100})


def test_line_without_a_rank_is_shown_with_its_number(rank_file):
    good = base64.b64encode(b"a").decode()
    for bad in ("YQ", "YQ== one", "YQ== 1 2", "!!!! 1", "YQ== 1.5", '{"a": 1}', "\x00 1"):
        path = rank_file(f"{good} 0\n\n{bad}\n")
        with raises(VocabularyError, path, "line 3", bad[:4].strip("\x00")):
            Tokenizer.load(path, pattern=ALL)


def test_binary_file_is_not_a_tokenizer(tmp_path):
    data = bytes(range(256)) * 4
    path = tmp_path / "x.bin"
    path.write_bytes(data)
    with raises(VocabularyError, path, "not a tokenizer file", "rank file"):
        Tokenizer.load(path, pattern=ALL)
    path = tmp_path / "x.tiktoken"
    path.write_bytes(data)
    with raises(VocabularyError, path, "line 1", "pass a tiktoken rank file"):
        Tokenizer.load(path, pattern=ALL)


def test_duplicate_token_is_shown(rank_file):
    path = rank_file("YQ== 0\nYg== 1\nYQ== 2\n")
    with raises(VocabularyError, path, "line 3", "b'a'", "twice"):
        Tokenizer.load(path, pattern=ALL)


def test_rank_of_two_tokens_is_named(rank_file):
    with raises(VocabularyError, "line 2", "b'b'", "b'a'", "share rank 7"):
        Tokenizer.load(rank_file("YQ== 7\nYg== 7\n"), pattern=ALL)


def test_rank_out_of_range_is_named(rank_file):
    with raises(VocabularyError, "line 1", "-1"):
        Tokenizer.load(rank_file("YQ== -1\n"), pattern=ALL)
    for rank in (2**32, 10**30):
        with raises(VocabularyError, rank, "too large"):
            Tokenizer.load(rank_file(f"YQ== {rank}\n"), pattern=ALL)


def test_file_without_tokens_is_named(rank_file):
    for text in ("", "\n\n"):
        path = rank_file(text)
        with raises(VocabularyError, path, "has no tokens"):
            Tokenizer.load(path, pattern=ALL)


def test_file_of_a_size_that_no_vocabulary_has_is_not_read(tmp_path):
    path = tmp_path / "huge.tiktoken"
    with path.open("wb") as file:
        file.truncate((256 << 20) + 1)  # a sparse file
    with raises(VocabularyError, path, "268,435,457", "too large"):
        Tokenizer.load(path, pattern=ALL)


def test_tokenizer_is_made_by_load():
    with raises(TypeError, "Tokenizer.load("):
        Tokenizer()


# ── encode, count, truncate ──────────────────────────────────────────────────────────────────

ONE_TEXT = ("encode", "encode_array", "encode_with_offsets", "count")
MANY_TEXTS = ("encode_batch", "encode_ragged", "count_batch")


@pytest.mark.parametrize("method", ONE_TEXT)
@pytest.mark.parametrize("text", [None, 5, ["a"], 1.5, object], ids=str)
def test_text_of_another_type_is_named(cl100k, method, text):
    with raises(TypeError, "str or bytes", type(text).__name__):
        getattr(cl100k, method)(text)


@pytest.mark.parametrize("method", MANY_TEXTS)
@pytest.mark.parametrize("texts", ["text", b"text", bytearray(b"text"), memoryview(b"text")])
def test_one_text_is_not_a_batch(cl100k, method, texts):
    with raises(TypeError, "list of texts", type(texts).__name__, "[text]"):
        getattr(cl100k, method)(texts)


@pytest.mark.parametrize("method", MANY_TEXTS)
@pytest.mark.parametrize("texts", [None, 5])
def test_batch_that_is_not_iterable_is_a_type_error(cl100k, method, texts):
    with pytest.raises(TypeError):
        getattr(cl100k, method)(texts)


@pytest.mark.parametrize("method", MANY_TEXTS)
@pytest.mark.parametrize("item", [None, 5, ["a"]], ids=str)
def test_item_of_another_type_is_named_with_its_place(cl100k, method, item):
    with raises(TypeError, "texts[2]", "str or bytes", type(item).__name__):
        getattr(cl100k, method)(["a", b"b", item, "c"])


@pytest.mark.parametrize("method", MANY_TEXTS)
@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
def test_thread_count_is_a_positive_int(cl100k, method, threads):
    kind = OptionError if type(threads) is int else TypeError
    with raises(kind, "threads", "None for all", repr(threads)):
        getattr(cl100k, method)(["a"], threads=threads)


@pytest.mark.parametrize("method", [*ONE_TEXT, *MANY_TEXTS])
@pytest.mark.parametrize("allowed_special", ["<|endoftext|>", b"<|endoftext|>", 5, None], ids=repr)
def test_specials_are_a_bool_or_a_set(cl100k, method, allowed_special):
    text = "a" if method in ONE_TEXT else ["a"]
    with raises(
        TypeError,
        "allowed_special",
        'False, True, "none" or a set of special tokens',
        repr(allowed_special),
    ):
        getattr(cl100k, method)(text, allowed_special=allowed_special)


@pytest.mark.parametrize("method", [*ONE_TEXT, *MANY_TEXTS])
def test_unknown_special_lists_those_that_exist(cl100k, method):
    text = "a" if method in ONE_TEXT else ["a"]
    with raises(UnknownTokenError, "'<|im_start|>'", "<|endoftext|>"):
        getattr(cl100k, method)(text, allowed_special={"<|endoftext|>", "<|im_start|>"})


def test_dtype_other_than_two_is_refused(cl100k):
    for dtype in (np.int64, "uint8", float, ">u4"):
        with raises(OptionError, "dtype", "uint32", "uint16", np.dtype(dtype)):
            cl100k.encode_array("a", dtype=dtype)


def test_dtype_that_is_too_small_names_the_other(cl100k):
    with raises(OptionError, "cl100k_base", "100,276", "uint16", "uint32"):
        cl100k.encode_array("a", dtype=np.uint16)


def test_byte_without_a_token_is_named(tmp_path):
    path = write_ranks(tmp_path / "few.tiktoken", [b"a", b"b", b"ab", b"\xc3"])
    tokenizer = Tokenizer.load(path, pattern=ALL + "+")
    assert tokenizer.encode("abba") == [2, 1, 0]
    for text in ("abc", b"abc"):
        for call in (tokenizer.encode, tokenizer.count, tokenizer.encode_array):
            with raises(VocabularyError, "63"):  # c, in hexadecimal
                call(text)
    with raises(VocabularyError, "63"):
        tokenizer.encode_batch(["ab", "abc", "b"])
    with pytest.raises(VocabularyError):
        tokenizer.encode("abé")
    assert tokenizer.encode_batch(["ab", "b"]) == [[2], [1]]


def test_truncate_side_is_left_or_right(cl100k):
    for side in ("middle", None, 0, "Right"):
        with raises(OptionError, "left", "right", repr(side)):
            cl100k.truncate("a", 1, side)


def test_truncate_needs_a_count(cl100k):
    for value in ("1", 1.0, None, True):
        with raises(TypeError, "max_tokens", repr(value)):
            cl100k.truncate("a", value)
    with raises(OptionError, "max_tokens", "0 or more", -1):
        cl100k.truncate("a", -1)


def test_truncate_of_another_type_is_named(cl100k):
    for text in (None, 5, ["a"]):
        with raises(TypeError, "str or bytes", type(text).__name__):
            cl100k.truncate(text, 1)


# ── decode ───────────────────────────────────────────────────────────────────────────────────


# Below zero, in a gap of cl100k_base, its end, and beyond 32 and 64 bits.
UNKNOWN_IDS = [-1, 100256, 100261, 100277, 2**31, 2**32, 2**32 + 64, 2**64, -(2**64)]


@pytest.mark.parametrize("id", UNKNOWN_IDS)
def test_unknown_id_is_named(cl100k, id):
    calls = [
        lambda: cl100k.decode([64, id]),
        lambda: cl100k.decode_bytes((64, id)),
        lambda: cl100k.decode_batch([[64], [64, id]]),
        lambda: cl100k.id_to_token(id),
        lambda: cl100k.stream_decoder().push(id),
    ]
    if -(2**63) <= id < 2**63:
        calls.append(lambda: cl100k.decode(np.array([64, id], np.int64)))
    for call in calls:
        with raises(UnknownTokenError, id):
            call()
        with pytest.raises(KeyError):
            call()


def test_largest_unsigned_id_is_named(cl100k):
    with raises(UnknownTokenError, 2**64 - 1):
        cl100k.decode(np.array([64, 2**64 - 1], np.uint64))


@pytest.mark.parametrize("ids", ["text", b"text", 5, None, 1.5], ids=repr)
def test_ids_of_another_type_are_named(cl100k, ids):
    for call in (cl100k.decode, cl100k.decode_bytes):
        with raises(TypeError, "ids", type(ids).__name__):
            call(ids)


@pytest.mark.parametrize("id", ["a", 1.0, None, b"a"], ids=repr)
def test_id_of_another_type_is_named_with_its_place(cl100k, id):
    for call in (cl100k.decode, cl100k.decode_bytes):
        with raises(TypeError, "ids[1]", repr(id)):
            call([64, id])


def test_arrays_of_another_shape_or_type_are_named(cl100k):
    with raises(TypeError, "2-dimensional", "decode_batch"):
        cl100k.decode(np.array([[64, 65]]))
    with raises(TypeError, "float64"):
        cl100k.decode(np.array([64.0]))


def test_error_handler_that_does_not_exist_is_named(cl100k):
    for errors_name in ("nonsense", None, 5):
        for call in (
            lambda: cl100k.decode([64], errors=errors_name),  # noqa: B023
            lambda: cl100k.decode_batch([[64]], errors=errors_name),  # noqa: B023
            lambda: cl100k.stream_decoder(errors=errors_name),  # noqa: B023
        ):
            with raises(OptionError, "errors", "replace", repr(errors_name)):
                call()


def test_unknown_token_is_shown(cl100k):
    with raises(UnknownTokenError, "b'no such token'", "cl100k_base"):
        cl100k.token_to_id(b"no such token")
    with raises(UnknownTokenError, "b''"):
        cl100k.token_to_id(b"")


def test_token_of_another_type_is_a_type_error(cl100k):
    for value in (None, 1.5):
        with pytest.raises(TypeError):
            cl100k.token_to_id(value)


def test_attributes_cannot_be_set(cl100k):
    with raises(AttributeError, "name"):
        cl100k.name = "x"


def test_save_into_a_missing_folder_leaves_no_file(cl100k, tmp_path):
    with pytest.raises(FileNotFoundError):
        cl100k.save(tmp_path / "missing" / "x.tiktoken")
    assert list(tmp_path.iterdir()) == []


def test_ragged_index_out_of_range_is_named(cl100k):
    ragged = cl100k.encode_ragged(["a", "b"])
    for index in (2, -3):
        with raises(IndexError, index, 2):
            ragged[index]


# ── No value is guessed ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pattern", ["cl100k_bas", "bogus", "", "p50k edit"])
def test_word_that_is_not_a_scheme_is_rejected_as_a_pattern(bytes_only, pattern):
    """As a regular expression it would match itself alone, and all other text would vanish."""
    with raises(PatternError, repr(pattern), "cl100k", f"(?:{pattern})"):
        Tokenizer.load(bytes_only, pattern=pattern)


def test_embedded_names_are_schemes_too(bytes_only):
    for name in ("gpt2", "p50k_edit", "o200k_harmony"):
        assert Tokenizer.load(bytes_only, pattern=name).encode("a b") == [97, 32, 98]


def test_file_named_like_a_model_is_not_taken_for_the_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Tokenizer.load("gpt2").save("gpt-4-mine.tiktoken")
    with raises(VocabularyError, "gpt-4-mine.tiktoken", "cl100k_base", "pathlib.Path"):
        Tokenizer.load("gpt-4-mine.tiktoken")
    mine = Tokenizer.load(Path("gpt-4-mine.tiktoken"), pattern="gpt2")
    assert mine.encode("hello world") == Tokenizer.load("gpt2").encode("hello world")
    with raises(VocabularyError, "gpt-5/ranks", "neither a file"):
        Tokenizer.load("gpt-5/ranks")


def test_specials_do_not_share_an_id(bytes_only):
    with raises(VocabularyError, "<x>", "<|endoftext|>", "50256"):
        Tokenizer.load("gpt2", special_tokens={"<x>": 50256})
    with raises(VocabularyError, "<|endoftext|>", "gpt2", "50256", "50300"):
        Tokenizer.load("gpt2", special_tokens={"<|endoftext|>": 50300})
    with raises(VocabularyError, "'x'", "'y'", "300"):
        Tokenizer.load(bytes_only, pattern=ALL, special_tokens={"x": 300, "y": 300})


@pytest.mark.parametrize("text", [np.arange(3), np.array("abc"), array.array("I", [1])], ids=repr)
def test_numbers_are_not_text(cl100k, text):
    for method in ONE_TEXT:
        with raises(TypeError, "str or bytes", "decode()"):
            getattr(cl100k, method)(text)
    with raises(TypeError, "texts[1]", "decode()"):
        cl100k.encode_batch(["a", text])


def test_views_with_steps_are_text(cl100k):
    assert cl100k.encode(memoryview(b"h-e-l-l-o")[::2]) == cl100k.encode("hello")
    ids, spans = cl100k.encode_with_offsets(memoryview(b"h-e-l-l-o")[::2])
    assert (ids, spans) == (cl100k.encode("hello"), [(0, 5)])
    assert cl100k.encode_batch([memoryview(b"a-b")[::2]]) == [cl100k.encode("ab")]
    assert cl100k.encode(np.frombuffer(b"h-e-l-l-o", np.uint8)[::2]) == cl100k.encode("hello")


def test_numpy_integers_are_integers(cl100k):
    assert cl100k.truncate("one two", np.int64(1)) == "one"
    assert cl100k.encode_batch(["a"], threads=np.int32(2)) == [[64]]


@pytest.mark.parametrize("token", [5, 10**11, None, ["a"]])
def test_token_of_another_type_is_named(cl100k, token):
    with raises(TypeError, "token", repr(token)):
        cl100k.token_to_id(token)


def test_pattern_of_a_million_steps_is_refused():
    for pattern in (r"(a{1000}){1000}", r"(?:a?){900}b|."):
        with raises(PatternError, "more than"):
            compile_pattern(pattern)


def test_save_follows_links_and_writes_to_devices(tmp_path):
    tokenizer = Tokenizer.load("gpt2")
    (tmp_path / "link.tiktoken").symlink_to(tmp_path / "real.tiktoken")
    tokenizer.save(tmp_path / "link.tiktoken")
    assert (tmp_path / "link.tiktoken").is_symlink()
    assert (tmp_path / "real.tiktoken").stat().st_size > 800_000
    os.mkfifo(tmp_path / "fifo.tiktoken")
    with subprocess.Popen(
        ["wc", "-c", tmp_path / "fifo.tiktoken"], stdout=subprocess.PIPE
    ) as reader:
        tokenizer.save(tmp_path / "fifo.tiktoken")
        assert reader.communicate()[0].startswith(b"8")
    assert (tmp_path / "fifo.tiktoken").is_fifo()


def test_save_error_names_the_path_that_was_given(tmp_path):
    with raises(OSError, "nowhere/x.tiktoken"):
        Tokenizer.load("gpt2").save(tmp_path / "nowhere" / "x.tiktoken")


def test_subclass_is_pickled_as_itself():
    tokenizer = OwnTokenizer.load("gpt2")
    assert type(pickle.loads(pickle.dumps(tokenizer))) is OwnTokenizer


class OwnTokenizer(Tokenizer):
    """At module level, so that pickle finds it."""
