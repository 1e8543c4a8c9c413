"""tokenmill.compat.tiktoken → the results and exceptions of tiktoken, for the same calls.

Tests of compat/tiktoken/core.py, compat/tiktoken/load.py and compat/tiktoken/registry.py.
"""

from __future__ import annotations

import inspect
import json
import pickle
import random
import re
import sys
import types

import hard_inputs
import numpy as np
import pytest
import tiktoken as theirs
import tiktoken.load
import tiktoken.model
import tiktoken.registry
from conftest import SEED, examples, sample
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenmill.compat.tiktoken as ours

NAMES = ["gpt2", "r50k_base", "p50k_edit", "cl100k_base", "o200k_base", "o200k_harmony"]
TEXTS = [
    "",
    "hello world",
    "hello <|endoftext|> world",
    "<|endoftext|>",
    "naïve 中文 🙂\n\n  'LL\t1234",
    "a lone \ud83d and a pair \ud83d\ude42",
    "x" * 300,
    *sample(hard_inputs.STRINGS[:200]),
]


@pytest.fixture(scope="module", params=NAMES)
def pair(request, encodings):
    return ours.get_encoding(request.param), encodings[request.param]


def outcome(call, *args, **kwargs):
    """The result of a call, or the type and text of its exception."""
    try:
        return call(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)


def public(thing):
    return {
        name
        for name, value in vars(thing).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }


def test_public_names_and_signatures_are_tiktokens():
    methods = public(theirs.Encoding)
    assert methods <= public(ours.Encoding) | {"special_tokens_set"}
    for name in sorted(methods):
        real = inspect.getattr_static(theirs.Encoding, name)
        if not inspect.isfunction(real):
            continue
        wanted = inspect.signature(real).parameters.values()
        given_ = inspect.signature(getattr(ours.Encoding, name)).parameters.values()
        assert [(p.name, p.kind) for p in given_] == [(p.name, p.kind) for p in wanted], name
        defaults = [p.default for p in given_]
        assert defaults == [p.default for p in wanted], name
    for name in ("get_encoding", "encoding_for_model", "encoding_name_for_model"):
        assert hasattr(ours, name)
    assert ours.__version__ == theirs.__version__
    for module in ("load", "model", "registry"):
        real = getattr(theirs, module)
        functions = {name for name in public(real) if inspect.isfunction(getattr(real, name))}
        assert functions <= set(dir(getattr(ours, module))), module
    assert ours.model.MODEL_TO_ENCODING == theirs.model.MODEL_TO_ENCODING
    assert ours.model.MODEL_PREFIX_TO_ENCODING == theirs.model.MODEL_PREFIX_TO_ENCODING


def test_attributes_are_tiktokens(pair):
    mine, real = pair
    for name in ("name", "max_token_value", "n_vocab", "eot_token", "special_tokens_set"):
        assert getattr(mine, name) == getattr(real, name), name
    for name in ("_mergeable_ranks", "_special_tokens", "_pat_str"):
        assert getattr(mine, name) == getattr(real, name), name
    assert repr(mine) == repr(real)
    assert mine.token_byte_values() == real.token_byte_values()
    for id_ in (0, real.eot_token, real.max_token_value):
        assert mine.is_special_token(id_) == real.is_special_token(id_)
    with pytest.raises(AssertionError):
        mine.is_special_token("a")


ALLOWED = [
    {},
    {"allowed_special": "all"},
    {"allowed_special": {"<|endoftext|>"}},
    {"allowed_special": {"<|endoftext|>", "<|nope|>"}},
    {"disallowed_special": ()},
    {"disallowed_special": {"hello"}},
    {"disallowed_special": ["llo", "wor"]},
    {"allowed_special": {"<|endoftext|>"}, "disallowed_special": {"<|endoftext|>"}},
    {"allowed_special": "everything"},
]


