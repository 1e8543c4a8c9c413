"""Files and objects of transformers → tokenmill's ids, and back."""

from __future__ import annotations

import json

import pytest
import small
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import tokenmill

TEXTS = [text[:600] for text in small.TEXTS[::5]]


def ids_of(fast: PreTrainedTokenizerFast) -> list[list[int]]:
    return [fast.encode(text, add_special_tokens=False) for text in TEXTS]


@pytest.mark.parametrize("name", small.EXACT)
def test_what_transformers_has_is_read(name, tmp_path):
    fast = small.fast(name)
    want = ids_of(fast)
    assert tokenmill.Tokenizer.load(fast).encode_batch(TEXTS) == want
    assert tokenmill.Tokenizer.load(fast.backend_tokenizer).encode_batch(TEXTS) == want
    folder = small.folder(name, tmp_path)
    found = tokenmill.Tokenizer.load(folder)
    assert found.encode_batch(TEXTS) == want
    tokenmill.patch_transformers()
    try:
        assert tokenmill.Tokenizer.load(fast).encode_batch(TEXTS) == want
    finally:
        tokenmill.unpatch_transformers()


@pytest.mark.parametrize("name", small.EXACT)
def test_what_tokenmill_saves_is_read(name, tmp_path):
    want = ids_of(small.fast(name))
    tokenizer = tokenmill.Tokenizer.load(small.fast(name))
    tokenizer.save(tmp_path / "tokenizer.json")
    fast = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert ids_of(fast) == want
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **small.EXACT[name][1]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert ids_of(AutoTokenizer.from_pretrained(tmp_path)) == want


def test_an_embedded_vocabulary_is_read(tmp_path):
    tokenizer = tokenmill.Tokenizer.load("cl100k_base")
    tokenizer.save(tmp_path / "tokenizer.json")
    fast = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert ids_of(fast) == tokenizer.encode_batch(TEXTS)
