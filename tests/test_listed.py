"""Plans, manifests and journals whose items stay in their files."""

import json
import sys
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmill import Tokenizer
from tokenmill.corpus.sources import Source
from tokenmill.errors import TokenizeError
from tokenmill.tokenizing import journal as journals
from tokenmill.tokenizing import listed, manifest, plan
from tokenmill.tokenizing.crew import Task, Waiting

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

import scaling

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def spelled(content: dict) -> bytes:
    return b"".join(listed.lines(content))


def read(data: bytes) -> dict:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return listed.read_kept(listed.Kept(file))


def plain(value):
    return list(value) if isinstance(value, listed.Items) else value


@given(st.dictionaries(st.text(), VALUES))
def test_a_file_is_json_and_gives_back_what_was_written(content):
    data = spelled(content)
    assert json.loads(data) == content
    found = read(data)
    assert {key: plain(value) for key, value in found.items()} == content
    for key, value in content.items():
        if isinstance(value, list) and value:
            assert isinstance(found[key], listed.Items)


@given(st.dictionaries(st.text(), VALUES), st.sampled_from([None, 0, 1, 4]))
def test_a_file_of_another_form_is_read_whole(content, indent):
    found = read(json.dumps(content, indent=indent).encode())
    assert {key: plain(value) for key, value in found.items()} == content


@given(st.dictionaries(st.text(max_size=3), VALUES, min_size=1), st.data())
def test_a_file_that_was_cut_or_changed_is_an_error_or_json(content, data):
    whole = spelled(content)
    cut = whole[: data.draw(st.integers(0, len(whole) - 2))]
    with pytest.raises(ValueError):
        read(cut)
    place = data.draw(st.integers(0, len(whole) - 1))
    sign = data.draw(st.sampled_from([b"", b",", b"\n", b"[", b"]", b"}", b"x"]))
    changed = whole[:place] + sign + whole[place + 1 :]
    try:
        expected = json.loads(changed)
    except ValueError:
        with pytest.raises(ValueError):
            read(changed)
    else:
        if isinstance(expected, dict):
            assert {key: plain(value) for key, value in read(changed).items()} == expected


def test_items_are_a_sequence():
    items = read(spelled({"a": range(5), "b": [[1], {"c": "é"}]}))
    assert list(items["a"]) == [0, 1, 2, 3, 4]
    assert items["a"][1:4:2] == [1, 3] and items["a"][-1] == 4
    assert items["b"][1] == {"c": "é"} and len(items["b"]) == 2
    for index in (5, -6):
        with pytest.raises(IndexError, match="there are 5"):
            items["a"][index]


def test_waiting_tasks_come_in_their_order_and_those_put_back_first():
    waiting = Waiting([4, 2, 9], of=3)
    assert waiting.pop() == Task(4, 3)
    waiting.put_back(Task(4, 3))
    assert len(waiting) == 3
    assert [waiting.pop().number for _ in range(3)] == [4, 2, 9]
    assert not waiting


# ── a run of units that take no time ─────────────────────────────────────────────────────────


def sources_of(units: int, files: int) -> list[Source]:
    size = scaling.UNIT_BYTES * (units // files)
    return [Source(f"/data/{n:06d}.txt", "text", None, size, n) for n in range(files)]


def simulate(folder: Path, sources: list[Source], monkeypatch) -> None:
    monkeypatch.setattr(journals.os, "fsync", lambda _: None)
    scaling.simulate(folder, sources, Tokenizer.load("gpt2"))


def test_a_manifest_says_of_sources_what_their_units_say(tmp_path, monkeypatch):
    simulate(tmp_path, sources_of(60, 20), monkeypatch)
    sealed = manifest.load(tmp_path)
    whole = json.loads((tmp_path / manifest.NAME).read_bytes())
    assert {key: plain(value) for key, value in sealed.items()} == whole
    assert [row["unit"] for row in whole["units"]] == list(range(60))
    assert whole["totals"]["documents"] == 60 * 100_000
    assert [source["documents"] for source in whole["sources"]] == [300_000] * 20
    assert [source["path"] for source in whole["sources"]] == [
        source.name for source in sources_of(60, 20)
    ]


def test_memory_of_the_driver_does_not_grow_with_the_units(tmp_path, monkeypatch):
    """One file of 500 units, and one of 2,500: what each unit more keeps is a few numbers."""
    peaks = []
    for units in (500, 2_500):
        folder = tmp_path / str(units)
        folder.mkdir()
        sources = sources_of(units, 1)
        tracemalloc.start()
        simulate(folder, sources, monkeypatch)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / 2_000 < 200


def test_a_plan_whose_units_are_not_in_order_is_damaged(tmp_path, monkeypatch):
    simulate(tmp_path, sources_of(3, 1), monkeypatch)
    path = tmp_path / plan.NAME
    whole = path.read_bytes()
    rows = json.loads(whole)["units"]
    assert [unit.id for unit in plan.load(tmp_path).units] == [row["id"] for row in rows]
    assert plan.load(tmp_path).units[1].segments[0].start == scaling.UNIT_BYTES
    for old, new in ((b'"unit": 1', b'"unit": 7'), (b"[[0, ", b"[[9, "), (b'"bytes": ', b'"b": ')):
        path.write_bytes(whole.replace(old, new))
        with pytest.raises(TokenizeError, match="is damaged"):
            plan.load(tmp_path)
