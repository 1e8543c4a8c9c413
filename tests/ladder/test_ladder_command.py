"""The command line of the ladders: help, mistakes, JSON and terminals."""

from __future__ import annotations

import argparse
import json
import re
import sys

import pytest
from ladder_steps import keep_steps, run_ladder
from terminal import in_terminal

from ladder import values
from ladder.__main__ import main, make_parser
from tokenmill.cli import app
from tokenmill.cli.app import every_parser

PARSERS = {parser.prog: parser for parser in every_parser(make_parser())}
ESCAPE = "\x1b"
# One step. It shows a spinner in a terminal, as all ladders do.
ONE_STEP = ("training", "0.txt", "--vocab-size=300", "--steps=15", "--runs=1")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "0.txt").write_text("the mill mills the meal\n" * 400)
    rows = [{"text": f"document {number} of the mill"} for number in range(40)]
    (tmp_path / "part.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.mark.parametrize("columns", [60, 80, 90])
@pytest.mark.parametrize("name", PARSERS)
def test_help_fits_the_terminal_and_has_examples(name, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    shown, _, after = PARSERS[name].format_help().partition("examples:\n")
    assert "python -m ladder " in after
    prose = [line for line in after.splitlines() if not line.startswith(" ")]
    assert max(map(len, [*shown.splitlines(), *prose])) <= columns


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["corpus", "a.jsonl", "--max-mb", "1"], "--max-mb is for generated text"),
        (["encoding", "--json", "--markdown", "-"], "both print to standard output"),
        (["training", "--plot", "x.png"], "plot must be an SVG file"),
        (["encoding", "--plot", "x.png"], "plot must be an SVG file"),
    ],
    ids=str,
)
def test_option_without_effect_is_an_error(words, said, capsys):
    assert main(words) == app.USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("text", "found"), [("1", 10**6), ("0.5", 500_000), ("1,000", 10**9)])
def test_megabytes_accept_fractions(text, found):
    assert values.megabytes(text) == found


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "nan", "inf", "1e-9"])
def test_invalid_megabytes_are_rejected(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"such as 1 or 0\.5"):
        values.megabytes(text)


def test_command_without_ladder_shows_the_help(capsys):
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    assert "corpus" in capsys.readouterr().out


def test_unknown_ladder_suggests_the_nearest(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["corpsu"])
    assert ended.value.code == app.USAGE
    assert "unknown command 'corpsu'; did you mean corpus?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (("batches", "part.jsonl", "--num-docs=20"), {"methods"}),
        (("corpus", "part.jsonl"), {"steps"}),
        (ONE_STEP, {"steps", "skipped", "text_bytes", "merges", "python"}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_json_is_one_object_on_one_line(folder, words, keys, monkeypatch):
    keep_steps(monkeypatch)
    done = run_ladder(*words, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert set(json.loads(done.stdout)) == keys


def test_dumb_terminal_has_plain_lines(folder):
    shown = in_terminal(
        *ONE_STEP, cwd=folder, command=[sys.executable, "-m", "ladder"], TERM="dumb",
        PYTHONPATH=":".join(sys.path),
    )  # fmt: skip
    assert shown.code == 0, shown.text
    assert ESCAPE not in shown.text
    assert re.search(r"15 native core +[0-9.]+ ms", shown.text)


@pytest.mark.parametrize("variables", [{}, {"FORCE_COLOR": "1"}], ids=str)
def test_pipes_have_no_progress_bars(folder, variables, monkeypatch):
    keep_steps(monkeypatch)
    for words in (ONE_STEP, ("batches", "--num-docs=20")):
        done = run_ladder(*words, cwd=folder, env=variables)
        assert done.returncode == 0, done.stderr
        assert ESCAPE not in done.stderr
        assert variables or ESCAPE not in done.stdout
