""".model, tekken.json and GGUF → the ids of the libraries of these formats."""

from __future__ import annotations

import json
import lzma
import random
from importlib.resources import files
from pathlib import Path

import gguf_files
import pytest
import sentencepiece
import sentencepiece_models
import tokenizers as huggingface
from conftest import FIXTURES, SEED, SHARED_DATA, examples
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from smaller_files import beginning

from tokenmill import Tokenizer
from tokenmill.formats import gguf, tekken
from tokenmill.formats import sentencepiece as model_file
from tokenmill.formats.spec import TokenizerSpec

MISTRAL = Path(str(files("mistral_common") / "data"))
LONG = [path.read_text(encoding="utf-8") for path in FIXTURES]
LONG = [text[: examples(len(text))] for text in LONG]


def made(parts: TokenizerSpec, name: str) -> Tokenizer:
    return Tokenizer._from_spec(parts, name)


def texts(seed: str, count: int = 3_000, more: tuple[str, ...] = ()) -> list[str]:
    rng = random.Random(f"{SEED} {seed}")
    bits = [*sentencepiece_models.BITS, *more]
    return ["".join(rng.choices(bits, k=rng.randrange(20))) for _ in range(examples(count))]


def same(tokenizer: Tokenizer, theirs, given: list[str]) -> None:
    """`theirs`: a text → its ids."""
    expected = [list(theirs(text)) for text in given]
    for text, ids in zip(given, expected, strict=True):
        assert tokenizer.encode(text) == ids, repr(text[:200])
    found = tokenizer.encode_batch(given)
    assert [list(ids) for ids in found] == expected


@pytest.mark.parametrize("options", sentencepiece_models.OPTIONS)
def test_trained_models(options):
    data = sentencepiece_models.trained(**sentencepiece_models.OPTIONS[options])
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    tokenizer = made(model_file.read(data, "x.model"), options)
    symbols = tuple(sentencepiece_models.OPTIONS[options].get("user_defined_symbols", ()))
    given = [*texts(options, more=symbols), *LONG]
    same(tokenizer, theirs.encode, given)
    for text in given:
        ids = theirs.encode(text)
        assert tokenizer.decode(ids) == theirs.decode(ids), repr(text[:200])


@pytest.mark.parametrize("squeezes", [True, False])
@pytest.mark.parametrize("prefixed", [True, False])
@pytest.mark.parametrize("byte_fallback", [True, False])
def test_any_ids_lose_the_spaces_that_sentencepiece_removes(squeezes, prefixed, byte_fallback):
    data = sentencepiece_models.trained(
        user_defined_symbols=[2 * "▁", 3 * "▁", "▁x"],
        remove_extra_whitespaces=squeezes,
        add_dummy_prefix=prefixed,
        byte_fallback=byte_fallback,
    )
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    tokenizer = made(model_file.read(data, "x.model"), "x")
    names = [theirs.id_to_piece(id_) for id_ in range(theirs.get_piece_size())]
    usual = [
        id_
        for id_ in range(len(names))
        if not (theirs.is_control(id_) or theirs.is_unknown(id_) or theirs.is_byte(id_))
    ]
    blanks = [id_ for id_ in usual if names[id_].startswith("▁")]
    lone = [id_ for id_ in usual if not names[id_].strip("▁")]
    assert len(lone) >= 3
    rng = random.Random(SEED)
    for _ in range(examples(3_000)):
        ids = [rng.choice(rng.choice([usual, blanks, lone])) for _ in range(rng.randrange(7))]
        assert tokenizer.decode(ids) == theirs.decode(ids), [names[id_] for id_ in ids]


def test_control_pieces_are_found_only_if_asked_for():
    data = sentencepiece_models.trained(byte_fallback=True, control_symbols=["<ctl>"])
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    tokenizer = made(model_file.read(data, "x.model"), "x")
    text = "a<ctl>b<s>c"
    assert tokenizer.encode(text) == theirs.encode(text)
    # Asked for, they cut the text, and each segment is encoded as a text of its own.
    expected = [
        *theirs.encode("a"), theirs.piece_to_id("<ctl>"),
        *theirs.encode("b"), theirs.piece_to_id("<s>"), *theirs.encode("c"),
    ]  # fmt: skip
    assert tokenizer.encode(text, allowed_special=True) == expected


@pytest.mark.parametrize(
    "name", sorted(path.name for path in MISTRAL.iterdir() if ".model.v" in path.name)
)
def test_mistrals_models(name):
    data = (MISTRAL / name).read_bytes()
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    tokenizer = made(model_file.read(data, name), name)
    runs = [" " * count + "x" for count in range(1, 100)] + [" " * count for count in range(100)]
    same(tokenizer, theirs.encode, [*texts(name, 10_000), *LONG, *runs])


@pytest.mark.parametrize("name", ["tekken_240718.json", "tekken_240911.json"])
def test_tekken(name):
    theirs = Tekkenizer.from_file(MISTRAL / name)
    tokenizer = made(tekken.read((MISTRAL / name).read_bytes(), name), name)
    same(tokenizer, lambda text: theirs.encode(text, False, False), [*texts(name), *LONG])


def test_gguf_of_pieces(tmp_path):
    data = (MISTRAL / "tokenizer.model.v1").read_bytes()
    theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
    path = gguf_files.from_pieces(tmp_path / "x.gguf", data)
    same(made(gguf.read(path, "x.gguf"), "x"), theirs.encode, [*texts("gguf"), *LONG])


if SHARED_DATA is not None:

    @pytest.mark.parametrize(
        ("name", "pre"),
        [("qwen3", "qwen2"), ("deepseek_v3", "deepseek-v3"), ("mistral_nemo", "tekken")],
    )
    def test_gguf_of_bytes(tmp_path, name, pre):
        file = SHARED_DATA / "vocab" / "hf" / f"{name}.tokenizer.json.xz"
        document = beginning(json.loads(lzma.decompress(file.read_bytes())))
        path = gguf_files.from_json(tmp_path / "x.gguf", document, add_tokenizer_pre=pre)
        tokenizer = made(gguf.read(path, "x.gguf"), name)
        document["normalizer"] = None  # a GGUF has none, and llama.cpp runs none
        theirs = huggingface.Tokenizer.from_str(json.dumps(document))

        def ids(text: str) -> list[int]:
            return theirs.encode(text, add_special_tokens=False).ids

        # Their special tokens are always found. These texts have none.
        given = [text.replace("<", "(") for text in (*texts(name), *LONG)]
        same(tokenizer, ids, given)
