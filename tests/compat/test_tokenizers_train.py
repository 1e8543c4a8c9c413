"""Training in both libraries: the same vocabulary, or a refusal that says why."""

from __future__ import annotations

import json
from typing import Any

import pytest
import side_by_side
import tokenizers as theirs
from side_by_side import TEXTS

import tokenmill.compat.tokenizers as ours
from tokenmill.schemes import PATTERNS


@pytest.fixture(autouse=True)
def _engine(monkeypatch: pytest.MonkeyPatch) -> None:
    side_by_side.use_stand_in(monkeypatch)


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
        {"vocab_size": 90, "special_tokens": ["<mask>"]},
        {"vocab_size": 330, "max_token_length": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("whole", [False, True])
def test_vocabulary_is_hugging_faces(
    pre_tokenizer: str, options: dict[str, Any], whole: bool
) -> None:
    if whole:
        if options["vocab_size"] < 256:
            return
        options = {**options, "initial_alphabet": theirs.pre_tokenizers.ByteLevel.alphabet()}
    made = []
    for library in (theirs, ours):
        trainer = library.trainers.BpeTrainer(show_progress=False, **options)
        made.append(new(library, pre_tokenizer))
        made[-1].train_from_iterator(iter(CORPUS), trainer, length=len(CORPUS))
    assert document(made[1]) == document(made[0])
    assert made[1].encode("word and <mask>more").ids == made[0].encode("word and <mask>more").ids


def test_files_and_lists_of_texts_are_read_as_hugging_faces(tmp_path: Any) -> None:
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


def test_byte_level_tokenizer_is_hugging_faces(tmp_path: Any) -> None:
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
    "pre_tokenizer, options, normalizer, said",
    [
        ("P.Whitespace()", {}, None, "a pre-tokenizer that is neither ByteLevel"),
        ("P.ByteLevel(use_regex=False)", {}, None, "a pre-tokenizer that is neither ByteLevel"),
        (BYTE_LEVEL, {"limit_alphabet": 5}, None, "limit_alphabet"),
        (BYTE_LEVEL, {"continuing_subword_prefix": "##"}, None, "continuing_subword_prefix"),
        (BYTE_LEVEL, {"end_of_word_suffix": "w"}, None, "end_of_word_suffix"),
        (BYTE_LEVEL, {"initial_alphabet": ["a"]}, None, "an initial_alphabet that is neither"),
        (BYTE_LEVEL, {}, "Lowercase", "a normalizer"),
    ],
)
def test_what_cannot_be_learned_exactly_is_refused(
    pre_tokenizer: str, options: dict[str, Any], normalizer: str | None, said: str
) -> None:
    tokenizer = new(ours, pre_tokenizer)
    if normalizer:
        tokenizer.normalizer = getattr(ours.normalizers, normalizer)()
    trainer = ours.trainers.BpeTrainer(vocab_size=300, **options)
    with pytest.raises(NotImplementedError, match=f"training with {said}"):
        tokenizer.train_from_iterator(CORPUS, trainer)
