"""SentencePiece models → TokenizerSpec: its reference implementation gives SentencePiece's ids.

Tests of formats/sentencepiece.py and formats/spec.py.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import random
import re
from itertools import pairwise

import numpy as np
import pytest
import sentencepiece
import tokenizers as huggingface
from conftest import SEED, SHARED_DATA, examples, sample
from sentencepiece_models import BITS, OPTIONS, TEXTS, texts, trained
from spec_reference import SPACE, ReferenceEncoder

from tokenmill.errors import VocabularyError
from tokenmill.formats import sentencepiece as model_file
from tokenmill.formats.sentencepiece import write_bytes, write_float, write_number
from tokenmill.formats.spec import (
    BYTE,
    DECODED,
    TOKEN,
    Added,
    Charsmap,
    Form,
    Model,
    Prepend,
    Squeeze,
    TokenizerSpec,
)
from tokenmill.patterns.schemes import Stage


@pytest.fixture(scope="module", params=OPTIONS)
def trained_model(request) -> bytes:
    return trained(**OPTIONS[request.param])


def same_ids(data: bytes, texts: list[str]) -> None:
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    twin = ReferenceEncoder(model_file.read(data, "x.model"))
    for text in texts:
        assert twin.encode(text) == theirs.encode(text), (text, twin.symbols)


def test_parts_give_the_ids_of_sentencepiece(trained_model):
    same_ids(trained_model, sample(TEXTS, len(trained_model)))


def test_pieces_scores_and_types_are_those_of_sentencepiece(trained_model):
    theirs = sentencepiece.SentencePieceProcessor(model_proto=trained_model)
    parts = model_file.read(trained_model, "x.model")
    found = parts.model
    assert found.ids.tolist() == list(range(theirs.get_piece_size()))
    assert found.unk == theirs.unk_id()
    ends = np.cumsum(found.lengths)
    for id_, (end, kind) in enumerate(zip(ends.tolist(), found.kinds.tolist(), strict=True)):
        piece, data = theirs.id_to_piece(id_), found.data[end - int(found.lengths[id_]) : end]
        if theirs.is_byte(id_):
            assert (kind, data) == (BYTE, bytes([int(piece[3:5], 16)]))
        else:
            assert data == piece.encode()
    scores = [theirs.get_score(id_) for id_ in range(len(ends))]
    by_order = sorted(range(len(ends)), key=lambda id_: found.order[id_])
    assert all(scores[a] >= scores[b] for a, b in pairwise(by_order))
    assert len(set(scores)) == len(set(found.order.tolist()))
    controls = {theirs.id_to_piece(id_): id_ for id_ in range(len(ends)) if theirs.is_control(id_)}
    assert {one.content: one.id for one in parts.added if one.special} == controls


def test_decoder_gives_the_text_of_sentencepiece(trained_model):
    theirs = sentencepiece.SentencePieceProcessor(model_proto=trained_model)
    parts = model_file.read(trained_model, "x.model")
    document = json.loads(huggingface.Tokenizer(huggingface.models.BPE()).to_str())
    document["decoder"] = parts.decoder
    decoder = huggingface.Tokenizer.from_str(json.dumps(document)).decoder
    for text in TEXTS:
        ids = theirs.encode(text)
        assert decoder.decode([theirs.id_to_piece(id_) for id_ in ids]) == theirs.decode(ids), text


def test_written_model_gives_the_same_ids(trained_model):
    theirs = sentencepiece.SentencePieceProcessor(model_proto=trained_model)
    parts = model_file.read(trained_model, "x.model")
    data = model_file.write(parts)
    again = sentencepiece.SentencePieceProcessor(model_proto=data)
    assert again.encode(TEXTS) == theirs.encode(TEXTS)
    assert again.decode(theirs.encode(TEXTS)) == theirs.decode(theirs.encode(TEXTS))
    for name in ("unk_id", "bos_id", "eos_id", "pad_id", "get_piece_size"):
        assert getattr(again, name)() == getattr(theirs, name)()
    assert model_file.read(data, "y.model").added == parts.added


def test_equivalent_merges_are_written(trained_model):
    parts = model_file.read(trained_model, "x.model")
    data = model_file.write(with_merges(parts))
    theirs = sentencepiece.SentencePieceProcessor(model_proto=trained_model)
    again = sentencepiece.SentencePieceProcessor(model_proto=data)
    assert again.encode(TEXTS) == theirs.encode(TEXTS)


def with_merges(parts: TokenizerSpec) -> TokenizerSpec:
    """The same parts as Hugging Face's converter writes them: all pairs that spell a token."""
    ends = np.cumsum(parts.model.lengths).tolist()
    places = {
        parts.model.data[start:end].decode(): place
        for place, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
        if parts.model.kinds[place] == TOKEN
    }
    merges = [
        (places[text[:at]], places[text[at:]])
        for text in sorted(places, key=lambda text: (parts.model.order[places[text]], text))
        for at in range(1, len(text))
        if text[:at] in places and text[at:] in places
    ]
    return replaced(parts, merges=np.array(merges, np.uint32).reshape(-1, 2), order=None)


