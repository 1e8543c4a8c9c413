"""Saved tokenizers → the same ids in Hugging Face, and equal tokenizers after loading.

Tests of formats/names.py, formats/ranks.py, formats/save.py, formats/tokenmill_file.py,
formats/vocab_merges.py and patterns/parse.py.
"""

from __future__ import annotations

import json
import pickle
import random
import re
from dataclasses import replace
from pathlib import Path

import families
import hard_inputs
import numpy as np
import pytest
import tokenizers as huggingface
from conftest import FIXTURES, SEED, TEXT, examples, sample, write_ranks

from tokenmill import Tokenizer, reference
from tokenmill.cli import main
from tokenmill.errors import VocabularyError
from tokenmill.formats import names, tokenizer_json, tokenmill_file
from tokenmill.formats.names import byte_characters, spell
from tokenmill.formats.ranks import find_merges, of_ranks
from tokenmill.formats.spec import Ranks
from tokenmill.patterns.parse import to_oniguruma
from tokenmill.patterns.schemes import PATTERNS

# Characters of Unicode 15 and 16, which Oniguruma's tables may not know.
NEW = re.compile(
    "[\u0897\u1c89\u1c8a\ua7cb-\ua7cd\ua7da-\ua7dc\U00010d40-\U000116ff\U00031350-\U000323af]"
)


def raises(error: type[Exception], *parts: object):
    return pytest.raises(error, match="(?s)" + ".*".join(re.escape(str(part)) for part in parts))


def texts() -> list[str]:
    found = [path.read_text(encoding="utf-8")[:100_000] for path in FIXTURES]
    found = [text[: examples(len(text))] for text in found]
    strings = sample(hard_inputs.STRINGS)
    found += [t for t in strings if not re.search("[\ud800-\udfff]", t)]
    rng = random.Random(SEED)
    pieces = [
        " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u0085", "a", "Ab", "don't", "'S", "'ſ",
        "12345", "...", "/", ".\n/", "中文", "。", "é", "e\u0301", "ſ", "🌾", "\ufffd", "_", "ǅ",
    ]  # fmt: skip
    found += ["".join(rng.choices(pieces, k=30)) for _ in range(examples(400))]
    return [text for text in found if not NEW.search(text)]


TEXTS = texts()
# Oniguruma takes quadratic time on some of the others.
SHORT_TEXTS = [text[:2_000] for text in TEXTS[::5]]


@pytest.fixture(scope="module")
def small(rank_files, tmp_path_factory):
    """A tokenizer of 3,000 tokens with any pattern; small ones load fast in Hugging Face's."""
    lines = rank_files["cl100k_base"].read_bytes().splitlines(keepends=True)[:3_000]
    path = tmp_path_factory.mktemp("small") / "small.tiktoken"
    path.write_bytes(b"".join(lines))

    def load(pattern: str, special_tokens=None) -> Tokenizer:
        return Tokenizer.load(
            path, pattern=pattern, special_tokens=special_tokens or {"<|end|>": 3_000}
        )

    return load


def same_ids(tokenizer: Tokenizer, path, texts: list[str]) -> None:
    tokenizer.save(path)
    theirs = huggingface.Tokenizer.from_file(str(path))
    encodings = theirs.encode_batch(texts, add_special_tokens=False)
    for text, encoding in zip(texts, encodings, strict=True):
        ours = tokenizer.encode(text, allowed_special=True)
        assert encoding.ids == ours, repr(text[:200])
        assert theirs.decode(ours, skip_special_tokens=False) == tokenizer.decode(ours)


# ── tokenizer.json ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scheme", PATTERNS)
def test_tokenizer_json_gives_the_same_ids_in_hugging_face(small, tmp_path, scheme):
    for index, pattern in enumerate(PATTERNS[scheme]):
        same_ids(small(pattern), tmp_path / "tokenizer.json", SHORT_TEXTS if index else TEXTS)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\p{L}+|\p{N}{1,3}+|[^\s\p{L}\p{N}]+|\s+$|\s+",
        r"\w+|(?s:.)",
        r"(?i:the|[a-f]+)|\s|[^\s]",
        r"\p{Lu}\p{Ll}*?(?=\p{Lu}|\b)|.+?(?:$|\n)|\n",
        r"[\p{L}&&[^a-z]]+|[a-z]{2}+|(?<=\d)\s|\d+|[\s\S]",
        r"\p{L}+",  # leaves everything else out
        r"(?>a|ab)+|\S{2,}?|\s*[\r\n]+|\s+",
        r"\p{Script=Han}+|\p{Greek}+|[^\p{Han}\p{Greek}]",
    ],
)
def test_tokenizer_json_of_any_pattern_gives_the_same_ids(small, tmp_path, pattern):
    same_ids(small(pattern), tmp_path / "mine.json", SHORT_TEXTS)


