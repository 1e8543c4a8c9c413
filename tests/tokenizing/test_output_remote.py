"""Outputs in object storage → the objects equal the files of a folder, also after a stop.

Tests of tokenizing/output.py and tokenmill/object_store.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import fsspec
import pytest
from corpus_cases import contents, texts, write_jsonl
from fsspec.implementations.memory import MemoryFileSystem
from in_process import threaded_runs as threaded_runs

import tokenmill
from tokenmill import TokenmillError, object_store, tokenize, train_from_iterator
from tokenmill.cli import main
from tokenmill.errors import MissingExtraError
from tokenmill.tokenizing import executors, ray_executor
from tokenmill.tokenizing.executors import Order, Settings
from tokenmill.tokenizing.ray_executor import RayExecutor
from tokenmill.tokenizing.verify import verify

OPTIONS = {"task_bytes": 20_000, "threads": 2}


class Flaky(MemoryFileSystem):
    """A store that fails on demand."""

    protocol = "flaky"
    store: ClassVar[dict[str, object]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    calls: ClassVar[list[str]] = []
    failing: ClassVar[dict[str, list[Exception]]] = {}

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("flaky://"))

    def _note(self, path: str) -> None:
        name = path.rpartition("/")[2]
        self.calls.append(path.removeprefix("/out/"))
        if self.failing.get(name):
            raise self.failing[name].pop()

    def put_file(self, lpath, rpath, **more):
        self._note(rpath)
        super().put_file(lpath, rpath, **more)

    def pipe_file(self, path, value, **more):
        self._note(path)
        super().pipe_file(path, value, **more)


@pytest.fixture(autouse=True)
def store(monkeypatch) -> type[Flaky]:
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    monkeypatch.setattr(object_store, "_PAUSES_SECONDS", (0.0, 0.0, 0.0))
    monkeypatch.setattr(object_store, "_FLAT", object_store._FLAT | {"flaky"})
    for part in (Flaky.store, Flaky.calls, Flaky.failing, MemoryFileSystem.store):
        part.clear()
    return Flaky


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("inputs")
    return [write_jsonl(folder / f"{n}.jsonl", [*texts(200, n), None]) for n in range(4)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, inputs) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("out") / "whole"
    tokenize(inputs, out, "gpt2", **OPTIONS)
    return contents(out)


def objects(address: str) -> dict[str, bytes]:
    """Every object at a URL, by its relative name."""
    files, path = fsspec.core.url_to_fs(address)
    return {name[len(path) + 1 :]: files.cat_file(name) for name in files.find(path)}


def test_objects_are_the_files_of_a_folder(inputs, whole):
    seen = []
    result = tokenize(inputs, "memory://out", "gpt2", progress=seen.append, **OPTIONS)
    assert objects("memory://out") == whole
    assert (result.output, result.documents, result.quarantined) == ("memory://out", 800, 4)
    assert seen[-1].tasks == result.tasks_total > 4
    again = tokenize(inputs, "memory://out/", "gpt2", **OPTIONS)
    assert again.tasks_resumed == result.tasks_total and objects("memory://out") == whole


@pytest.mark.parametrize("options", [{"format": "mds"}, {"sequence_length": 64, "format": "npy"}])
def test_shard_formats_and_tokenizer_files_are_the_same_at_a_url(tmp_path, inputs, options):
    tokenizer = train_from_iterator(["abc abc the of and"], vocab_size=270)
    options |= {"pad_id": 0} if "sequence_length" in options else {}
    for out in (tmp_path / "out", "memory://out"):
        tokenize(inputs[:2], out, tokenizer, eos="none", **options, **OPTIONS)
    assert objects("memory://out") == contents(tmp_path / "out")


def test_inputs_and_output_may_be_urls(tmp_path, inputs):
    files = fsspec.filesystem("memory")
    for path in inputs:
        files.put_file(str(path), f"/in/{path.name}")
    result = tokenize("memory://in/*.jsonl", "memory://in/out", "gpt2", **OPTIONS)
    assert result.documents == 800
    again = tokenize("memory://in", "memory://in/out", "gpt2", **OPTIONS)
    assert again.tasks_resumed == again.tasks_total
    assert tokenize("memory://in", tmp_path / "out", "gpt2", **OPTIONS).documents == 800


def test_files_of_a_task_are_uploaded_before_its_journal_entry(store, inputs, whole):
    tokenize(inputs, "flaky://out", "gpt2", **OPTIONS)
    assert objects("flaky://out") == whole
    calls = store.calls
    assert calls[0] == "plan.json" and calls[-1] == "manifest.json"
    for row in json.loads(whole["manifest.json"])["tasks"]:
        of_row = calls.index(f"journal/{row['task']:05d}.json")
        stems = [(shard["stem"], shard["files"]) for shard in row["shards"]]
        names = [stem + file["suffix"] for stem, files in stems for file in files]
        assert names and all(calls.index(name) < of_row for name in names)


def test_transient_errors_are_retried_and_others_stop_the_run(store, inputs, whole):
    store.failing = {"00002-000.bin": [OSError(5, "busy")] * 3, "plan.json": [OSError(5, "busy")]}
    tokenize(inputs, "flaky://out", "gpt2", **OPTIONS)
    assert objects("flaky://out") == whole and store.calls.count("00002-000.bin") == 4
    store.store.clear()
    smallest = json.loads(whole["plan.json"])["tasks"]
    smallest = min(smallest, key=lambda task: task["bytes"])["task"]  # which is not done first
    store.failing = {f"{smallest:05d}-000.idx": [PermissionError("denied")]}
    message = rf"cannot write 'flaky://out/{smallest:05d}-000.idx' \(PermissionError: denied\)"
    with pytest.raises(TokenmillError, match=message):
        tokenize(inputs, "flaky://out", "gpt2", task_bytes=20_000, threads=1)
    left = objects("flaky://out")
    done = {name for name in left if name.startswith("journal/")}
    assert done and f"journal/{smallest:05d}.json" not in done and "manifest.json" not in left
    result = tokenize(inputs, "flaky://out", "gpt2", **OPTIONS)
    assert result.tasks_resumed == len(done) and objects("flaky://out") == whole


@pytest.mark.parametrize("gone", ["00001-000.bin", "journal/00001.json"])
def test_missing_objects_are_made_again(store, inputs, whole, gone):
    store.failing = {"manifest.json": [PermissionError("denied")]}
    with pytest.raises(TokenmillError, match="denied"):
        tokenize(inputs, "flaky://out", "gpt2", **OPTIONS)
    fsspec.filesystem("flaky").rm(f"/out/{gone}")
    result = tokenize(inputs, "flaky://out", "gpt2", **OPTIONS)
    assert result.tasks_resumed == result.tasks_total - 1
    assert objects("flaky://out") == whole


def test_missing_file_of_a_complete_output_is_made_again(store, inputs, whole):
    tokenize(inputs, "flaky://out", "gpt2", **OPTIONS)
    files = fsspec.filesystem("flaky")
    files.rm("/out/00001-000.bin")
    files.pipe_file("/out/journal/00000.json", b"{")  # as after a kill between manifest and cleanup
    store.failing = {"manifest.json": [PermissionError("denied")]}
    with pytest.raises(TokenmillError, match="denied"):
        tokenize(inputs, "flaky://out", "gpt2", **OPTIONS)
    result = tokenize(inputs, "flaky://out", "gpt2", **OPTIONS)
    assert result.tasks_resumed == result.tasks_total and objects("flaky://out") == whole


def test_ranks_share_only_the_url(inputs, whole):
    for rank in (1, 2, 1):
        result = tokenize(inputs, "memory://out", "gpt2", rank=rank, world_size=3, **OPTIONS)
        assert not result.is_final
    with pytest.raises(TokenmillError, match=r"tasks are not done \(0, 3"):
        tokenmill.finalize("memory://out")
    tokenize(inputs, "memory://out", "gpt2", rank=0, world_size=3, **OPTIONS)
    assert tokenmill.finalize("memory://out").documents == 800
    assert objects("memory://out") == whole
    assert tokenmill.finalize("memory://out").is_final
    with pytest.raises(TokenmillError, match=r"'memory://none' is not an output of tokenize"):
        tokenmill.finalize("memory://none")


def test_a_task_of_a_cluster_has_its_own_staging_directory(tmp_path, inputs):
    tokenizer = train_from_iterator(["abc abc the of and"], vocab_size=270)
    tokenize(inputs, tmp_path / "out", tokenizer, eos="none", **OPTIONS)
    more = {"rank": 1, "world_size": 2} | OPTIONS
    total = tokenize(inputs, "memory://out", tokenizer, eos="none", **more).tasks_total
    common = RayExecutor(Settings("memory://out", 1, 1 << 30), None).order
    for number in range(0, total, 2):
        *_, message = ray_executor.do_remotely(common, Order(number))
        assert message["entry"]["task"] == number
    tokenmill.finalize("memory://out")
    assert objects("memory://out") == contents(tmp_path / "out")
    settings = Settings("memory://none", 1, 1 << 30)
    (gone,) = ray_executor.do_remotely(common | {"run": "", "settings": settings}, Order(0))
    assert "memory://none/plan.json not found" in gone["stop"]


def test_a_failed_task_is_repeated(monkeypatch, inputs, whole):
    def ill(job, unit, **more):
        raise RuntimeError("ill")

    with monkeypatch.context() as patch:
        patch.setattr(executors, "run_task", ill)
        tokenize(inputs, "memory://out", "gpt2", rank=0, world_size=2, **OPTIONS)
    tokenize(inputs, "memory://out", "gpt2", rank=1, world_size=2, **OPTIONS)
    result = tokenmill.finalize("memory://out")
    assert "ill" in result.failures[0]["error"] and not result.is_complete
    result = tokenize(inputs, "memory://out", "gpt2", **OPTIONS)
    assert result.tasks_resumed and objects("memory://out") == whole


def test_objects_at_a_url_are_read(inputs, tmp_path, capsys):
    tokenize(inputs, "memory://out", "gpt2", **OPTIONS)
    tokenize(inputs, tmp_path / "out", "gpt2", **OPTIONS)
    opened = [tokenmill.shards.open(where) for where in ("memory://out", tmp_path / "out")]
    assert len(opened[0]) == 800
    assert all((one == other).all() for one, other in zip(*opened, strict=True))
    assert verify("memory://out", sample=1.0).is_good
    assert main(["inspect", "memory://out", "--json"]) in (0, None)
    assert json.loads(capsys.readouterr().out)["output"] == "memory://out"
    files = fsspec.filesystem("memory")
    files.pipe_file("/out/00001-000.bin", b"x")
    assert verify("memory://out").findings[0].startswith("00001-000.bin has 1 bytes; expected")
    files.rm("/out/manifest.json")
    with pytest.raises(TokenmillError, match=r"memory://out has no manifest\.json"):
        tokenmill.shards.open("memory://out")
    with pytest.raises(TokenmillError, match="'memory://out' is not complete"):
        verify("memory://out")


PIPED = """
import os, sys, tokenmill
from tokenmill import TokenmillError, tokenize

