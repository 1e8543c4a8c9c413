"""Files, folders, names and objects → TokenizerSpec → files. Contents decide the format.

Tests of formats/detect.py, formats/hf_folder.py, formats/ranks.py, formats/tokenmill_file.py and
formats/vocab_merges.py.
"""

from __future__ import annotations

import json
import os
import re
import types
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import tiktoken
import tokenizers
from conftest import LETTERS_ONLY, write_ranks
from hf_documents import (
    BYTE_LEVEL,
    DIGITS,
    PREPEND,
    REPLACE,
    VOCAB,
    added,
    byte_tokens,
    byte_vocabulary,
    document,
    dumps,
    metaspace,
    sequence,
    template,
)

from tokenmill import Tokenizer
from tokenmill.errors import VocabularyError
from tokenmill.formats import detect, tokenizer_json, tokenmill_file, vocab_merges
from tokenmill.formats.detect import load_spec, read_object
from tokenmill.formats.save import save
from tokenmill.formats.spec import (
    DECODED,
    Added,
    Charsmap,
    Form,
    Item,
    Lower,
    Model,
    Prepend,
    Replace,
    Squeeze,
    Strip,
    Template,
    TokenizerSpec,
)
from tokenmill.formats.tokenizer_json import BYTE_LEVEL as R50K
from tokenmill.patterns.schemes import Literally, Pattern, Stage

END = "<|endoftext|>"
GPT2 = {**byte_vocabulary(), "Ġt": 256, "Ġth": 257, END: 258}
GPT2_MERGES = "#version: 0.2\nĠ t\nĠt h\n"


def same(one: TokenizerSpec, other: TokenizerSpec) -> None:
    """Equal in everything; arrays have no equality of their own."""
    for field in fields(TokenizerSpec):
        if field.name != "model":
            assert getattr(one, field.name) == getattr(other, field.name), field.name
    for field in fields(Model):
        first, second = getattr(one.model, field.name), getattr(other.model, field.name)
        assert np.array_equal(first, second), field.name


def write(folder: Path, **files: object) -> Path:
    for name, content in files.items():
        stem, _, suffix = name.rpartition("_")
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        (folder / f"{stem}.{suffix}").write_text(text, encoding="utf-8")
    return folder


def refused(*words: object):
    return pytest.raises(VocabularyError, match=".*".join(map(str, words)))


# ── Files, by content ────────────────────────────────────────────────────────────────────────


def test_format_is_detected_from_content(tmp_path):
    made = document(normalizer=sequence(PREPEND, REPLACE))
    path = tmp_path / "anything"
    path.write_bytes(b" \n" + dumps(made))
    parts = load_spec(str(path))
    assert parts.blank
    save(tmp_path / "x.tokenmill", parts)
    (tmp_path / "x.tokenmill").rename(path)
    same(load_spec(path), parts)
    ranks = write_ranks(tmp_path / "ranks", [bytes([byte]) for byte in range(256)])
    found = load_spec(ranks, r"\w+|\W+")
    assert found.stages == (Stage(Pattern(r"\w+|\W+", "tiktoken"), "removed", True),)
    with refused("rank file has no pattern", "pattern="):
        load_spec(ranks)
    with refused(path, "its own pattern"):
        load_spec(path, "r50k")
    path.write_bytes(b"%PDF-1.5")
    with refused(path, "not a tokenizer file"):
        load_spec(path)
    with refused("is neither a file, a folder"):
        load_spec(tmp_path / "missing")
    path.write_bytes(b'{"a": "b"}')
    with refused(path, "has no model"):
        load_spec(path)


def test_special_files_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with refused("not a regular file"):
        load_spec(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "tokenizer.json").symlink_to("/dev/zero")
    with refused("folder has no tokenizer"):
        load_spec(tmp_path / "folder")
    with (tmp_path / "large.json").open("wb") as file:
        file.write(b"{")
        file.truncate((256 << 20) + 1)
    with refused("too large for a tokenizer file"):
        load_spec(tmp_path / "large.json")


def test_vocab_and_merges_need_a_pattern(tmp_path):
    write(tmp_path, vocab_json=GPT2, merges_txt=GPT2_MERGES)
    for name in ("vocab.json", "merges.txt", ""):
        parts = load_spec(tmp_path / name, "(?:x)")
        assert parts.stages == (Stage(Pattern("(?:x)", "tiktoken"), "removed", True),)
        assert parts.model.merges.tolist() == [[GPT2["Ġ"], GPT2["t"]], [256, GPT2["h"]]]
        assert parts.model.base == "bytes"
        with refused("has no pattern, which splits text", "r50k"):
            load_spec(tmp_path / name)
    write(tmp_path, merges_txt="a b c\n")
    with refused(tmp_path, "merges.txt, line 1"):
        load_spec(tmp_path, "(?:x)")
    (tmp_path / "merges.txt").unlink()
    with refused(tmp_path, "has no merges.txt"):
        load_spec(tmp_path, "(?:x)")