# Numbers for names: those of sets change from one process to the next.
@pytest.mark.parametrize("options", ALLOWED, ids=range(len(ALLOWED)))
def test_encode_gives_tiktokens_ids_or_its_exception(pair, options):
    mine, real = pair
    for text in TEXTS:
        expected = outcome(real.encode, text, **options)
        got = outcome(mine.encode, text, **options)
        # Which of several special tokens is named first is not said.
        if isinstance(expected, tuple) and expected[0] is ValueError:
            assert got[0] is ValueError
            blank = re.compile("'[^']*'")
            assert blank.sub("", got[1]) == blank.sub("", expected[1])
        else:
            assert got == expected, text
        assert outcome(mine.encode_batch, [text, "b"], **options) == outcome(
            lambda text=text: [mine.encode(one, **options) for one in (text, "b")]
        )
        if "\ud83d" not in text:
            array = outcome(mine.encode_to_numpy, text, **options)
            wanted = outcome(real.encode_to_numpy, text, **options)
            if isinstance(wanted, tuple):
                assert array[0] is wanted[0]
            else:
                assert array.dtype == np.uint32
                assert array.tolist() == wanted.tolist()


def test_ordinary_encoding_is_tiktokens(pair):
    mine, real = pair
    for text in TEXTS:
        assert mine.encode_ordinary(text) == real.encode_ordinary(text)
    assert mine.encode_ordinary_batch(TEXTS) == real.encode_ordinary_batch(TEXTS)
    assert mine.encode_batch([], num_threads=1) == []


def test_decoding_is_tiktokens(pair):
    mine, real = pair
    rng = random.Random(SEED)
    for _ in range(examples(300)):
        ids = [rng.randrange(min(50_000, real.max_token_value)) for _ in range(rng.randrange(9))]
        assert mine.decode(ids) == real.decode(ids)
        assert mine.decode_bytes(tuple(ids)) == real.decode_bytes(ids)
        assert mine.decode_bytes(np.array(ids, np.uint32)) == real.decode_bytes(ids)
        assert mine.decode_tokens_bytes(ids) == real.decode_tokens_bytes(ids)
        assert outcome(mine.decode, ids, "strict") == outcome(real.decode, ids, "strict")
        assert outcome(mine.decode_with_offsets, ids) == outcome(real.decode_with_offsets, ids)
    batch = [real.encode_ordinary(text) for text in TEXTS]
    assert mine.decode_batch(batch, num_threads=2) == real.decode_batch(batch)
    assert mine.decode_bytes_batch(batch) == real.decode_bytes_batch(batch)
    for ids in (batch[4], batch[1]):
        assert mine.decode_with_offsets(ids) == real.decode_with_offsets(ids)


def test_wrong_ids_are_tiktokens_exceptions(pair):
    mine, real = pair
    gone = real.max_token_value + 1
    for ids in ([gone], [1, gone], [-1], [1 << 40]):
        assert outcome(mine.decode, ids) == outcome(real.decode, ids)
        assert outcome(mine.decode_bytes, ids) == outcome(real.decode_bytes, ids)
    for call in ("decode", "decode_bytes", "decode_tokens_bytes"):
        assert outcome(getattr(mine, call), ["a"])[0] is TypeError
        assert outcome(getattr(real, call), ["a"])[0] is TypeError
    assert outcome(mine.decode_single_token_bytes, gone) == outcome(
        real.decode_single_token_bytes, gone
    )


def test_single_tokens_are_tiktokens(pair):
    mine, real = pair
    for token in ("hello", b"\xe4", "<|endoftext|>", "hello world", b"\xff\xfe\xfd", "", "\x00"):
        assert outcome(mine.encode_single_token, token) == outcome(real.encode_single_token, token)
    assert mine.decode_single_token_bytes(mine.eot_token) == b"<|endoftext|>"


@pytest.mark.parametrize("text", [5, None, b"hello", ["hello"]], ids=str)
def test_input_other_than_str_is_a_type_error(pair, text):
    mine, real = pair
    assert outcome(mine.encode, text)[0] is outcome(real.encode, text)[0] is TypeError
    assert outcome(mine.encode_ordinary, text)[0] is TypeError


