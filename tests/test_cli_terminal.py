"""The command line in a pseudo-terminal: colours and bars there, and nowhere else."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from conftest import FIXTURES
from terminal import COMMAND, environment, in_terminal

import tokenmill

# Any escape code; and those that style text.
ESCAPE = "\x1b"
STYLED = re.compile(r"\x1b\[[0-9;]+m")
TRAIN = ("train", "0.txt", "--vocab-size=400", "--output=a.json")


@pytest.fixture
def corpus(tmp_path):
    for index, path in enumerate(FIXTURES[:3]):
        (tmp_path / f"{index}.txt").write_text(path.read_text(encoding="utf-8")[:20_000])
    (tmp_path / "rows.jsonl").write_text(json.dumps({"text": "the mill"}) + "\n")
    tokenizer = tokenmill.Tokenizer.load("gpt2")
    tokenmill.tokenize(str(tmp_path / "rows.jsonl"), tmp_path / "shards", tokenizer)
    return tmp_path


def piped(*words: str, cwd=None, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], cwd=cwd, env=environment(**variables), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_progress_in_a_terminal_is_a_bar(corpus):
    shown = in_terminal(*TRAIN, cwd=corpus)
    assert shown.code == 0
    for part in ("counting", "merging", "━", "144 of 144", " MB", "400 entries"):
        assert part in shown.text
    assert STYLED.search(shown.text)
    assert "…" not in in_terminal(*TRAIN, cwd=corpus, columns=80).text  # all of it fits
    tokenize = ("tokenize", "0.txt", "--tokenizer=gpt2", "--output=out")
    assert "━" in in_terminal(*tokenize, cwd=corpus).text


@pytest.mark.parametrize("words", [("demo",), TRAIN, ("inspect", "shards")], ids=str)
def test_no_color_leaves_out_every_style(corpus, words):
    shown = in_terminal(*words, cwd=corpus, NO_COLOR="1", FORCE_COLOR="1")
    assert shown.code == 0
    assert not STYLED.search(shown.text)
    assert STYLED.search(in_terminal(*words, cwd=corpus, NO_COLOR="").text)


@pytest.mark.parametrize("words", [("demo",), TRAIN, ("ladder", "corpus", "--max-mb=1")], ids=str)
def test_dumb_terminal_gets_plain_lines(corpus, words):
    shown = in_terminal(*words, cwd=corpus, TERM="dumb")
    assert shown.code == 0
    assert ESCAPE not in shown.text


@pytest.mark.parametrize(
    "words",
    [("demo",), TRAIN, ("inspect", "shards"), ("ladder", "corpus", "--max-mb=1"),
     ("bench", "corpus", "--num-docs=20"), ("--help",), ("train", "--help"), ("verify", "shards")],
    ids=str,
)  # fmt: skip
def test_pipes_and_files_get_no_escape_codes(corpus, words):
    done = piped(*words, cwd=corpus)
    assert done.returncode == 0, done.stderr
    assert ESCAPE not in done.stdout + done.stderr


def test_forced_colour_is_colour_and_no_bar(corpus):
    done = piped("demo", FORCE_COLOR="1", COLORTERM="truecolor")
    assert STYLED.search(done.stdout)
    done = piped(*TRAIN, cwd=corpus, FORCE_COLOR="1")
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["counting", "merging"]
    done = piped("ladder", "corpus", "--max-mb=1", FORCE_COLOR="1")
    assert ESCAPE not in done.stderr


def test_text_is_typed_until_the_end_of_it():
    hint = "reading text from the terminal; Ctrl-D ends it"
    shown = in_terminal("encode", keys=b"hello world\n\x04", when=hint)
    assert shown.code == 0
    assert shown.text.endswith("24912 2375 198\n")


def test_ctrl_c_at_the_terminal_ends_it_quietly():
    shown = in_terminal("encode", "-", keys=b"\x03", when="Ctrl-D ends it")
    assert shown.code == 130
    assert "Traceback" not in shown.text


def test_binary_ids_are_not_for_terminals():
    shown = in_terminal("encode", "--text", "hello", "--binary", "u32")
    assert shown.code == 2
    assert "a terminal cannot show binary ids" in shown.text


def test_help_fits_a_narrow_terminal():
    shown = in_terminal("encode", "--help", columns=60)
    options = shown.text.partition("examples:")[0]
    assert max(map(len, options.splitlines())) <= 100
    assert shown.code == 0
