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


PRE_TOKENIZERS = [
    "None", "P.Whitespace()", "P.WhitespaceSplit()", "P.CharDelimiterSplit('-')",
    "P.Metaspace()", "P.Metaspace(prepend_scheme='first', split=False)",
    "P.Sequence([P.Whitespace(), P.Digits(True)])", "P.FixedLength(5)",
    "P.Sequence([P.Digits(True), P.ByteLevel(add_prefix_space=False)])",
    "P.Sequence([P.Punctuation(), P.Metaspace(prepend_scheme='first')])",
    "P.Split(' ', 'merged_with_next')", "P.Split(Regex(r'\\w+'), 'removed', True)", "P.ByteLevel()",
]  # fmt: skip


@pytest.mark.parametrize("pre_tokenizer", PRE_TOKENIZERS)
@pytest.mark.parametrize("normalizer", ["None", "N.NFKC()", "N.Sequence([N.NFD(), N.Lowercase()])"])
@pytest.mark.parametrize(
    "options",
    [
        {"vocab_size": 90, "special_tokens": ["<unk>", "word"]},
        {"vocab_size": 200, "min_frequency": 3, "max_token_length": 4},
        {"vocab_size": 150, "initial_alphabet": ["ñ", "z", "Zeta"]},
        {"vocab_size": 20},
    ],
    ids=str,
)
def test_words_of_characters_are_learned_as_hugging_faces(
    pre_tokenizer: str, normalizer: str, options: dict[str, Any]
) -> None:
    made = []
    for library in (theirs, ours):
        made.append(new(library, pre_tokenizer))
        made[-1].normalizer = eval(normalizer, {"N": library.normalizers})
        trainer = library.trainers.BpeTrainer(show_progress=False, **options)
        made[-1].train_from_iterator(CORPUS, trainer)
    assert document(made[1]) == document(made[0])


@pytest.mark.parametrize(
    "marks",
    [
        {},
        {"continuing_subword_prefix": "##"},
        {"end_of_word_suffix": "</w>"},
        {"continuing_subword_prefix": "@", "end_of_word_suffix": "_"},
        {"continuing_subword_prefix": "", "end_of_word_suffix": ""},
    ],
    ids=str,
)
def test_marks_of_words_are_learned_as_hugging_faces(marks: dict[str, str]) -> None:
    # Ids of marked characters follow the order of a hash there, which differs from run to run. So
    # the words are such that no two pairs count the same.
    words = {"ab": 16, "abc": 8, "xyab": 4, "qqr": 2}
    texts = [" ".join([word] * count) for word, count in words.items()]
    made = []
    for library in (theirs, ours):
        made.append(library.Tokenizer(library.models.BPE(continuing_subword_prefix="?")))
        made[-1].pre_tokenizer = library.pre_tokenizers.Whitespace()
        trainer = library.trainers.BpeTrainer(show_progress=False, **marks)
        made[-1].train_from_iterator(texts, trainer)
    first, second = (document(each)["model"] for each in made)
    assert set(second.pop("vocab")) == set(first.pop("vocab"))
    assert sorted(second.pop("merges")) == sorted(first.pop("merges"))
    assert second == first


def test_an_alphabet_is_limited_to_the_most_frequent() -> None:
    texts = ["a" * 9 + "b" * 7 + "c" * 5 + "d" * 3]
    for limit in range(6):
        made = []
        for library in (theirs, ours):
            made.append(new(library, "P.Whitespace()"))
            trainer = library.trainers.BpeTrainer(
                show_progress=False, vocab_size=8, limit_alphabet=limit, initial_alphabet=["z"]
            )
            made[-1].train_from_iterator(texts, trainer)
        assert document(made[1]) == document(made[0])


@pytest.mark.parametrize("name", ["SentencePieceBPETokenizer"])
def test_implementations_are_trained_as_hugging_faces(name: str) -> None:
    made = [getattr(library, name)() for library in (theirs, ours)]
    for each in made:
        each.train_from_iterator(CORPUS, vocab_size=120, show_progress=False)
    assert made[1].to_str() == made[0].to_str()


def test_what_cannot_be_learned_exactly_is_refused() -> None:
    tokenizer = new(ours, "P.Whitespace()")
    tokenizer.normalizer = ours.normalizers.Lowercase()
    tokenizer.add_tokens(["WORD"])
    for text in ("a WORD", "a word"):
        with pytest.raises(NotImplementedError, match="which was added before"):
            tokenizer.train_from_iterator([text])
    tokenizer.train_from_iterator(["nothing of it"])
    tokenizer.normalizer = ours.normalizers.Strip()
    tokenizer.pre_tokenizer = ours.pre_tokenizers.Metaspace(prepend_scheme="first")
    with pytest.raises(NotImplementedError, match="'first' behind such a normalizer"):
        tokenizer.train_from_iterator(["a"])
    with pytest.raises(NotImplementedError, match="the pre-tokenizer BertPreTokenizer"):
        tokenizer.pre_tokenizer = ours.pre_tokenizers.BertPreTokenizer()
        tokenizer.train_from_iterator(["a"])
