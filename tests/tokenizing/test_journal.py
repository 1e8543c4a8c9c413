"""Damaged journals, plans and folders → tasks are repeated, or an error.

Tests of tokenizing/journal.py, tokenizing/output.py and tokenizing/plan.py.
"""

import json
import shutil

import pytest
from corpus_cases import contents, texts, write_jsonl
from in_process import threaded_runs as threaded_runs
from shard_files import replace_digested, write_digested

import tokenmill
from tokenmill import TokenmillError, tokenize
from tokenmill.tokenizing import plan
from tokenmill.tokenizing.journal import MANIFEST, failed_entry, is_valid
from tokenmill.tokenizing.output import open_output
from tokenmill.tokenizing.verify import verify

OPTIONS = {"task_bytes": 5000, "threads": 1}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    return [write_jsonl(folder / f"{n}.jsonl", texts(60, n)) for n in range(3)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, inputs):
    out = tmp_path_factory.mktemp("whole") / "out"
    tokenize(inputs, out, "gpt2", **OPTIONS)
    return contents(out)


@pytest.fixture
def begun(tmp_path, inputs):
    """A folder whose units are all done, and which is not sealed."""
    tokenize(inputs, tmp_path / "out", "gpt2", rank=0, world_size=1, **OPTIONS)
    return tmp_path / "out"


def spoil(row: dict, **changes) -> dict:
    return {key: value for key, value in (row | changes).items() if value is not ...}


@pytest.mark.parametrize(
    "changes",
    [
        {"documents": 10**30}, {"documents": -5}, {"tokens": True}, {"tokens": 1.5},
        {"task": True}, {"task": -1}, {"task": 10**9}, {"id": 7}, {"id": ...},
        {"segments": []}, {"segments": 3}, {"segments": [{"source": "other"}]}, {"segments": ...},
        {"shards": 5}, {"shards": [{"stem": "00000-000"}]}, {"shards": ...},
        {"shards": [{"stem": "../victim", "files": [{"suffix": "", "bytes": 3}]}]},
        {"shards": [{"stem": "00000-000", "files": [{"suffix": "/../victim", "bytes": 3}]}]},
        {"shuffle_files": None}, {"shuffle_files": [{"name": "../../victim", "bytes": 3}]},
    ],
    ids=str,
)  # fmt: skip
def test_an_entry_that_is_not_valid_is_done_again(begun, inputs, whole, changes):
    path = begun / "journal" / "00000.json"
    path.write_text(json.dumps(spoil(json.loads(path.read_text()), **changes)))
    result = tokenize(inputs, begun, "gpt2", **OPTIONS)
    assert result.tasks_resumed == result.tasks_total - 1
    assert contents(begun) == whole


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b"7", b"{}", b'{"shuffled": 0}', b"\xff", b'{"task"']
)
def test_a_file_that_is_not_an_entry_is_ignored(begun, inputs, whole, data):
    (begun / "journal" / "99999.json").write_bytes(data)
    result = tokenize(inputs, begun, "gpt2", **OPTIONS)
    assert result.tasks_resumed == result.tasks_total
    assert contents(begun) == whole


def test_temporary_file_of_a_killed_task_is_not_an_entry(begun, inputs, whole):
    entry = begun / "journal" / "00000.json"
    entry.rename(entry.with_name(".00000.json.k1ll3d"))
    result = tokenize(inputs, begun, "gpt2", **OPTIONS)
    assert result.tasks_resumed == result.tasks_total - 1
    assert contents(begun) == whole


def test_no_entry_removes_files_outside_of_the_output(tmp_path, inputs):
    out, victim = tmp_path / "out", tmp_path / "victim.bin"
    victim.write_bytes(b"abc")
    tokenize(inputs, out, "gpt2", shuffle=1, rank=0, world_size=1, **OPTIONS)
    shards = [{"stem": "../victim", "files": [{"suffix": ".bin", "bytes": 3}]}]
    entry = {"shuffled": 0, "of": 99, "tasks": "", "shards": shards}
    write_digested(out / "journal" / "shuffled-00000.json", entry)
    tokenmill.finalize(out)
    sealed = json.loads((out / MANIFEST).read_bytes())
    sealed["shuffled"] = [entry]
    write_digested(out / MANIFEST, sealed)
    tokenize(inputs, out, "gpt2", shuffle=1, **OPTIONS)
    assert victim.read_bytes() == b"abc"


