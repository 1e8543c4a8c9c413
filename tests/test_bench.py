"""The benchmarks stay alive: a tiny sweep runs, checks ids before speeds, renders and judges."""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import goal_tables  # noqa: E402
import goals  # noqa: E402
from jobs import Cell  # noqa: E402


def row(system, job, metric, samples, corpus="en", threads=1):
    cell = asdict(Cell("o200k_base", job, corpus, threads))
    return {"system": system, "status": "ok", "metrics": {metric: {"samples": samples}}} | cell


def judged(rows, title, corpus="en"):
    return next(
        o
        for o in goals.judge(rows)
        if (o["goal"], o["vocabulary"], o["corpus"]) == (title, "o200k_base", corpus)
    )


def test_quick_sweep_checks_ids_and_renders_a_table(tmp_path):
    results = tmp_path / "quick.json"
    sweep = [sys.executable, str(ROOT / "bench" / "sweep.py"), "--quick", "--out", str(results)]
    sweep += ["--jobs", "load,array,latency", "--systems", "tokenmill,tiktoken,read_only"]
    subprocess.run(sweep, check=True, capture_output=True, timeout=300)
    found = json.loads(results.read_text())
    assert found["complete"]
    assert {check["system"]: check["verdict"] for check in found["checks"]} == {
        "tokenmill": "ok",
        "tiktoken": "ok",
    }
    speeds = [row["metrics"] for row in found["rows"] if row["status"] == "ok"]
    assert len(speeds) == len(found["rows"]) == 9
    assert all(metric["median"] >= 0 for row in speeds for metric in row.values())
    readme = tmp_path / "README.md"
    readme.write_text("before\n<!-- bench:start -->\nold\n<!-- bench:end -->\nafter\n")
    render = [sys.executable, str(ROOT / "bench" / "render.py"), "--results", str(results)]
    log = tmp_path / "performance.md"
    log.write_text("<!-- goals:start -->\n<!-- goals:end -->\n")
    render += ["--readme", str(readme), "--log", str(log)]
    subprocess.run(render, check=True, capture_output=True)
    assert "of 135; 134 have no figure" in log.read_text()  # the load needs no peer
    assert "not measured" in results.with_suffix(".md").read_text()
    rendered = readme.read_text()
    assert "tiktoken" in rendered
    assert "old" not in rendered
    assert rendered.startswith("before\n")
    assert rendered.endswith("after\n")


def test_goal_is_judged_by_the_median_of_the_ratios_of_the_rounds():
    ours = row("tokenmill", "array", "cold_mb_s", [300.0, 50.0, 250.0])
    theirs = row("gigatoken", "array", "cold_mb_s", [100.0, 10.0, 125.0, 1.0])
    found = judged([ours, theirs], "text → array, first pass")
    assert (found["value"], found["low"], found["high"]) == (3.0, 2.0, 5.0)
    assert found["met"]
    assert not judged([theirs | {"system": "tokenmill"}, theirs], "text → array, first pass")["met"]


def test_goal_that_asks_for_less_is_met_below_its_bar():
    theirs = row("gigatoken", "latency", "array_ns_20", [400.0], "mix")
    for nanoseconds, met in ((200.0, True), (201.0, False)):
        ours = row("tokenmill", "latency", "ns_20", [nanoseconds], "mix")
        assert judged([ours, theirs], "time of one call, 20 characters", "mix")["met"] is met
    load = row("tokenmill", "load", "first_ids_ms", [30.5], "")
    assert not judged([load], "ms to load and first ids", "")["met"]


def test_goal_without_a_figure_is_not_met_and_says_why():
    ours = row("tokenmill", "array", "warm_mb_s", [300.0])
    assert judged([ours], "text → array, later passes")["why"] == "not measured"
    theirs = ours | {"system": "gigatoken", "status": "ids differ", "metrics": {}}
    found = judged([ours, theirs], "text → array, later passes")
    assert found["why"] == "gigatoken: ids differ"
    assert not found["met"]
    assert "gigatoken: ids differ" in goal_tables.unmet_text([found])
