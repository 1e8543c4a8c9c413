"""The command line → its output and its exit code, for `train`, `convert` and closed streams.

Tests of cli/app.py and cli/train.py.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import FIXTURES, FUZZ, examples
from in_process import run_main
from in_process import threaded_runs as threaded_runs

import tokenmill
from tokenmill import Tokenizer
from tokenmill.cli import app, main


def test_version_is_printed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert tokenmill.__version__ in capsys.readouterr().out


def test_closed_pipe_ends_quietly():
    command = f"{sys.executable} -m tokenmill inspect gpt2 | head -c 1 >/dev/null"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120)
    assert done.stderr == ""


def in_shell(line: str, folder: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a line in which `tokenmill` is the program."""
    line = f"cd {folder} && {line.replace('tokenmill ', f'{sys.executable} -m tokenmill ', 1)}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_work_is_done_if_stderr_and_stdin_are_closed(tmp_path):
    (tmp_path / "x.txt").write_text("the mill mills the meal " * 50)
    for command, output in (
        ("convert gpt2 a.tokenmill", "a.tokenmill"),
        ("count-pretokens x.txt --output b.tmc --quiet", "b.tmc"),
        ("train x.txt --vocab-size 260 --output c.json", "c.json"),
    )[: 3 if FUZZ >= 100 else 1]:
        code, shown, errors = in_shell(f"tokenmill {command} <&- 2>&-", tmp_path)
        assert (code, errors) == (0, "")
        assert shown.startswith(output)
        assert (tmp_path / output).stat().st_size > 100


@pytest.mark.parametrize(
    "command",
    ["train x.txt --vocab-size 260 --output c.json", "inspect gpt2", "encode x.txt", "--help", ""],
)
def test_closed_stdout_is_an_error_before_any_work(tmp_path, command):
    (tmp_path / "x.txt").write_text("the mill mills the meal " * 50)
    code, _, errors = in_shell(f"tokenmill {command} >&-", tmp_path)
    assert code == app.USAGE
    assert errors == (
        "tokenmill: standard output is closed; redirect it to a file or to /dev/null\n"
    )
    assert not (tmp_path / "c.json").exists()


def test_error_with_all_streams_closed_is_an_exit_code(tmp_path):
    assert in_shell("tokenmill inspect gpt2 <&- >&- 2>&-", tmp_path) == (app.USAGE, "", "")
    assert in_shell("tokenmill convert nothing x.json 2>&-", tmp_path) == (app.USAGE, "", "")


INTERRUPT_AT_IMPORT = """
import importlib.abc, os, signal, sys
from tokenmill.cli import app, main

class Interrupt(importlib.abc.MetaPathFinder):
    left = int(sys.argv.pop(1))
    def find_spec(self, name, path, target=None):
        Interrupt.left -= 1
        if not Interrupt.left:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.exit(main())
"""


@pytest.mark.parametrize("number", [1, 2, 5, 20, 60, 120, 200, 10_000])
def test_interrupt_during_imports_ends_with_130_and_no_traceback(number):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT_AT_IMPORT, str(number), "inspect", "gpt2"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.returncode == (0 if number == 10_000 else 130)


