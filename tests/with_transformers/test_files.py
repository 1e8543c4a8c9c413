"""Files and objects of transformers → tokenmill's ids, and back."""

from __future__ import annotations

import json

import pytest
import small
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import tokenmill
from tokenmill.compat.transformers import patch

TEXTS = [text[:600] for text in small.TEXTS[::5]]


def ids_of(fast: PreTrainedTokenizerFast) -> list[list[int]]:
    return [fast.encode(text, add_special_tokens=False) for text in TEXTS]


@pytest.mark.parametrize("name", small.EXACT)
def test_tokenizers_of_transformers_are_read(name, tmp_path):
    fast = small.fast(name)
    want = ids_of(fast)
    assert tokenmill.Tokenizer.from_object(fast).encode_batch(TEXTS) == want
    assert tokenmill.Tokenizer.from_object(fast.backend_tokenizer).encode_batch(TEXTS) == want
    folder = small.folder(name, tmp_path)
    found = tokenmill.Tokenizer.load(folder)
    assert found.encode_batch(TEXTS) == want
    with patch():
        assert tokenmill.Tokenizer.from_object(fast).encode_batch(TEXTS) == want


@pytest.mark.parametrize("name", small.EXACT)
def test_transformers_reads_saved_files(name, tmp_path):
    want = ids_of(small.fast(name))
    tokenizer = tokenmill.Tokenizer.from_object(small.fast(name))
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


@pytest.mark.parametrize("name", ["gpt2", "cl100k_base"])
def test_saved_folder_is_loaded_by_auto_tokenizer(name, tmp_path):
    tokenizer = tokenmill.Tokenizer.load(name)
    tokenizer.save(f"{tmp_path}/saved/")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert ids_of(theirs) == tokenizer.encode_batch(TEXTS)
    assert theirs.eos_token == "<|endoftext|>"
    assert theirs.decode(theirs.encode("a b")) == "a b"
