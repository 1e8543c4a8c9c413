"""Journals, plans and folders that somebody has spoiled: done again, or said; never taken."""

import json
import shutil

import pytest
from corpus_cases import contents, texts, write_jsonl

import tokenmill
from tokenmill import TokenmillError, tokenize
from tokenmill.tokenizing import manifest, plan
from tokenmill.tokenizing.journal import Journal, failed_row
from tokenmill.tokenizing.rows import is_whole
from tokenmill.tokenizing.verify import verify

OPTIONS = {"unit_bytes": 5000, "workers": 1}


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
        {"unit": True}, {"unit": -1}, {"unit": 10**9}, {"id": 7}, {"id": ...},
        {"segments": []}, {"segments": 3}, {"segments": [{"source": "other"}]}, {"segments": ...},
        {"shards": 5}, {"shards": [{"stem": "00000-000"}]}, {"shards": ...},
        {"shards": [{"stem": "../victim", "files": [{"suffix": "", "bytes": 3}]}]},
        {"shards": [{"stem": "00000-000", "files": [{"suffix": "/../victim", "bytes": 3}]}]},
        {"pieces": None}, {"pieces": [{"name": "../../victim", "bytes": 3}]},
    ],
    ids=str,
)  # fmt: skip
def test_a_row_that_is_none_is_done_again(begun, inputs, whole, changes):
    [path] = begun.glob("rows.*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0] = spoil(rows[0], **changes)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = tokenize(inputs, begun, "gpt2", **OPTIONS)
    assert result.units_resumed == len(rows) - 1
    assert contents(begun) == whole


@pytest.mark.parametrize("line", [b"[" * 100_000, b"7", b"{}", b'{"mix": 0}', b"\xff", b'{"unit"'])
def test_a_line_that_is_no_row_is_passed_over(begun, inputs, whole, line):
    [path] = begun.glob("rows.*.jsonl")
    path.write_bytes(line + b"\n" + path.read_bytes())
    result = tokenize(inputs, begun, "gpt2", **OPTIONS)
    assert result.units_resumed == result.units_total
    assert contents(begun) == whole


def test_no_row_removes_what_lies_elsewhere(tmp_path, inputs):
    out, victim = tmp_path / "out", tmp_path / "victim.bin"
    victim.write_bytes(b"abc")
    tokenize(inputs, out, "gpt2", shuffle=1, rank=0, world_size=1, **OPTIONS)
    shards = [{"stem": "../victim", "files": [{"suffix": ".bin", "bytes": 3}]}]
    row = {"mix": 0, "of": 99, "units": "", "shards": shards}
    (out / "rows.x.jsonl").write_text(json.dumps(row) + "\n")
    tokenmill.finish(out)
    sealed = json.loads((out / manifest.NAME).read_bytes())
    sealed["mixes"] = [row]
    (out / manifest.NAME).write_text(json.dumps(sealed))
    tokenize(inputs, out, "gpt2", shuffle=1, **OPTIONS)
    assert victim.read_bytes() == b"abc"


def test_rows_of_a_failed_unit_are_whole(begun):
    assert is_whole(failed_row(plan.load(begun).units[0], "no luck"))


def test_a_journal_that_is_replaced_meanwhile_is_still_read(begun):
    """As it may be where the file system knows no locks."""
    planned = plan.load(begun)
    first = Journal(begun, planned)
    expected = dict(first.rows.units)
    lines = (begun / "rows.jsonl").read_bytes().splitlines(keepends=True)
    (begun / "new").write_bytes(b"".join(reversed(lines)))
    (begun / "new").replace(begun / "rows.jsonl")
    second = Journal(begun, planned)
    assert dict(first.rows.units) == dict(second.rows.units) == expected
    for number in (0, 2, 1):  # what is added is read, whatever was read before it
        first.add(expected[number])
        second.add(expected[number])
        assert dict(first.rows.units) == dict(second.rows.units) == expected
    for journal in (first, second):
        journal.close()


def test_a_row_of_another_rank_that_is_gone_is_said(begun):
    planned = plan.load(begun)
    rank = Journal(begun, planned, alone=False)
    [others] = [path for path in begun.glob("rows.*.jsonl") if path.stat().st_size]
    others.write_bytes(b"{}\n" * 1000)
    with pytest.raises(TokenmillError, match="row of unit 0 is no longer where it was"):
        rank.rows.units[0]
    rank.close()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"bytes": ', '"bytes": -'), ('"bytes": ', f'"bytes": {10**23}'),
        ('"segments": [', '"segments": [' + "[" * 100_000), ('"unit": 1}', '"unit": 2}'),
        ('"units": [', '"units": {'), ('"sources": [', '"sources": [7,'),
        ('"eos": 50256', '"eos": "a"'), ('"dtype": "uint16"', '"dtype": "x"'),
        ('"specials": false', '"specials": 0'), ('"embedded": true', '"embedded": []'),
        ('"tokenizer": {', '"tokenizer": [], "other": {'),
    ],
    ids=[
        "negative", "huge", "deep", "order", "object", "source", "eos", "dtype", "specials",
        "embedded", "tokenizer",
    ],
)  # fmt: skip
def test_a_plan_that_is_damaged_is_said(begun, inputs, old, new):
    path = begun / plan.NAME
    path.write_text(path.read_text().replace(old, new))
    for go_on in (
        lambda: tokenize(inputs, begun, "gpt2", **OPTIONS),
        lambda: tokenmill.finish(begun),
    ):
        with pytest.raises(TokenmillError, match=r"plan\.json is damaged"):
            go_on()


