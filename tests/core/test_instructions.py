"""The gate for instruction counts passes equal builds and fails on each kind of defect."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))

import instructions  # noqa: E402

BASELINE: dict[str, Any] = {
    "setting": {"python": "3.11.7"},
    "module_bytes": 1_000_000,
    "cells": {
        "a": {"bytes": 100_000, "digest": "11", "instructions": 1_000_000},
        "b": {"bytes": 0, "digest": "22", "instructions": 1_000_000},
    },
}


def changed(cell: str, **fields: object) -> dict[str, Any]:
    report = copy.deepcopy(BASELINE)
    report["cells"][cell].update(fields)
    return report


@pytest.mark.parametrize("count", [1_000_000, 1_020_000, 500_000])
def test_gate_passes_up_to_two_percent_more(count: int) -> None:
    assert instructions.compare(BASELINE, changed("a", instructions=count)) == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"instructions": 1_020_100}, "a: +2.01% instructions"),
        ({"instructions": 0}, "a: 0 instructions, expected 100000"),
        ({"instructions": 99_999}, "a: 99999 instructions, expected 100000"),
        ({"digest": "12"}, "a: the result differs"),
        ({"bytes": 99_000}, "a: the text differs"),
    ],
)
def test_gate_fails_on_a_worse_or_wrong_cell(fields: dict[str, Any], problem: str) -> None:
    assert instructions.compare(BASELINE, changed("a", **fields)) == [problem]


def test_gate_fails_on_a_missing_cell() -> None:
    report = copy.deepcopy(BASELINE)
    del report["cells"]["b"]
    assert instructions.compare(BASELINE, report) == ["b: not measured"]
    assert instructions.compare(report, BASELINE) == ["b: not in the baseline"]
    empty = {**BASELINE, "cells": {}}
    assert "no cell was measured" in instructions.compare(empty, empty)


def test_gate_fails_on_an_empty_baseline_cell() -> None:
    wrong = changed("b", instructions=0)
    assert "b: 0 instructions, expected 10000" in instructions.compare(wrong, BASELINE)


def test_gate_fails_if_a_cold_pass_is_warm() -> None:
    cell = BASELINE["cells"]["a"]
    report = {**BASELINE, "cells": {"en cold": cell, "en warm": cell}}
    assert instructions.find_problems(report) == ["en cold: not more instructions than warm"]


def test_gate_fails_on_another_setting() -> None:
    other = {**BASELINE, "setting": {"python": "3.12.1"}}
    assert instructions.compare(BASELINE, other) == ["python: baseline 3.11.7, now 3.12.1"]


def test_cells_without_a_count_stop_the_measurement() -> None:
    with pytest.raises(SystemExit, match="cells without a count"):
        instructions.join_counts({"a": {"bytes": 1, "digest": "1"}}, {})
    assert instructions.read_total("events: Ir\nfn=main\n") == 0
    assert instructions.read_total("desc: x\ntotals: 42\n") == 42


def test_second_count_of_a_cell_is_kept_if_it_is_smaller_and_the_result_is_the_same() -> None:
    report = changed("a", instructions=1_030_000)
    assert instructions.grown(BASELINE, report) == ["a"]
    instructions.keep_smaller(report, changed("a", instructions=1_010_000, digest="99"))
    assert instructions.grown(BASELINE, report) == ["a"]
    instructions.keep_smaller(report, changed("a", instructions=1_010_000))
    assert instructions.compare(BASELINE, report) == []


def test_every_measurement_has_an_empty_folder_with_the_same_path(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(instructions.tempfile, "tempdir", str(tmp_path))
    with instructions.fixed_folder() as first:
        (first / "file").touch()
        (first / "folder").mkdir()
    assert not first.exists()
    first.mkdir()
    (first / "left by a run that was killed").touch()
    with instructions.fixed_folder() as second:
        assert second == first
        assert list(second.iterdir()) == []