def piped(**more):
    os.dup2(os.open(sys.argv[1], os.O_RDONLY), 0)
    sys.stdin = os.fdopen(0, closefd=False)
    options = {"input_format": "jsonl", "task_bytes": 20_000, "threads": 1}
    return tokenize("-", "memory://out", "gpt2", **options, **more)

try:
    piped(max_errors=1)
except TokenmillError as error:
    assert "--max-errors" in str(error), error
result = piped()
print(result.documents, 0 < result.tasks_resumed < result.tasks_total)
"""


def test_a_run_from_a_pipe_resumes_with_the_same_pipe(tmp_path, inputs):
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(path.read_bytes() for path in inputs))
    done = subprocess.run(
        [sys.executable, "-c", PIPED, str(path)], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "800 True\n", done.stderr


def test_folder_that_appears_during_a_listing_is_listed_again(store, monkeypatch):
    """s3fs gives the folder itself if another process writes the first object meanwhile."""
    store().pipe_file("/out/plan.json", b"{}")
    find = Flaky.find
    folder = {"/out": {"name": "/out", "size": 0, "type": "directory"}}
    answers = [folder]
    monkeypatch.setattr(
        Flaky,
        "find",
        lambda self, path, **more: answers.pop() if answers else find(self, path, **more),
    )
    assert object_store.ObjectStore("flaky://out").sizes() == {"plan.json": 2}
    answers += [folder, folder]
    assert object_store.ObjectStore("flaky://out").sizes() == {}
    assert not answers


def test_a_plan_of_something_else_is_named(inputs):
    tokenize(inputs, "memory://out", "gpt2", **OPTIONS)
    with pytest.raises(TokenmillError, match=r"'memory://out', because the run has changed: eos"):
        tokenize(inputs, "memory://out", "gpt2", eos="none", **OPTIONS)
    fsspec.filesystem("memory").pipe_file("/out/plan.json", b"{")
    with pytest.raises(TokenmillError, match=r"memory://out/plan\.json is damaged"):
        tokenize(inputs, "memory://out", "gpt2", **OPTIONS)
    fsspec.filesystem("memory").pipe_file("/other/a.txt", b"x")
    with pytest.raises(TokenmillError, match=r"'memory://other' has other files, such as 'a\.txt'"):
        tokenize(inputs, "memory://other", "gpt2", **OPTIONS)
    with pytest.raises(TokenmillError, match="is a file; pass a folder"):
        tokenize(inputs, "memory://other/a.txt", "gpt2", **OPTIONS)


@pytest.mark.parametrize(
    ("output", "given", "message"),
    [
        ("memory://out", {"shuffle": 1}, "--shuffle cannot write to .* tokenize into a folder"),
        ("memory://out", {"engine": "ray"}, "memory:// is visible to one process"),
        (
            Path("s3://bucket/out"),
            {},
            "looks like a URL that pathlib has changed",
        ),
        ("s3://bucket/o*t", {}, "must be one URL"),
        ("nosuch://bucket/out", {}, "is not supported by fsspec"),
    ],
)
def test_impossible_outputs_are_rejected(inputs, output, given, message):
    with pytest.raises(TokenmillError, match=message):
        tokenize(inputs, output, "gpt2", **given)


def test_a_missing_package_is_named(inputs):
    with pytest.raises(MissingExtraError, match="pip install gcsfs"):
        tokenize(inputs, "gs://bucket/out", "gpt2")


def test_a_file_url_is_a_folder(tmp_path, inputs, whole):
    result = tokenize(inputs, f"file://{tmp_path}/out", "gpt2", **OPTIONS)
    assert result.output == tmp_path / "out" and contents(tmp_path / "out") == whole