def test_a_plan_and_a_manifest_in_another_form_are_read(begun, inputs, whole):
    path = begun / plan.NAME
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=4))
    assert tokenize(inputs, begun, "gpt2", **OPTIONS).is_sealed
    path = begun / manifest.NAME
    path.write_text(json.dumps(json.loads(path.read_bytes())))
    (begun / "00000-000.bin").unlink()
    tokenize(inputs, begun, "gpt2", **OPTIONS)
    assert contents(begun) == whole | {plan.NAME: (begun / plan.NAME).read_bytes()}


def test_a_file_that_a_network_shows_after_it_is_removed_is_no_hindrance(tmp_path, inputs):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".nfs000000000000001f").touch()
    assert tokenize(inputs, tmp_path / "out", "gpt2", **OPTIONS).is_sealed


def test_finishing_a_sealed_folder_removes_what_it_needs_no_more(begun, whole):
    tokenmill.finish(begun)
    (begun / "pieces").mkdir()
    (begun / "pieces" / "00000.ids").write_bytes(b"abcd")
    shutil.copy(begun / manifest.NAME, begun / "rows.jsonl")
    tokenmill.finish(begun)
    assert contents(begun) == whole


def test_an_engine_that_is_not_there_leaves_no_folder(tmp_path, inputs):
    with pytest.raises(TokenmillError, match="ray"):
        tokenize(inputs, tmp_path / "out", "gpt2", engine="ray", **OPTIONS)
    assert not (tmp_path / "out").exists()


def test_a_manifest_of_noise_is_an_error_of_one_short_line(begun):
    tokenmill.finish(begun)
    (begun / manifest.NAME).write_bytes(bytes(range(256)) * 20)
    with pytest.raises(TokenmillError, match="is damaged") as found:
        tokenmill.finish(begun)
    assert len(str(found.value)) < 500


def test_a_source_that_was_not_there_then_is_not_missed_now(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl", texts(20, 1))
    (folder / "b.jsonl").symlink_to(tmp_path / "nowhere")
    result = tokenize(folder, tmp_path / "out", "gpt2")
    assert [source["path"] for source in result.failures] == [str(folder / "b.jsonl")]
    verdict = verify(tmp_path / "out", decode=1.0)
    assert verdict.is_good and verdict.documents == 20, verdict.findings
    (folder / "a.jsonl").unlink()
    assert "a.jsonl: it is not there" in verify(tmp_path / "out", decode=1.0).findings[0]


@pytest.mark.parametrize("output", ["s://foo/bar", "9p://x", "a b://c"])
def test_an_address_of_no_kind_is_no_folder(tmp_path, inputs, output, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TokenmillError, match="neither a folder nor an address"):
        tokenize(inputs, output, "gpt2", **OPTIONS)
    assert not list(tmp_path.iterdir())


def test_a_cluster_is_not_asked_when_there_is_nothing_to_do(begun, whole):
    assert tokenmill.finish(begun, engine="ray", ray_address="127.0.0.1:1").is_sealed
    assert contents(begun) == whole