def replaced(parts: TokenizerSpec, **options) -> TokenizerSpec:
    """TokenizerSpec with other values, of the model where it has them."""
    spec_fields = [one.name for one in dataclasses.fields(TokenizerSpec)]
    fields = {name: getattr(parts, name) for name in spec_fields}
    of_model = {one.name: getattr(parts.model, one.name) for one in dataclasses.fields(Model)}
    of_model |= {name: value for name, value in options.items() if name in of_model}
    fields |= {name: value for name, value in options.items() if name in fields}
    return TokenizerSpec(**{**fields, "model": Model(**of_model)})


def test_symbols_pass_the_map_untouched():
    rules = next(
        step.data
        for step in model_file.read(trained(), "x.model").steps
        if isinstance(step, Charsmap)
    )
    rng = random.Random(SEED)
    for _ in range(examples(5)):
        symbols = ["".join(rng.choices(BITS[11:], k=rng.choice([1, 1, 2, 3]))) for _ in range(20)]
        symbols = sorted({symbol for symbol in symbols if " " not in symbol} - {"<unk>"})
        data = trained(user_defined_symbols=symbols)
        kept = model_file.keep_texts(rules, symbols)
        assert len(kept) < len(rules) + 256 * 1024
        bits = [*symbols, *BITS]
        count = max(60, examples(300))
        found = ["".join(rng.choices(bits, k=rng.randrange(10))) for _ in range(count)]
        same_ids(data, found)


# ── Models that are not supported ────────────────────────────────────────────────────────────


def message(pieces, trainer=b"", normalizer=b"", more=b"") -> bytes:
    found = b""
    for text, score, type_ in pieces:
        entry = write_bytes(1, text if isinstance(text, bytes) else text.encode())
        found += write_bytes(1, entry + write_float(2, score) + write_number(3, type_))
    trainer = trainer or write_number(3, 2)
    return found + write_bytes(2, trainer) + write_bytes(3, normalizer) + more


META = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3)]
LETTERS = [(SPACE, -9, 1), ("a", -9, 1), ("b", -9, 1)]
BPE = write_number(3, 2)


def refused(data: bytes, *parts: str) -> None:
    with pytest.raises(VocabularyError, match="(?s)" + ".*".join(map(re.escape, parts))) as error:
        model_file.read(data, "x.model")
    assert str(error.value).startswith("x.model")
    assert ";" in str(error.value) or "too large" in str(error.value)


def test_smallest_model_is_read():
    data = message([*META, *LETTERS, ("ab", -1, 1)])
    parts = model_file.read(data, "x.model")
    assert parts.steps == (Squeeze(),)
    assert (parts.prefix, parts.blank) == ("always", True)
    assert parts.model.kinds.tolist() == [DECODED] * 3 + [TOKEN] * 4
    assert parts.added == (Added("<s>", 1), Added("</s>", 2))
    same_ids(data, ["ab", "a b", "cab cc", ""])


@pytest.mark.parametrize(
    ("number", "name"), [(1, "Unigram"), (3, "word"), (4, "character"), (9, "unknown (9)")]
)
def test_other_types_of_models_are_refused(number, name):
    refused(message([*META, *LETTERS], write_number(3, number)), "model_type", name, "BPE")


def test_model_type_that_is_not_there_is_unigram():
    refused(message([*META, *LETTERS], write_number(4, 6)), "Unigram")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (message([*META, *LETTERS], BPE + write_number(24, 1)), ["treat_whitespace_as_suffix"]),
        (message([*META, *LETTERS], more=write_bytes(5, write_bytes(2, b"x"))), ["denormalizer"]),
        (message([*META, *LETTERS], normalizer=write_number(5, 0)), ["escape_whitespaces"]),
        (message([*META, *LETTERS, ("a", 0, 1)]), ["tokens 4 and 6", "'a'"]),
        (message([*META, *LETTERS, ("", 0, 1)]), ["piece 6 is empty"]),
        (message([("", 0, 1)] * 40), ["piece 0 is empty"]),
        (message([*META, *LETTERS, (b"\xff", 0, 1)]), ["piece 6", "UTF-8"]),
        (message([*META, *LETTERS, ("ab", float("nan"), 1)]), ["score NaN", "piece 6"]),
        (message([*META, *LETTERS, ("ac", 0, 1)]), ["'ac'", "'c'", "no piece"]),
        (message([*META, *LETTERS, ("ab", 0, 5)]), ["unused piece", "'ab'", "tokenizer.json"]),
        (message([*META, *LETTERS, ("q", 0, 3)]), ["control piece 6", "'q'"]),
        (message([*META, *LETTERS, ("q", 0, 8)]), ["unknown type 8"]),
        (message([*META, *LETTERS, ("<0x41>", 0, 6)]), ["1 byte pieces"]),
        (message([*META, *LETTERS, ("<0x4>", 0, 6)]), ["piece 6", "'<0x4>'", "'<0x41>'"]),
        (message(LETTERS), ["0 unknown pieces"]),
        (message([*META, *LETTERS, ("?", 0, 2)]), ["2 unknown pieces"]),
        (message([*META, *LETTERS, ("a b", 0, 4)]), ["'a b'", "space"]),
        (message([*META, *LETTERS], normalizer=write_bytes(2, b"xxxxx")), ["precompiled_charsmap"]),
        (message([]), ["0 tokens"]),
        (b"", ["Unigram"]),
        (b"hello", ["damaged", "wire type"]),
        (b"\x0a\x05\x0a\x09ab", ["damaged", "bytes"]),
    ],
)  # fmt: skip
def test_models_that_cannot_be_done_exactly_are_refused(data, words):
    refused(data, *words)