@pytest.mark.parametrize("name", ["", "vocab.json", "merges.txt"])
def test_vocab_and_merges_are_read_once(tmp_path, monkeypatch, name):
    write(tmp_path, vocab_json=GPT2, merges_txt=GPT2_MERGES)
    found: list[str] = []

    def read(path: Path) -> bytes:
        found.append(path.name)
        return path.read_bytes()

    for module in (detect, vocab_merges):
        monkeypatch.setattr(module, "read_bytes", read)
    load_spec(tmp_path / name, "r50k")
    assert sorted(found) == ["merges.txt", "vocab.json"]


# ── Folders ──────────────────────────────────────────────────────────────────────────────────


def test_folder_of_gpt2_is_defined_by_its_class(tmp_path):
    config = {"tokenizer_class": "GPT2Tokenizer", "bos_token": END, "auto_map": {"x": "y.py"}}
    write(tmp_path, vocab_json=GPT2, merges_txt=GPT2_MERGES, tokenizer_config_json=config)
    parts = load_spec(tmp_path)
    assert parts.stages == (R50K,)
    assert parts.added == (Added(END, 258),)
    assert parts.extra["tokenizer_config"] == config
    theirs = tokenizers.Tokenizer.from_str(tokenizer_json.write(parts).decode())
    assert theirs.encode(f" the{END} t").ids == [257, GPT2["e"], 258, 256]
    write(tmp_path, tokenizer_config_json={**config, "add_prefix_space": True})
    assert load_spec(tmp_path).prefix == "missing"


def test_folder_of_roberta_has_its_template(tmp_path):
    vocab = {**byte_vocabulary(), "<s>": 256, "</s>": 257}
    config = {"tokenizer_class": "RobertaTokenizerFast", "cls_token": "<s>", "sep_token": "</s>"}
    write(tmp_path, vocab_json=vocab, merges_txt="", tokenizer_config_json=config)
    start, end = Item("<s>", 0, (256,), ("<s>",)), Item("</s>", 0, (257,), ("</s>",))
    single = (start, Item("A", 0, None), end)
    pair = (*single, end, Item("B", 0, None), end)
    assert load_spec(tmp_path).template == Template(single, pair, True)


def test_bos_and_eos_are_put_around_where_the_file_does_not_say(tmp_path):
    vocab = {**byte_vocabulary(), "<s>": 256, "</s>": 257}
    config = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<s>", "add_bos_token": True}
    config |= {"eos_token": {"content": "</s>"}, "add_eos_token": True}
    write(tmp_path, vocab_json=vocab, merges_txt="", tokenizer_config_json=config)
    start, end = Item("<s>", 0, (256,), ("<s>",)), Item("</s>", 0, (257,), ("</s>",))
    assert load_spec(tmp_path).template.single == (start, Item("A", 0, None), end)
    assert load_spec(tmp_path).template.pair[3:] == (
        replace(start, type_id=1),
        Item("B", 1, None),
        replace(end, type_id=1),
    )
    # As in transformers 5, a tokenizer.json has the last word.
    made = document(added_tokens=[added("<s>", 6), added("</s>", 7)])
    write(tmp_path, tokenizer_json=made)
    assert load_spec(tmp_path).template == Template()


