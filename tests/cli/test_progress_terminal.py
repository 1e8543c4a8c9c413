"""The command line in a pseudo-terminal: only there it has colours and progress bars.

Tests of cli/progress.py and cli/output.py.
"""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from conftest import FIXTURES, FUZZ
from in_process import run_main
from in_process import threaded_runs as threaded_runs
from rich.cells import cell_len
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
    for part in ("counting", "merging", "━", "144 of 144", " MB", "400 tokens"):
        assert part in shown.text
    assert STYLED.search(shown.text)
    assert "…" not in in_terminal(*TRAIN, cwd=corpus, columns=80).text  # all of it fits
    tokenize = ("tokenize", "0.txt", "--tokenizer=gpt2", "--output=out")
    assert "━" in in_terminal(*tokenize, cwd=corpus).text


@pytest.mark.parametrize("words", [TRAIN, ("inspect", "shards")], ids=str)
def test_no_color_leaves_out_every_style(corpus, words):
    shown = in_terminal(*words, cwd=corpus, NO_COLOR="1", FORCE_COLOR="1")
    assert shown.code == 0
    assert not STYLED.search(shown.text)
    assert STYLED.search(in_terminal(*words, cwd=corpus, NO_COLOR="").text)


@pytest.mark.parametrize("words", [("inspect", "gpt2"), TRAIN], ids=str)
def test_dumb_terminal_gets_plain_lines(corpus, words):
    shown = in_terminal(*words, cwd=corpus, TERM="dumb")
    assert shown.code == 0
    assert ESCAPE not in shown.text


@pytest.mark.parametrize(
    "words",
    [
        TRAIN,
        ("inspect", "shards"),
        ("--help",),
        ("train", "--help"),
        ("verify", "shards"),
    ],
    ids=str,
)
def test_pipes_and_files_get_no_escape_codes(corpus, words):
    # By default two commands have real pipes: one with progress, one with a table.
    has_pipes = FUZZ >= 100 or words in (TRAIN, ("inspect", "shards"))
    done = piped(*words, cwd=corpus) if has_pipes else run_main(*words, cwd=corpus)
    assert done.returncode == 0, done.stderr
    assert ESCAPE not in done.stdout + done.stderr


def test_forced_colour_is_colour_and_no_bar(corpus):
    done = run_main(
        "inspect", "gpt2", "--text", "the mill", env={"FORCE_COLOR": "1", "COLORTERM": "truecolor"}
    )
    assert STYLED.search(done.stdout)
    done = piped(*TRAIN, cwd=corpus, FORCE_COLOR="1")
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["counting", "merging"]


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
    assert "binary ids cannot be shown in a terminal" in shown.text


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "gpt2", "--word", " tokenization", "--text", "some text, and more of it"),
        ("inspect", "shards"),
        ("bench", "gpt2", "0.txt", "--rounds", "1"),
    ],
    ids=str,
)
def test_tables_fit_a_terminal_of_60_columns(corpus, words):
    shown = in_terminal(*words, cwd=corpus, columns=60)
    assert shown.code == 0
    lines = STYLED.sub("", shown.text).splitlines()
    assert max(map(cell_len, lines)) <= 60
    assert not [line for line in lines if "█…" in line or line.count("…") > 4]


def test_help_fits_a_narrow_terminal():
    shown = in_terminal("encode", "--help", columns=60)
    options = shown.text.partition("examples:")[0]
    assert max(map(len, options.splitlines())) <= 100
    assert shown.code == 0


@pytest.mark.parametrize(
    "words",
    [TRAIN, ("count-pretokens", "0.txt", "--output=a.tmc"),
     ("tokenize", "0.txt", "--tokenizer=gpt2", "--output=out")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_styles_of_progress_are_the_same_in_all_commands(corpus, words):
    rows = run_main(*words, "--progress=json", cwd=corpus).stderr.splitlines()
    assert rows
    assert all({"phase", "seconds", "memory"} <= set(json.loads(row)) for row in rows)
    for silent in (("-q",), ("--quiet",), ("--progress=none",)):
        done = run_main(*words, *silent, cwd=corpus)
        assert (done.returncode, done.stderr) == (0, "")


def test_progress_fits_a_narrow_terminal(corpus):
    shown = in_terminal("tokenize", "0.txt", "--tokenizer=gpt2", "--output=narrow", cwd=corpus,
                        columns=60)  # fmt: skip
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.text).splitlines()
    bars = [line for line in re.split(r"[\r\n]", "\n".join(lines)) if "━" in line]
    assert bars
    assert all(len(bar.rstrip()) <= 60 for bar in bars)
    assert not any("…" in bar for bar in bars)
