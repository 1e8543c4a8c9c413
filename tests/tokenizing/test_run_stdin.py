"""Standard input → shards: the same bytes as from a file. The same input resumes a run."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest
from corpus_cases import command, texts, write_jsonl
from in_process import run_main
from in_process import threaded_runs as threaded_runs

from tokenmill import tokenize
from tokenmill.shards import open as open_shards

MEMBERS = ("--input-format", "jsonl", "--format", "megatron", "--task-bytes", "64KB")


def pipe(data: bytes, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command(*arguments), input=data, capture_output=True, timeout=120)


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress], ids=["plain", "gz"])
def test_a_pipe_gives_the_bytes_of_a_file(tmp_path, pack):
    path = write_jsonl(tmp_path / "in.jsonl", texts(2000, 3))
    out = ("--tokenizer", "gpt2", "--output", tmp_path / "piped")
    done = pipe(pack(path.read_bytes()), "tokenize", "-", *MEMBERS, *out)
    assert done.returncode == 0, done.stderr
    result = tokenize(path, tmp_path / "read", "gpt2", task_bytes=64_000)
    with open_shards(tmp_path / "piped") as piped, open_shards(tmp_path / "read") as read:
        assert len(piped) == len(read) == result.documents
        assert all((piped[i] == read[i]).all() for i in range(0, len(read), 97))
    assert not list((tmp_path / "piped").glob(".tmp/*"))
    assert run_main("verify", tmp_path / "piped", "--sample", "100%").returncode == 0


def test_the_same_pipe_resumes_and_another_is_rejected(tmp_path):
    data = write_jsonl(tmp_path / "in.jsonl", texts(2000, 3)).read_bytes()
    bad = data + b"no json\n"
    arguments = ("tokenize", "-", *MEMBERS, "--tokenizer", "gpt2", "--output", tmp_path / "out")
    stopped = pipe(bad, *arguments, "--max-errors", "0", "--threads", "1")
    assert stopped.returncode == 2 and b"--max-errors" in stopped.stderr
    assert not (tmp_path / "out" / ".tmp").exists()
    other = run_main(*arguments, given=data)
    assert other.returncode == 2 and "'-' had " in other.stderr
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.bin")}
    done = pipe(bad, *arguments)
    assert done.returncode == 3 and before, done.stderr
    for name, time in before.items():  # finished tasks are not repeated
        assert (tmp_path / "out" / name).stat().st_mtime_ns == time
    again = run_main(*arguments, given=bad)
    assert again.returncode == 3 and "2,000 documents" in again.stdout
    assert not list((tmp_path / "out").glob(".tmp/*"))


def test_a_partial_copy_of_a_killed_run_is_replaced(tmp_path):
    folder = tmp_path / "out"
    arguments = ("tokenize", "-", "--tokenizer", "gpt2", "--output", folder)
    child = subprocess.Popen(command(*arguments), stdin=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.write(b"some text " * 100_000)
    child.stdin.flush()
    while not list(folder.glob(".tmp/*/stdin")):
        assert child.poll() is None
    child.kill()
    child.wait()
    child.stdin.close()
    assert run_main(*arguments, given=b"a text").returncode == 0
    with open_shards(folder) as shards:
        assert len(shards) == 1


def test_an_empty_pipe_gave_no_documents(tmp_path):
    done = run_main("tokenize", "-", "--tokenizer", "gpt2", "--output", tmp_path / "o", given=b"")
    assert done.returncode == 5 and "-: no documents" in done.stdout


def test_a_closed_pipe_is_an_error_without_files(tmp_path):
    words = command("tokenize", "-", "--tokenizer", "gpt2", "--output", tmp_path / "out")
    done = subprocess.run(
        ["sh", "-c", '"$@" <&-', "sh", *map(str, words)], capture_output=True, text=True
    )
    assert done.returncode == 2 and "standard input is closed" in done.stderr
    assert not (tmp_path / "out").exists()