def test_other_files_of_a_folder_add_tokens_and_change_flags(tmp_path):
    write(tmp_path, tokenizer_json=document(added_tokens=[added("<s>", 6)]))
    decoder = {
        "6": {"content": "<s>", "lstrip": True, "special": True, "normalized": False},
        "7": {"content": "<x>", "special": False},
        "2": {"content": "ab", "special": True, "single_word": True},
    }
    write(tmp_path, tokenizer_config_json={"added_tokens_decoder": decoder})
    write(tmp_path, added_tokens_json={"<y>": 8}, special_tokens_map_json={"pad_token": "a"})
    assert load_spec(tmp_path).added == (
        Added("ab", 2, single_word=True),
        Added("<s>", 6, lstrip=True),
        Added("<x>", 7, special=False, normalized=True),
        Added("<y>", 8, special=False, normalized=True),
    )


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"added_tokens_json": {"a": 5}}, "added_tokens.json: gives 'a' id 5, .* with id 0"),
        ({"added_tokens_json": {"<y>": 9}}, "adds '<y>' with id 9, .* free is 6"),
        ({"added_tokens_json": {"<y>": "6"}}, "must be a whole number, got '6'"),
        ({"special_tokens_map_json": {"pad_token": "zz"}}, "pad_token names 'zz'"),
        ({"special_tokens_map_json": []}, "must be an object"),
        ({"tokenizer_config_json": "{"}, "is not JSON"),
        (
            {"tokenizer_config_json": {"added_tokens_decoder": {"x": {}}}},
            "added_tokens_decoder.x is not an id",
        ),
        (
            {"tokenizer_config_json": {"added_tokens_decoder": {"6": {}}}},
            "added_tokens_decoder.6 has no field 'content'",
        ),
        (
            {"tokenizer_config_json": {"added_tokens_decoder": {"1": {"content": "a"}}}},
            "gives 'a' id 1",
        ),
    ],
)
def test_files_of_a_folder_that_do_not_fit_are_refused(tmp_path, files, words):
    write(tmp_path, tokenizer_json=document(), **files)
    with refused(words):
        load_spec(tmp_path)


def test_folder_without_a_tokenizer_or_with_two_is_refused(tmp_path):
    with refused("has no tokenizer"):
        load_spec(tmp_path)
    (tmp_path / "a.model").write_bytes(b"x")
    (tmp_path / "b.model.v3").write_bytes(b"x")
    with refused("has 2 models, a.model, b.model.v3"):
        load_spec(tmp_path)


# ── The hub's cache ──────────────────────────────────────────────────────────────────────────


def test_names_are_looked_up_in_the_cache_of_the_hub(tmp_path, monkeypatch):
    for name in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with refused("'org/name'", "hf download org/name tokenizer.json"):
        load_spec("org/name")
    folder = tmp_path / "hub" / "models--org--name"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0123abc")
    with refused("no complete download", "hf download"):
        load_spec("org/name")
    (folder / "blobs").mkdir()
    snapshot = folder / "snapshots" / "0123abc"
    snapshot.mkdir(parents=True)
    (folder / "blobs" / "1").write_bytes(dumps(document()))
    (snapshot / "tokenizer.json").symlink_to("../../blobs/1")
    assert len(load_spec("org/name").model.ids) == len(VOCAB)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert load_spec("org/name")
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.delenv("HF_HOME")
    (tmp_path / "huggingface").mkdir()
    (tmp_path / "hub").rename(tmp_path / "huggingface" / "hub")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert load_spec("org/name")
    for name in ("../name", "a/b/c", "org/..", "org/na me"):
        with refused("is neither a file, a folder"):
            load_spec(name)
    (tmp_path / "huggingface/hub/models--org--name/refs/main").write_text("../../../etc")
    with refused("no complete download"):
        load_spec("org/name")


# ── Objects ──────────────────────────────────────────────────────────────────────────────────


def test_objects_of_other_libraries(encodings):
    parts, name = read_object(encodings["r50k_base"])
    assert name == "r50k_base"
    assert (parts.model.merges, parts.model.whole, parts.model.missing) == (None, True, "fail")
    assert parts.added == (Added(END, 50256),)
    theirs = tokenizers.Tokenizer.from_str(dumps(document(normalizer=REPLACE)).decode())
    assert read_object(theirs)[0].blank
    fast = types.SimpleNamespace(backend_tokenizer=theirs)
    assert read_object(fast)[0].blank
    with pytest.raises(TypeError, match="expected a tokenizer of tiktoken"):
        read_object(5)
    slow = type("Slow", (), {"__module__": "transformers.models.x"})()
    with refused("is not a fast tokenizer"):
        read_object(slow)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.PreTokenizer.custom(object())
    with refused("cannot be written as JSON"):
        read_object(theirs)
    odd = tiktoken.Encoding("x", pat_str="(?:x)", mergeable_ranks={b"a": 0}, special_tokens={})
    odd._mergeable_ranks = {"a": 0}
    with refused("ranks are of bytes"):
        read_object(odd)


# ── .tokenmill ───────────────────────────────────────────────────────────────────────────────

