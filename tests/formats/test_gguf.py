"""GGUF → TokenizerSpec: equal to the gguf package and to the source of the file."""

from __future__ import annotations

import json
import lzma
import os
import re
from pathlib import Path

import gguf
import numpy as np
import pytest
import sentencepiece
import sentencepiece_models
import tokenizers as huggingface
from conftest import SHARED_DATA, sample
from gguf_files import from_json, from_pieces, write
from smaller_files import beginning
from spec_reference import ReferenceEncoder

from tokenmill.errors import VocabularyError
from tokenmill.formats import gguf as reader
from tokenmill.formats import sentencepiece as sentencepiece_reader
from tokenmill.formats import tokenizer_json
from tokenmill.formats.gguf import PRETOKENIZERS
from tokenmill.formats.names import byte_characters, bytes_of
from tokenmill.formats.spec import DECODED, TOKEN, Added, Item, TokenizerSpec
from tokenmill.patterns import compile_pattern
from tokenmill.patterns.schemes import PATTERNS, Pattern, scheme_of


def read(path: Path) -> TokenizerSpec:
    return reader.read(path, path.name)


def tokens(parts: TokenizerSpec) -> dict[int, bytes]:
    ends = np.cumsum(parts.model.lengths).tolist()
    data = [parts.model.data[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    return dict(zip(parts.model.ids.tolist(), data, strict=True))


# ── The file ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("tensor", [False, True])
def test_metadata_are_those_of_the_gguf_package(tmp_path, tensor):
    path = write(
        tmp_path / "x.gguf",
        tensor=tensor,
        add_tokenizer_pre="gpt-2",
        add_token_list=["a", "é", ""],
        add_token_types=[1, 1, 5],
        add_token_scores=[0.5, -1.0, -1e9],
        add_bos_token_id=1,
        add_add_bos_token=True,
    )
    theirs = gguf.GGUFReader(path)
    ours = reader.metadata(path, "x.gguf")
    assert {key for key in theirs.fields if key.startswith("tokenizer.")} == {
        key for key in ours if key.startswith("tokenizer.")
    }
    for key, value in ours.items():
        expected = theirs.fields[key].contents()
        if isinstance(value, list):
            value = [text.decode() for text in value]
        elif isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, np.ndarray):
            value = value.tolist()
        assert value == expected, key


def refused(path: Path, *words: str) -> None:
    match = "(?s)" + ".*".join(map(re.escape, [path.name, *words]))
    with pytest.raises(VocabularyError, match=match) as error:
        read(path)
    assert ";" in str(error.value)


@pytest.mark.parametrize(
    ("at", "data", "words"),
    [
        (0, b"GGUf", ["begins with", "GGUf"]),
        (4, b"\x01", ["version 1 is not supported"]),
        (4, b"\x00\x00\x00\x03", ["(big-endian)"]),
        (16, b"\xff" * 8, ["18,446,744,073,709,551,615 pairs"]),
        (24, b"\xff\xff\x01", ["a text has 131,071 bytes"]),
    ],
)
def test_head_that_is_wrong_is_refused(tmp_path, at, data, words):
    path = write(tmp_path / "x.gguf")
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)
    refused(path, *words, "download the file again")


def test_short_and_special_files_are_rejected(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    refused(tmp_path / "x.gguf", "truncated")
    os.mkfifo(tmp_path / "pipe.gguf")
    refused(tmp_path / "pipe.gguf", "regular file")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("bert", ["'bert'", "'llama' and 'gpt2'"]),
        ("t5", ["'t5'"]),
        (None, ["tokenizer.ggml.model is missing"]),
    ],
)
def test_other_kinds_are_refused(tmp_path, model, words):
    refused(write(tmp_path / "x.gguf", model), *words)


