"""The command line: what it prints, and how it ends."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import FIXTURES

import tokenmill
from tokenmill import Tokenizer
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


def test_work_is_done_where_streams_are_closed(tmp_path):
    (tmp_path / "x.txt").write_text("the mill mills the meal " * 50)
    run = f"cd {tmp_path} && {sys.executable} -m tokenmill"
    for command, made in (
        ("convert gpt2 a.tokenmill", "a.tokenmill"),
        ("count x.txt --output b.tmc --quiet", "b.tmc"),
        ("train x.txt --vocab-size 260 --output c.json --quiet", "c.json"),
        ("demo", None),
    ):
        for closed in (">&-", "<&- >&-", "<&- >&- 2>&-"):
            line = f"{run} {command} {closed}"
            done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=120)
            assert (done.returncode, done.stderr, done.stdout) == (0, "", ""), line
            if made is not None:
                assert (tmp_path / made).stat().st_size > 100
                (tmp_path / made).unlink()


def test_error_is_shown_where_standard_output_is_closed(tmp_path):
    for command, said in (
        ("convert nothing x.json", "nothing"),
        ("convert gpt2 /dev/stdout", "standard output is closed"),
        ("convert gpt2 x.gguf", "'x.gguf' is the name of llama.cpp's format, which is not written"),
    ):
        line = f"cd {tmp_path} && {sys.executable} -m tokenmill {command} >&-"
        done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2
        assert done.stderr.startswith("tokenmill: ")
        assert said in done.stderr


# ── train and count ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A folder with some text files, which is the current one."""
    for index, path in enumerate(FIXTURES[:3]):
        (tmp_path / f"{index}.txt").write_text(path.read_text(encoding="utf-8")[:20_000])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_demo_trains_a_vocabulary(capsys):
    assert main(["demo"]) == 0
    assert "1,500 entries learned from" in capsys.readouterr().out


