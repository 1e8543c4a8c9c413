"""Real files of other formats than rank files → the ids of their libraries.

Every text is one pretoken here: how files cut text is tested elsewhere.
"""

import json
import lzma
import random
from pathlib import Path

import pytest
import sentencepiece
from conftest import SEED, SHARED_DATA, examples
from model_cases import core_of
from smaller_files import beginning
from tokenizers import Tokenizer

BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": False,
}


def texts() -> list[str]:
    source = random.Random(SEED)
    letters = "ab ▁\n\té漢字🦀ﬁ한ß1 2  ñ\u0301\x01ไท"
    count = examples(1500)
    mixed = ["".join(source.choices(letters, k=source.randrange(60))) for _ in range(count)]
    wide = "".join(chr(source.randrange(32, 0xD7FF)) for _ in range(examples(3000)))
    return [*mixed, *(" " * count + "a" for count in range(150)), wide]


def with_blank(text: str) -> str:
    return " " + text.replace("▁", " ") if text else text


if SHARED_DATA is not None:
    VOCABULARIES = SHARED_DATA / "vocab"
    JSON = sorted(VOCABULARIES.glob("hf/*.tokenizer.json.xz"))
    MODELS = sorted(path for path in VOCABULARIES.glob("spm/*") if ".model" in path.name)

    @pytest.mark.parametrize("path", JSON, ids=lambda path: path.name)
    def test_merges_of_hugging_face(path: Path) -> None:
        file = beginning(json.loads(lzma.decompress(path.read_bytes())))
        model = file["model"]
        characters = model.get("byte_fallback", False)
        added = [token["content"] for token in file["added_tokens"]]
        file |= {"added_tokens": [], "post_processor": None}
        file |= {"pre_tokenizer": None if characters else BYTE_LEVEL}
        if not characters:
            file |= {"normalizer": None}
        peer = Tokenizer.from_str(json.dumps(file))
        merges = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
        vocab = {name: id_ for name, id_ in model["vocab"].items() if name not in added}
        core = core_of(
            vocab,
            [(left, right) for left, right in merges],
            characters=characters,
            blank=characters,
            whole=model.get("ignore_merges", False),
            missing="bytes" if characters else "drop",
        )
        for text in texts():
            given = with_blank(text) if characters else text
            expected = peer.encode(text, add_special_tokens=False).ids
            assert core.encode(given, None) == expected, text
            assert core.count(given, None, 1) == len(expected)

    @pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
    def test_scores_of_sentencepiece(path: Path) -> None:
        raw = path.read_bytes()
        if path.suffix == ".xz":
            raw = lzma.decompress(raw)
        peer = sentencepiece.SentencePieceProcessor(model_proto=raw)
        ids = range(peer.vocab_size())
        pieces = [id_ for id_ in ids if not (peer.is_control(id_) or peer.is_unknown(id_))]
        scores = [-peer.get_score(id_) for id_ in pieces]
        classes = {score: index for index, score in enumerate(sorted(set(scores)))}
        core = core_of(
            {peer.id_to_piece(id_): id_ for id_ in pieces},
            None,
            order=[classes[score] for score in scores],
            blank=True,
            missing="bytes",
        )
        for text in texts():
            assert core.encode(with_blank(text), None) == peer.encode(text), text
