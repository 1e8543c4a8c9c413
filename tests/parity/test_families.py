"""Ids, offsets, text and pairs of every family of tokenizer.json, compared with Hugging Face."""

from __future__ import annotations

import families
import hard_inputs
import matrix
import pairs
import pytest
import sides
import tokenizers
from conftest import FIXTURES, SEED, examples, sample

from tokenmill import Tokenizer

ALL = [*families.BYTE_LEVEL, *families.PIECES]
LONG = 1_100_000  # texts of more than 1 MiB are encoded on several threads


@pytest.fixture(scope="module", params=ALL)
def side(request):
    name = request.param
    is_bytes = name in families.BYTE_LEVEL
    source = families.byte_level(name) if is_bytes else families.pieces(name)
    return sides.of_tokenizers(name, source)


def test_ids_offsets_and_text_are_those_of_tokenizers(side):
    texts = sides.generated(side.names, examples(1_000), SEED)
    strings = sample(hard_inputs.STRINGS[SEED % 11 :: 11], side.name)
    texts += filter(sides.is_plain, strings)
    count, wrong = matrix.compare(side, texts)
    assert count == len(texts)
    assert not wrong, f"TOKENMILL_SEED={SEED}: {wrong[0]}"


def test_long_texts_of_all_scripts_are_encoded_as_by_tokenizers(side):
    whole = [path.read_text(encoding="utf-8") for path in FIXTURES[SEED % 3 :: 3]]
    texts = [text[: examples(len(text))] for text in whole]
    joined = "".join(texts)
    _, wrong = matrix.compare(side, [*texts, joined])
    assert not wrong, wrong[0]
    # Long ones go to several threads, and are remembered.
    long = joined * max(4, LONG // len(joined))
    ids = side.ours.encode_array(long, allowed_special=True).tolist()
    assert ids == side.ours.encode_batch([long], allowed_special=True)[0]


def test_pairs_truncation_and_padding_are_those_of_tokenizers(side):
    calls = max(40, examples(200))
    count, wrong = pairs.compare(side, calls, SEED)
    assert count >= calls
    assert not wrong, f"TOKENMILL_SEED={SEED}: {wrong[0]}"


def test_specials_that_are_not_asked_for_are_text(side):
    """Added tokens that are not special are found in any case."""
    real = tokenizers.Tokenizer.from_str(side.source)
    real.encode_special_tokens = True
    for text in ["a <s> b", "<|endoftext|>", "x<|im_start|>y", "\n\n<table> <mask>", " <unk>"]:
        expected = real.encode(text, add_special_tokens=False).ids
        assert side.ours.encode(text) == expected, text


def test_saved_files_come_back(side, tmp_path):
    texts = sides.generated(side.names, examples(200), SEED + 1)
    expected = side.ours.encode_batch(texts, allowed_special=True)
    for name in ("tokenizer.json", "x.tokenmill"):
        side.ours.save(tmp_path / name)
        again = Tokenizer.load(tmp_path / name)
        assert again.encode_batch(texts, allowed_special=True) == expected
        assert again == side.ours