def test_train_writes_every_format(corpus, capsys):
    outputs = ["tokenizer.json", "vocab.json", "mine.tokenmill", "mine.tiktoken"]
    command = ["train", "[012].txt", "--vocab-size", "600", "--special", "<s>", "--quiet"]
    assert main([*command, *(f"--output={name}" for name in outputs)]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    for name in [*outputs, "merges.txt"]:
        assert (corpus / name).stat().st_size > 1_000
    assert "tokenizer.json: 600 entries, 1 special\n" in shown.out
    mine = Tokenizer.load("mine.tokenmill")
    assert mine == tokenmill.train("[012].txt", vocab_size=600, specials=["<s>"])


def test_train_takes_all_options(corpus, capsys):
    command = (
        "train 0.txt 1.txt --vocab-size 400,500 --output t-{size}.tokenmill --ties rustbpe "
        "--pattern cl100k --special <a> --special <b> --min-frequency 2 --max-token-length 9 "
        "--initial-alphabet seen --weight 1.txt=2.5 --sample 0.9 --seed 7 --threads 2 "
        "--memory 200MB --resume work --trace trace.jsonl --report report.json --quiet"
    )
    assert main(command.split()) == 0
    want = tokenmill.train(
        [Path("0.txt"), Path("1.txt")], vocab_size=[400, 500], ties="rustbpe", pattern="cl100k",
        specials=["<a>", "<b>"], min_frequency=2, max_token_length=9, initial_alphabet="seen",
        weights={"1.txt": 2.5}, sample=0.9, seed=7,
    )  # fmt: skip
    assert [Tokenizer.load("t-400.tokenmill"), Tokenizer.load("t-500.tokenmill")] == want
    assert "bytes a token" in capsys.readouterr().out
    assert len(Path("trace.jsonl").read_text().splitlines()) > 100
    again = "train 2.txt --vocab-size 550 --output big.tokenmill --extend t-500.tokenmill --quiet"
    assert main(again.split()) == 0
    assert Tokenizer.load("big.tokenmill").vocab_size == 550


def test_pieces_of_sentencepiece_are_trained_and_written(corpus, capsys):
    command = (
        "train 0.txt 1.txt --vocab-size 700,800 --ties sentencepiece --special <a> --quiet "
        "--character-coverage 0.99 --max-token-length 9 --output p-{size}.model --output p.json"
    )
    assert main(command.split()) == 0
    shown = capsys.readouterr()
    assert "p-700.model: 700 entries, 4 specials\n" in shown.out
    want = tokenmill.train(
        [Path("0.txt"), Path("1.txt")], vocab_size=800, ties="sentencepiece", specials=["<a>"],
        character_coverage=0.99, max_token_length=9,
    )  # fmt: skip
    want.save("want.model")
    assert Path("p-800.model").read_bytes() == Path("want.model").read_bytes()
    assert len(json.loads(Path("p-700.json").read_text())["model"]["vocab"]) == 700
    wrong = "train 0.txt --vocab-size 700 --ties sentencepiece --output p.tokenmill --quiet"
    assert main(wrong.split()) == 2
    assert "'p.tokenmill' is no name for pieces" in capsys.readouterr().err


def test_count_and_train_from_counts_equal_training(corpus, capsys):
    for name in ("0.txt", "1.txt"):
        assert main(["count", name, "--output", f"{name}.tmc", "--pattern", "r50k"]) == 0
    assert "different pretokens" in capsys.readouterr().out
    command = ["--vocab-size", "500", "--quiet", "--output"]
    assert main(["train", "0.txt.tmc", "1.txt.tmc", *command, "counted.json"]) == 0
    assert main(["train", "0.txt", "1.txt", "--pattern=r50k", *command, "direct.json"]) == 0
    assert Path("counted.json").read_bytes() == Path("direct.json").read_bytes()


def test_standard_input_is_an_input(corpus):
    command = [sys.executable, "-m", "tokenmill", "train", "-", "--vocab-size=300"]
    with Path("0.txt").open("rb") as file:
        done = subprocess.run(
            [*command, "--output=a.tokenmill"], stdin=file, capture_output=True, check=True
        )
    lines = done.stderr.decode().splitlines()
    assert [line.split(":")[0] for line in lines] == ["counting", "merging"]
    assert "exact since" in lines[1]
    assert Tokenizer.load("a.tokenmill") == tokenmill.train("0.txt", vocab_size=300)


def test_train_mistakes_end_with_a_message_and_no_file(corpus, capsys):
    (corpus / "image.txt").write_bytes(b"\x89PNG\0\0")
    (corpus / "rows.jsonl").write_text('{"body": "x"}\n')
    (corpus / "empty.txt").write_text("")
    (corpus / "0.zip").write_bytes(b"PK\x03\x04 and more")
    good = ["--vocab-size", "300", "--output", "out.json", "--quiet"]
    for command, *parts in (
        (["nowhere.txt", *good], "'nowhere.txt' is not there"),
        (["image.txt", *good], "image.txt is not text"),
        (["rows.jsonl", *good], "rows.jsonl, line 1 has no field 'text'", "'body'", "--field"),
        (["empty.txt", *good], "no text"),
        (["0.txt", *good, "--pattern", "nonsense"], "'nonsense' is not the name of a scheme"),
        (["0.txt", *good, "--weight", "1.txt=2"], "weight of '1.txt' fits no input"),
        (["0.txt", *good, "--vocab-size", "200"], "vocab_size=200 is too small"),
        (["0.txt", *good, "--output", "no/where.json"], "no/where.json", "make it first"),
        (["0.txt", *good, "--output", "."], "is a folder"),
        (["0.txt", *good, "--vocab-size=300,400", "--output=vocab.json"], "{size}/vocab.json"),
        (["0.txt", *good, "--output", "./0.txt"], "'0.txt' is an input"),
        (["0.txt", *good, "--trace", "0.txt"], "'0.txt' is an input"),
        (["0.txt", *good, "--report", "out.json"], "'out.json' would be written twice"),
        (["0.txt", *good, "--output", "-"], "/dev/stdout"),
        (["0.txt", *good, "--output", "out.model"], "'out.model'", "SentencePiece", ".tokenmill"),
        (["0.zip", *good], "0.zip is compressed with zip"),
    ):
        assert main(["train", *command]) == 2
        error = capsys.readouterr().err
        assert error.startswith("tokenmill: ")
        for part in parts:
            assert part in error
    assert not list(corpus.glob("out*"))
    assert main(["count", "0.txt", "--output", "counts.json"]) == 2
    assert ".tmc" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option", ["--memory=2XB", "--memory=1MB", "--vocab-size=0", "--vocab-size=1,x", "--sample=2",
               "--weight=a.txt", "--weight=a.txt=0", "--threads=0", "--ties=nobody", "--seed=-1"],
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
    assert "tokenmill: note: the text has only" in capsys.readouterr().err


def test_output_may_be_a_pipe(corpus):
    command = [sys.executable, "-m", "tokenmill", "train", "0.txt", "--vocab-size=300", "--quiet"]
    done = subprocess.run(
        [*command, "--output=/dev/stdout"], capture_output=True, text=True, check=True, timeout=60
    )
    ranks, _, rest = done.stdout.partition("/dev/stdout:")
    assert len(ranks.splitlines()) == 300
    assert "300 entries" in rest


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_leaves_nothing_half_written(corpus, sent, code):
    command = [sys.executable, "-m", "tokenmill", "train", "-", "--vocab-size=300"]
    environment = {**os.environ, "TMPDIR": str(corpus)}
    with subprocess.Popen(
        [*command, "--output=out.json"], stdin=subprocess.PIPE, env=environment
    ) as child:
        child.stdin.write(b"some text " * 4_000_000)  # it has read some, and wants more
        child.send_signal(sent)
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        assert child.wait(30) == code
    assert {path.name for path in corpus.iterdir()} == {"0.txt", "1.txt", "2.txt"}