# ── train and count ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A folder with some text files, which is the current one."""
    for index, path in enumerate(FIXTURES[:3]):
        (tmp_path / f"{index}.txt").write_text(path.read_text(encoding="utf-8")[:20_000])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_train_writes_every_format(corpus, capsys):
    outputs = ["tokenizer.json", "vocab.json", "mine.tokenmill", "mine.tiktoken"]
    command = ["train", "[012].txt", "--vocab-size", "600", "--special-token", "<s>", "--quiet"]
    assert main([*command, *(f"--output={name}" for name in outputs)]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    for name in [*outputs, "merges.txt"]:
        assert (corpus / name).stat().st_size > 1_000
    assert "tokenizer.json: 600 tokens, 1 special token\n" in shown.out
    mine = Tokenizer.load("mine.tokenmill")
    assert mine == tokenmill.train("[012].txt", vocab_size=600, special_tokens=["<s>"])


def test_train_takes_all_options(corpus, capsys):
    command = (
        "train 0.txt 1.txt --vocab-size 400,500 --output t-{size}.tokenmill --trainer rustbpe "
        "--pattern cl100k --special-token <a> --special-token <b> --min-frequency 2 "
        "--max-token-length 9 "
        "--initial-alphabet seen --weight 1.txt=2.5 --sample 0.9 --seed 7 --threads 2 "
        "--memory 200MB --resume work --trace trace.jsonl --report report.json --quiet"
    )
    assert main(command.split()) == 0
    want = tokenmill.train_sizes(
        ["0.txt", "1.txt"], [400, 500], trainer="rustbpe", pattern="cl100k",
        special_tokens=["<a>", "<b>"], min_frequency=2, max_token_length=9, initial_alphabet="seen",
        weights={"1.txt": 2.5}, sample=0.9, seed=7,
    )  # fmt: skip
    assert [Tokenizer.load("t-400.tokenmill"), Tokenizer.load("t-500.tokenmill")] == want
    assert "bytes per token" in capsys.readouterr().out
    assert len(Path("trace.jsonl").read_text().splitlines()) > 100
    again = "train 2.txt --vocab-size 550 --output big.tokenmill --extend t-500.tokenmill --quiet"
    assert main(again.split()) == 0
    assert Tokenizer.load("big.tokenmill").vocab_size == 550


def test_pieces_of_sentencepiece_are_trained_and_written(corpus, capsys):
    command = (
        "train 0.txt 1.txt --vocab-size 700,800 --trainer sentencepiece --special-token <a> "
        "--quiet --character-coverage 0.99 --max-token-length 9 --output p-{size}.model "
        "--output p.json"
    )
    assert main(command.split()) == 0
    shown = capsys.readouterr()
    assert "p-700.model: 700 tokens, 2 special tokens\n" in shown.out
    want = tokenmill.train(
        ["0.txt", "1.txt"], 800, trainer="sentencepiece",
        special_tokens=["<a>"],
        character_coverage=0.99, max_token_length=9,
    )  # fmt: skip
    want.save("want.model")
    assert Path("p-800.model").read_bytes() == Path("want.model").read_bytes()
    assert len(json.loads(Path("p-700.json").read_text())["model"]["vocab"]) == 700
    wrong = "train 0.txt --vocab-size 700 --trainer sentencepiece --output p.tiktoken --quiet"
    assert main(wrong.split()) == 2
    assert "cannot save a SentencePiece vocabulary to 'p.tiktoken'" in capsys.readouterr().err


def test_count_and_train_from_counts_equal_training(corpus, capsys):
    for name in ("0.txt", "1.txt"):
        assert main(["count-pretokens", name, "--output", f"{name}.tmc", "--pattern", "r50k"]) == 0
    assert "unique pretokens" in capsys.readouterr().out
    command = ["--vocab-size", "500", "--quiet", "--output"]
    assert main(["train", "0.txt.tmc", "1.txt.tmc", *command, "counted.json"]) == 0
    assert main(["train", "0.txt", "1.txt", "--pattern=r50k", *command, "direct.json"]) == 0
    assert Path("counted.json").read_bytes() == Path("direct.json").read_bytes()


def test_standard_input_is_an_input(corpus):
    command = ["train", "-", "--vocab-size=300", "--output=a.tokenmill"]
    done = run_main(*command, given=Path("0.txt").read_bytes())
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert [line.split(":")[0] for line in lines] == ["counting", "merging"]
    assert "minimum tracked count" in lines[1]
    assert Tokenizer.load("a.tokenmill") == tokenmill.train("0.txt", vocab_size=300)


def test_train_mistakes_end_with_a_message_and_no_file(corpus, capsys):
    (corpus / "image.txt").write_bytes(b"\x89PNG\0\0")
    (corpus / "rows.jsonl").write_text('{"body": "x"}\n')
    (corpus / "empty.txt").write_text("")
    (corpus / "0.zip").write_bytes(b"PK\x03\x04 and more")
    good = ["--vocab-size", "300", "--output", "out.json", "--quiet"]
    for command, *parts in (
        (["nowhere.txt", *good], "file not found: 'nowhere.txt'"),
        (["image.txt", *good], "image.txt is not text"),
        (["rows.jsonl", *good], "rows.jsonl, line 1 has no field 'text'", "'body'", "--field"),
        (["empty.txt", *good], "no text"),
        (
            ["0.txt", *good, "--pattern", "nonsense"],
            "'nonsense' is not the name of a pre-tokenizer; there are r50k, cl100k, ",
            "; for a regular expression write '(?:nonsense)'",
        ),
        (["0.txt", *good, "--weight", "1.txt=2"], "weight of '1.txt' matches no input"),
        (["0.txt", *good, "--vocab-size", "200"], "vocab_size=200 is too small"),
        (["0.txt", *good, "--output", "no/where.json"], "no/where.json", "create it first"),
        (["0.txt", *good, "--trace", "."], "is a folder"),
        (["0.txt", *good, "--output", "s3://mill/a.json"], "'s3://mill/a.json' is a URL"),
        (["0.txt", *good, "--output", "out/", "--output", "out"], "'out' is given twice"),
        (["0.txt", *good, "--vocab-size=300,400", "--output=vocab.json"], "{size}/vocab.json"),
        (["0.txt", *good, "--output", "./0.txt"], "0.txt' is also an input"),
        (["0.txt", *good, "--trace", "0.txt"], "0.txt' is also an input"),
        (["0.txt", *good, "--report", "out.json"], "'out.json' is given twice"),
        (["0.txt", *good, "--output", "-"], "output must be a file, got '-'"),
        (["0.txt", *good, "--output", "out.odd"], "unknown suffix '.odd'", ".tiktoken"),
        (["0.txt", *good, "--output", "out.model"], "'out.model'", "SentencePiece", ".tokenmill"),
        (["0.zip", *good], "0.zip is a zip archive"),
    ):
        assert main(["train", *command]) == 2
        error = capsys.readouterr().err
        assert error.startswith("tokenmill: ")
        for part in parts:
            assert part in error
    assert not list(corpus.glob("out*"))
    assert main(["count-pretokens", "0.txt", "--output", "counts.json"]) == 2
    assert ".tmc" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--memory=2XB", "--memory=1MB", "--vocab-size=0", "--vocab-size=1,x", "--sample=2",
               "--weight=a.txt", "--weight=a.txt=0", "--threads=0", "--trainer=other", "--seed=-1"],
)  # fmt: skip
def test_option_with_a_wrong_value_is_named(corpus, capsys, option):
    with pytest.raises(SystemExit) as ended:
        main(["train", "0.txt", "--vocab-size=300", "--output=a.json", option])
    assert ended.value.code == 2
    name, _, value = option.partition("=")
    error = capsys.readouterr().err
    assert name in error
    assert value.split(",")[-1] in error


