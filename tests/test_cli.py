"""The command line: what it prints, and how it ends."""

import os
import subprocess
import sys

import pytest

import tokenmill
from tokenmill.cli import main


def test_demo_shows_pieces_ids_and_figures(capsys):
    assert main(["demo"]) == 0
    shown = capsys.readouterr().out
    for part in ("o200k_base", "·encoding", "24072", "bytes a token", "the same text", "MB/s"):
        assert part in shown
    assert "ANOTHER TEXT" not in shown


def test_demo_takes_any_embedded_vocabulary(capsys):
    assert main(["demo", "--tokenizer", "gpt2"]) == 0
    assert "gpt2" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["demo", "--tokenizer", "nothing"])
    assert "nothing" in capsys.readouterr().err


def test_demo_is_coloured_in_a_terminal():
    environment = {**os.environ, "FORCE_COLOR": "1", "COLORTERM": "truecolor"}
    command = [sys.executable, "-m", "tokenmill", "demo"]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=120)
    assert b"\x1b[" in done.stdout


def test_version_is_printed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert tokenmill.__version__ in capsys.readouterr().out


def test_closed_pipe_ends_quietly():
    command = f"{sys.executable} -m tokenmill demo | head -c 1 >/dev/null"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