WHOLE = document(
    {"vocab": {**VOCAB, **byte_tokens()}, "byte_fallback": True, "unk_token": "<unk>"},
    normalizer=sequence({"type": "NFC"}, PREPEND, REPLACE),
    pre_tokenizer=DIGITS,
    post_processor=sequence(BYTE_LEVEL, template()),
    decoder=sequence({"type": "Fuse"}),
    added_tokens=[added("<unk>", 5), added("<s>", 262, lstrip=True)],
)
ODD_STEPS = (
    *(Form("NFKD"), Lower(), Prepend("x"), Strip(True, False), Squeeze()),
    *(Replace(Pattern("a+", "tiktoken"), ""), Charsmap(b"\0\xff", False)),
)


def test_own_file_holds_any_parts(tmp_path):
    path = tmp_path / "x.tokenmill"
    parts = tokenizer_json.read(dumps(WHOLE), "x")
    ranked = replace(parts.model, merges=None, order=parts.model.ids[::-1].copy(), dropout=0.1)
    stages = (Stage("space", "removed"), Stage(Literally("x"), "contiguous", True))
    symbol = Added("x", 300, special=False, normalized=True, literal=True)
    for made in (
        parts,
        replace(parts, model=ranked, steps=ODD_STEPS, stages=stages, added=(symbol,)),
    ):
        save(path, made)
        assert path.read_bytes().startswith(tokenmill_file.START)
        same(load_spec(path), made)
        first = path.read_bytes()
        save(path, load_spec(path))
        assert path.read_bytes() == first


def test_own_file_contains_ranks(tmp_path, letters_only):
    path = tmp_path / "x.tokenmill"
    letters_only.save(path)
    parts = load_spec(path)
    assert parts.ranks is not None
    assert parts.added == (Added("<|x|>", 60_000),)
    assert parts.stages == (Stage(Pattern(LETTERS_ONLY, "tiktoken"), "removed", True),)
    assert len(parts.model.ids) == 50256
    for version in (b"1", b"3"):
        path.write_bytes(path.read_bytes().replace(b'"version": 2', b'"version": ' + version, 1))
        with refused(path, f"version {version.decode()}", "upgrade"):
            load_spec(path)
        letters_only.save(path)


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("spec", "blank", True),
        ("spec", "prefix", "always"),
        ("spec", "stages", []),
        ("spec", "steps", [{"type": "Lower"}]),
        ("model", "whole", False),
        ("model", "base", "characters"),
        ("model", "dropout", 0.5),
        ("model", "merges", ""),
        ("ranks", "learned", "AAAA"),
        ("ranks", "learned", "/////wAAAAA="),
    ],
)
def test_own_file_of_ranks_with_other_parts_is_refused(tmp_path, letters_only, part, key, value):
    path = tmp_path / "x.tokenmill"
    letters_only.save(path)
    made = json.loads(path.read_bytes())
    (made if part == "spec" else made[part])[key] = value
    path.write_bytes(json.dumps(made).encode())
    with refused(path, "ranks"):
        load_spec(path)


def test_own_file_that_is_damaged_is_refused(tmp_path):
    path = tmp_path / "x.tokenmill"
    save(path, tokenizer_json.read(dumps(WHOLE), "x"))
    whole = json.loads(path.read_bytes())
    values = [None, 5, -1, "x", "AAAA", "AAAAAAA=", [], {}, [5], True, 1e9]

    def places(value, at=()):
        yield at
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items if isinstance(value, dict | list) else ():
            yield from places(item, (*at, key)) if isinstance(item, dict | list) else [(*at, key)]

    count = 0
    for at in places({k: v for k, v in whole.items() if k != "extra"}):
        for value in values:
            made = json.loads(json.dumps(whole))
            inner = made
            for key in at[:-1]:
                inner = inner[key]
            if not at or at[-1] in ("format", "version"):
                continue
            inner[at[-1]] = value
            path.write_bytes(json.dumps(made).encode())
            try:
                Tokenizer.load(path)
            except VocabularyError as error:
                assert str(path) in str(error)
                count += 1
    assert count > 300
    path.write_bytes(json.dumps(whole).encode()[:-20])
    with refused(path, "is not JSON"):
        load_spec(path)


# ── Saving in other formats ──────────────────────────────────────────────────────────────────


def byte_parts(vocab=GPT2, merges=(("Ġ", "t"), ("Ġt", "h")), **options) -> TokenizerSpec:
    made = document(
        {"vocab": vocab, "merges": [list(pair) for pair in merges]},
        pre_tokenizer=BYTE_LEVEL,
        added_tokens=[added(END, 258)],
        **options,
    )
    return tokenizer_json.read(dumps(made), "x")