@pytest.mark.parametrize("name", ["r50k_base", "cl100k_base"])
def test_unstable_ends_are_tiktokens(encodings, name):
    mine, real = ours.get_encoding(name), encodings[name]
    texts = [
        "hello fanta",
        "hello  ",
        "a b \n\n ",
        "hello <|endoftext|>",
        "",
        "Ω",
        "def f(x):\n   ",
    ]
    for text in [*texts, *sample(hard_inputs.STRINGS[:40], name)]:
        if len(text) > 60 or any("\ud800" <= c < "\ue000" for c in text):
            continue
        stable, completions = mine.encode_with_unstable(text, allowed_special="all")
        wanted, others = real.encode_with_unstable(text, allowed_special="all")
        assert stable == wanted, text
        assert sorted(map(tuple, completions)) == sorted(map(tuple, others)), text
    with pytest.raises(ValueError, match="disallowed special token"):
        mine.encode_with_unstable("<|endoftext|>")


@given(st.binary(max_size=40))
@settings(max_examples=examples(150))
def test_bytes_are_encoded_as_tiktoken_does(encodings, data):
    mine, real = ours.get_encoding("cl100k_base"), encodings["cl100k_base"]
    assert mine._encode_bytes(data) == real._encode_bytes(data)
    if data:
        assert mine._encode_single_piece(data) == real._encode_single_piece(data)


def test_encodings_of_ones_own(encodings):
    base = encodings["cl100k_base"]
    arguments = {
        "name": "mine",
        "pat_str": base._pat_str,
        "mergeable_ranks": base._mergeable_ranks,
        "special_tokens": {**base._special_tokens, "<|im_start|>": 100264},
    }
    mine, real = ours.Encoding(**arguments), theirs.Encoding(**arguments)
    text = "<|im_start|>user\nhi<|endoftext|>"
    assert mine.encode(text, allowed_special="all") == real.encode(text, allowed_special="all")
    assert mine.n_vocab == real.n_vocab
    small = {bytes([i]): i for i in range(256)} | {b"ab": 256, b"abc": 257}
    for special_tokens, count in (({}, 258), ({"<s>": 258}, 259), ({"<s>": 300}, 259), ({}, 4)):
        options = {
            "pat_str": r"\w+|\W+",
            "mergeable_ranks": small,
            "special_tokens": special_tokens,
            "explicit_n_vocab": count,
        }
        assert outcome(lambda o=options: ours.Encoding("s", **o).encode("abc!")) == outcome(
            lambda o=options: theirs.Encoding("s", **o).encode("abc!")
        )
    # A special may have the id of a token.
    same = {"pat_str": ".", "mergeable_ranks": small, "special_tokens": {"<s>": 97}}
    for library in (ours, theirs):
        encoding = library.Encoding("same", **same)
        assert encoding.encode("<s>a", allowed_special="all") == [97, 97]
        assert encoding.decode([97]) == "a"
        assert outcome(lambda e=encoding: e.eot_token) == (KeyError, "'<|endoftext|>'")
    for library in (ours, theirs):
        with pytest.raises(ValueError, match=r"."):
            library.Encoding("bad", pat_str="(", mergeable_ranks=small, special_tokens={})


def test_registry_is_tiktokens():
    assert sorted(ours.list_encoding_names()) == sorted(theirs.list_encoding_names())
    assert ours.get_encoding("gpt2") is ours.get_encoding("gpt2")
    for name in ("nope", ""):
        got, wanted = outcome(ours.get_encoding, name), outcome(theirs.get_encoding, name)
        assert got[0] is wanted[0] is ValueError
        assert got[1].split("\n")[0] == wanted[1].split("\n")[0]
        assert got[1].split("\n")[2] == wanted[1].split("\n")[2]
    for call in ("get_encoding", "encoding_for_model", "encoding_name_for_model"):
        for value in (5, "nope-model"):
            if call != "get_encoding" and value == 5:
                continue  # an AttributeError in both
            got = outcome(getattr(ours, call), value)
            wanted = outcome(getattr(theirs, call), value)
            assert got[0] is wanted[0]
            if call != "get_encoding" or value == 5:
                assert got == wanted
    assert ours.encoding_for_model("gpt-4o").name == "o200k_base"
    assert ours.encoding_for_model("gpt-4-0613").name == "cl100k_base"