def test_notes_are_shown_even_when_quiet(corpus, capsys):
    Path("small.txt").write_text("aaa aaa")
    command = ["train", "small.txt", "--vocab-size", "1000", "--output", "a.json", "--quiet"]
    assert main(command) == 0
    assert "tokenmill: note: the text contains only" in capsys.readouterr().err


def test_convert_writes_a_folder_for_transformers(corpus, capsys):
    for name in ("folder/", "folder/", "folder"):  # it may exist
        assert main(["convert", "gpt2", name]) == 0
        assert capsys.readouterr().out == f"{name}: 50,257 tokens, 1 special token\n"
    names = {path.name for path in Path("folder").iterdir()}
    assert names == {"tokenizer.json", "tokenizer_config.json"}
    assert Tokenizer.load("folder").encode("the mill") == Tokenizer.load("gpt2").encode("the mill")


@pytest.mark.parametrize("trainer", ["tokenizers", "sentencepiece"])
def test_train_writes_folders_for_transformers(corpus, capsys, trainer):
    (corpus / "present").mkdir()
    names = ["new/", "present", "deep/{size}/"]
    words = ["train", "0.txt", "--vocab-size=300,310", "--trainer", trainer, "--quiet"]
    assert main([*words, *(f"--output={name}" for name in names)]) == 0
    folders = ["new-300", "new-310", "present-300", "present-310", "deep/300", "deep/310"]
    for name in folders:
        written = {path.name for path in Path(name).iterdir()}
        assert written == {"tokenizer.json", "tokenizer_config.json"}
        assert Tokenizer.load(name).vocab_size == int(name[-3:])
    shown = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert shown[:-1] == [f"{name}/" for name in folders]


def test_output_that_is_a_url_is_an_error(corpus, capsys):
    for words in (
        ["convert", "gpt2", "s3://mill/a.json"],
        ["count-pretokens", "0.txt", "--output", "s3://mill/a.tmc"],
        ["inspect", "gpt2", "--html", "s3://mill/a.html"],
    ):
        assert main(words) == app.USAGE
        assert "is a URL; write a local file" in capsys.readouterr().err


def test_convert_to_an_unknown_suffix_lists_the_known_ones(corpus, capsys):
    assert main(["convert", "gpt2", "out.jsn"]) == app.USAGE
    error = capsys.readouterr().err
    assert "unknown suffix '.jsn'" in error
    for known in ("tokenizer.json", "vocab.json", ".model", ".tokenmill", ".tiktoken", "folder/"):
        assert known in error
    assert not Path("out.jsn").exists()


def test_output_may_be_a_pipe(corpus):
    command = [sys.executable, "-m", "tokenmill", "train", "0.txt", "--vocab-size=300", "--quiet"]
    Path("pipe.tiktoken").symlink_to("/dev/stdout")
    done = subprocess.run(
        [*command, "--output=pipe.tiktoken"], capture_output=True, text=True, check=True, timeout=60
    )
    ranks, _, rest = done.stdout.partition("pipe.tiktoken:")
    assert len(ranks.splitlines()) == 300
    assert "300 tokens" in rest


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_leaves_no_partial_file(corpus, sent, code):
    command = [sys.executable, "-m", "tokenmill", "train", "-", "--vocab-size=300"]
    environment = {**os.environ, "TMPDIR": str(corpus)}
    with subprocess.Popen(
        [*command, "--output=out.json"], stdin=subprocess.PIPE, env=environment
    ) as child:
        # It has read some, and wants more.
        child.stdin.write(b"some text " * max(400_000, examples(4_000_000)))
        child.send_signal(sent)
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        assert child.wait(30) == code
    assert {path.name for path in corpus.iterdir()} == {"0.txt", "1.txt", "2.txt"}
