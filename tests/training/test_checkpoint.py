"""Runs that were killed, damaged, moved or finished → the same vocabulary, or an error."""

from __future__ import annotations

import random
import signal
import subprocess
import sys

import pytest
from conftest import SEED, examples
from trained import TEXTS, expected, raises, tokens, train, write_files

from tokenmill.errors import TrainingError
from tokenmill.training.checkpoint import Checkpoint


@pytest.fixture(scope="module")
def want() -> dict[int, bytes]:
    return expected()


@pytest.fixture
def files(tmp_path):
    return write_files(tmp_path / "files")


KILLED = """
import sys, os, signal
import tokenmill.training.counting, tokenmill.training.checkpoint
import tokenmill.training.options
tokenmill.training.checkpoint.INTERVAL = 0
tokenmill.training.counting._BATCH_BYTES_MIN = 1000
tokenmill.training.options._MEMORY_MIN = 1
calls = 0
def progress(_):
    global calls
    calls += 1
    if calls == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
t = tokenmill.train(sys.argv[1] + "/files/*.txt", vocab_size=500, pattern="r50k", trainer="rustbpe",
    memory=48_000, resume=sys.argv[1] + "/journal", progress=progress)
t.save(sys.argv[1] + "/out.tokenmill")
"""


def test_killed_run_resumes_to_the_same_bytes(files, tmp_path, want):
    train(str(files / "*.txt")).save(tmp_path / "want.tokenmill")
    ends = []
    for call in (1, 2, 3, 5, 8, 13, 10**9):
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(call)]
        ends.append(subprocess.run(command, timeout=120, check=False).returncode)
    assert ends.count(-signal.SIGKILL) >= 4
    assert ends[-1] == 0
    assert (tmp_path / "out.tokenmill").read_bytes() == (tmp_path / "want.tokenmill").read_bytes()


def test_finished_run_is_not_repeated(files, tmp_path, monkeypatch, want):
    first = train(str(files / "*.txt"), resume=tmp_path / "journal")
    seen = []
    again = train(str(files / "*.txt"), resume=tmp_path / "journal", progress=seen.append)
    assert again == first
    assert tokens(again) == want
    assert not [p for p in seen if p.phase in ("counting", "merging")]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_merging_resumes_from_any_merge(files, tmp_path, share, want):
    folder = tmp_path / "journal"
    train(str(files / "*.txt"), resume=folder)
    state = Checkpoint.__new__(Checkpoint)
    state.folder = folder
    state._read_merges(folder / "merges.bin")
    state.record_merges(state.merges[: int(len(state.merges) * share)])
    assert tokens(train(str(files / "*.txt"), resume=folder, threads=2)) == want


def test_damaged_merges_raise_an_error(files, tmp_path):
    folder = tmp_path / "journal"
    train(str(files / "*.txt"), resume=folder)
    path = folder / "merges.bin"
    whole = path.read_bytes()
    rng = random.Random(SEED)
    for _ in range(max(5, examples(30))):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged[: rng.choice([len(whole), rng.randrange(len(whole))])])
        with raises(TrainingError, "merges.bin", "damaged", "delete it"):
            train(str(files / "*.txt"), resume=folder)


def test_folder_of_a_run_can_be_moved(files, tmp_path, want):
    train(str(files / "*.txt"), resume=tmp_path / "journal")
    (tmp_path / "journal" / "merges.bin").unlink()
    (tmp_path / "journal").rename(tmp_path / "moved")
    seen = []
    again = train(str(files / "*.txt"), resume=tmp_path / "moved", progress=seen.append)
    assert tokens(again) == want
    assert not [p for p in seen if p.phase == "counting"]


def test_resumed_run_must_have_the_same_options(files, tmp_path):
    folder = tmp_path / "journal"
    every = str(files / "*.txt")
    train(every, resume=folder)
    for name, value in (
        ("vocab_size", 400), ("trainer", "cs336"), ("pattern", "cl100k"),
        ("special_tokens", ["<s>"]),
        ("separator", "|"), ("min_frequency", 3), ("sample", 0.5), ("field", "body"),
        ("max_token_length", 9),
    ):  # fmt: skip
        with raises(TrainingError, "journal", f"{name}=", "another folder"):
            train(every, resume=folder, **{name: value})
    (files / "00.txt").write_text("changed")
    with raises(TrainingError, "the size of input", "00.txt", "changed from"):
        train(every, resume=folder)
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / ".manifest.json.x1y2").write_text("{")  # before it had its name
    assert train(every, resume=tmp_path / "killed").vocab_size == 500
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    with raises(TrainingError, "other", "not empty"):
        train(every, resume=tmp_path / "other")
    with raises(TrainingError, "texts", "remove resume"):
        train(TEXTS, resume=tmp_path / "third")