@pytest.mark.parametrize("scheme", PATTERNS)
def test_oniguruma_spelling_of_a_known_pattern_is_exact_too(small, tmp_path, scheme):
    """The written pattern must not depend on whether the scheme has a scanner."""
    tokenizer = small(PATTERNS[scheme][0])
    tokenizer.save(tmp_path / "tokenizer.json")
    document = json.loads((tmp_path / "tokenizer.json").read_text())
    split = huggingface.pre_tokenizers.Split(
        huggingface.Regex(to_oniguruma(PATTERNS[scheme][0])), "isolated"
    )
    level = huggingface.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    theirs = huggingface.Tokenizer.from_str(json.dumps(document))
    theirs.pre_tokenizer = huggingface.pre_tokenizers.Sequence([split, level])
    for text, encoding in zip(SHORT_TEXTS, theirs.encode_batch(SHORT_TEXTS), strict=True):
        assert encoding.ids == tokenizer.encode(text, allowed_special=True), repr(text[:200])


def test_embedded_vocabulary_gives_the_same_ids_in_hugging_face(tokenizers, tmp_path):
    same_ids(tokenizers["r50k_base"], tmp_path / "tokenizer.json", TEXTS)


def test_vocabulary_with_tokens_that_no_merge_reaches(tmp_path):
    tokens = [*(bytes([byte]) for byte in range(256)), b"ab", b"xyz", b"abab"]
    path = write_ranks(tmp_path / "ranks", tokens)
    tokenizer = Tokenizer.load(path, pattern=r"\w+|\W+")
    tokenizer.save(tmp_path / "tokenizer.json")
    theirs = huggingface.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("xyz", "xyzz", "abab xyz ababab", "wxyz"):
        assert theirs.encode(text).ids == tokenizer.encode(text)
    assert json.loads((tmp_path / "tokenizer.json").read_text())["model"]["ignore_merges"] is True
    with raises(VocabularyError, "vocab.json", "ignore_merges", ".tokenmill"):
        tokenizer.save(tmp_path / "vocab.json")
    assert not (tmp_path / "merges.txt").exists()


def test_ids_with_gaps_keep_their_places(tokenizers, tmp_path):
    tokenizer = Tokenizer.load("p50k_edit", special_tokens={"<|mine|>": 60_000})
    tokenizer.save(tmp_path / "tokenizer.json")
    theirs = huggingface.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    text = "def f():\n        return 1<|endoftext|><|fim_middle|><|mine|>"
    assert theirs.encode(text).ids == tokenizer.encode(text, allowed_special=True)
    assert theirs.token_to_id("<|mine|>") == 60_000


def test_special_that_is_written_like_another_token_is_refused(small, tmp_path):
    tokenizer = small("cl100k", {"the": 3_000})
    for name in ("tokenizer.json", "vocab.json"):
        with raises(VocabularyError, "'the'", "3000", "cannot contain both", ".tokenmill"):
            tokenizer.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


# ── vocab.json and merges.txt ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt"])
def test_vocab_and_merges_are_written_together(tokenizers, tmp_path, name):
    tokenizer = tokenizers["r50k_base"]
    tokenizer.save(tmp_path / name)
    model = huggingface.models.BPE.from_file(
        str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")
    )
    theirs = huggingface.Tokenizer(model)
    theirs.pre_tokenizer = huggingface.pre_tokenizers.ByteLevel(add_prefix_space=False)
    for text in TEXTS[::9]:
        assert theirs.encode(text).ids == tokenizer.encode(text)


