"""Training → the vocabulary of Hugging Face, or an error with the reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
import side_by_side
import tokenizers as theirs
from side_by_side import TEXTS

import tokenmill.compat.tokenizers as ours
from tokenmill.patterns.schemes import PATTERNS

CORPUS = [*TEXTS, *[f"word{i % 7} and {text} {i}" for i, text in enumerate(TEXTS * 3)]]
BYTE_LEVEL = "P.ByteLevel(add_prefix_space=False)"
LLAMA = (
    f"P.Sequence([P.Split(Regex({PATTERNS['llama3'][0]!r}), 'isolated'), "
    "P.ByteLevel(add_prefix_space=False, use_regex=False)])"
)


def new(library: Any, pre_tokenizer: str) -> Any:
    made = library.Tokenizer(library.models.BPE())
    names = {"P": library.pre_tokenizers, "Regex": library.Regex}
    made.pre_tokenizer = eval(pre_tokenizer, names)
    return made


def document(tokenizer: Any) -> Any:
    return json.loads(tokenizer.to_str())


@pytest.mark.parametrize("pre_tokenizer", [BYTE_LEVEL, "P.ByteLevel()", LLAMA])
@pytest.mark.parametrize(
    "options",
    [
        {"vocab_size": 300},
        {"vocab_size": 320, "min_frequency": 2, "special_tokens": ["<s>", "</s>"]},
        {"vocab_size": 257, "special_tokens": ["<mask>"]},
        {"vocab_size": 330, "max_token_length": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("whole", [False, True])
def test_vocabulary_equals_hugging_face(
    pre_tokenizer: str, options: dict[str, Any], whole: bool
) -> None:
    if whole:
        options = {**options, "initial_alphabet": theirs.pre_tokenizers.ByteLevel.alphabet()}
    made = []
    for library in (theirs, ours):
        trainer = library.trainers.BpeTrainer(show_progress=False, **options)
        made.append(new(library, pre_tokenizer))
        made[-1].train_from_iterator(iter(CORPUS), trainer, length=len(CORPUS))
    assert document(made[1]) == document(made[0])
    assert made[1].encode("word and <mask>more").ids == made[0].encode("word and <mask>more").ids


def test_files_and_lists_of_texts_are_read_like_hugging_face(tmp_path: Any) -> None:
    paths = []
    for index in range(2):
        paths.append(str(tmp_path / f"{index}.txt"))
        (tmp_path / f"{index}.txt").write_bytes("\n".join(CORPUS[index::2]).encode())
    made = []
    for library in (theirs, ours):
        for source in (paths, [CORPUS[:9], CORPUS[9:]]):
            trainer = library.trainers.BpeTrainer(vocab_size=280, show_progress=False)
            made.append(new(library, "P.ByteLevel()"))
            if source is paths:
                made[-1].train(source, trainer)
            else:
                made[-1].train_from_iterator(source, trainer)
    assert document(made[2]) == document(made[0])
    assert document(made[3]) == document(made[1])


def test_byte_level_tokenizer_equals_hugging_face(tmp_path: Any) -> None:
    made = [library.ByteLevelBPETokenizer() for library in (theirs, ours)]
    for each in made:
        each.train_from_iterator(
            CORPUS, vocab_size=300, special_tokens=["<s>"], show_progress=False
        )
        each.enable_truncation(4)
        each.enable_padding(length=6)
    assert made[1].to_str() == made[0].to_str()
    assert repr(made[1]) == repr(made[0])
    side_by_side.same(made[1].encode("word and more"), made[0].encode("word and more"))
    assert made[1].decode([5, 6, 7]) == made[0].decode([5, 6, 7])
    assert made[1].save_model(str(tmp_path)) == made[0].save_model(str(tmp_path))
    given = [str(tmp_path / name) for name in ("vocab.json", "merges.txt")]
    again = [lib.ByteLevelBPETokenizer.from_file(*given, lowercase=True) for lib in (theirs, ours)]
    assert again[1].to_str() == again[0].to_str()


@pytest.mark.parametrize(
    ("change", "options", "text"),
    [
        ({"pre_tokenizer": None}, {}, "with the pre-tokenizer None"),
        ({"pre_tokenizer": "P.Whitespace()"}, {}, "with the pre-tokenizer Whitespace"),
        ({"pre_tokenizer": "P.Sequence([P.Digits(), P.ByteLevel()])"}, {}, "Digits, ByteLevel"),
        ({"normalizer": "N.NFC()"}, {}, "with a normalizer"),
        ({}, {"vocab_size": 90}, "with vocab_size=90"),
        ({}, {"initial_alphabet": ["a"]}, "with an initial_alphabet"),
        ({}, {"limit_alphabet": 5}, "with limit_alphabet=5"),
        ({}, {"end_of_word_suffix": "</w>"}, "with end_of_word_suffix='</w>'"),
        ({}, {"continuing_subword_prefix": "##"}, "with continuing_subword_prefix='##'"),
    ],
)
def test_training_on_characters_is_refused(
    change: dict[str, str | None], options: dict[str, Any], text: str
) -> None:
    tokenizer = new(ours, BYTE_LEVEL)
    names = {"P": ours.pre_tokenizers, "N": ours.normalizers}
    for slot, made in change.items():
        setattr(tokenizer, slot, None if made is None else eval(made, names))
    trainer = ours.trainers.BpeTrainer(show_progress=False, **options)
    with pytest.raises(NotImplementedError, match=text):
        tokenizer.train_from_iterator(CORPUS, trainer)


def test_text_with_an_added_token_is_refused() -> None:
    tokenizer = new(ours, BYTE_LEVEL)
    tokenizer.add_tokens(["WORD"])
    with pytest.raises(NotImplementedError, match="a text with the added token 'WORD'"):
        tokenizer.train_from_iterator(["a WORD"])
    tokenizer.train_from_iterator(["another"])


def test_training_of_sentencepiece_style_is_refused() -> None:
    tokenizer = ours.SentencePieceBPETokenizer()
    for call in (tokenizer.train, tokenizer.train_from_iterator):
        with pytest.raises(NotImplementedError, match="which is on characters"):
            call(CORPUS)
