"""`tokenmill count`: the number of tokens in files of every kind."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from conftest import FIXTURES
from in_process import run_main
from in_process import threaded_runs as threaded_runs

import tokenmill
from tokenmill import Tokenizer
from tokenmill.cli import app, main

TEXTS = [path.read_text(encoding="utf-8")[:3_000] for path in FIXTURES[:4]]
WANT = sum(map(len, Tokenizer.load("gpt2").encode_batch(TEXTS)))
GPT2 = ("--tokenizer", "gpt2")


@pytest.fixture
def corpus(tmp_path, monkeypatch) -> Path:
    """A folder with the same documents in several formats, which is the current one."""
    folder = tmp_path / "data"
    folder.mkdir()
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()
    (folder / "a.jsonl").write_bytes(lines)
    (folder / "b.json.gz").write_bytes(gzip.compress(lines))
    (folder / "c.jsonl.bz2").write_bytes(bz2.compress(lines))
    pyarrow.parquet.write_table(pa.table({"text": TEXTS}), folder / "d.parquet")
    (tmp_path / "book.txt").write_bytes(TEXTS[0].encode())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def count(capsys, *words: str, code: int = 0) -> str:
    assert main(["count", *words]) == code
    return capsys.readouterr().out


def test_one_file_is_one_number(corpus, capsys):
    assert count(capsys, "book.txt") == f"{Tokenizer.load('o200k_base').count(TEXTS[0])}\n"
    assert count(capsys, "data/a.jsonl", *GPT2) == f"{WANT}\n"
    assert (
        count(capsys, "data/a.jsonl", *GPT2, "--per-file") == f"{WANT} data/a.jsonl\n{WANT} total\n"
    )


def test_folder_has_a_line_per_file_and_a_total(corpus, capsys):
    names = [f"data/{name}" for name in ("a.jsonl", "b.json.gz", "c.jsonl.bz2", "d.parquet")]
    want = [*(f"{WANT} {name}" for name in names), f"{4 * WANT} total"]
    assert count(capsys, "data", *GPT2).splitlines() == want
    assert count(capsys, "data/*", *GPT2).splitlines() == want
    assert count(capsys, "data", *GPT2, "--no-per-file") == f"{4 * WANT}\n"


def test_json_has_totals_and_files(corpus, capsys):
    size = sum(len(text.encode()) for text in TEXTS)
    figures = {"tokens": WANT, "documents": len(TEXTS), "bytes": size, "rejected": 0}
    assert json.loads(count(capsys, "data/a.jsonl", *GPT2, "--json")) == figures
    found = json.loads(count(capsys, "data/a.jsonl", "data/d.parquet", *GPT2, "--json"))
    files = found.pop("files")
    assert found == {name: 2 * value for name, value in figures.items()}
    assert files == [{"path": f"data/{name}", **figures} for name in ("a.jsonl", "d.parquet")]


def test_count_equals_the_tokens_of_a_run(corpus, capsys):
    result = tokenmill.tokenize("data", "shards", Tokenizer.load("gpt2"), eos="none")
    assert count(capsys, "data", *GPT2, "--no-per-file") == f"{result.tokens}\n"


def test_standard_input_is_counted():
    done = run_main("count", "-", "--input-format", "lines", given=b"hello world\nhello\n")
    assert done.stdout == "3\n"


def test_long_text_is_counted_in_blocks(corpus, capsys):
    text = "\n".join(TEXTS) * 1_000
    Path("long.txt").write_text(text, encoding="utf-8")
    assert count(capsys, "long.txt", *GPT2) == f"{Tokenizer.load('gpt2').count(text)}\n"


def test_special_tokens_are_text_unless_allowed(corpus, capsys):
    Path("special.txt").write_text("<|endoftext|>")
    assert int(count(capsys, "special.txt")) > 1
    assert count(capsys, "special.txt", "--allow-special") == "1\n"


def test_rejected_records_are_reported_and_not_counted(corpus, capsys):
    Path("bad.jsonl").write_text('{"text": "hello world"}\n{"text": 1}\nno JSON\n')
    assert main(["count", "bad.jsonl"]) == app.REJECTED
    shown = capsys.readouterr()
    assert shown.out == "2\n"
    assert shown.err.startswith("tokenmill: note: 2 records rejected and not counted; the first: ")
    assert "bad.jsonl, line 2" in shown.err
    assert main(["count", "bad.jsonl", "--json"]) == app.REJECTED
    assert json.loads(capsys.readouterr().out)["rejected"] == 2


def test_text_that_turns_out_bad_late_is_rejected(corpus, capsys):
    """The first blocks are counted before the bad byte is read."""
    Path("late.txt").write_bytes(b"hello world " * 1_500_000 + b"\xff")
    assert main(["count", "late.txt", "book.txt", "--json"]) == app.REJECTED
    found = json.loads(capsys.readouterr().out)
    assert [file["tokens"] > 0 for file in found["files"]] == [False, True]
    assert (found["documents"], found["rejected"]) == (1, 1)
    done = run_main("count", "-", given=Path("late.txt").read_bytes())
    assert done.returncode == app.USAGE
    assert "not UTF-8" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.txt"], "nowhere.txt"),
        (["bad.jsonl", "--field", "body"], "the inputs contain no documents: bad.jsonl, line 1"),
        (["bad.jsonl", "--on-error", "fail"], "bad.jsonl, line 2"),
        (["bad.jsonl", "--max-errors", "0"], "more than 0 records"),
        (["bad.jsonl", "--tokenizer", "unknown"], "unknown"),
    ],
    ids=str,
)
def test_mistakes_are_errors_with_code_2(corpus, capsys, words, message):
    Path("bad.jsonl").write_text('{"text": "hello world"}\n{"text": 1}\n')
    assert main(["count", *words]) == app.USAGE
    assert message in capsys.readouterr().err