def two_vocabularies(tmp_path) -> tuple[Tokenizer, Tokenizer]:
    """Two that have the same tokens and merges, under other ids."""
    for name, tokens in (("a", [b"ab", b"cd"]), ("b", [b"cd", b"ab"])):
        write_ranks(tmp_path / name, [*(bytes([byte]) for byte in range(256)), *tokens])
    one, other = (Tokenizer.load(tmp_path / name, pattern=r"\w+|\W+") for name in "ab")
    return one, other


def test_half_new_pair_of_files_is_refused(tmp_path, monkeypatch):
    """No file system renames two files at once; the one that is renamed first says which vocabulary
    it is for."""
    old, new = two_vocabularies(tmp_path)
    folder = tmp_path / "pair"
    folder.mkdir()
    old.save(folder / "vocab.json")
    rename = Path.replace
    renamed = []

    def crash(self, target):
        renamed.append(target)
        if len(renamed) == 2:
            raise OSError(5, "crash")
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", crash)
    with pytest.raises(OSError, match=r"crash.*vocab\.json"):
        new.save(folder / "vocab.json")
    monkeypatch.undo()
    assert sorted(path.name for path in folder.iterdir()) == ["merges.txt", "vocab.json"]
    with raises(VocabularyError, folder, "merges.txt", "not written with this vocab.json"):
        Tokenizer.load(folder / "vocab.json", pattern=r"\w+|\W+")
    new.save(folder / "merges.txt")
    again = Tokenizer.load(folder / "vocab.json", pattern=r"\w+|\W+")
    assert again.encode("abcd") == new.encode("abcd") != old.encode("abcd")


def test_pair_of_files_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    old, new = two_vocabularies(tmp_path)
    folder = tmp_path / "pair"
    folder.mkdir()
    old.save(folder / "vocab.json")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    flushed = []

    def full(handle):
        flushed.append(handle)
        if len(flushed) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        new.save(folder / "vocab.json")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_pair_of_files_may_be_written_again_by_others(tmp_path):
    tokenizer, _ = two_vocabularies(tmp_path)
    tokenizer.save(tmp_path / "vocab.json")
    vocabulary = json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8"))
    pretty = json.dumps(vocabulary, indent=1, sort_keys=True)
    (tmp_path / "vocab.json").write_text(pretty, encoding="utf-8")
    assert Tokenizer.load(tmp_path / "vocab.json", pattern="r50k").encode("abcd") == [256, 257]
    vocabulary["more"] = 258
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    with raises(
        VocabularyError, "not written with this vocab.json", "changed on purpose", "#version: 0.2"
    ):
        Tokenizer.load(tmp_path / "vocab.json", pattern="r50k")
    merges = (tmp_path / "merges.txt").read_text(encoding="utf-8").split("\n")
    (tmp_path / "merges.txt").write_text("\n".join(["#version: 0.2", *merges[1:]]))
    assert Tokenizer.load(tmp_path / "vocab.json", pattern="r50k").encode("abcd") == [256, 257]


def test_merge_that_looks_like_the_first_line_is_refused(tmp_path):
    tokens = [b"#v", b"#ve", b"#ver", b"#vers", b"#versi", b"#versio", b"#version", b"#versions"]
    path = write_ranks(tmp_path / "x", [*(bytes([byte]) for byte in range(256)), *tokens])
    with raises(VocabularyError, "readers skip", "'#version' and 's'"):
        Tokenizer.load(path, pattern=r"\S+|\s+").save(tmp_path / "vocab.json")
    assert not (tmp_path / "vocab.json").exists()


def test_merges_are_those_that_openai_published(tokenizers):
    """GPT-2's own merges.txt, of which its first and last lines are known."""
    merges = find_merges(tokenizers["r50k_base"]._tokens())
    assert len(merges) == 50_000
    assert merges[:3] == [(b" ", b"t"), (b" ", b"a"), (b"h", b"e")]
    assert merges[-1] == (b" g", b"azed")


def test_merges_are_the_last_step_of_the_reference():
    ranks = reference.train(["the mill mills the meal, the miller"], reference.GPT2_PATTERN, 275)
    merges = find_merges({id: token for token, id in ranks.items()})
    assert [left + right for left, right in merges] == list(ranks)[256:]
    for left, right in merges:
        below = {token: id for token, id in ranks.items() if id < ranks[left + right]}
        assert reference.merge(left + right, below) == [ranks[left], ranks[right]]


