"""Ranks → one folder with the bytes of one run, for any division of the tasks."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import examples
from corpus_cases import command, contents, texts, write_jsonl
from in_process import run_main as run
from in_process import threaded_runs as threaded_runs

import tokenmill
from tokenmill import TokenmillError, tokenize
from tokenmill.tokenizing import executors
from tokenmill.tokenizing import run as runs

OPTIONS = {"task_bytes": 20_000, "threads": 1}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("inputs")
    return [write_jsonl(folder / f"{n}.jsonl", texts(400, n)) for n in range(5)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, inputs) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("out") / "whole"
    tokenize(inputs, out, "gpt2", **OPTIONS)
    return contents(out)


def arguments(inputs: list[Path], out: Path, rank: int, size: int) -> list[str | Path]:
    share = ["--rank", str(rank), "--world-size", str(size)]
    return [
        *("tokenize", *inputs, "--tokenizer", "gpt2", "--output", out),
        *("--task-bytes", "20000", "--threads", "1", *share),
    ]


def test_ranks_at_once_give_the_bytes_of_one_run(tmp_path, inputs, undisturbed):
    out = tmp_path / "out"
    ranks = [
        subprocess.Popen(command(*arguments(inputs, out, rank, 3)), stdout=subprocess.PIPE)
        for rank in (0, 1, 2, 1)  # one of them twice
    ]
    said = [rank.communicate(timeout=120)[0].decode() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * 4, said
    assert "tokenmill finalize" in said[0]
    done = run("finalize", out)
    assert done.returncode == 0, done.stderr
    assert contents(out) == undisturbed
    assert run("verify", out, "--sample", "100%").returncode == 0
    again = tokenize(inputs, out, "gpt2", rank=0, world_size=2, **OPTIONS)
    assert again.is_final and contents(out) == undisturbed


def test_ranks_that_die_are_started_again_as_others(tmp_path, inputs, undisturbed):
    out = tmp_path / "out"
    for rank in range(max(2, examples(4))):
        done = len(list(out.glob("journal/*.json")))
        dying = subprocess.Popen(
            command(*arguments(inputs, out, rank, 4)), stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while len(list(out.glob("journal/*.json"))) == done:
            assert dying.poll() is None and time.monotonic() < deadline
            time.sleep(0.002)
        dying.kill()
        assert dying.wait() == -signal.SIGKILL
    for rank in range(2):  # of another many
        result = tokenize(inputs, out, "gpt2", rank=rank, world_size=2, **OPTIONS)
        assert not result.is_final and result.is_complete
    result = tokenmill.finalize(out)
    assert result.documents == 2000 and contents(out) == undisturbed


def test_missing_tasks_are_named_and_a_plain_run_does_them(tmp_path, inputs, undisturbed):
    out = tmp_path / "out"
    first = tokenize(inputs, out, "gpt2", rank=0, world_size=3, **OPTIONS)
    assert 0 < first.tasks < first.tasks_total
    with pytest.raises(TokenmillError, match=r"tasks are not done \(1, 2, 4"):
        tokenmill.finalize(out)
    result = tokenize(inputs, out, "gpt2", **OPTIONS)
    assert result.tasks_resumed == first.tasks
    assert contents(out) == undisturbed


def test_shuffled_ranks_are_mixed_at_the_end(tmp_path, inputs):
    tokenize(inputs, tmp_path / "whole", "gpt2", shuffle=7, **OPTIONS)
    for rank in range(2):
        tokenize(inputs, tmp_path / "out", "gpt2", shuffle=7, rank=rank, world_size=2, **OPTIONS)
    tokenmill.finalize(tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_rank_with_other_options_is_refused(tmp_path, inputs):
    tokenize(inputs, tmp_path / "out", "gpt2", rank=0, world_size=2, **OPTIONS)
    with pytest.raises(TokenmillError, match="eos was 50256 and is None"):
        tokenize(inputs, tmp_path / "out", "gpt2", eos=None, rank=1, world_size=2, **OPTIONS)


def test_bad_records_of_a_rank_are_in_the_end_those_of_one_run(tmp_path):
    bad = [write_jsonl(tmp_path / f"{n}.jsonl", [*texts(50, n), None]) for n in range(4)]
    tokenize(bad, tmp_path / "whole", "gpt2", task_bytes=5000)
    ranks = [run(*arguments(bad, tmp_path / "out", rank, 2)) for rank in range(2)]
    assert [done.returncode for done in ranks] == [3, 3]
    assert all(f"see {tmp_path}/out/quarantine/" in done.stdout for done in ranks)
    done = run("finalize", tmp_path / "out")
    assert done.returncode == 3 and "4 records rejected" in done.stdout
    assert "finalized 3 tasks of earlier runs; manifest.json is written" in done.stdout
    assert "the output was complete already" in run("finalize", tmp_path / "out").stdout
    errors = [
        (tmp_path / name / "errors.jsonl").read_bytes().count(b"\n") for name in ("whole", "out")
    ]
    assert errors == [4, 4]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rank": 1}, "rank and world_size need each other"),
        ({"rank": 2, "world_size": 2}, "rank must be below world_size 2, got 2"),
        ({"rank": -1, "world_size": 2}, "rank must be a whole number of at least 0, got -1"),
        ({"rank": 0, "world_size": 0}, "world_size must be a whole number of at least 1, got 0"),
        ({"engine": "sun grid"}, "engine must be one of local, ray"),
    ],
)
def test_wrong_options_of_ranks_are_rejected_before_any_file_is_written(
    tmp_path, inputs, given, message
):
    with pytest.raises(TokenmillError, match=message):
        tokenize(inputs, tmp_path / "out", "gpt2", **given)
    assert not (tmp_path / "out").exists()


def test_finalize_needs_the_output_of_a_run(tmp_path):
    done = run("finalize", tmp_path)
    assert done.returncode == 2 and "it has no plan.json" in done.stderr
    done = run("finalize", tmp_path, "--format", "parquet")
    assert done.returncode == 2 and "--format" in done.stderr


def test_a_rank_that_is_refused_leaves_the_tokenizer_alone(tmp_path, inputs, monkeypatch):
    mine = tokenmill.train(inputs, vocab_size=300)
    other = tokenmill.train(inputs, vocab_size=290)
    tokenize(inputs, tmp_path / "whole", mine, eos=None, **OPTIONS)
    out = tmp_path / "out"
    share = {"eos": None, "world_size": 2, **OPTIONS}
    check = runs.find_wrong_field

    def late(*given):  # both ranks found no plan, and the first one writes it first
        monkeypatch.setattr(runs, "find_wrong_field", check)
        tokenize(inputs, out, mine, rank=0, **share)
        return check(*given)

    monkeypatch.setattr(runs, "find_wrong_field", late)
    with pytest.raises(TokenmillError, match="the tokenizer was"):
        tokenize(inputs, out, other, rank=1, **share)
    tokenize(inputs, out, mine, rank=1, **share)
    tokenmill.finalize(out)
    assert contents(out) == contents(tmp_path / "whole")


def test_a_tokenizer_that_is_not_the_plans_is_refused(tmp_path, inputs):
    mine = tokenmill.train(inputs, vocab_size=300)
    out = tmp_path / "out"
    tokenize(inputs, out, mine, eos=None, rank=0, world_size=2, **OPTIONS)
    tokenmill.train(inputs, vocab_size=290).save(out / "tokenizer.tokenmill")
    with pytest.raises(TokenmillError, match="differs from the plan"):
        tokenize(inputs, out, mine, eos=None, rank=1, world_size=2, **OPTIONS)


def test_a_shard_that_was_shuffled_from_fewer_tasks_is_rejected(tmp_path, inputs, monkeypatch):
    for rank in range(2):
        tokenize(inputs, tmp_path / "out", "gpt2", shuffle=7, rank=rank, world_size=2, **OPTIONS)
    read = executors.journal.read_entries

    def blind(*arguments, **more):
        found = read(*arguments, **more)
        del found.tasks[1]
        return found

    # Only the worker does not see it, as a machine whose file system is late.
    known = {"read_entries": blind, "write_entry": executors.journal.write_entry}
    monkeypatch.setattr(executors, "journal", SimpleNamespace(**known))
    with pytest.raises(TokenmillError, match="did not find all tasks"):
        tokenmill.finalize(tmp_path / "out")
    monkeypatch.undo()
    assert tokenmill.finalize(tmp_path / "out").documents == 2000
