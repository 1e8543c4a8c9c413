"""Tokenizer files that are links, and links without a target."""

import json
import re

import pytest
from hf_documents import byte_vocabulary

from tokenmill import Tokenizer
from tokenmill.errors import VocabularyError
from tokenmill.formats.detect import load_spec

VOCABULARY = {**byte_vocabulary(), "ab": 256}


def test_link_without_a_target_is_named(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps(VOCABULARY), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\na b\n", encoding="utf-8")
    (folder / "model.safetensors").symlink_to("gone")  # not a file of the tokenizer
    names = ("tokenizer.json", "tekken.json", "x.model", "tokenizer_config.json")
    for name in (*names, "special_tokens_map.json", "added_tokens.json"):
        assert Tokenizer.load(folder, pattern="r50k").encode("ab") == [256]
        (folder / name).symlink_to("../blobs/123")
        said = re.escape(f"{folder / name} is a link to '../blobs/123', which does not exist")
        for source in (folder, folder / name):
            for load in (lambda at: Tokenizer.load(at, pattern="r50k"), load_spec):
                with pytest.raises(VocabularyError, match=said):
                    load(source)
        (folder / name).unlink()
    (folder / "merges.txt").unlink()
    (folder / "merges.txt").symlink_to("gone")
    with pytest.raises(VocabularyError, match=r"merges\.txt is a link to 'gone'"):
        Tokenizer.load(folder / "vocab.json", pattern="r50k")