def test_byte_characters_are_gpt2s():
    assert set(byte_characters()) == set(huggingface.pre_tokenizers.ByteLevel.alphabet())
    assert byte_characters()[ord(" ")] == "Ġ"
    assert byte_characters()[ord("\n")] == "Ċ"
    assert byte_characters()[ord("a")] == "a"


def test_names_of_tokens_are_those_of_their_bytes(tokenizers):
    """The way that all tokens are spelled at once, and the one that looks at each."""
    tokens = [b"", *tokenizers["r50k_base"]._tokens().values()]
    parts = of_ranks({token: rank for rank, token in enumerate(tokens)}, "x", {}, "x")
    want = [spell(token) for token in tokens]
    assert parts.model.kinds.any()  # the empty one is only decoded
    assert names.names_of(parts.model) == want
    usual = replace(parts.model, kinds=np.zeros(len(tokens), np.uint8))
    assert names.names_of(usual) == want
    assert names.names_of(of_ranks({}, "x", {}, "x").model) == []


# ── .tokenmill ───────────────────────────────────────────────────────────────────────────────


def test_own_file_gives_the_whole_tokenizer_back(small, tokenizers, tmp_path):
    path = tmp_path / "mine.tokenmill"
    for tokenizer in (small(r"\w+|\W", {"<s>": 3_500, "</s>": 4_000}), tokenizers["p50k_edit"]):
        tokenizer.save(path)
        again = Tokenizer.load(path)
        assert again == tokenizer
        assert dict(again.special_tokens) == dict(tokenizer.special_tokens)
        assert again.pattern == tokenizer.pattern
        assert again.encode(TEXT, allowed_special=True) == tokenizer.encode(
            TEXT, allowed_special=True
        )
        assert pickle.loads(pickle.dumps(again)) == tokenizer
        first = path.read_bytes()
        again.save(path)
        assert path.read_bytes() == first


def test_own_file_takes_more_specials_and_no_pattern(small, tmp_path):
    path = tmp_path / "mine.tokenmill"
    small("o200k").save(path)
    assert Tokenizer.load(path, special_tokens={"<x>": 5_000}).special_tokens == {
        "<|end|>": 3_000,
        "<x>": 5_000,
    }
    with raises(VocabularyError, path, "its own pattern"):
        Tokenizer.load(path, pattern="o200k")


def test_own_file_contains_learned_merges(tmp_path):
    """A special token that is written like a learned token takes its id, and its merges stay."""
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b" abc": 258}
    learned = np.array([[97, 98], [256, 99], [32, 257]], np.uint32)
    spec = of_ranks(ranks, "\\w+|\\W", {"abc": 257}, "x")
    spec = replace(spec, ranks=Ranks(learned, {"trainer": "rustbpe"}))
    tokenizer = Tokenizer._from_spec(spec, "x")
    merges = [(b"a", b"b"), (b"ab", b"c"), (b" ", b"abc")]
    path = tmp_path / "x.tokenmill"
    tokenizer.save(path)
    again = Tokenizer.load(path)
    for made in (tokenizer, again, pickle.loads(pickle.dumps(again))):
        assert made.encode("abab abc", allowed_special=True) == tokenizer.encode(
            "abab abc", allowed_special=True
        )
        assert made == tokenizer
        assert made._merges() == merges
        assert made._spec.ranks.provenance == {"trainer": "rustbpe"}


