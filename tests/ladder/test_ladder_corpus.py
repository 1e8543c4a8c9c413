"""The corpus ladder: every step writes the same bytes, and the commands show it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from corpus_cases import texts, write_jsonl
from in_process import threaded_runs as threaded_runs
from ladder_steps import keep_steps
from ladder_steps import run_ladder as run

from ladder.corpus import batches, encoders, extreme, original
from ladder.corpus.steps import STEPS, measure, steps_of
from tokenmill.errors import TokenizeError


def test_all_steps_write_the_same_bytes(tmp_path, monkeypatch):
    keep_steps(monkeypatch, "original", "native")
    inputs = [write_jsonl(tmp_path / f"{n}.jsonl", texts(60, n)) for n in range(3)]
    done = run("corpus", *inputs, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    steps = json.loads(done.stdout)["steps"]
    assert tuple(step["name"] for step in steps) == STEPS
    assert all(step["same_bytes"] for step in steps)
    assert {step["documents"] for step in steps} == {180}
    assert all(step["seconds"] > 0 and step["peak_mb"] > 1 for step in steps)
    # The processes of step 3 import Python, so their CPU time is visible.
    assert steps[2]["cpu_seconds"] > 0.1


def test_other_library_writes_the_same_bytes(tmp_path):
    inputs = [write_jsonl(tmp_path / f"{n}.jsonl", texts(30, n)) for n in range(2)]
    for name in steps_of("tokenizers"):
        ours, theirs = (
            measure(name, inputs, library, "gpt2", 50256) for library in ("tokenmill", "tokenizers")
        )
        assert (ours.documents, ours.tokens, ours.digest) == (60, theirs.tokens, theirs.digest)


def test_original_saves_checkpoints_and_keeps_all_ids(tmp_path, monkeypatch):
    path = write_jsonl(tmp_path / "a.jsonl", ["one", "two", "three"])
    saved = []
    save = original.save

    def counted(output, ids):
        saved.append(len(ids))
        save(output, ids)

    monkeypatch.setattr(original, "CHECKPOINT", 2)
    monkeypatch.setattr(original, "save", counted)
    [output] = original.run([path], encoders.load("tokenmill", "gpt2"), tmp_path, "uint16", 50256)
    assert saved == [4, 2]
    assert np.fromfile(output, "uint16").tolist() == [505, 50256, 11545, 50256, 15542, 50256]


def test_extreme_keeps_the_order_of_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(extreme, "BLOCK_BYTES", 50)
    documents = texts(200, 5)
    path = write_jsonl(tmp_path / "a.jsonl", documents)
    encoder = encoders.load("tokenmill", "gpt2")
    [output] = extreme.run([path], encoder, tmp_path, "uint16", 50256)
    expected = [id for text in documents for id in [*encoder.encode(text), 50256]]
    assert np.fromfile(output, "uint16").tolist() == expected


def test_extreme_reports_a_line_that_is_not_json(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\nnot json\n')
    with pytest.raises(ExceptionGroup) as raised:
        extreme.run([path], encoders.load("tokenmill", "gpt2"), tmp_path, "uint16", 50256)
    assert "Expecting value" in str(raised.value.exceptions[0])


def test_table_has_methods_and_figures(monkeypatch):
    keep_steps(monkeypatch)
    done = run("corpus", "--max-mb", "0.05")
    assert done.returncode == 0, done.stderr
    for word in ("method", "documents/s", "tokens/s", "speed-up", "memory", "5 native"):
        assert word in done.stdout
    assert "DIFFERENT" not in done.stdout


def test_batches_are_compared_with_single_documents():
    tokens = set()
    for library in encoders.LIBRARIES:
        done = run("batches", "--num-docs", "50", "--encoder", library, "--json")
        assert done.returncode == 0, done.stderr
        methods = json.loads(done.stdout)["methods"]
        names = {"single", "batch_32", "batch_64", "batch_100", "batch_100, 1 thread"}
        assert names <= {row["name"] for row in methods}
        tokens |= {row["tokens"] for row in methods}
    assert len(tokens) == 1
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
    monkeypatch.setattr(batches, "_methods", lambda encoder: iter(methods))
    with pytest.raises(TokenizeError, match="odd returns 7 tokens but single 2"):
        batches.measure(["a", "b"], encoders.load("tokenmill", "gpt2"))
