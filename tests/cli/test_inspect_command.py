"""`tokenmill inspect` of tokenizers: tables, JSON, a page, colours, pipes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import families
import pytest
from corpus_cases import texts, write_jsonl
from in_process import run_main as run
from in_process import threaded_runs as threaded_runs

from tokenmill import Tokenizer, tokenize, train_from_iterator

COMMAND = [sys.executable, "-m", "tokenmill", "inspect"]


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """A tokenizer that a process loads and inspects fast."""
    path = tmp_path_factory.mktemp("small") / "small.tokenmill"
    train_from_iterator(["the mill " * 9], vocab_size=264).save(path)
    return path


def test_a_name_shows_tables_a_tree_and_pieces():
    shown = ("--word", " naïve", "--text", "Hello, wörld\n", "--rows", "3")
    done = run("inspect", "r50k_base", *shown)
    assert done.returncode == 0, done.stderr
    for part in (
        "50,257: 50,256 ordinary tokens, 1 special",
        "tokens by length",
        "Latin",
        "unreachable tokens: 0",
        "BuyableInstoreAndOnline",
        "·naïve 41492  = ·na + ïve  step 6",
        "Hello│, │·w │ör   │ld │\\n │",
        "bytes per token",
    ):
        assert part in done.stdout, part
    assert done.stdout.replace("\n", "").isprintable()
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_json_is_the_report(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(families.pieces("llama2"))
    done = run("inspect", path, "--json", "--word", "stone", "--text", "the stone")
    figures = json.loads(done.stdout)
    assert figures["tokenizer"] == "tokenizer" and figures["sizes"]["byte_tokens"] == 256
    assert figures["unreachable"]["reasons"] == {"other_token": 46}
    tokenizer = Tokenizer.load(path)
    assert figures["words"][0]["ids"] == tokenizer.encode("stone")
    assert figures["text"]["ids"] == tokenizer.encode("the stone")


def test_a_folder_of_transformers_is_a_tokenizer(tmp_path):
    (tmp_path / "tokenizer.json").write_text(families.byte_level("gpt2"))
    (tmp_path / "manifest.json").write_text("{}")  # some other program's
    done = run("inspect", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1,201: 1,200 ordinary tokens, 1 special" in done.stdout


def test_a_folder_of_shards_stays_one(tmp_path):
    corpus = write_jsonl(tmp_path / "in.jsonl", texts(20, 2))
    out = tmp_path / "out"
    tokenize(corpus, out, "gpt2")
    assert "tokens per document" in run("inspect", out).stdout
    (out / "tokenizer.json").write_text(families.byte_level("gpt2"))
    assert json.loads(run("inspect", out, "--json").stdout)["documents"] == 20
    done = run("inspect", out, "--word", "x")
    assert done.returncode == 2
    assert (
        "--word is an option for tokenizers" in done.stderr
        and "inspect its tokenizer: 'gpt2'" in done.stderr
    )
    (out / "tokenizer.json").unlink()
    (out / "manifest.json").unlink()
    done = run("inspect", out)
    assert done.returncode == 2 and "is not complete" in done.stderr


def test_inputs_that_cannot_be_read_are_errors(tmp_path):
    for what, said in (("nothing", "neither a file"), (tmp_path, "tokenizer")):
        done = run("inspect", what)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    done = run("inspect", "gpt2", "--text-file", tmp_path / "nothing.txt")
    assert done.returncode == 2 and "nothing.txt" in done.stderr


def test_a_text_comes_from_a_file_or_a_pipe(tmp_path, small):
    (tmp_path / "x.txt").write_bytes(b"the \xff mill\n")
    done = run("inspect", "gpt2", "--json", "--text-file", tmp_path / "x.txt")
    ids = Tokenizer.load("gpt2").encode(b"the \xff mill\n")
    assert json.loads(done.stdout)["text"]["ids"] == ids
    data = "谷物\n".encode()
    piped = subprocess.run(
        [*COMMAND, small, "--json", "--text-file", "-"],
        input=data,
        capture_output=True,
        timeout=60,
    )
    assert json.loads(piped.stdout)["text"]["characters"] == 3


def test_a_rank_file_needs_a_pattern(tmp_path):
    path = tmp_path / "x.tiktoken"
    Tokenizer.load("r50k_base").save(path)
    path.write_bytes(path.read_bytes().replace(b"IQ== 0\n", b"IQ== 60000\n"))
    assert "a rank file has no pattern" in run("inspect", path).stderr
    done = run("inspect", path, "--pattern", "r50k")
    assert "9,745: 0, 50256 to 59999" in done.stdout


def test_a_page_is_written(tmp_path):
    page = tmp_path / "report.html"
    done = run("inspect", "r50k_base", "--html", page, "--word", "mill", "--text", "<b>")
    assert done.stdout.endswith(f"{page}: HTML report\n")
    written = page.read_text(encoding="utf-8")
    assert written.startswith("<!doctype html>") and "&lt;" in written and "<b>" not in written


def _in_a_terminal(tokenizer: Path, environment: dict[str, str]) -> bytes:
    """The output of the command in a terminal."""
    leader, follower = pty.openpty()
    command = [*COMMAND, tokenizer, "--word", "mill", "--text", "the mill"]
    clean = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")
    }
    process = subprocess.Popen(
        command,
        stdout=follower,
        stdin=follower,
        env={**clean, "TERM": "xterm-256color"} | environment,
    )
    os.close(follower)
    printed = b""
    try:
        while data := os.read(leader, 65_536):
            printed += data
    except OSError:  # which is how a terminal ends on Linux
        pass
    finally:
        os.close(leader)
    assert process.wait(60) == 0
    return printed


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_colours_follow_the_terminal_and_the_environment(small):
    coloured = _in_a_terminal(small, {})
    assert b"\x1b[30;48;" in coloured and "the│".encode() not in coloured
    plain = _in_a_terminal(small, {"NO_COLOR": "1"})
    assert b"48;" not in plain and b"the" in plain and "│".encode() in plain


def test_a_closed_pipe_ends_quietly(small):
    line = f"{' '.join(COMMAND)} {small} | head -c 1 >/dev/null"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""


def test_help_teaches():
    shown = run("inspect", "--help").stdout
    assert "tokenmill inspect o200k_base" in shown and "--text-file" in shown
    assert Path(shown.split()[1]).name == "tokenmill"


def test_a_page_does_not_take_the_place_of_its_input(tmp_path):
    path = tmp_path / "mine.tokenmill"
    Tokenizer.load("r50k_base").save(path)
    before = path.read_bytes()
    done = run("inspect", path, "--html", path)
    assert done.returncode == 2 and "is also an input" in done.stderr
    assert path.read_bytes() == before