def test_entry_of_a_failed_task_is_valid(begun):
    assert is_valid(failed_entry(plan.load(open_output(begun)).tasks[0], "no luck"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"bytes": ', '"bytes": -'), ('"bytes": ', f'"bytes": {10**23}'),
        ('"segments": [', '"segments": [' + "[" * 100_000), ('"task": 1}', '"task": 2}'),
        ('"tasks": [', '"tasks": {'), ('"sources": [', '"sources": [7,'),
        ('"eos": 50256', '"eos": "a"'), ('"dtype": "uint16"', '"dtype": "x"'),
        ('"allowed_special": false', '"allowed_special": 0'),
        ('"embedded": true', '"embedded": []'),
        ('"tokenizer": {', '"tokenizer": [], "other": {'),
    ],
    ids=[
        "negative", "huge", "deep", "order", "object", "source", "eos", "dtype", "allowed_special",
        "embedded", "tokenizer",
    ],
)  # fmt: skip
def test_a_damaged_plan_is_an_error(begun, inputs, old, new):
    path = begun / plan.NAME
    replace_digested(path, path.read_bytes(), old.encode(), new.encode())
    for go_on in (
        lambda: tokenize(inputs, begun, "gpt2", **OPTIONS),
        lambda: tokenmill.finalize(begun),
    ):
        with pytest.raises(TokenmillError, match=r"plan\.json is damaged"):
            go_on()


def test_plan_of_an_unfinished_run_in_another_form_is_refused_and_made_again(begun, inputs, whole):
    path = begun / plan.NAME
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=4))
    with pytest.raises(
        TokenmillError, match=r"plan\.json is damaged \(its digest differs\); delete"
    ):
        tokenize(inputs, begun, "gpt2", **OPTIONS)
    path.unlink()
    entries = {path: path.stat().st_mtime_ns for path in begun.glob("*.bin")}
    result = tokenize(inputs, begun, "gpt2", **OPTIONS)
    assert result.tasks_resumed == result.tasks_total == 10
    assert {path: path.stat().st_mtime_ns for path in begun.glob("*.bin")} == entries
    assert contents(begun) == whole


def test_manifest_in_another_form_is_refused_and_made_again(begun, inputs, whole):
    tokenmill.finalize(begun)
    path = begun / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_bytes())))
    with pytest.raises(
        TokenmillError, match=r"manifest\.json is damaged: its digest differs; delete"
    ):
        tokenize(inputs, begun, "gpt2", **OPTIONS)
    path.unlink()
    tokenize(inputs, begun, "gpt2", **OPTIONS)
    assert contents(begun) == whole


def test_a_removed_file_that_a_network_still_lists_is_ignored(tmp_path, inputs):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".nfs000000000000001f").touch()
    assert tokenize(inputs, tmp_path / "out", "gpt2", **OPTIONS).is_final


def test_finalizing_a_complete_folder_removes_unneeded_files(begun, whole):
    tokenmill.finalize(begun)
    (begun / "shuffle-tmp").mkdir()
    (begun / "shuffle-tmp" / "00000.ids").write_bytes(b"abcd")
    (begun / "journal").mkdir()
    shutil.copy(begun / MANIFEST, begun / "journal" / "00000.json")
    tokenmill.finalize(begun)
    assert contents(begun) == whole


def test_an_engine_that_is_not_there_leaves_no_folder(tmp_path, inputs):
    with pytest.raises(TokenmillError, match="ray"):
        tokenize(inputs, tmp_path / "out", "gpt2", engine="ray", **OPTIONS)
    assert not (tmp_path / "out").exists()


def test_a_manifest_of_noise_is_an_error_of_one_short_line(begun):
    tokenmill.finalize(begun)
    (begun / MANIFEST).write_bytes(bytes(range(256)) * 20)
    with pytest.raises(TokenmillError, match="is damaged") as found:
        tokenmill.finalize(begun)
    assert len(str(found.value)) < 500


def test_a_source_that_was_not_there_then_is_not_missed_now(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl", texts(20, 1))
    (folder / "b.jsonl").symlink_to(tmp_path / "nowhere")
    result = tokenize(folder, tmp_path / "out", "gpt2")
    assert [source["path"] for source in result.failures] == [str(folder / "b.jsonl")]
    verdict = verify(tmp_path / "out", sample=1.0)
    assert verdict.is_good and verdict.documents == 20, verdict.findings
    (folder / "a.jsonl").unlink()
    assert "a.jsonl: file not found" in verify(tmp_path / "out", sample=1.0).findings[0]


@pytest.mark.parametrize("output", ["s://foo/bar", "9p://x", "a b://c"])
def test_a_url_with_an_unknown_scheme_is_not_a_folder(tmp_path, inputs, output, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TokenmillError, match="must be a folder or a URL"):
        tokenize(inputs, output, "gpt2", **OPTIONS)
    assert not list(tmp_path.iterdir())


def test_a_complete_run_does_not_connect_to_a_cluster(begun, whole):
    assert tokenmill.finalize(begun, engine="ray", ray_address="127.0.0.1:1").is_final
    assert contents(begun) == whole
