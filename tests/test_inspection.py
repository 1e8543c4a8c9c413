"""A tokenizer → what is in it: sizes, scripts, tokens out of reach, trees, pieces; and a page."""

from __future__ import annotations

import functools
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import families
import pytest
from conftest import FIXTURES, TEXT, each_pattern
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill import Tokenizer, train
from tokenmill.errors import InspectError
from tokenmill.formats.byte_characters import byte_characters
from tokenmill.inspection import Report, inspect
from tokenmill.inspection.scripts import classify
from tokenmill.inspection.surroundings import around

FAMILIES = families.all_families()
WORDS = (" tokenization", "don't", "नमस्ते", "naïve 12345", "  \n x", "世界🙂", "the the", "ᏣᎳᎩ")


@functools.cache
def family(name: str) -> Tokenizer:
    return _loaded(FAMILIES[name], name)


@functools.cache
def looked_at(name: str) -> Report:
    return inspect(family(name) if name in FAMILIES else name)


def _loaded(document: str, name: str = "made") -> Tokenizer:
    from tokenmill.formats import tokenizer_json

    return Tokenizer._from_parts(tokenizer_json.read(document.encode(), name), name)


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


def made(tokens: list[str], merges: list[str], **more: Any) -> Tokenizer:
    """A byte-level tokenizer.json with all bytes, these tokens and these merges."""
    model = {"type": "BPE", "dropout": None, "unk_token": None, "ignore_merges": False}
    vocab = {token: id_ for id_, token in enumerate([*byte_characters(), *tokens])}
    document: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": BYTE_LEVEL,
        "post_processor": None,
        "decoder": BYTE_LEVEL,
        "model": model | more.pop("model", {}) | {"vocab": vocab, "merges": merges},
    }
    return _loaded(json.dumps(document | more))


def reasons(report: Report) -> dict[str, str]:
    return {row["token"]: row["reason"] for row in report.unreachable()["tokens"]}


# ── out of reach ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [*FAMILIES, "r50k_base", "cl100k_base", "o200k_base"])
def test_no_text_gives_what_is_called_unreachable(name):
    report = looked_at(name)
    lost = {row["id"] for row in report.unreachable()["tokens"]}
    texts = [*families.texts(), *WORDS, TEXT, *(path.read_bytes() for path in FIXTURES)]
    for ids in report.tokenizer.encode_batch(texts):
        assert not lost & set(ids)


@each_pattern
def test_openai_vocabularies_are_reached(name):
    # о and the first byte of another letter: each letter that may follow merges earlier.
    expected = {"<0xD0><0xBE><0xD0>": "pattern"} if name == "o200k_base" else {}
    assert reasons(looked_at(name)) == expected


def test_a_token_without_a_merge_is_named():
    report = inspect(made(["ab", "abc", "xyz"], ["a b"]))
    assert reasons(report) == {"abc": "no_merge", "xyz": "no_merge"}
    (row, _) = report.unreachable()["tokens"]
    assert [one["token"] for one in row["gives"]] == ["ab", "c"]


def test_a_token_whose_parts_are_merged_away_is_named():
    assert reasons(inspect(made(["bc", "ab", "abc"], ["b c", "a b", "ab c"]))) == {
        "abc": "other_merges"
    }


def test_a_token_that_the_pattern_cuts_is_named():
    assert reasons(inspect(made(["a1"], ["a 1"]))) == {"a1": "pattern"}
    whole = made(["a1", "xyz"], [], model={"ignore_merges": True})
    assert reasons(inspect(whole)) == {"a1": "pattern"}


def test_a_token_that_is_cut_only_at_the_ends_of_a_text_is_reached():
    split = {
        "type": "Split",
        "pattern": {"Regex": r"(?<=;)ab|[^ab]|[ab]"},
        "behavior": "Isolated",
        "invert": False,
    }
    plain = {**BYTE_LEVEL, "use_regex": False}
    cut = {"type": "Sequence", "pretokenizers": [split, plain]}
    assert reasons(inspect(made(["ab"], ["a b"], pre_tokenizer=cut))) == {}


