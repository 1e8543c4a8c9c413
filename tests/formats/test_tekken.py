"""tekken.json → TokenizerSpec: equal to mistral_common for the same file."""

from __future__ import annotations

import base64
import json
import re
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import tiktoken
from conftest import TEXT, read_ranks
from mistral_common.tokens.tokenizers.tekken import SpecialTokenPolicy, Tekkenizer

from tokenmill.errors import VocabularyError
from tokenmill.formats import tekken
from tokenmill.formats.spec import TOKEN, TokenizerSpec
from tokenmill.patterns.schemes import PATTERNS

REAL = Path(str(files("mistral_common") / "data"))
TEXTS = [TEXT, "", "[INST] a [/INST]", "<s>é中文🙂\n\n  \t x", "ÀÉ don't DON'T 12345 /\n//"]


def entry(rank: int, token: bytes) -> dict[str, object]:
    return {
        "rank": rank,
        "token_bytes": base64.b64encode(token).decode(),
        "token_str": token.decode(errors="replace"),
    }


@pytest.fixture(scope="module")
def document(rank_files) -> dict:
    """A small file: the bytes, and the tokens that cl100k learned first."""
    learned = [*read_ranks(rank_files["cl100k_base"].read_bytes())][256:2_000]
    tokens = [*(bytes([byte]) for byte in range(256)), *learned]
    return {
        "config": {
            "pattern": PATTERNS["tekken"][0],
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": 1_500,
            "default_num_special_tokens": 30,
            "version": "v3",
        },
        "vocab": [entry(rank, token) for rank, token in enumerate(tokens)],
        "special_tokens": [
            {"rank": 0, "token_str": "<unk>", "is_control": True},
            {"rank": 1, "token_str": "<s>", "is_control": True},
            {"rank": 2, "token_str": "</s>", "is_control": False},
        ],
    }


def changed(document: dict, key: str, value: object) -> dict:
    """The document with another value under a key such as "config.version"."""
    first, _, second = key.partition(".")
    if second:
        value = {**document[first], second: value}
    return {**document, first: value}


def without(document: dict, key: str) -> dict:
    return {name: value for name, value in document.items() if name != key}


def tokens(parts: TokenizerSpec) -> list[bytes]:
    ends = np.cumsum(parts.model.lengths).tolist()
    return [parts.model.data[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def same(path: Path) -> None:
    parts, theirs = tekken.read(path.read_bytes(), path.name), Tekkenizer.from_file(path)
    assert parts.model.whole
    assert parts.model.missing == "fail"
    assert parts.model.merges is parts.model.order is None
    assert (parts.model.kinds == TOKEN).all()
    count = theirs.num_special_tokens
    names = [theirs.id_to_byte_piece(id_, SpecialTokenPolicy.KEEP) for id_ in range(count)]
    assert [one.content.encode() for one in parts.added] == names
    assert [one.id for one in parts.added] == list(range(count))
    assert all(one.special and not one.normalized for one in parts.added)
    found = tokens(parts)
    assert parts.model.ids.tolist() == list(range(count, theirs.n_words))
    assert found == [theirs.id_to_byte_piece(id_) for id_ in range(count, theirs.n_words)]
    (stage,) = parts.stages
    assert (stage.behaviour, stage.invert, stage.match.dialect) == ("removed", True, "tiktoken")
    ours = tiktoken.Encoding(
        "ours",
        pat_str=stage.match.text,
        mergeable_ranks=dict(zip(found, parts.model.ids.tolist(), strict=True)),
        special_tokens={},
    )
    for text in TEXTS:
        assert ours.encode_ordinary(text) == theirs.encode(text, bos=False, eos=False)


@pytest.mark.parametrize("listed", [True, False])
def test_spec_equals_mistral_common(document, tmp_path, listed):
    path = tmp_path / "tekken.json"
    path.write_text(json.dumps(document if listed else without(document, "special_tokens")))
    same(path)


@pytest.mark.parametrize("name", ["tekken_240718.json", "tekken_240911.json"])
def test_mistrals_own_files_are_read(name):
    same(REAL / name)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("config.pattern", None, ["config"]),
        ("config.default_vocab_size", True, ["config"]),
        ("config.default_vocab_size", 1e400, ["Infinity"]),
        ("config.default_vocab_size", 100_000, ["99,970 of 2,000"]),
        ("config.default_vocab_size", 200, ["170 of 2,000"]),
        ("config.default_num_special_tokens", -1, ["default_num_special_tokens", "-1"]),
        ("config.default_num_special_tokens", 2, ["3 special tokens", "2"]),
        ("special_tokens", [{"rank": 1, "token_str": "<s>"}], ["special token 0"]),
        ("special_tokens", [{"rank": 0, "token_str": ""}], ["empty"]),
        ("special_tokens", [{"rank": 0, "token_str": "<SPECIAL_3>"}], ["twice"]),
        ("special_tokens", [{"rank": 0}], ["no 'token_str'"]),
        ("vocab", [entry(1, b"a")] * 1_500, ["count up"]),
        ("vocab", [entry(rank, b"a") for rank in range(1_500)], ["not the bytes"]),
        ("vocab", [{"rank": 0, "token_bytes": "*"}] * 1_500, ["base64"]),
        ("vocab", 7, ["len()"]),
        ("config", None, ["damaged"]),
    ],
)
def test_files_that_are_damaged_are_refused(document, key, value, words):
    data = json.dumps(changed(document, key, value)).encode()
    match = "(?s)" + ".*".join(map(re.escape, ["tekken.json", *words, "download the file again"]))
    with pytest.raises(VocabularyError, match=match):
        tekken.read(data, "tekken.json")


def test_specials_are_listed_since_version_8(document):
    newer = changed(without(document, "special_tokens"), "config.version", "v11")
    with pytest.raises(VocabularyError, match=r"'v11' must have special_tokens"):
        tekken.read(json.dumps(newer).encode(), "tekken.json")


@pytest.mark.parametrize("data", [b"", b"{", b"[" * 100_000, b"7", b"\xff", b'{"config": 1}'])
def test_files_that_are_something_else_are_refused(data):
    with pytest.raises(VocabularyError, match=r"x\.json is damaged"):
        tekken.read(data, "x.json")
