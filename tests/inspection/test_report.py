"""A tokenizer → a report: sizes, scripts, unreachable tokens, trees, tokens of a text, a page.

Tests of inspection/merges.py, inspection/page.py, inspection/reach.py,
inspection/report.py and inspection/token_table.py.
"""

from __future__ import annotations

import functools
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import families
import pytest
from conftest import FIXTURES, TEXT, each_pattern, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill import Tokenizer, train_from_iterator
from tokenmill.errors import OptionError
from tokenmill.formats.names import byte_characters
from tokenmill.inspection import TokenizerReport as Report
from tokenmill.inspection import inspect_tokenizer as inspect
from tokenmill.inspection.reach import texts_around
from tokenmill.inspection.token_table import classify

FAMILIES = families.all_families()
WORDS = (" tokenization", "don't", "नमस्ते", "naïve 12345", "  \n x", "世界🙂", "the the", "ᏣᎳᎩ")


@functools.cache
def family(name: str) -> Tokenizer:
    return _loaded(FAMILIES[name], name)


@functools.cache
def report_of(name: str) -> Report:
    return inspect(family(name) if name in FAMILIES else name)


def _loaded(document: str, name: str = "made") -> Tokenizer:
    from tokenmill.formats import tokenizer_json

    return Tokenizer._from_spec(tokenizer_json.read(document.encode(), name), name)


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


def make(tokens: list[str], merges: list[str], **more: Any) -> Tokenizer:
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


# ── unreachable tokens ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [*FAMILIES, "r50k_base", "cl100k_base", "o200k_base"])
def test_unreachable_tokens_never_occur_in_ids(name):
    report = report_of(name)
    lost = {row["id"] for row in report.unreachable()["tokens"]}
    texts = [*families.texts(), *WORDS, TEXT, *(path.read_bytes() for path in FIXTURES)]
    for ids in report.tokenizer.encode_batch(texts):
        assert not lost & set(ids)


@each_pattern
def test_openai_vocabularies_are_reachable(name):
    # о and the first byte of another letter: each letter that may follow merges earlier.
    expected = {"<0xD0><0xBE><0xD0>": "pattern"} if name == "o200k_base" else {}
    assert reasons(report_of(name)) == expected


def test_token_without_a_merge_is_unreachable():
    report = inspect(make(["ab", "abc", "xyz"], ["a b"]))
    assert reasons(report) == {"abc": "no_merge", "xyz": "no_merge"}
    (row, _) = report.unreachable()["tokens"]
    assert [one["token"] for one in row["encoded_as"]] == ["ab", "c"]


def test_token_with_earlier_merges_inside_is_unreachable():
    assert reasons(inspect(make(["bc", "ab", "abc"], ["b c", "a b", "ab c"]))) == {
        "abc": "other_merges"
    }


def test_token_that_the_pattern_splits_is_unreachable():
    assert reasons(inspect(make(["a1"], ["a 1"]))) == {"a1": "pattern"}
    whole = make(["a1", "xyz"], [], model={"ignore_merges": True})
    assert reasons(inspect(whole)) == {"a1": "pattern"}


def test_token_split_only_at_the_ends_of_a_text_is_reachable():
    split = {
        "type": "Split",
        "pattern": {"Regex": r"(?<=;)ab|[^ab]|[ab]"},
        "behavior": "Isolated",
        "invert": False,
    }
    plain = {**BYTE_LEVEL, "use_regex": False}
    cut = {"type": "Sequence", "pretokenizers": [split, plain]}
    assert reasons(inspect(make(["ab"], ["a b"], pre_tokenizer=cut))) == {}