def test_a_token_that_the_normaliser_changes_is_named():
    tokens = ["AB", "ab", "Ġa"]
    merges = ["A B", "a b", "Ġ a"]
    report = inspect(made(tokens, merges, normalizer={"type": "Lowercase"}))
    found = reasons(report)
    assert found.pop("AB") == "normalizer"
    assert set(found) == set("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    assert reasons(inspect(made(tokens, merges, normalizer=strip))) == {}


def test_a_token_that_an_added_one_hides_is_named():
    added = {"content": "bc", "single_word": False, "lstrip": False, "rstrip": False}
    added |= {"id": 259, "normalized": False, "special": False}
    tokenizer = made(["ab", "abc", "cd"], ["a b", "ab c", "c d"], added_tokens=[added])
    assert reasons(inspect(tokenizer)) == {"abc": "added_token"}


def test_prefixes_hide_nothing():
    assert not looked_at("roberta").unreachable()["count"]
    assert set(looked_at("llama2").unreachable()["reasons"]) == {"other_token"}


def test_byte_tokens_of_characters_that_are_tokens_are_out_of_reach():
    found = looked_at("llama2").unreachable()["tokens"]
    tokenizer = family("llama2")
    for row in found:
        byte = int(row["token"][3:5], 16)
        assert row["token"] == f"<0x{byte:02X}>" and byte < 0x80
        assert tokenizer.bytes_to_id(chr(byte)) == row["gives"][0]["id"] != row["id"]


def test_bytes_without_a_token_are_no_error(tmp_path):
    path = tmp_path / "few.tiktoken"
    path.write_text("YQ== 0\nYg== 1\nYWI= 2\nenk= 3\n")  # a, b, ab, zy
    report = inspect(Tokenizer.load(path, pattern=r"\p{L}+|\P{L}+"))
    assert report.sizes()["merges"] == 2  # of bytes, whether they are tokens or not
    assert reasons(report) == {}


def test_dropout_does_not_matter():
    tokenizer = made(["ab"], ["a b"], model={"dropout": 0.5})
    assert reasons(inspect(tokenizer)) == {}


@given(st.binary(min_size=1, max_size=6))
def test_surroundings_are_texts_with_the_token_in_them(token):
    for text in around(token, 64):
        assert token in text and text.decode()


def test_every_open_end_has_surroundings():
    for text in ("é", "世", "🙂"):
        data = text.encode()
        for cut in range(1, len(data)):
            assert any(data[:cut] in text for text in around(data[:cut], 256))
            assert any(data[cut:] in text for text in around(data[cut:], 256))


# ── figures ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "script"),
    [
        (" don't", "Latin"),
        ("Привет", "Cyrillic"),
        ("世界", "Han"),
        ("e\u0301", "Latin"),
        ("\u0301", "letters of no script"),
        ("aБ", "several scripts"),
        ("12,000", "digits"),
        (" !?", "punctuation and symbols"),
        (" \n\t\u3000", "white space"),
        (" \x1b", "controls and others"),
        ("🙂", "punctuation and symbols"),
        (None, "parts of characters"),
        ("", "empty"),
    ],
)
def test_scripts_are_those_of_letters(text, script):
    assert classify(["x", text, "у"]) == ["Latin", script, "Cyrillic"]


def test_sizes_of_an_embedded_vocabulary():
    sizes = looked_at("o200k_base").sizes()
    assert (sizes["ids"], sizes["entries"], sizes["tokens"]) == (200_019, 200_000, 199_998)
    assert sizes["merges"] == 199_998 - 256 and sizes["specials"] == 2
    assert sizes["gaps"] == 19 and sizes["gap_ranges"] == [(199_998, 199_999), (200_000, 200_018)]
    assert sizes["ids_are_ranks"] and sizes["out_of_order"] == 0


@pytest.mark.parametrize("name", FAMILIES)
def test_figures_add_up(name):
    report = looked_at(name)
    figures = report.as_json()
    sizes = figures["sizes"]
    kinds = ("tokens", "specials", "added", "byte_tokens", "decoded_only")
    assert sum(sizes[kind] for kind in kinds) == sizes["entries"]
    assert sizes["entries"] + sizes["gaps"] == sizes["ids"] == family(name).vocab_size
    assert sum(row["tokens"] for row in figures["lengths"]["bytes"]) == sizes["tokens"]
    assert sum(row["tokens"] for row in figures["scripts"]) == sizes["tokens"]
    parts = family(name).parts
    assert parts is not None and parts.model.merges is not None
    assert sizes["merges"] == len(parts.model.merges)
    assert json.loads(json.dumps(figures)) == json.loads(json.dumps(report.as_json()))