def test_own_file_that_is_damaged_or_newer_is_named(small, tmp_path):
    path = tmp_path / "mine.tokenmill"
    small("o200k").save(path)
    data = path.read_bytes()
    assert data.startswith(tokenmill_file.START)
    path.write_bytes(data[: len(data) // 2])
    with raises(VocabularyError, path, "not JSON"):
        Tokenizer.load(path)
    path.write_bytes(data.replace(b'"version": 2', b'"version": 3', 1))
    with raises(VocabularyError, path, "version 3", "upgrade"):
        Tokenizer.load(path)
    for key in ("stages", "model", "added"):
        path.write_bytes(data.replace(f'"{key}"'.encode(), b'"other"', 1))
        with raises(VocabularyError, path, "no field", key):
            Tokenizer.load(path)


# ── rank files ───────────────────────────────────────────────────────────────────────────────


def test_rank_file_is_saved_by_its_suffix(small, tmp_path):
    tokenizer = small("cl100k")
    path = tmp_path / "x.tiktoken"
    tokenizer.save(path)
    again = Tokenizer.load(path, pattern="cl100k", special_tokens={"<|end|>": 3_000})
    assert again == tokenizer


@pytest.mark.parametrize("name", ["x", "x.bpe", "x.txt", "x.odd", "out.jsn", "x.tokenmil"])
def test_unknown_suffix_is_refused_with_the_known_ones(small, tmp_path, name):
    suffixes = ("tokenizer.json", ".model", ".tokenmill", ".tiktoken", "folder/")
    with raises(VocabularyError, repr(name), "unknown suffix", *suffixes):
        small("cl100k").save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_folder_has_the_files_that_transformers_reads(small, tmp_path):
    tokenizer = small("cl100k")
    tokenizer.save(f"{tmp_path}/new/deep/")
    (tmp_path / "there").mkdir()
    tokenizer.save(tmp_path / "there")
    for folder in (tmp_path / "new" / "deep", tmp_path / "there"):
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["tokenizer.json", "tokenizer_config.json"]
        config = json.loads((folder / "tokenizer_config.json").read_text())
        assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
        theirs = huggingface.Tokenizer.from_file(str(folder / "tokenizer.json"))
        assert theirs.encode(TEXT).ids == tokenizer.encode(TEXT)
        assert Tokenizer.load(folder).encode(TEXT) == tokenizer.encode(TEXT)


def test_convert_writes_a_folder_and_refuses_unknown_suffixes(tmp_path, capsys):
    assert main(["convert", "gpt2", f"{tmp_path}/folder/"]) == 0
    found = Tokenizer.load(tmp_path / "folder")
    assert found.encode(TEXT) == Tokenizer.load("gpt2").encode(TEXT)
    capsys.readouterr()
    assert main(["convert", "gpt2", str(tmp_path / "out.jsn")]) != 0
    assert "unknown suffix '.jsn'" in capsys.readouterr().err
    assert not (tmp_path / "out.jsn").exists()


def test_folder_keeps_the_settings_of_its_source(small, tmp_path):
    (tmp_path / "old").mkdir()
    small("r50k").save(tmp_path / "old" / "tokenizer.json")
    config = {"tokenizer_class": "GPT2Tokenizer", "model_max_length": 5, "auto_map": {"x": "y.py"}}
    (tmp_path / "old" / "tokenizer_config.json").write_text(json.dumps(config))
    Tokenizer.load(tmp_path / "old").save(f"{tmp_path}/new/")
    found = json.loads((tmp_path / "new" / "tokenizer_config.json").read_text())
    assert found["model_max_length"] == 5
    assert "auto_map" not in found


def test_folder_that_cannot_be_written_is_not_made(tmp_path):
    with raises(VocabularyError, "<|endofprompt|>"):
        Tokenizer.load("o200k_harmony").save(f"{tmp_path}/new/")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", ["x.gguf", "X.GGUF", "tekken.json", "tokenizer_config.json", "x.tmc", "x.safetensors"]
)
def test_name_of_a_format_that_is_not_written_is_refused(small, tmp_path, name):
    parts = tokenizer_json.read(families.pieces("llama2").encode(), "x")
    for save in (small("cl100k").save, Tokenizer._from_spec(parts, "x").save):
        with raises(VocabularyError, repr(name), "not written here", "tokenizer.json", ".tiktoken"):
            save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_names_of_pieces_are_only_for_pieces(small, tmp_path):
    for name in ("x.model", "tokenizer.model.v3", "x.vocab"):
        with raises(VocabularyError, repr(name), "SentencePiece pieces", "tokens are bytes"):
            small("cl100k").save(tmp_path / name)
    parts = tokenizer_json.read(families.pieces("llama2").encode(), "x")
    with raises(VocabularyError, "cannot save as SentencePiece .model"):
        Tokenizer._from_spec(parts, "x").save(tmp_path / "x.vocab")
    assert not list(tmp_path.iterdir())


def test_two_specials_of_one_id_are_not_saved_for_hugging_face(tmp_path):
    with raises(VocabularyError, "<|endofprompt|>", "200018", ".tokenmill"):
        Tokenizer.load("o200k_harmony").save(tmp_path / "tokenizer.json")
    assert not list(tmp_path.iterdir())
