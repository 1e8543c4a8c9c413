"""The corpus ladder: every step writes the same bytes, and the commands show it."""

from __future__ import annotations

import json

import pytest
from corpus_cases import texts, write_jsonl
from in_process import threaded_runs as threaded_runs
from ladder_steps import keep_steps
from ladder_steps import run_ladder as run

from ladder.corpus import batches
from tokenmill import Tokenizer
from tokenmill.errors import TokenizeError


def test_all_steps_write_the_same_bytes(tmp_path, monkeypatch):
    keep_steps(monkeypatch, "original", "extreme")
    inputs = [write_jsonl(tmp_path / f"{n}.jsonl", texts(60, n)) for n in range(3)]
    done = run("corpus", *inputs, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    steps = json.loads(done.stdout)["steps"]
    assert [step["name"] for step in steps] == ["original", "streaming", "ultra", "extreme"]
    assert all(step["same_bytes"] for step in steps)
    assert {step["documents"] for step in steps} == {180}
    assert all(step["seconds"] > 0 and step["peak_mb"] > 1 for step in steps)


def test_table_has_methods_and_figures(monkeypatch):
    keep_steps(monkeypatch)
    done = run("corpus", "--max-mb", "0.05")
    assert done.returncode == 0, done.stderr
    for word in ("method", "documents/s", "tokens/s", "speed-up", "memory", "4 extreme"):
        assert word in done.stdout
    assert "DIFFERENT" not in done.stdout


def test_batches_are_compared_with_single_documents(tmp_path):
    done = run("batches", "--num-docs", "50", "--json")
    assert done.returncode == 0, done.stderr
    methods = json.loads(done.stdout)["methods"]
    assert {"single", "batch_32", "batch_64", "batch_100"} <= {row["name"] for row in methods}
    assert len({row["tokens"] for row in methods}) == 1
    assert "speed-up" in run("batches", "--num-docs", "20").stdout


def test_lines_end_at_newlines_only(tmp_path):
    path = tmp_path / "t.jsonl"
    rows = [{"text": "one\u2028two\x85three"}, {"text": "four"}]
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
    done = run("batches", path, "--json")
    assert done.returncode == 0, done.stderr
    assert {row["documents"] for row in json.loads(done.stdout)["methods"]} == {2}


def test_method_with_other_tokens_has_no_time(monkeypatch):
    methods = [("single", len), ("odd", lambda texts: 7)]
    monkeypatch.setattr(batches, "_methods", lambda tokenizer: iter(methods))
    with pytest.raises(TokenizeError, match="odd returns 7 tokens but single 2"):
        batches.measure(["a", "b"], Tokenizer.load("gpt2"))