def test_pieces_that_are_out_of_reach_are_only_decoded():
    pieces = [*META, *LETTERS, ("a b", -1, 1), ("[PAD7]", 0, 5), ("\n", 0, 4), ("a\nb", -2, 1)]
    data = message(pieces, normalizer=write_number(4, 0))
    assert (
        model_file.read(data, "x").model.kinds.tolist()
        == [DECODED] * 3 + [TOKEN] * 3 + [DECODED] * 4
    )
    same_ids(data, ["a b", "[PAD7]", "a\nb"])


def test_spaces_that_are_not_replaced_are_read():
    pieces = [*META, (" ", -9, 1), ("a", -9, 1), ("b", -9, 1), (" a", -1, 1), ("a b", 0, 4)]
    data = message(pieces, normalizer=write_number(4, 0) + write_number(5, 0))
    parts = model_file.read(data, "x.model")
    assert not parts.blank
    same_ids(data, ["a b", " a", "ab", "  b", SPACE, "a" + SPACE, ""])
    again = sentencepiece.SentencePieceProcessor(model_proto=model_file.write(parts))
    assert again.encode("a a b") == ReferenceEncoder(parts).encode("a a b")


def test_rule_that_gives_two_spaces_is_rejected():
    step = next(s for s in model_file.read(trained(), "x").steps if isinstance(s, Charsmap))
    normalizer = write_bytes(2, step.data + b"a  b\0")
    refused(message([*META, *LETTERS], normalizer=normalizer), "two spaces")


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"base": "bytes"}, "bytes"),
        ({"whole": True}, "ignore_merges"),
        ({"dropout": 0.1}, "dropout"),
        ({"missing": "drop"}, "no unknown token"),
        ({"unk": None}, "no unknown token"),
        ({"fuse_unk": False}, "does not fuse unknown"),
        ({"stages": (Stage("digits", "isolated"),)}, "has a pre-tokenizer"),
        ({"prefix": "missing"}, "adds a space only"),
        ({"steps": (Form("NFC"),)}, "Form"),
        ({"steps": (Squeeze(), Prepend("x"))}, "Squeeze, Prepend"),
        ({"steps": (Charsmap(b"", by_grapheme=True),)}, "Precompiled"),
        ({"added": (Added("<x>", 7, lstrip=True),)}, "lstrip=True"),
        ({"added": (Added("<x>", 7, special=False),)}, "<x>"),
        ({"added": (Added("<x>", 9),)}, "gaps"),
        ({"kinds": np.array([2, 2, 2, 0, 0, 0, 2], np.uint8)}, "token 6"),
        ({"merges": np.array([[3, 4]], np.uint32)}, "does not merge"),
    ],
)
def test_spec_that_a_model_cannot_express_is_not_written(options, word):
    parts = model_file.read(message([*META, *LETTERS, ("ab", -1, 1)]), "x.model")
    with pytest.raises(VocabularyError, match=re.escape(word)) as error:
        model_file.write(replaced(parts, **options))
    assert "tokenizer.json" in str(error.value)


# ── Real files ───────────────────────────────────────────────────────────────────────────────

if SHARED_DATA is not None:
    REAL = sorted((SHARED_DATA / "vocab" / "spm").glob("*.xz"))

    @pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
    def test_real_models_are_read_and_written(path):
        data = lzma.decompress(path.read_bytes())
        same_ids(data, texts(examples(3_000)))
        theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
        again = sentencepiece.SentencePieceProcessor(
            model_proto=model_file.write(model_file.read(data, path.name))
        )
        assert again.encode(TEXTS) == theirs.encode(TEXTS)