def test_token_that_the_normalizer_changes_is_unreachable():
    tokens = ["AB", "ab", "Ġa"]
    merges = ["A B", "a b", "Ġ a"]
    report = inspect(make(tokens, merges, normalizer={"type": "Lowercase"}))
    found = reasons(report)
    assert found.pop("AB") == "normalizer"
    assert set(found) == set("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    strip = {"type": "Strip", "strip_left": True, "strip_right": True}
    assert reasons(inspect(make(tokens, merges, normalizer=strip))) == {}


def test_token_with_an_added_token_inside_is_unreachable():
    added = {"content": "bc", "single_word": False, "lstrip": False, "rstrip": False}
    added |= {"id": 259, "normalized": False, "special": False}
    tokenizer = make(["ab", "abc", "cd"], ["a b", "ab c", "c d"], added_tokens=[added])
    assert reasons(inspect(tokenizer)) == {"abc": "added_token"}


def test_prefixes_make_no_token_unreachable():
    assert not report_of("roberta").unreachable()["count"]
    assert set(report_of("llama2").unreachable()["reasons"]) == {"other_token"}


def test_byte_tokens_of_characters_with_tokens_are_unreachable():
    found = report_of("llama2").unreachable()["tokens"]
    tokenizer = family("llama2")
    for row in found:
        byte = int(row["token"][3:5], 16)
        assert row["token"] == f"<0x{byte:02X}>" and byte < 0x80
        assert tokenizer.token_to_id(chr(byte)) == row["encoded_as"][0]["id"] != row["id"]


def test_bytes_without_a_token_are_allowed(tmp_path):
    path = tmp_path / "few.tiktoken"
    path.write_text("YQ== 0\nYg== 1\nYWI= 2\nenk= 3\n")  # a, b, ab, zy
    report = inspect(Tokenizer.load(path, pattern=r"\p{L}+|\P{L}+"))
    assert report.sizes()["merges"] == 2  # of bytes, whether they are tokens or not
    assert reasons(report) == {}


def test_dropout_does_not_matter():
    tokenizer = make(["ab"], ["a b"], model={"dropout": 0.5})
    assert reasons(inspect(tokenizer)) == {}


@settings(max_examples=max(20, examples(100)))
@given(st.binary(min_size=1, max_size=6))
def test_texts_around_contain_the_token(token):
    for text in texts_around(token, 64):
        assert token in text and text.decode()


def test_texts_around_complete_partial_characters():
    for text in ("é", "世", "🙂"):
        data = text.encode()
        for cut in range(1, len(data)):
            assert any(data[:cut] in text for text in texts_around(data[:cut], 256))
            assert any(data[cut:] in text for text in texts_around(data[cut:], 256))


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
        (" \n\t\u3000", "whitespace"),
        (" \x1b", "controls and others"),
        ("🙂", "punctuation and symbols"),
        (None, "parts of characters"),
        ("", "empty"),
    ],
)
def test_letters_decide_the_script(text, script):
    assert classify(["x", text, "у"]) == ["Latin", script, "Cyrillic"]


def test_sizes_of_an_embedded_vocabulary():
    sizes = report_of("o200k_base").sizes()
    assert (sizes["ids"], sizes["tokens"], sizes["ordinary_tokens"]) == (200_019, 200_000, 199_998)
    assert sizes["merges"] == 199_998 - 256 and sizes["special_tokens"] == 2
    assert sizes["gaps"] == 19 and sizes["gap_ranges"] == [(199_998, 199_999), (200_000, 200_018)]
    assert sizes["ids_are_ranks"] and sizes["out_of_order"] == 0


@pytest.mark.parametrize("name", FAMILIES)
def test_figures_add_up(name):
    report = report_of(name)
    figures = report.as_json()
    sizes = figures["sizes"]
    kinds = ("ordinary", "special", "added", "byte", "decode_only")
    assert sum(sizes[f"{kind}_tokens"] for kind in kinds) == sizes["tokens"]
    assert sizes["tokens"] + sizes["gaps"] == sizes["ids"] == family(name).vocab_size
    assert sum(row["tokens"] for row in figures["lengths"]["bytes"]) == sizes["ordinary_tokens"]
    assert sum(row["tokens"] for row in figures["scripts"]) == sizes["ordinary_tokens"]
    parts = family(name)._spec
    assert parts is not None and parts.model.merges is not None
    assert sizes["merges"] == len(parts.model.merges)
    assert json.loads(json.dumps(figures)) == json.loads(json.dumps(report.as_json()))


def test_sizes_count_ids_out_of_merge_order():
    assert inspect(make(["ab", "cd", "ef"], ["a b", "c d", "e f"])).sizes()["out_of_order"] == 0
    assert inspect(make(["ab", "cd", "ef"], ["e f", "a b", "c d"])).sizes()["out_of_order"] == 2


def test_components_are_described_in_words():
    components = report_of("gpt_neox").components
    assert components["normalizer"] == ["NFC"] and components["pre-tokenizer"][0].startswith(
        "r50k: "
    )
    llama2 = report_of("llama2").components
    assert llama2["spaces"] == ['are written "▁" in tokens']
    assert llama2["post-processor"] == ["<s> TEXT"]
    assert llama2["pre-tokenizer"] == ["none: text is not split"]
    assert llama2["decoder"] == ["Replace", "ByteFallback", "Fuse", "Strip"]
    assert len(report_of("deepseek_v3").components["pre-tokenizer"]) == 3


def test_odd_tokens_are_found():
    tokens = ["ĠĠ", "====", "ÃÂÃÂ", "âĢĭx", "ï¿½", "aÐ±", "cameLcameLcameL", "camelcamelcamel"]
    odd = inspect(make(tokens, [])).odd
    report = inspect(make(tokens, []))
    found = {kind: [report.table.row(p)["token"] for p in places] for kind, places in odd.items()}
    assert found == {
        "whitespace": ["  "],
        "repeats": ["===="],
        "invisible": ["\u200bx"],
        "replacement": ["\ufffd"],
        "mixed": ["aб"],
        "camel": ["cameLcameLcameL"],
    }
    both = report_of("gpt_neox").odd["duplicates"]
    assert len(both) % 2 == 0 and len(both) >= 8


