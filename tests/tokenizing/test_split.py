"""`tokenize --split` → one complete output per set, with the documents that their hashes choose.

Tests of tokenizing/split.py, and of the other modules with such a run.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from corpus_cases import contents, run, texts, write_jsonl
from fsspec.implementations.memory import MemoryFileSystem
from in_process import run_main
from in_process import threaded_runs as threaded_runs

import tokenmill
from tokenmill import Tokenizer, TokenmillError, merge_shards, tokenize, verify
from tokenmill._native import Checksum
from tokenmill.corpus.documents import Documents
from tokenmill.errors import ShardError
from tokenmill.object_store import ObjectStore
from tokenmill.shards import FORMATS
from tokenmill.tokenizing import executors
from tokenmill.tokenizing import run as runs
from tokenmill.tokenizing.split import Splitter, check_split, parse_split, sets_of
from tokenmill.tokenizing.task import run_task

SPLIT = {"val": 0.1, "test": 0.05}
OPTIONS = {"task_bytes": 9_000, "shard_tokens": 2_500, "threads": 2, "split": SPLIT}
MODES = {
    "plain": {},
    "packed": {"sequence_length": 32},
    "shuffled": {"shuffle": 7},
    "both": {"sequence_length": 32, "shuffle": 7},
}


@pytest.fixture(scope="module")
def gpt2() -> Tokenizer:
    return Tokenizer.load("gpt2")


@pytest.fixture(scope="module")
def documents() -> list[list[str]]:
    """The documents of three files. Some are in two files."""
    return [[*texts(150, number), *texts(30, 9)] for number in range(3)]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory, documents) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    for number, some in enumerate(documents):
        write_jsonl(folder / f"{number}.jsonl", [*some, None])
    return folder


def set_of(text: bytes) -> str:
    """The set of a document: the first 5 % of the hashes are test, the next 10 % are val."""
    checksum = Checksum()
    checksum.update(text[: 32 << 10])
    part = checksum.value() / 2**64
    return "test" if part < 0.05 else "val" if part < 0.15 else "train"


def ids_of(folder: Path) -> list[list[int]]:
    """The ids of all documents, before packing."""
    with tokenmill.shards.open(folder) as shards:
        count = sum(shard.documents for shard in shards.shards)
        return [shards.original(number).tolist() for number in range(count)]


@pytest.mark.parametrize("mode", MODES)
def test_each_document_is_in_the_set_of_its_hash(tmp_path, gpt2, inputs, documents, mode):
    result = tokenize(inputs, tmp_path / "out", gpt2, **OPTIONS, **MODES[mode])
    whole = [text for some in documents for text in some]
    assert result.documents == len(whole)
    for name in ("train", "val", "test"):
        chosen = [text for text in whole if set_of(text.encode()) == name]
        expected = [[*ids, 50256] for ids in gpt2.encode_batch(chosen)]
        found = ids_of(tmp_path / "out" / name)
        assert expected and (found == expected or "shuffle" in MODES[mode])
        assert sorted(found) == sorted(expected)
        assert result.sets[name]["documents"] == len(expected)
        assert result.sets[name]["tokens"] == sum(map(len, expected))
    for count in ("documents", "tokens", "bytes", "quarantined", "shards"):
        assert sum(totals[count] for totals in result.sets.values()) == getattr(result, count)
    assert not any(path.is_dir() for path in (tmp_path / "out" / "val").iterdir())


@pytest.mark.parametrize("shard_format", FORMATS)
def test_each_set_is_a_complete_output(tmp_path, gpt2, inputs, shard_format):
    out = tmp_path / "out"
    tokenize(inputs, out, gpt2, format=shard_format, **OPTIONS)
    assert verify(out, sample=1.0).is_good
    for name in sets_of(OPTIONS):
        found = verify(out / name, sample=1.0)
        with tokenmill.shards.open(out / name) as shards:
            assert found.is_good and found.documents == len(shards) > 0
        assert tokenmill.inspect(out / name).manifest["options"]["set"] == name
    merged = merge_shards(out / "train", tmp_path / "merged")
    assert merged["shards"] == 1 and ids_of(tmp_path / "merged") == ids_of(out / "train")
    assert verify(tmp_path / "merged", sample=1.0).is_good


@pytest.mark.parametrize("mode", MODES)
def test_threads_blocks_and_ranks_do_not_change_a_byte(tmp_path, gpt2, inputs, mode, monkeypatch):
    options = OPTIONS | MODES[mode]
    tokenize(inputs, tmp_path / "out", gpt2, **options)
    expected = contents(tmp_path / "out")
    for rank in (1, 2, 0):
        tokenize(inputs, tmp_path / "ranks", gpt2, rank=rank, world_size=3, **options)
    assert tokenmill.finalize(tmp_path / "ranks").sets["val"]["documents"] > 0
    assert contents(tmp_path / "ranks") == expected
    monkeypatch.setattr(executors, "block_bytes_of", lambda *_: 1 << 16)
    tokenize(inputs, tmp_path / "one", gpt2, **options | {"threads": 1})
    assert contents(tmp_path / "one") == expected


def test_processes_give_the_bytes_of_threads(tmp_path, inputs):
    arguments = ["--tokenizer", "gpt2", "--task-bytes", "9000", "--shard-tokens", "2500"]
    split = ["--split", "val=10%", "--split", "test=0.05"]
    done = run("tokenize", inputs, "--output", tmp_path / "a", *arguments, *split)
    assert done.returncode == 3, done.stderr
    assert f"{tmp_path}/a/test: " in done.stdout and "rejected" in done.stdout
    tokenize(inputs, tmp_path / "b", "gpt2", **OPTIONS)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


@pytest.mark.parametrize("mode", ["plain", "shuffled"])
def test_a_run_that_stops_between_two_commits_resumes(tmp_path, gpt2, inputs, mode, monkeypatch):
    options = {**OPTIONS, **MODES[mode], "task_bytes": 40_000, "shard_tokens": 9_000, "threads": 1}
    expected = tmp_path / "expected"
    tokenize(inputs, expected, gpt2, **options)
    output = runs.LocalOutput
    commit, write = output.commit, output.write
    left = 0

    def stop_before(act):
        def stopping(*given):
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError("stopped")
            act(*given)

        return stopping

    monkeypatch.setattr(output, "commit", stop_before(commit))
    monkeypatch.setattr(output, "write", stop_before(write))
    for steps in range(0, 100, 5):
        left = steps
        out = tmp_path / f"out{steps}"
        try:
            tokenize(inputs, out, gpt2, **options)
            break
        except OSError:
            assert not (out / "manifest.json").exists()
        left = 1000
        tokenize(inputs, out, gpt2, **options)
        assert contents(out) == contents(expected)
        shutil.rmtree(out)
    assert steps > 10


@pytest.mark.parametrize("mode", ["plain", "shuffled"])
def test_a_task_that_failed_is_tried_again(tmp_path, gpt2, inputs, mode, monkeypatch):
    options = OPTIONS | MODES[mode]
    tokenize(inputs, tmp_path / "whole", gpt2, **options)

    def ill(job, which, **more):
        if any("0.jsonl" in segment.source.name for segment in which.segments):
            raise RuntimeError("ill")
        return run_task(job, which, **more)

    with monkeypatch.context() as patch:
        patch.setattr(executors, "run_task", ill)
        result = tokenize(inputs, tmp_path / "out", gpt2, **options)
    assert [Path(each["path"]).name for each in result.failures] == ["0.jsonl"]
    assert result.sets["val"]["quarantined"] == 0 < result.sets["train"]["quarantined"]
    assert verify(tmp_path / "out", sample=1.0).is_good
    tokenize(inputs, tmp_path / "out", gpt2, **options)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_set_with_a_damaged_file_is_restored(tmp_path, gpt2, inputs):
    out = tmp_path / "out"
    tokenize(inputs, out, gpt2, **OPTIONS)
    before = contents(out)
    gone, cut = min((out / "val").glob("*.bin")), min((out / "test").glob("*.idx"))
    gone.unlink()
    cut.write_bytes(b"")
    found = verify(out)
    assert found.files_wrong == 2
    names = [finding.split()[0].rstrip(":") for finding in found.findings]
    assert names == [f"test/{cut.name}", f"val/{gone.name}"]
    assert tokenize(inputs, out, gpt2, **OPTIONS).tasks_resumed > 0
    assert contents(out) == before and verify(out, sample=0.5).is_good


def test_verify_finds_a_document_of_a_set_that_differs(tmp_path, gpt2):
    some = texts(400)
    path = write_jsonl(tmp_path / "in.jsonl", some)
    tokenize(path, tmp_path / "out", gpt2, **OPTIONS)
    index = next(
        index
        for index, text in enumerate(some)
        if set_of(text.encode()) == "val" and text.isascii() and text.isprintable() and text
    )
    others = (f"{number:0{len(some[index])}}" for number in range(1000))
    some[index] = next(text for text in others if set_of(text.encode()) == "val")
    write_jsonl(path, some)
    found = verify(tmp_path / "out", sample=1.0).findings
    differing = [finding for finding in found if "differs from the shards" in finding]
    assert len(differing) == 1 and differing[0].startswith("val/")


def test_records_are_rejected_once_and_sets_may_lack_an_input(tmp_path, gpt2, inputs):
    folder = tmp_path / "in"
    shutil.copytree(inputs, folder)
    (folder / "empty.jsonl").write_text("")
    (folder / "short.jsonl").write_text('{"text": "grain"}\n')
    (folder / "wrong.jsonl").write_text('{"body": "grain"}\n')
    result = tokenize(folder, tmp_path / "out", gpt2, **OPTIONS)
    lines = (tmp_path / "out" / "errors.jsonl").read_text().splitlines()
    reasons = [json.loads(line)["reason"] for line in lines]
    assert len(reasons) == result.quarantined == result.sets["train"]["quarantined"] == 5
    failed = {Path(each["path"]).name: each["error"] for each in result.failures}
    assert failed.keys() == {"empty.jsonl", "wrong.jsonl"}
    assert result.sets["val"]["quarantined"] == 0
    manifest = json.loads((tmp_path / "out" / "val" / "manifest.json").read_text())
    assert not any("error" in source for source in manifest["sources"])
    assert not (tmp_path / "out" / "train" / "errors.jsonl").exists()


def test_a_long_document_is_in_one_set_for_any_size_of_blocks(tmp_path, gpt2, monkeypatch):
    path = tmp_path / "in.txt"
    path.write_text("\0".join(f"{number} " + "grain in " * 40_000 for number in range(8)))
    options = {"split": {"val": 0.4}, "separator": "\0"}
    found = []
    for size in (1 << 16, 100_000, 1 << 22):
        monkeypatch.setattr(executors, "block_bytes_of", lambda *_, size=size: size)
        tokenize(path, tmp_path / str(size), gpt2, **options)
        found.append(contents(tmp_path / str(size)))
        assert verify(tmp_path / str(size), sample=1.0).is_good
    assert found[0] == found[1] == found[2]
    assert all(len(ids_of(tmp_path / "65536" / name)) > 0 for name in ("train", "val"))


def test_the_sets_do_not_depend_on_tokenizer_or_names(tmp_path, inputs):
    copy = tmp_path / "renamed"
    copy.mkdir()
    for number in range(3):
        shutil.copyfile(inputs / f"{number}.jsonl", copy / f"{2 - number}.json")
    texts_of = []
    for source, name in ((inputs, "gpt2"), (copy, "cl100k_base")):
        tokenize(source, tmp_path / name, name, eos=None, **OPTIONS)
        decode = Tokenizer.load(name).decode
        texts_of.append(sorted(map(decode, ids_of(tmp_path / name / "val"))))
    assert texts_of[0] == texts_of[1]


def test_each_set_has_the_tokenizer_of_its_run(tmp_path, inputs, documents):
    trained = tokenmill.train_from_iterator(documents[0], 300, threads=1)
    tokenize(inputs, tmp_path / "out", trained, eos=None, **OPTIONS)
    (tmp_path / "out" / "val").rename(tmp_path / "moved")
    assert verify(tmp_path / "moved", sample=1.0).is_good
    assert tokenmill.inspect(tmp_path / "moved").tokenizer == trained


def test_a_larger_share_keeps_the_documents_of_a_smaller_one(tmp_path, gpt2, inputs):
    found = []
    for part in (0.02, 0.2):
        out = tmp_path / str(part)
        tokenize(inputs, out, gpt2, **OPTIONS | {"split": {"val": part}})
        found.append({tuple(ids) for ids in ids_of(out / "val")})
    assert found[0] < found[1]


def test_sets_in_an_object_store_equal_those_in_a_folder(tmp_path, gpt2, inputs):
    MemoryFileSystem.store.clear()
    tokenize(inputs, tmp_path / "out", gpt2, **OPTIONS)
    tokenize(inputs, "memory://sets", gpt2, **OPTIONS)
    stored = {
        name.removeprefix("/sets/"): file.getvalue()
        for name, file in MemoryFileSystem.store.items()
    }
    assert stored == contents(tmp_path / "out")
    with tokenmill.shards.open("memory://sets/val") as shards:
        assert np.array_equal(shards[0], tokenmill.shards.open(tmp_path / "out" / "val")[0])
    del MemoryFileSystem.store["/sets/val/00000-000.bin"]
    with pytest.raises(ShardError, match=r"^memory://sets/val/00000-000\.bin is missing"):
        tokenmill.shards.open("memory://sets/val")


def test_the_address_of_all_sets_is_refused_before_files_are_copied(gpt2, inputs, monkeypatch):
    MemoryFileSystem.store.clear()
    tokenize(inputs, "memory://sets", gpt2, **OPTIONS)
    monkeypatch.delattr(ObjectStore, "fetch_all")
    with pytest.raises(ShardError, match=r"^memory://sets has the sets .* memory://sets/test$"):
        tokenmill.shards.open("memory://sets")


def test_the_folder_of_all_sets_is_not_one_of_shards(tmp_path, gpt2, inputs):
    out = tmp_path / "out"
    tokenize(inputs, out, gpt2, **OPTIONS)
    for act in (tokenmill.shards.open, tokenmill.inspect):
        with pytest.raises(ShardError, match=f"has the sets test, train, val; .* {out}/test"):
            act(out)
    with pytest.raises(TokenmillError, match="set was 'val' and is None"):
        tokenize(inputs, out / "val", gpt2, **OPTIONS)
    with pytest.raises(TokenmillError, match=r"split was .* and is {'val': 0\.2}"):
        tokenize(inputs, out, gpt2, **OPTIONS | {"split": {"val": 0.2}})
    with pytest.raises(TokenmillError, match=r"split was .* and is None"):
        tokenize(inputs, out, gpt2, **OPTIONS | {"split": None})


@pytest.mark.parametrize(
    "split, expected",
    [
        ({"train": 0.5}, "except train"),
        ({"journal": 0.5}, "different names"),
        ({"a/b": 0.5}, "different names"),
        ({"val": 0.6, "test": 0.4}, "a sum below 1"),
        ({"val": 0.0}, "above 0"),
        ({"val": 2}, "above 0"),
        ({}, "names and shares"),
        ("val=1%", "names and shares"),
        ([("val", 0.1), ("val", 0.2)], "different names"),
    ],
)
def test_wrong_shares_are_refused(tmp_path, gpt2, inputs, split, expected):
    with pytest.raises(TokenmillError, match=f"split must be .*{expected}"):
        tokenize(inputs, tmp_path / "out", gpt2, split=split)


def test_shares_on_the_command_line(tmp_path, inputs):
    assert check_split([parse_split("val=0.5%"), parse_split("a=0.25")]) == {
        "a": 0.25,
        "val": 0.005,
    }
    common = ("tokenize", inputs, "--tokenizer", "gpt2", "--output", tmp_path / "out")
    for word in ("val", "val=", "=5%", "val=x"):
        done = run_main(*common, "--split", word)
        assert done.returncode == 2 and "--split" in done.stderr, word
    done = run_main(*common, "--split", "val=5%", "--split", "val=6%")
    assert done.returncode == 2 and "different names" in done.stderr
    done = run_main(*common, "--split", "val=5%", "--json")
    assert json.loads(done.stdout)["sets"].keys() == {"val", "train"}


def test_parts_of_a_document_are_in_the_set_of_its_start():
    splitter = Splitter({"val": 0.5})
    text = b"grain " * 20_000
    spans = np.array([[0, 5], [5, len(text)]])
    first = splitter.divide(Documents(text, spans, goes_on=True, names=["a", "b"]))
    number = next(number for number, part in enumerate(first) if part.goes_on)
    assert first[number].names[-1] == "b" and not first[1 - number].goes_on
    for is_last in (False, True):
        parts = splitter.divide(Documents(b"x" * 10, np.array([[0, 10]]), goes_on=not is_last))
        assert [len(part.spans) for part in parts] == [number == 0, number == 1]
    assert splitter.divide(Documents())[0].goes_on is False