def test_merges_out_of_the_order_of_ids_are_counted():
    assert inspect(made(["ab", "cd", "ef"], ["a b", "c d", "e f"])).sizes()["out_of_order"] == 0
    assert inspect(made(["ab", "cd", "ef"], ["e f", "a b", "c d"])).sizes()["out_of_order"] == 2


def test_parts_are_told_in_words():
    parts = looked_at("gpt_neox").parts
    assert parts["normalizer"] == ["NFC"] and parts["pre-tokenizer"][0].startswith("r50k: ")
    llama2 = looked_at("llama2").parts
    assert llama2["blanks"] == ['are written "▁" in tokens']
    assert llama2["post-processor"] == ["<s> TEXT"]
    assert llama2["pre-tokenizer"] == ["none: text is not cut"]
    assert llama2["decoder"] == ["Replace", "ByteFallback", "Fuse", "Strip"]
    assert len(looked_at("deepseek_v3").parts["pre-tokenizer"]) == 3


def test_odd_tokens_are_found():
    tokens = ["ĠĠ", "====", "ÃÂÃÂ", "âĢĭx", "ï¿½", "aÐ±", "cameLcameLcameL", "camelcamelcamel"]
    odd = inspect(made(tokens, [])).odd
    report = inspect(made(tokens, []))
    found = {kind: [report.entries.row(p)["token"] for p in places] for kind, places in odd.items()}
    assert found == {
        "white_space": ["  "],
        "repeats": ["===="],
        "invisible": ["\u200bx"],
        "replacement": ["\ufffd"],
        "mixed": ["aб"],
        "camel": ["cameLcameLcameL"],
    }
    both = looked_at("gpt_neox").odd["duplicates"]
    assert len(both) % 2 == 0 and len(both) >= 8


def test_glitches_of_gpt2_are_found():
    report = looked_at("r50k_base")
    odd = {report.entries.row(place)["token"] for place in report.odd["camel"]}
    assert {"BuyableInstoreAndOnline", " RandomRedditorWithNo"} <= odd
    assert report.longest()[0]["bytes"] == 128
    words = [row["token"] for row in report.longest(words=True)]
    assert "rawdownloadcloneembedreportprint" in words


# ── words ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [*FAMILIES, "r50k_base", "o200k_base"])
def test_trees_end_in_the_ids_of_the_word(name):
    tokenizer = family(name) if name in FAMILIES else Tokenizer.load(name)
    report = inspect(tokenizer, words=WORDS)
    for word in report.words:
        assert word.ids == tokenizer.encode(word.word)
        for pretoken in word.pretokens:
            found = [pretoken.nodes[root].id for root in pretoken.roots]
            assert pretoken.is_whole or found == pretoken.ids
            for node in pretoken.nodes:
                if node.children is not None:
                    left, right = (pretoken.nodes[child] for child in node.children)
                    assert left.token + right.token == node.token
            steps = [node.step for node in pretoken.nodes if node.step is not None]
            assert steps == list(range(1, len(steps) + 1))


@settings(max_examples=30)
@given(st.text(max_size=12))
def test_trees_of_any_text(text):
    for name in ("llama2", "gpt2", "unknowns_apart"):
        word = inspect_word(name, text)
        assert word.ids == family(name).encode(text)
        for pretoken in word.pretokens:
            assert [pretoken.nodes[root].id for root in pretoken.roots] == pretoken.ids


def inspect_word(name: str, text: str) -> Any:
    from tokenmill.inspection.words import word_of

    report = looked_at(name)
    return word_of(report.entries, report.rules, text)


def test_a_pretoken_that_is_a_token_needs_no_merges():
    tokenizer = made(["ab", "abc"], ["a b"], model={"ignore_merges": True})
    (pretoken,) = inspect(tokenizer, words=["abc"]).words[0].pretokens
    assert pretoken.is_whole and pretoken.ids == [tokenizer.bytes_to_id("abc")]
    assert [pretoken.nodes[root].token for root in pretoken.roots] == [b"ab", b"c"]
    assert "a token as it stands" in inspect(tokenizer, words=["abc"]).html()


def test_the_order_of_merges_is_that_of_the_ranks():
    (pretoken,) = inspect("o200k_base", words=[" tokenization"]).words[0].pretokens
    ranks = [node.rank for node in pretoken.nodes if node.rank is not None]
    assert ranks == sorted(ranks) and len(ranks) == 11


def test_a_word_that_is_too_long_is_refused():
    with pytest.raises(InspectError, match="a word of 2,000 bytes is too long"):
        inspect("r50k_base", words=["x" * 2_000])