def test_plugins_are_found(monkeypatch, tmp_path):
    (tmp_path / "tiktoken_ext").mkdir()
    (tmp_path / "tiktoken_ext" / "mine.py").write_text(
        "def small():\n"
        "    ranks = {bytes([i]): i for i in range(256)}\n"
        "    return {'name': 'small', 'pat_str': '.', 'mergeable_ranks': ranks,\n"
        "            'special_tokens': {}}\n"
        "ENCODING_CONSTRUCTORS = {'small': small}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("tiktoken_ext")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(ours.registry, "ENCODING_CONSTRUCTORS", None)
    ours.registry._available_plugin_modules.cache_clear()
    try:
        assert "small" in ours.list_encoding_names()
        assert ours.get_encoding("small").encode("ab") == [97, 98]
    finally:
        ours.registry.ENCODINGS.pop("small", None)
        ours.registry._available_plugin_modules.cache_clear()


def test_pickles_come_back(pair):
    mine, _ = pair
    again = pickle.loads(pickle.dumps(mine))
    assert again.encode("hello world") == mine.encode("hello world")
    assert len(pickle.dumps(mine)) < 200
    own = ours.Encoding(
        "own", pat_str=".", mergeable_ranks={bytes([i]): i for i in range(256)}, special_tokens={}
    )
    assert pickle.loads(pickle.dumps(own)).encode("ab") == [97, 98]


def test_rank_files_are_loaded_and_written(tmp_path, monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "cache"))
    ranks = {bytes([i]): i for i in range(256)} | {b"ab": 256}
    path = str(tmp_path / "small.tiktoken")
    ours.load.dump_tiktoken_bpe(ranks, path)
    assert ours.load.load_tiktoken_bpe(path) == ranks
    # The second time it comes from the cache, which tiktoken reads too.
    (tmp_path / "small.tiktoken").unlink()
    assert ours.load.load_tiktoken_bpe(path) == theirs.load.load_tiktoken_bpe(path) == ranks
    data = ours.load.read_file_cached(path)
    assert ours.load.check_hash(data, "0" * 64) is False
    (tmp_path / "small.tiktoken").write_bytes(b"not base64!\n")
    for library in (ours, theirs):
        monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / library.__name__))
        with pytest.raises(ValueError, match="Hash mismatch"):
            library.load.load_tiktoken_bpe(path, "0" * 64)
        with pytest.raises(ValueError, match="Error parsing line"):
            library.load.load_tiktoken_bpe(path)


def test_data_gym_files_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\nh e\nhe y\n", encoding="utf-8")
    ranks = ours.load.data_gym_to_mergeable_bpe_ranks
    base = theirs.load.data_gym_to_mergeable_bpe_ranks
    order = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in order]
    names = [chr(b) for b in order] + [chr(256 + i) for i in range(len(hidden))]
    encoder = {name: rank for rank, name in enumerate([*names, "he", "hey", "<|endoftext|>"])}
    (tmp_path / "encoder.json").write_text(json.dumps(encoder), encoding="utf-8")
    files = str(tmp_path / "vocab.bpe"), str(tmp_path / "encoder.json")
    assert ranks(*files) == base(*files)
    encoder["he"] = 5000
    (tmp_path / "encoder.json").write_text(json.dumps(encoder), encoding="utf-8")
    for call in (ranks, base):
        with pytest.raises(AssertionError):
            call(*files)