def test_tokenizer_json_within_is_the_better_source(tmp_path, monkeypatch):
    path = write(tmp_path / "x.gguf", "bert", add_tokenizer_pre="x")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string(reader.HUGGING_FACE, "{}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    seen: list[tuple[bytes, str]] = []
    monkeypatch.setattr(tokenizer_json, "read", lambda *given: seen.append(given))
    assert reader.read(path, "x.gguf") is None
    assert seen == [(b"{}", "x.gguf, tokenizer.huggingface.json")]


# ── Pieces ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def pieces() -> bytes:
    return sentencepiece_models.trained(**sentencepiece_models.OPTIONS["Llama's"])


def same_model(ours: TokenizerSpec, theirs: TokenizerSpec) -> None:
    for name in ("data", "base", "whole", "missing", "unk", "merges"):
        assert getattr(ours.model, name) == getattr(theirs.model, name)
    for name in ("lengths", "ids", "kinds", "order"):
        assert np.array_equal(getattr(ours.model, name), getattr(theirs.model, name))


def test_pieces_are_those_of_the_model(tmp_path, pieces):
    parts = read(from_pieces(tmp_path / "x.gguf", pieces))
    theirs = sentencepiece_reader.read(pieces, "x.model")
    same_model(parts, theirs)
    assert (parts.blank, parts.prefix, parts.steps) == (True, "always", ())
    assert parts.added == (Added("<unk>", 0), Added("<s>", 1), Added("</s>", 2))
    assert parts.decoder == theirs.decoder
    twin = ReferenceEncoder(parts)
    processor = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    for text in sample(sentencepiece_models.TEXTS):
        assert twin.encode(text) == processor.encode(text)


def test_texts_begin_and_end_as_the_file_says(tmp_path, pieces):
    first, last = Item("<s>", 0, (1,), ("<s>",)), Item("</s>", 0, (2,), ("</s>",))
    text = Item("A", 0, None)
    for number, (values, expected) in enumerate(
        [
            ({}, (first, text)),
            ({"add_add_bos_token": False}, (text,)),
            ({"add_add_eos_token": True}, (first, text, last)),
            ({"add_bos_token_id": 2, "add_add_space_prefix": False}, (last, text)),
        ]
    ):
        parts = read(from_pieces(tmp_path / f"{number}.gguf", pieces, **values))
        assert parts.template.single == expected
    assert parts.prefix == "never"
    assert parts.template.pair == (
        *(last, text, Item("</s>", 1, (2,), ("</s>",)), Item("B", 1, None)),
    )
    assert parts.decoder["decoders"][-1] == {"type": "Fuse"}


SMALL = {
    "add_token_list": ["<unk>", "▁", "a", "b", "ab", "<x>", "[PAD6]", "  "],
    "add_token_scores": [0.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0, 0.0],
    "add_token_types": [2, 1, 1, 1, 1, 3, 5, 4],
}


def test_user_defined_tokens_are_found_in_the_text_as_it_is(tmp_path):
    parts = read(write(tmp_path / "x.gguf", "llama", **SMALL))
    assert parts.added == (Added("<unk>", 0), Added("<x>", 5), Added("  ", 7, special=False))
    assert parts.model.missing == "unk"
    assert parts.model.kinds.tolist() == [DECODED, *[TOKEN] * 4, *[DECODED] * 3]


def test_tokens_of_phi_strip_spaces_after_them(tmp_path):
    path = write(tmp_path / "x.gguf", "llama", name="Phi-3 mini", **SMALL)
    assert [one.rstrip for one in read(path).added] == [False, True, True]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"add_token_list": []}, ["0 tokens"]),
        ({"add_token_scores": [0.0]}, ["scores has 1 numbers", "expected 8"]),
        ({"add_token_types": [2, 1, 1, 1, 1, 3, 5, 9]}, ["unknown type 9"]),
        ({"add_token_types": [2, 1, 1, 1, 1, 3, 1, 4]}, ["'[PAD6]'", "no piece"]),
        ({"add_token_types": [2, 1, 1, 1, 5, 3, 5, 4]}, ["unused piece", "'ab'"]),
        ({"add_token_types": [1.0]}, ["token_type", "float32"]),
        ({"add_unk_token_id": 99}, ["unknown_token_id is 99"]),
        ({"add_bos_token_id": 99}, ["bos_token_id is 99"]),
        ({"add_remove_extra_whitespaces": True}, ["has a normalizer", "tokenizer.model"]),
        ({"add_precompiled_charsmap": b"abc"}, ["has a normalizer"]),
    ],
)
def test_pieces_that_cannot_be_done_exactly_are_refused(tmp_path, values, words):
    refused(write(tmp_path / "x.gguf", "llama", **{**SMALL, **values}), *words)


