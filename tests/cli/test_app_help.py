"""Help texts, their examples, completion scripts, JSON output and exit codes.

Tests of cli/app.py and cli/output.py.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import FIXTURES
from in_process import Completed, run_main
from in_process import threaded_runs as threaded_runs
from terminal import COMMAND, environment

import tokenmill
from tokenmill.cli import app, main
from tokenmill.cli.app import COMMANDS, SHELLS, every_parser, make_parser
from tokenmill.errors import InputError

PARSERS = {parser.prog: parser for parser in every_parser(make_parser())}
EXAMPLES = sorted(
    {
        line.strip()
        for parser in PARSERS.values()
        for line in re.findall(
            r"^  .*tokenmill .*$", (parser.epilog or "").replace("\\\n   ", ""), re.MULTILINE
        )
        if "TOKENMILL_" not in line
    }
)
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the inputs of the examples, also those that other examples produce."""
    home = tmp_path_factory.mktemp("home")
    (home / "data").mkdir()
    (home / "book.txt").write_bytes(FIXTURES[0].read_bytes()[:20_000])
    (home / "lines.txt").write_text("one line\n\nand another\n")
    rows = [{"text": f"document {number} of the mill"} for number in range(40)]
    (home / "data" / "part.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (home / "ids.json").write_text('{"ids": [24912, 2375]}\n')
    (home / "ids.bin").write_bytes(b"\x00\x01\x00\x02")
    tokenizer = tokenmill.train(home / "book.txt", vocab_size=600)
    for name in ("mine.json", "mine.tokenmill", "tokenizer.json", "ranks.tiktoken"):
        tokenizer.save(home / name)
    (home / "model").mkdir()
    tokenizer.save(home / "model" / "tokenizer.json")
    tokenmill.count_pretokens(home / "book.txt", output=home / "book.tmc")
    shards = tokenmill.Tokenizer.load("o200k_base")
    tokenmill.tokenize(str(home / "data"), home / "shards", shards)
    tokenmill.tokenize(str(home / "data"), home / "ranks", shards, rank=0, world_size=1)
    run = home / "bin" / "tokenmill"
    run.parent.mkdir()
    run.write_text(f'#!/bin/sh\nexec {sys.executable} -m tokenmill "$@"\n')
    run.chmod(0o755)
    return home


@pytest.fixture
def shell(folder, tmp_path):
    """A shell in a copy of that folder, which has `tokenmill` in its path."""
    home = shutil.copytree(folder, tmp_path / "home")
    variables = environment(PATH=f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")

    def call(line: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=home, env=variables, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done

    return call


@pytest.fixture
def call(shell):
    """Runs one command in that folder, without a shell and a process; > FILE may follow."""
    home = Path(shell("pwd").stdout.rstrip("\n"))

    def call(line: str) -> Completed:
        program, *words = words_of(line)
        assert program == "tokenmill"
        words, file = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, None)
        found = [sorted(home.glob(word)) if "*" in word else [word] for word in words]
        done = run_main(*(word for each in found for word in each), cwd=home)
        assert done.returncode == 0, done.stderr
        if file is not None:
            (home / file).write_bytes(done.output)
        return done

    return call


def words_of(line: str) -> list[str]:
    """The words of a line of a shell; operators such as | are words, too."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    return list(words)


@pytest.mark.parametrize("line", EXAMPLES, ids=lambda line: line.replace("/", "_"))
def test_example_in_help_runs(shell, call, line):
    if line.startswith("tokenmill bench "):
        line += " --rounds 1"
    if "--output shards/" in line:
        shell("rm -r shards")
    # A pipeline and a substitution need a shell.
    needs_shell = not line.startswith("tokenmill ") or "|" in words_of(line)
    done = shell(f"set -o pipefail; {line}") if needs_shell else call(line)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", PARSERS)
def test_each_command_teaches(name):
    parser = PARSERS[name]
    assert "examples:" in (parser.epilog or ""), f"{name} --help has no examples"
    shown = parser.format_help()
    assert max(map(len, shown.splitlines())) <= 100
    for action in parser._actions:
        assert action.help or "COMMAND" in str(action.metavar) or action.dest == name.split()[-1]
    if name != "tokenmill":
        assert "--debug" in shown


@pytest.mark.parametrize("columns", [60, 80, 90])
@pytest.mark.parametrize("name", PARSERS)
def test_help_fits_the_terminal(name, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, PARSERS[name].format_help().splitlines())) <= columns


def test_option_without_effect_is_an_error(capsys):
    assert main(["inspect", "gpt2", "--allow-special"]) == app.USAGE
    assert "--allow-special needs a text" in capsys.readouterr().err


def test_overview_is_short_and_names_only_commands(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert shown.count("\n") <= 15
    assert max(map(len, shown.splitlines())) <= 60
    for command in re.findall(r"tokenmill ([a-z]+)", shown):
        assert command in COMMANDS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian"], "unknown command 'trian'; did you mean train?"),
        (["qqq"], "unknown command 'qqq'; expected one of encode, decode"),
        (["train", "x", "--vocabsize", "5"], "unknown option --vocabsize; did you mean --voc"),
        (["train", "x", "--vocab-size", "5"], "required: --output"),
        (["encode", "--tokeniser=gpt2"], "unknown option --tokeniser; did you mean --tokenizer?"),
        (["encode", "-z"], "unknown option -z"),
        (["--verison"], "unknown option --verison; did you mean --version?"),
        (["convert", "a", "b", "c"], "unexpected argument 'c'"),
        (
            ["train", "x", "--trainer", "rustbep"],
            "--trainer: unknown value 'rustbep'; did you mean rustbpe?",
        ),
        (
            ["encode", "x", "--on-error", "quarantine"],
            "--on-error: unknown value 'quarantine'; expected one of fail, skip",
        ),
        (
            ["count", "x", "--on-error", "quarantine"],
            "--on-error: unknown value 'quarantine'; expected one of fail, skip",
        ),
        (["--debug"], "required: COMMAND"),
    ],
    ids=str,
)
def test_wrong_word_is_answered_with_the_nearest(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == app.USAGE
    error = capsys.readouterr().err
    assert error.startswith("tokenmill: ")
    assert said in error
    assert re.search(r"\nSee tokenmill[a-z ]* --help\n$", error)


def test_exit_codes_are_in_the_help_and_on_the_page():
    page = (ROOT / "docs" / "errors.md").read_text()
    for code, meaning in app.CODES.items():
        assert re.search(
            rf"^  {code} +{re.escape(meaning)}$", PARSERS["tokenmill"].format_help(), re.M
        )
        assert f"| {code} | {meaning} |" in page


def test_page_has_every_command_and_option():
    page = (ROOT / "docs" / "cli.md").read_text()
    for command in COMMANDS:
        assert f"`tokenmill {command}" in page
    for name in re.findall(r"`(--[a-z0-9-]+)", page):
        assert any(name in parser._option_string_actions for parser in PARSERS.values()), name


# ── errors ───────────────────────────────────────────────────────────────────────────────────


def test_bug_is_one_line_that_asks_for_debug():
    code = (
        "import sys, tokenmill.cli.app as command\n"
        "def fail(options): raise KeyError('grain')\n"
        "command.print_completion = fail\n"
        "from tokenmill.cli import main\nsys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "completion", "bash"],
        env=environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == app.BUG
    assert done.stderr == (
        "tokenmill: unexpected KeyError: 'grain'; this is a bug, --debug shows the traceback\n"
    )


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (["--debug", "completion", "bash"], {}),
        (["completion", "bash", "--debug"], {}),
        (["completion", "bash"], {"TOKENMILL_DEBUG": "1"}),
    ],
    ids=str,
)
def test_debug_shows_the_traceback_and_the_code_stays(words, variables, monkeypatch):
    def fail(options):
        raise KeyError("grain")

    monkeypatch.setattr("tokenmill.cli.app.print_completion", fail)
    done = run_main(*words, env=variables)
    assert done.returncode == app.BUG
    assert "Traceback (most recent call last)" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("tokenmill: unexpected KeyError: 'grain'")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ValueError("two\nlines"), app.BUG, "unexpected ValueError: two; this is a bug"),
        (PermissionError(13, "Permission denied", "x"), app.OS_ERROR, "x: Permission denied"),
        (OSError(28, "No space left on device"), app.OS_ERROR, "No space left on device"),
        (FileNotFoundError(2, "No such file", "x"), app.USAGE, "file not found: 'x'"),
        (MemoryError(), app.OS_ERROR, "out of memory"),
        (InputError("it is bad"), app.USAGE, "it is bad"),
    ],
    ids=str,
)
def test_error_is_one_line(error, code, said, monkeypatch, capsys):
    def fail(options):
        raise error

    monkeypatch.setattr("tokenmill.cli.app.print_completion", fail)
    monkeypatch.setenv("TOKENMILL_DEBUG", "0")
    assert main(["completion", "bash"]) == code
    shown = capsys.readouterr().err
    assert shown.startswith(f"tokenmill: {said}")
    assert shown.count("\n") == 1
    assert main(["completion", "bash", "--debug"]) == code
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["encode nowhere", "trian"])
def test_closed_stderr_does_not_change_the_exit_code(words):
    line = f"{' '.join(COMMAND)} {words} 2>&1 >/dev/null | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.stdout == "2\n"


@pytest.mark.parametrize("command", ["inspect shards", "train --help"])
def test_reader_that_goes_is_141_everywhere(shell, command):
    """The reader is gone before the first line is written."""
    done = shell(f"tokenmill {command} | (exec <&-; sleep 0.1); echo ${{PIPESTATUS[0]}}")
    assert (done.stdout, done.stderr) == ("141\n", "")


@pytest.mark.parametrize("command", ["inspect gpt2", "--help", ""])
def test_reader_that_has_gone_is_141_in_this_process(command, monkeypatch, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        assert main(command.split()) == app.CLOSED_PIPE
    assert capsys.readouterr() == ("", "")


# ── figures as JSON ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("encode --text hello --json", {"path", "ids", "tokens", "bytes"}),
        ("encode book.txt --count --json", {"path", "tokens", "bytes"}),
        ("train book.txt --vocab-size 300,400 --output a.json --json --report r.json",
         {"outputs", "seconds", "peak_mb", "report"}),
        ("count book.txt --json", {"tokens", "documents", "bytes", "rejected"}),
        ("count-pretokens book.txt --output a.tmc --json", {"path", "unique", "total"}),
        ("convert gpt2 a.tokenmill --json", {"path", "vocab_size", "special_tokens"}),
        ("tokenize data --tokenizer gpt2 --output out --json", {"documents", "tokens", "output"}),
        ("merge shards merged --json", {"documents", "tokens", "shards", "output"}),
        ("verify shards --sample 100% --json", {"good", "files", "bytes", "documents", "findings"}),
        ("inspect shards --json", {"documents", "tokens", "sources"}),
        ("inspect gpt2 --json --text hello", {"tokenizer", "text"}),
        ("bench gpt2 book.txt --rounds 1 --json", {"tokenizer", "equal", "libraries", "left_out"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_json_is_one_object_on_one_line(call, line, keys):
    done = call(f"tokenmill {line}")
    assert done.stdout.count("\n") == 1
    assert keys <= set(json.loads(done.stdout))


def test_each_command_with_figures_has_json():
    without = {"tokenmill", "tokenmill completion"}
    for name, parser in PARSERS.items():
        assert ("--json" in parser._option_string_actions) is (name not in without), name


# ── completion ───────────────────────────────────────────────────────────────────────────────


ASK_BASH = """
offers() {  # the completions of the last word
  COMP_WORDS=(tokenmill "$@"); COMP_CWORD=$#; COMPREPLY=()
  local spec=$(complete -p tokenmill); local name=${spec##*-F }; ${name% *}
  echo "${COMPREPLY[@]}"
}
eval "$(tokenmill completion bash)"
"""
OFFERS = {
    "en": {"encode"},
    "encode --to": {"--tokenizer"},
    "train --vo": {"--vocab-size"},
    "encode --binary ''": {"u16", "u32"},
    "encode --tokenizer o200k_b": {"o200k_base"},
    "encode --tokenizer tok": {"tokenizer.json"},
    "encode boo": {"book.txt", "book.tmc"},
    "verify sh": {"shards"},
    "convert gp": {"gpt2"},
}


def test_bash_completes_commands_options_and_names(shell):
    lines = [f"offers {words}" for words in OFFERS]
    shown = shell("\n".join([ASK_BASH, *lines])).stdout.splitlines()
    assert [set(line.split()) for line in shown] == list(OFFERS.values())


@pytest.mark.parametrize("name", [name for name in SHELLS if shutil.which(name)])
def test_script_is_one_that_its_shell_reads(tmp_path, name):
    (tmp_path / "script").write_bytes(run_main("completion", name).output)
    done = subprocess.run([name, "-n", tmp_path / "script"], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


def test_fish_and_zsh_have_scripts_of_their_own():
    assert "complete -c tokenmill" in run_main("completion", "fish").stdout
    assert run_main("completion", "zsh").stdout.startswith("#compdef tokenmill")


def test_completion_without_its_extra_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    done = run_main("completion", "bash")
    assert done.returncode == app.USAGE
    assert f"run: {sys.executable} -m pip install shtab" in done.stderr


def test_command_imports_no_more_than_it_needs():
    code = (
        "import sys; from tokenmill.cli import main; main(['encode', '--text', 'x'])\n"
        "print([name for name in ('rich', 'tokenmill.cli.train', 'tokenmill.training', 'pyarrow')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
