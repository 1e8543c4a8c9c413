"""tokenizer.json that cannot be read or written exactly → an error with the reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tokenizers
from hf_documents import (
    BYTE_LEVEL,
    DIGITS,
    REPLACE,
    VOCAB,
    added,
    byte_vocabulary,
    document,
    dumps,
    metaspace,
    sequence,
    split,
    template,
)

from tokenmill.errors import VocabularyError
from tokenmill.formats import tokenizer_json
from tokenmill.formats.spec import DECODED, TOKEN, Added, Charsmap, Squeeze, TokenizerSpec
from tokenmill.patterns.schemes import Stage

BYTES = {"vocab": byte_vocabulary(), "merges": []}
TRUNCATION = {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}
PADDING = {
    "strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
    "pad_type_id": 0, "pad_token": "[PAD]",
}  # fmt: skip


def read(document: dict) -> TokenizerSpec:
    return tokenizer_json.read(dumps(document), "x.json")


DEEP: dict = {"type": "NFC"}
for _ in range(20):
    DEEP = {"type": "Sequence", "normalizers": [DEEP]}


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"x": 1}, "has no model"),
        ({**document(), "more": 1}, "the unknown section 'more'"),
        (document(version="2.0"), "version '2.0'"),
        (document(truncation=5), "truncation must be an object, got 5"),
        (document(truncation={}), "truncation has no field 'max_length'"),
        (
            document(truncation=TRUNCATION | {"max_length": -1}),
            "truncation.max_length must be from 0 to 18,446,744,073,709,551,615, got -1",
        ),
        (
            document(truncation=TRUNCATION | {"stride": 1 << 64}),
            "551,615, got 18446744073709551616",
        ),
        (document(truncation=TRUNCATION | {"stride": "1"}), "must be a whole number, got '1'"),
        (
            document(truncation=TRUNCATION | {"strategy": "longest_first"}),
            "strategy must be one of LongestFirst, OnlyFirst, OnlySecond, got 'longest_first'",
        ),
        (
            document(truncation=TRUNCATION | {"direction": "right"}),
            "one of Left, Right, got 'right'",
        ),
        (document(padding=PADDING | {"strategy": "Fixed"}), "padding.strategy is 'Fixed'"),
        (
            document(padding=PADDING | {"strategy": {"Fixed": -5}}),
            "strategy.Fixed must be from 0 to 18,446,744,073,709,551,615, got -5",
        ),
        (
            document(padding=PADDING | {"pad_id": 1 << 32}),
            "padding.pad_id must be from 0 to 4,294,967,295, got 4294967296",
        ),
        (document(padding=PADDING | {"pad_token": None}), "must be a string, got None"),
        (document(added_tokens=None), "added_tokens must be a list"),
        (document({"type": "WordPiece"}), "model has type WordPiece; only BPE is supported"),
        (document({"type": "Unigram", "vocab": [["a", 0.0]]}), "model has type Unigram"),
        ({"model": {"type": "BPE", "vocab": {"a": 0}}}, "has no valid merges"),
        ({"model": {"type": "BPE", "merges": []}}, "has no valid vocab"),
        ({"model": {"type": "BPE", "vocab": [], "merges": []}}, "has no valid vocab"),
        ({"model": {"vocab": {}}}, "model has type None"),
        (document({"continuing_subword_prefix": "##"}), "continuing_subword_prefix '##'"),
        (document({"end_of_word_suffix": "</w>"}), "end_of_word_suffix '</w>'"),
        (document({"unk_token": "zz"}), "unk_token 'zz', which is not in the vocabulary"),
        (document({"dropout": 1.5}), "dropout 1.5"),
        (document({"dropout": "x"}), "model.dropout must be a number"),
        (document({"fuse_unk": 1}), "model.fuse_unk must be true or false, got 1"),
        (document({"merges": [["b", "a"]]}), "merge 0 of 'b' and 'a', and 'ba' is not in"),
        (document({"vocab": {"a": 0, "b": 0}, "merges": []}), "duplicate id of token: b"),
        (
            document({"vocab": {**VOCAB, "<0x41>": 6}, "byte_fallback": True}),
            "byte_fallback and 1 of the 256 tokens",
        ),
        (
            document(
                {"vocab": {"a": 0, "<0x41>": 1}, "byte_fallback": True, "merges": []},
                pre_tokenizer=BYTE_LEVEL,
            ),
            "is byte-level, has byte_fallback, and lacks tokens of single bytes",
        ),
        (
            document(
                {"vocab": {**VOCAB, "a<unk>": 6}, "merges": [["a", "<unk>"]]}
                | {"unk_token": "<unk>"}
            ),
            "merge 0 of 'a' and '<unk>', one of which is unk, a byte, or only decoded",
        ),
        (
            document(
                {"vocab": {**VOCAB, " a": 6, " ": 7}, "merges": [[" ", "a"]]}, normalizer=REPLACE
            ),
            "merge 0 of ' ' and 'a', one of which is unk, a byte, or only decoded",
        ),
        # Normalisers
        (document(normalizer=5), "normalizer must be an object"),
        (document(normalizer={}), "normalizer has no field 'type'"),
        (document(normalizer={"type": "Nmt"}), "normalizer is 'Nmt', which is not supported"),
        (document(normalizer={"type": "StripAccents"}), "is 'StripAccents'"),
        (document(normalizer={"type": "BertNormalizer"}), "is 'BertNormalizer'"),
        (document(normalizer={"type": "Prepend"}), "normalizer has no field 'prepend'"),
        (document(normalizer={**REPLACE, "pattern": {"String": ""}}), "pattern is empty"),
        (document(normalizer={**REPLACE, "pattern": {"X": ""}}), "pattern is {'X': ''}"),
        (document(normalizer={**REPLACE, "pattern": "a"}), "pattern must be an object"),
        (
            document(normalizer={"type": "Precompiled", "precompiled_charsmap": "!"}),
            "is not base64",
        ),
        (document(normalizer=DEEP), "is nested more than 16 times"),
        (document(normalizer=sequence(*[{"type": "NFC"}] * 65)), "is component 65; use at most 64"),
        (
            document(BYTES, normalizer={"type": "ByteLevel"}, pre_tokenizer=DIGITS),
            "pre_tokenizer after a ByteLevel normalizer is not supported",
        ),
        (
            document(BYTES, normalizer=sequence({"type": "ByteLevel"}, {"type": "NFC"})),
            "must be the last component",
        ),
        # Pre-tokenizers
        (document(pre_tokenizer={"type": "BertPreTokenizer"}), "is 'BertPreTokenizer'"),
        (document(pre_tokenizer={"type": "UnicodeScripts"}), "is 'UnicodeScripts'"),
        (document(pre_tokenizer={"type": "FixedLength", "length": 5}), "is 'FixedLength'"),
        (document(pre_tokenizer={"type": "ByteLevel"}), "has no field 'add_prefix_space'"),
        (document(pre_tokenizer=split({"String": ""})), "pattern is empty"),
        (
            document(pre_tokenizer=split({"String": "a"}, "isolated")),
            "behavior must be one of Isolated, Removed, MergedWithPrevious, MergedWithNext, "
            "Contiguous, got 'isolated'",
        ),
        (
            document(pre_tokenizer={"type": "CharDelimiterSplit", "delimiter": "ab"}),
            "delimiter 'ab'; it must be one character",
        ),
        (
            document(BYTES, pre_tokenizer=sequence(BYTE_LEVEL, {"type": "Punctuation"})),
            "is Punctuation after ByteLevel",
        ),
        (
            document(BYTES, pre_tokenizer=sequence(BYTE_LEVEL, split({"Regex": r"\d"}))),
            "is Split after ByteLevel",
        ),
        (
            document(
                BYTES, pre_tokenizer=sequence(DIGITS, {**BYTE_LEVEL, "add_prefix_space": True})
            ),
            "puts a space before every pretoken",
        ),
        (document(pre_tokenizer=sequence(DIGITS, metaspace())), "a space before every pretoken"),
        (document(pre_tokenizer=metaspace(replacement="_")), "has replacement '_'"),
        (
            document(pre_tokenizer=metaspace(prepend_scheme="x")),
            "prepend_scheme must be one of always, first, never, got 'x'",
        ),
        (
            document(pre_tokenizer=metaspace(add_prefix_space=False)),
            "add_prefix_space false and prepend_scheme 'always'",
        ),
        (
            document(pre_tokenizer=sequence(metaspace(), metaspace(prepend_scheme="never"))),
            "a second Metaspace",
        ),
        (
            document(pre_tokenizer=sequence(metaspace(), {"type": "WhitespaceSplit"})),
            "Metaspace with a component that depends on spaces",
        ),
        (
            document(pre_tokenizer=sequence(metaspace(), BYTE_LEVEL)),
            "Metaspace with a component that depends on spaces",
        ),
        # Post-processors and decoders
        (document(post_processor={"type": "X"}), "post_processor is 'X'"),
        (document(post_processor=template(special_tokens={})), "has id '<s>', which is not in"),
        (document(post_processor=template(single=["$A"])), "single[0] must be an object"),
        (document(post_processor=template(single=[{"X": {}}])), "neither a Sequence nor"),
        (
            document(post_processor=template(single=[{"Sequence": {"id": "C", "type_id": 0}}])),
            "is sequence 'C'",
        ),
        (
            document(
                post_processor=template(
                    special_tokens={"<s>": {"id": "<s>", "ids": [0, 1], "tokens": ["<s>"]}}
                )
            ),
            "2 ids and 1 tokens",
        ),
        (document(post_processor=sequence(template(), template())), "is a second template"),
        (
            document(post_processor=sequence(BYTE_LEVEL, {**BYTE_LEVEL, "add_prefix_space": True})),
            "trims offsets again",
        ),
        (document(decoder={"type": "WordPiece"}), "decoder is 'WordPiece', which is not supported"),
        (document(decoder=sequence({"type": "CTC"})), "decoder.decoders[0] is 'CTC'"),
        # Added tokens
        (
            document(added_tokens=[added("<x>", 7)]),
            "has id 7 for '<x>', and Hugging Face assigns 6",
        ),
        (
            document(added_tokens=[added("ab", 6)]),
            "has id 6 for 'ab', and Hugging Face assigns 2",
        ),
        (
            document({"vocab": {"a": 0, "b": 2}, "merges": []}, added_tokens=[added("<x>", 2)]),
            "'<x>', to which Hugging Face assigns id 2 of another token",
        ),
        (document(added_tokens=[{"id": 6}]), "added_tokens[0] has no field 'content'"),
        (document(added_tokens=[added("x" * 5000, 6)]), "has 5000 bytes; at most 4096"),
        (
            document(pre_tokenizer=metaspace(), added_tokens=[added("a b", 6, normalized=True)]),
            "normalized and contains a space",
        ),
        (
            document(
                normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
                added_tokens=[added("<x>", 6, normalized=True, rstrip=True)],
            ),
            "strips whitespace that the normalizer replaces with '▁'",
        ),
    ],
)
def test_inexact_components_are_rejected(made, words):
    with pytest.raises(VocabularyError) as error:
        read(made)
    assert str(error.value).startswith("x.json: ")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not a valid tokenizer.json: byte 0"),
        (b'{"model": ', "byte 10: expected a value"),
        (dumps(document()).replace(b'"1.0"', b'"\xff"'), "is not UTF-8 at byte"),
        (dumps(document()).replace(b'"1.0"', b"1" * 5000), "is not JSON"),
        (dumps(document()).replace(b"null", b"NaN", 1), "not a JSON value"),
        (dumps(document()).replace(b"null", b"[" * 99 + b"]" * 99, 1), "nested too deep"),
    ],
)
def test_bytes_that_are_not_a_tokenizer_json_are_rejected(data, words):
    with pytest.raises(VocabularyError) as error:
        tokenizer_json.read(data, "x.json")
    assert words in str(error.value)


def test_spec_that_tokenizer_json_cannot_express_is_not_written():
    parts = read(document())
    for change, words in (
        ({"steps": (Charsmap(b"x", False),)}, "another way than SentencePiece"),
        ({"prefix": "missing"}, "cannot express a space before the text"),
        ({"stages": (Stage("space", "isolated"),)}, "a stage of 'space' with 'isolated'"),
        ({"added": (Added("ab", 9),)}, "special token 'ab' has id 9 and is written like token 2"),
    ):
        with pytest.raises(VocabularyError, match=words):
            tokenizer_json.write(replace(parts, **change))
    twice = replace(
        read(document(BYTES, pre_tokenizer=BYTE_LEVEL)).model,
        data=b"aa",
        lengths=np.array([1, 1], np.uint32),
        ids=np.array([0, 1], np.uint32),
        kinds=np.array([TOKEN, DECODED], np.uint8),
        merges=None,
    )
    with pytest.raises(VocabularyError, match="two tokens are written 'a'"):
        tokenizer_json.write(replace(parts, model=twice))


def test_squeezed_spaces_are_written_as_replacements():
    parts = replace(read(document()), steps=(Squeeze(),))
    made = tokenizers.Tokenizer.from_str(tokenizer_json.write(parts).decode())
    assert made.normalizer.normalize_str("  a   b \n ") == "a b \n"


def test_added_tokens_that_leave_a_gap_become_entries():
    parts = replace(read(document()), added=(Added("<x>", 6), Added("<y>", 60)))
    made = tokenizers.Tokenizer.from_str(tokenizer_json.write(parts).decode())
    assert (made.token_to_id("<x>"), made.token_to_id("<y>")) == (6, 60)
    assert made.encode("ab<y>a<x>").ids == [2, 60, 0, 6]


@pytest.mark.parametrize("section", ["truncation", "padding"])
def test_truncation_and_padding_are_refused_where_hugging_face_refuses_them(section):
    whole = {"truncation": TRUNCATION, "padding": PADDING}[section]
    odd = (None, True, 0, 3, -1, 1.0, 1.5, "x", "Left", "OnlySecond", "left", [], {})
    odd += ({"Fixed": 4}, {"Fixed": -1}, {"Fixed": True}, {"Fixed": 4, "x": 1}, 2**32, 2**63, 2**64)
    made = [whole | {key: value} for key in whole for value in odd] + [{**whole, "more": 1}]
    made += [{k: v for k, v in whole.items() if k != key} for key in whole]
    for one in made:
        file = document(**{section: one})
        try:
            tokenizers.Tokenizer.from_str(dumps(file).decode())
        except Exception:
            with pytest.raises(VocabularyError, match=f"x.json: {section}"):
                read(file)
        else:
            assert read(file).extra[section] == one