def test_pieces_without_scores_are_refused(tmp_path):
    values = {name: value for name, value in SMALL.items() if name != "add_token_scores"}
    refused(write(tmp_path / "x.gguf", "llama", **values), "tokenizer.ggml.scores is missing")


# ── Byte-level tokens ────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def document() -> dict:
    """A tokenizer.json of bytes that Hugging Face trained, with added tokens and a gap."""
    tokenizer = huggingface.Tokenizer(huggingface.models.BPE())
    tokenizer.pre_tokenizer = huggingface.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = huggingface.trainers.BpeTrainer(
        vocab_size=900,
        show_progress=False,
        special_tokens=["<|end|>"],
        initial_alphabet=huggingface.pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(sentencepiece_models.LINES, trainer)
    tokenizer.add_tokens(["<tool>", "  "])
    found = json.loads(tokenizer.to_str())
    found["added_tokens"][-1]["id"] += 3
    return found


def same_as_json(parts: TokenizerSpec, document: dict) -> None:
    added = {one["id"]: one for one in document["added_tokens"]}
    expected = {
        id_: bytes_of(text) for text, id_ in document["model"]["vocab"].items() if id_ not in added
    }
    found, kinds = tokens(parts), parts.model.kinds.tolist()
    assert {
        id_: found[id_]
        for id_, kind in zip(parts.model.ids.tolist(), kinds, strict=True)
        if kind == TOKEN
    } == {id_: data for id_, data in expected.items() if data is not None}
    assert sorted(found) == list(range(len(found)))
    assert [(one.content, one.id, one.special) for one in parts.added] == [
        (one["content"], one["id"], one["special"]) for _, one in sorted(added.items())
    ]
    ids = parts.model.ids[parts.model.merges].tolist()
    merges = [
        one.split(" ") if isinstance(one, str) else one for one in document["model"]["merges"]
    ]
    vocabulary = document["model"]["vocab"]
    assert ids == [[vocabulary[left], vocabulary[right]] for left, right in merges]


def test_tokens_and_merges_are_those_of_tokenizer_json(tmp_path, document):
    path = from_json(tmp_path / "x.gguf", document, add_tokenizer_pre="gpt-2")
    parts = read(path)
    same_as_json(parts, document)
    assert tokens(parts)[len(tokens(parts)) - 2] == b"[PAD%d]" % (len(tokens(parts)) - 2)
    assert (parts.model.base, parts.model.missing, parts.model.whole) == ("bytes", "fail", False)
    assert (parts.blank, parts.prefix, parts.steps) == (False, "never", ())
    assert parts.template.single == (Item("A", 0, None),)
    assert parts.decoder["type"] == "ByteLevel"


def test_token_outside_of_the_alphabet_is_only_decoded(tmp_path):
    alphabet = [*byte_characters(), "ab", "<｜x｜>", "", "né"]
    path = write(
        tmp_path / "x.gguf",
        add_tokenizer_pre="llama-bpe",
        add_token_list=alphabet,
        add_token_merges=["a b", "a b"],
        add_bos_token_id=257,
    )
    parts = read(path)
    kinds = dict(zip(parts.model.ids.tolist(), parts.model.kinds.tolist(), strict=True))
    assert [kinds[id_] for id_ in (97, 256, 257, 258, 259)] == [TOKEN, TOKEN, *[DECODED] * 2, TOKEN]
    found = tokens(parts)
    assert [found[id_] for id_ in (257, 258, 259)] == ["<｜x｜>".encode(), b"[EMPTY_258]", b"n\xe9"]
    assert parts.model.whole
    assert len(parts.model.merges) == 1
    assert parts.template.single[0].ids == (257,)


ALPHABET = {
    "add_tokenizer_pre": "gpt-2",
    "add_token_list": [*byte_characters(), "ab"],
    "add_token_merges": ["a b"],
}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"add_tokenizer_pre": "mystery"}, ["tokenizer.ggml.pre", "'mystery'", "tokenizer.json"]),
        ({"add_tokenizer_pre": "default"}, ["'default'"]),
        ({"add_token_merges": ["a b", "b c"]}, ["merge 1", "b c"]),
        ({"add_token_merges": ["ab"]}, ["merge 0", "ab"]),
        ({"add_token_merges": ["a b a", "b"]}, ["merge 0", "a b a"]),
        ({"add_token_merges": [" ab"]}, ["merge 0"]),
        ({"add_token_types": [1] * 97 + [3] + [1] * 159}, ["merge 0", "byte-level tokens"]),
        ({"add_token_types": [1] * 256 + [6]}, ["contains byte tokens"]),
        ({"add_token_list": ["a", "b", "ab", "a"]}, ["tokens 0 and 3", "'a'"]),
        ({"add_token_list": ["a", "b", "ab", b"\xff"]}, ["not UTF-8"]),
        ({"add_token_list": ["a", "b", "ab", "x" * 70_000]}, ["70,000 bytes"]),
    ],
)  # fmt: skip
def test_tokens_that_cannot_be_done_exactly_are_refused(tmp_path, values, words):
    refused(write(tmp_path / "x.gguf", **{**ALPHABET, **values}), *words)


