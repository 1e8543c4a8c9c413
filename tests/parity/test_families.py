"""Ids, offsets, text and pairs of every family of tokenizer.json, beside Hugging Face's library."""

from __future__ import annotations

import families
import hard_inputs
import matrix
import pairs
import pytest
import sides
import tokenizers
from conftest import FIXTURES, SEED

from tokenmill import Tokenizer

ALL = [*families.BYTE_LEVEL, *families.PIECES]


@pytest.fixture(scope="module", params=ALL)
def side(request):
    name = request.param
    is_bytes = name in families.BYTE_LEVEL
    source = families.byte_level(name) if is_bytes else families.pieces(name)
    return sides.of_tokenizers(name, source)


def test_ids_offsets_and_text_are_those_of_tokenizers(side):
    texts = sides.generated(side.names, 1_000, SEED)
    texts += filter(sides.is_plain, hard_inputs.STRINGS[SEED % 11 :: 11])
    count, wrong = matrix.compare(side, texts)
    assert count == len(texts)
    assert not wrong, f"TOKENMILL_SEED={SEED}: {wrong[0]}"


def test_long_texts_of_all_scripts_are_encoded_as_by_tokenizers(side):
    texts = [path.read_text(encoding="utf-8") for path in FIXTURES[SEED % 3 :: 3]]
    joined = "".join(texts)
    _, wrong = matrix.compare(side, [*texts, joined])
    assert not wrong, wrong[0]
    # Long ones go to several threads, and are remembered.
    ids = side.ours.encode_array(joined * 4, specials=True).tolist()
    assert ids == side.ours.encode_batch([joined * 4], specials=True)[0]


def test_pairs_truncation_and_padding_are_those_of_tokenizers(side):
    count, wrong = pairs.compare(side, 200, SEED)
    assert count >= 200
    assert not wrong, f"TOKENMILL_SEED={SEED}: {wrong[0]}"


def test_specials_that_are_not_asked_for_are_text(side):
    """Names that are no specials are found all the same."""
    real = tokenizers.Tokenizer.from_str(side.source)
    real.encode_special_tokens = True
    for text in ["a <s> b", "<|endoftext|>", "x<|im_start|>y", "\n\n<table> <mask>", " <unk>"]:
        expected = real.encode(text, add_special_tokens=False).ids
        assert side.ours.encode(text) == expected, text


def test_saved_files_come_back(side, tmp_path):
    texts = sides.generated(side.names, 200, SEED + 1)
    expected = side.ours.encode_batch(texts, specials=True)
    for name in ("tokenizer.json", "x.tokenmill"):
        side.ours.save(tmp_path / name)
        again = Tokenizer.load(tmp_path / name)
        assert again.encode_batch(texts, specials=True) == expected
        assert again == side.ours
