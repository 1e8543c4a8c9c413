"""The ladder of corpora: every step writes the same bytes, and the commands show it."""

from __future__ import annotations

import json

import pytest
from corpus_cases import run, texts, write_jsonl

from tokenmill import Tokenizer
from tokenmill.errors import TokenizeError
from tokenmill.ladder.corpus import batches


def test_all_steps_write_the_same_bytes(tmp_path):
    inputs = [write_jsonl(tmp_path / f"{n}.jsonl", texts(60, n)) for n in range(3)]
    done = run("ladder", "corpus", *inputs, "--json")
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)["steps"]
    assert [step["name"] for step in steps] == ["original", "streaming", "ultra", "extreme"]
    assert all(step["same_bytes"] for step in steps)
    assert {step["documents"] for step in steps} == {180}
    assert all(step["seconds"] > 0 and step["peak_mb"] > 1 for step in steps)


def test_the_table_names_methods_and_figures(tmp_path):
    done = run("ladder", "corpus", "--max-mb", "1")
    assert done.returncode == 0, done.stderr
    for word in ("method", "documents/s", "tokens/s", "speed-up", "memory", "4 extreme"):
        assert word in done.stdout
    assert "DIFFERENT" not in done.stdout


def test_batches_are_measured_beside_single_documents(tmp_path):
    done = run("bench", "corpus", "--num-docs", "50", "--json")
    assert done.returncode == 0, done.stderr
    methods = json.loads(done.stdout)["methods"]
    assert {"single", "batch_32", "batch_64", "batch_100"} <= {row["name"] for row in methods}
    assert len({row["tokens"] for row in methods}) == 1
    assert "speed-up" in run("bench", "corpus", "--num-docs", "20").stdout


def test_lines_end_at_newlines_alone(tmp_path):
    path = tmp_path / "t.jsonl"
    rows = [{"text": "one\u2028two\x85three"}, {"text": "four"}]
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
    done = run("bench", "corpus", path, "--json")
    assert done.returncode == 0, done.stderr
    assert {row["documents"] for row in json.loads(done.stdout)["methods"]} == {2}


def test_method_that_gives_other_tokens_has_no_time(monkeypatch):
    methods = [("single", len), ("odd", lambda texts: 7)]
    monkeypatch.setattr(batches, "_methods", lambda tokenizer: iter(methods))
    with pytest.raises(TokenizeError, match="odd gives 7 tokens and single 2"):
        batches.measure(["a", "b"], Tokenizer.load("gpt2"))