# ── texts ────────────────────────────────────────────────────────────────────────────────────


def test_pieces_are_the_text():
    tokenizer = Tokenizer.load("cl100k_base")
    for text in (TEXT, TEXT.encode(), b"\xff\xfe ab", "", "\ud800x"):
        pieces = inspect(tokenizer, text=text).text
        assert pieces is not None and pieces.ids == tokenizer.encode(text)
        assert b"".join(pieces.tokens) == tokenizer.decode_bytes(pieces.ids)
        assert pieces.figures()["tokens"] == len(pieces.ids)
    pieces = inspect(tokenizer, text="naïve 世界").text
    assert pieces is not None
    figures = pieces.figures()
    assert (figures["bytes"], figures["characters"]) == (13, 8)
    assert figures["bytes_per_token"] == round(13 / figures["tokens"], 4)


def test_specials_are_found_where_they_are_asked_for():
    text = "a<|endoftext|>"
    plain, found = (inspect("cl100k_base", text=text, specials=s).text for s in (False, True))
    assert plain is not None and found is not None
    assert 100257 in found.ids and 100257 not in plain.ids


# ── hostile tokens ───────────────────────────────────────────────────────────────────────────

HOSTILE = [
    "\x1b]0;owned\x07\x1b[31m",
    "\u202egnp.exe",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><b title="',
    "[red]:smile:[/red]",
    "\u009b31m",
    "&lt;",
]


@pytest.fixture
def hostile() -> Tokenizer:
    spelt = ["".join(byte_characters()[byte] for byte in text.encode()) for text in HOSTILE]
    ids = range(256 + len(spelt), 256 + 2 * len(spelt))
    added = [
        {
            **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
            "id": id_,
            "content": content + "!",
            "special": True,
        }
        for id_, content in zip(ids, HOSTILE, strict=True)
    ]
    model = {"ignore_merges": True}
    split = {
        "type": "Split",
        "pattern": {"Regex": "\x1b[31m|[<>]+|[^<>]+".replace("[31m", r"\[31m")},
        "behavior": "Isolated",
        "invert": False,
    }
    plain = {**BYTE_LEVEL, "use_regex": False}
    cut = {"type": "Sequence", "pretokenizers": [split, plain]}
    return made(spelt, [], model=model, added_tokens=added, pre_tokenizer=cut)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_hostile_tokens_cannot_leave_the_page(hostile):
    page = inspect(hostile, words=HOSTILE, text="".join(HOSTILE) * 3, specials=True).html()
    assert page.replace("\n", "").isprintable()
    tags = Tags()
    tags.feed(page)
    assert not tags.tags & {"script", "img", "b", "link", "iframe"}
    assert not {name for name in tags.attributes if name.startswith("on")}
    assert "&lt;script&gt;" in page and "http" not in page


def test_hostile_tokens_cannot_leave_the_terminal(hostile, tmp_path, capsys):
    from tokenmill.cli import main

    path = tmp_path / "\x1b[31mhostile.tokenmill"
    hostile.save(path)
    words = [option for word in HOSTILE for option in ("--word", word)]
    assert main(["inspect", str(path), *words, "--text", "".join(HOSTILE), "--specials"]) == 0
    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable()
    assert "[red]:smile:[/red]" in printed
    assert main(["inspect", str(path), *words, "--text", "".join(HOSTILE), "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed.removesuffix("\n").isprintable()
    assert [word["word"] for word in json.loads(printed)["words"]] == HOSTILE


# ── pages ────────────────────────────────────────────────────────────────────────────────────


def test_a_page_has_all_of_it_and_stands_alone():
    page = inspect("r50k_base", words=["naïve"], text="Hello, world").html()
    assert page.startswith("<!doctype html>") and page.count("<svg") == 3
    for part in ("Scripts", "Longest tokens", "Unreachable", "Odd tokens", "Merges of", "15496"):
        assert part in page
    assert not re.search(r"<script|src=|href=|url\(|@import", page)
    assert "prefers-color-scheme: dark" in page


def test_a_trained_tokenizer_is_reached():
    tokenizer = train(
        [Path(path).read_text(encoding="utf-8") for path in FIXTURES[:3]], vocab_size=600
    )
    report = inspect(tokenizer)
    assert report.unreachable()["count"] == 0
    assert report.sizes()["merges"] == report.sizes()["tokens"] - 256