@pytest.mark.parametrize("name", ["add_tokenizer_pre", "add_token_merges"])
def test_tokens_without_pretokenizer_or_merges_are_refused(tmp_path, name):
    values = {key: value for key, value in ALPHABET.items() if key != name}
    key = {"add_tokenizer_pre": "pre", "add_token_merges": "merges"}[name]
    refused(write(tmp_path / "x.gguf", **values), f"tokenizer.ggml.{key}")


# ── Pretokenizers ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        *(("gpt-2", "r50k"), ("llama-bpe", "llama3"), ("glm4", "llama3"), ("qwen2", "qwen2")),
        *(("qwen35", "qwen35"), ("gpt-4o", "o200k"), ("tekken", "tekken")),
    ],
)
def test_names_of_known_schemes_are_spelled_as_those(name, scheme):
    (stage,) = PRETOKENIZERS.get(name).stages
    assert stage.match.text in PATTERNS[scheme]
    assert scheme_of(stage.match.text) == scheme


def test_every_pattern_compiles():
    names = "gpt-2 starcoder falcon llama3 dbrx qwen2 qwen35 minicpm5 bailingmoe seed-coder gpt-4o"
    for name in (*names.split(), "tekken", "deepseek-v3", "deepseek-coder", "bloom", "viking"):
        for stage in PRETOKENIZERS.get(name).stages:
            if isinstance(stage.match, Pattern):
                assert compile_pattern(stage.match.text, stage.match.dialect)


# ── Real files ───────────────────────────────────────────────────────────────────────────────

if SHARED_DATA is not None:

    @pytest.mark.parametrize(
        ("name", "pre"),
        [("qwen3", "qwen2"), ("deepseek_v3", "deepseek-v3"), ("mistral_nemo", "tekken")],
    )
    def test_real_tokens_are_those_of_tokenizer_json(tmp_path, name, pre):
        data = (SHARED_DATA / "vocab" / "hf" / f"{name}.tokenizer.json.xz").read_bytes()
        document = beginning(json.loads(lzma.decompress(data)))
        parts = read(from_json(tmp_path / "x.gguf", document, add_tokenizer_pre=pre))
        same_as_json(parts, document)
        splits = [
            part["pattern"]["Regex"]
            for part in document["pre_tokenizer"]["pretokenizers"]
            if part["type"] == "Split"
        ]
        assert [stage.match.text for stage in parts.stages] == splits

    def test_real_pieces_are_those_of_the_model(tmp_path):
        path = SHARED_DATA / "vocab" / "spm" / "mistral_tokenizer.model.v1.xz"
        data = lzma.decompress(path.read_bytes())
        parts = read(from_pieces(tmp_path / "x.gguf", data))
        same_model(parts, sentencepiece_reader.read(data, "x.model"))
