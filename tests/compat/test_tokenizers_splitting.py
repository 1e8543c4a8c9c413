"""normalize_str, pre_tokenize_str and decode of single components, compared with Hugging Face."""

from __future__ import annotations

import random
from typing import Any

import pytest
import tokenizers as theirs
from conftest import SEED, examples

import tokenmill.compat.tokenizers as ours

NORMALIZERS = [
    "N.NFC()", "N.NFD()", "N.NFKC()", "N.NFKD()", "N.Lowercase()", "N.ByteLevel()", "N.Strip()",
    "N.Strip(left=False)", "N.Prepend()", "N.Replace('a', '<>')", "N.Replace(Regex('[a-c]+'), 'x')",
    "N.Sequence([N.Prepend('▁'), N.Replace(' ', '▁')])", "N.Sequence([N.NFKC(), N.Lowercase()])",
    "N.Sequence([])", "N.Sequence([N.Strip(), N.ByteLevel()])",
]  # fmt: skip
BEHAVIORS = ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous")
PRE_TOKENIZERS = [
    "P.ByteLevel()", "P.ByteLevel(add_prefix_space=False)", "P.ByteLevel(use_regex=False)",
    "P.Digits()", "P.Digits(True)", "P.Metaspace()", "P.Metaspace('_', 'first')",
    "P.Metaspace(prepend_scheme='never', split=False)", "P.Whitespace()", "P.WhitespaceSplit()",
    "P.CharDelimiterSplit('a')", "P.Sequence([P.Digits(True), P.ByteLevel()])",
    "P.Sequence([P.WhitespaceSplit(), P.Metaspace(prepend_scheme='first')])", "P.Sequence([])",
    *(f"P.Punctuation({name!r})" for name in BEHAVIORS),
    *(f"P.Split(' ', {name!r})" for name in BEHAVIORS),
    *(f"P.Split('.', {name!r}, True)" for name in BEHAVIORS),
    *(f"P.Split(Regex('[ab]+| '), {name!r})" for name in BEHAVIORS),
    *(f"P.Split(Regex('[ab]+| '), {name!r}, invert=True)" for name in BEHAVIORS),
]  # fmt: skip
PARTS = [
    *("a", "b", "ab", " ", "  ", ".", "-", "!", "1", "22", "½", "\n", "\t", "▁", "_", "É", "é"),
    *("e\u0301", "ﬁ", "漢字", "🙂", "İ", "ß", "'s", "\u3000", "\x85", "\u200d", "¿", "+", "Σ", ""),
]


def names(library: Any) -> dict[str, Any]:
    return {
        "N": library.normalizers, "P": library.pre_tokenizers, "D": library.decoders,
        "Regex": library.Regex,
    }  # fmt: skip


def texts() -> list[str]:
    rng = random.Random(SEED)
    return ["", *("".join(rng.choices(PARTS, k=rng.randint(1, 9))) for _ in range(examples(300)))]


@pytest.mark.parametrize("made", NORMALIZERS)
def test_normalized_text_equals_hugging_face(made: str) -> None:
    there, here = eval(made, names(theirs)), eval(made, names(ours))
    for text in texts():
        assert here.normalize_str(text) == there.normalize_str(text), text


@pytest.mark.parametrize("made", PRE_TOKENIZERS)
def test_pretokens_equal_hugging_face(made: str) -> None:
    there, here = eval(made, names(theirs)), eval(made, names(ours))
    for text in texts():
        assert here.pre_tokenize_str(text) == there.pre_tokenize_str(text), text


def test_refusal_names_the_component() -> None:
    with pytest.raises(
        NotImplementedError, match="pre-tokenizer BertPreTokenizer is not supported"
    ):
        ours.pre_tokenizers.BertPreTokenizer().pre_tokenize_str("a")
    with pytest.raises(ValueError, match="'Nmt', which is not supported"):
        ours.normalizers.Nmt().normalize_str("a")
    with pytest.raises(ValueError, match="decoder WordPiece is not supported"):
        ours.decoders.WordPiece().decode(["a"])