def test_glitch_tokens_of_gpt2_are_found():
    report = report_of("r50k_base")
    odd = {report.table.row(place)["token"] for place in report.odd["camel"]}
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


@settings(max_examples=max(6, examples(30)))
@given(st.text(max_size=12))
def test_trees_of_any_text_end_in_its_ids(text):
    for name in ("llama2", "gpt2", "unknowns_apart"):
        word = inspect_word(name, text)
        assert word.ids == family(name).encode(text)
        for pretoken in word.pretokens:
            assert [pretoken.nodes[root].id for root in pretoken.roots] == pretoken.ids


def inspect_word(name: str, text: str) -> Any:
    from tokenmill.inspection.merges import merge_word

    report = report_of(name)
    return merge_word(report.table, report.rules, text)


def test_whole_pretoken_is_marked():
    tokenizer = make(["ab", "abc"], ["a b"], model={"ignore_merges": True})
    (pretoken,) = inspect(tokenizer, words=["abc"]).words[0].pretokens
    assert pretoken.is_whole and pretoken.ids == [tokenizer.token_to_id("abc")]
    assert [pretoken.nodes[root].token for root in pretoken.roots] == [b"ab", b"c"]
    assert "merging alone would produce" in inspect(tokenizer, words=["abc"]).html()


def test_merges_are_in_the_order_of_ranks():
    (pretoken,) = inspect("o200k_base", words=[" tokenization"]).words[0].pretokens
    ranks = [node.rank for node in pretoken.nodes if node.rank is not None]
    assert ranks == sorted(ranks) and len(ranks) == 11


def test_too_long_word_is_rejected():
    with pytest.raises(OptionError, match="a word of 2,000 bytes is too long"):
        inspect("r50k_base", words=["x" * 2_000])


# ── texts ────────────────────────────────────────────────────────────────────────────────────


def test_tokens_of_a_text_join_to_the_text():
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


def test_special_tokens_are_found_if_allowed():
    text = "a<|endoftext|>"
    plain, found = (
        inspect("cl100k_base", text=text, allowed_special=s).text for s in (False, True)
    )
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
    tokens = ["".join(byte_characters()[byte] for byte in text.encode()) for text in HOSTILE]
    ids = range(256 + len(tokens), 256 + 2 * len(tokens))
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
    return make(tokens, [], model=model, added_tokens=added, pre_tokenizer=cut)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_hostile_tokens_are_escaped_in_the_page(hostile):
    page = inspect(hostile, words=HOSTILE, text="".join(HOSTILE) * 3, allowed_special=True).html()
    assert page.replace("\n", "").isprintable()
    tags = Tags()
    tags.feed(page)
    assert not tags.tags & {"script", "img", "b", "link", "iframe"}
    assert not {name for name in tags.attributes if name.startswith("on")}
    assert "&lt;script&gt;" in page and "http" not in page


def test_hostile_tokens_are_escaped_in_the_terminal(hostile, tmp_path, capsys):
    from tokenmill.cli import main

    path = tmp_path / "\x1b[31mhostile.tokenmill"
    hostile.save(path)
    words = [option for word in HOSTILE for option in ("--word", word)]
    assert main(["inspect", str(path), *words, "--text", "".join(HOSTILE), "--allow-special"]) == 0
    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable()
    assert "[red]:smile:[/red]" in printed
    assert main(["inspect", str(path), *words, "--text", "".join(HOSTILE), "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed.removesuffix("\n").isprintable()
    assert [word["word"] for word in json.loads(printed)["words"]] == HOSTILE


# ── pages ────────────────────────────────────────────────────────────────────────────────────


def _bars(page: str) -> int:
    """The number of columns of bars on a page."""
    return sum(
        max(len(re.findall('class="bar"', row)) for row in table.split("<tr>"))
        for table in page.split("<table>")
    )


def test_page_is_complete_and_needs_no_other_files():
    page = inspect("r50k_base", words=["naïve"], text="Hello, world").html()
    assert page.startswith("<!doctype html>") and _bars(page) == 3
    for part in ("Scripts", "Longest tokens", "Unreachable", "Odd tokens", "Merges of", "15496"):
        assert part in page
    assert not re.search(r"<script|src=|href=|url\(|@import", page)
    assert "prefers-color-scheme: dark" in page


def test_page_of_bytes_that_are_not_characters(tmp_path):
    path = tmp_path / "bytes.tiktoken"
    path.write_text("gA== 0\ngQ== 1\n")  # 0x80 and 0x81
    page = inspect(Tokenizer.load(path, pattern="(?s:.)")).html()
    assert _bars(page) == 3 and "parts of characters" in page


def test_trained_tokens_are_reachable():
    tokenizer = train_from_iterator(
        [Path(path).read_text(encoding="utf-8") for path in FIXTURES[:3]], vocab_size=600
    )
    report = inspect(tokenizer)
    assert report.unreachable()["count"] == 0
    assert report.sizes()["merges"] == report.sizes()["ordinary_tokens"] - 256