def test_rank_file_is_saved_where_ids_are_ranks(tmp_path, encodings):
    path = tmp_path / "x.tiktoken"
    save(path, byte_parts())
    tokenizer = Tokenizer.load(path, pattern="r50k", special_tokens={END: 258})
    assert tokenizer.encode(f" the{END}", allowed_special=True) == [257, GPT2["e"], 258]
    save(path, read_object(encodings["r50k_base"])[0])
    assert Tokenizer.load(path, pattern="r50k", special_tokens={END: 50256}) == Tokenizer.load(
        "r50k_base"
    )


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (lambda: tokenizer_json.read(dumps(document()), "x"), "start with characters"),
        (lambda: byte_parts(normalizer={"type": "NFC"}), "it has a normalizer"),
        (
            lambda: replace(byte_parts(), stages=(Stage("digits", "isolated"), R50K)),
            "pre-tokenizer is not one pattern",
        ),
        (
            lambda: byte_parts({**GPT2, "th": 259}, [("t", "h"), ("Ġ", "t"), ("Ġ", "th")]),
            "not those of its ids",
        ),
        (
            lambda: byte_parts({**GPT2, "xyz": 259}),
            "do not produce all tokens",
        ),
        (lambda: byte_parts({**GPT2, "中": 259}), "is only decoded"),
        (
            lambda: replace(byte_parts(), model=replace(byte_parts().model, dropout=0.5)),
            "it has dropout",
        ),
    ],
)
def test_rank_file_is_refused_where_they_are_not(tmp_path, parts, words):
    with refused("cannot save as a rank file", words, ".tokenmill"):
        save(tmp_path / "x.tiktoken", parts())
    assert not list(tmp_path.iterdir())


def test_vocab_and_merges_are_saved_and_loaded(tmp_path):
    parts = byte_parts()
    save(tmp_path / "vocab.json", parts)
    assert json.loads((tmp_path / "vocab.json").read_text()) == GPT2
    first, rest = (tmp_path / "merges.txt").read_text(encoding="utf-8").split("\n", 1)
    assert re.fullmatch("#version: 0.2 - vocab.json [0-9a-f]{16}", first)
    assert f"#version: 0.2\n{rest}" == GPT2_MERGES
    again = load_spec(tmp_path, "(?:x)")
    assert np.array_equal(again.model.merges, parts.model.merges)
    spaced = document({"vocab": {"a": 0, " ": 1, "a ": 2}, "merges": [["a", " "]]})
    with refused("merges start with characters"):
        save(tmp_path / "vocab.json", tokenizer_json.read(dumps(spaced), "x"))


def test_ranks_and_pieces_are_saved_as_tokenizer_json(tmp_path, encodings):
    """Formats without merges get them."""
    path = tmp_path / "tokenizer.json"
    encoding = encodings["r50k_base"]
    save(path, read_object(encoding)[0])
    theirs = tokenizers.Tokenizer.from_file(str(path))
    text = f"It's 1,234 naïve 中文 🙂\n\n  'LL do {END}."
    assert theirs.encode(text).ids == encoding.encode(text, allowed_special="all")
    pieces = tokenizer_json.read(dumps(document(pre_tokenizer=metaspace())), "x")
    ranked = replace(pieces.model, merges=None, order=pieces.model.ids)
    save(path, replace(pieces, model=ranked))
    theirs = tokenizers.Tokenizer.from_file(str(path))
    assert theirs.encode("ab ab b").ids == [4, 4, 3, 1]
    tied = replace(ranked, order=np.zeros_like(ranked.ids))
    with refused("have the same score"):
        save(path, replace(pieces, model=tied))
    literal = Added("ab", 2, normalized=True, literal=True)
    with refused("'ab' is a user-defined symbol of SentencePiece"):
        save(path, replace(pieces, added=(literal,)))


def test_kinds_survive(tmp_path):
    parts = byte_parts({**GPT2, "<｜x｜>": 259})
    save(tmp_path / "x.tokenmill", parts)
    assert np.count_nonzero(load_spec(tmp_path / "x.tokenmill").model.kinds == DECODED) == 1
    assert tokenmill_file.VERSION == 2


def test_classes_of_gpt2_have_specials_of_their_own(tmp_path):
    vocabulary = {**GPT2, "<|endoftext|>": len(GPT2), "<mask>": len(GPT2) + 1}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text(GPT2_MERGES, encoding="utf-8")
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"tokenizer_class": "GPT2Tokenizer"}')
    assert load_spec(tmp_path).added == (Added("<|endoftext|>", len(GPT2)),)
    config.write_text('{"tokenizer_class": "RobertaTokenizerFast"}')
    assert load_spec(tmp_path).added == (Added("<mask>", len(GPT2) + 1, lstrip=True),)
