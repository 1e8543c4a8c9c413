"""The corpus ladder: every step writes the same bytes, and the commands show it."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from corpus_cases import texts, write_jsonl
from in_process import threaded_runs as threaded_runs
from ladder_steps import keep_steps
from ladder_steps import run_ladder as run

from ladder.corpus import batches, encoders, extreme, original
from ladder.corpus.steps import STEPS, measure, steps_of
from tokenmill.errors import TokenizeError

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
bench = importlib.import_module("ladder_corpus")
bottlenecks = importlib.import_module("bottlenecks")


def test_all_steps_write_the_same_bytes(tmp_path, monkeypatch):
    keep_steps(monkeypatch, "original", "native")
    inputs = [write_jsonl(tmp_path / f"{n}.jsonl", texts(60, n)) for n in range(3)]
    done = run("corpus", *inputs, "--json", "--runs", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    steps = json.loads(done.stdout)["steps"]
    assert tuple(step["name"] for step in steps) == STEPS
    assert all(step["same_bytes"] for step in steps)
    assert {step["documents"] for step in steps} == {180}
    assert all(0 < step["seconds_min"] < step["seconds_max"] for step in steps)
    assert all(step["cpu_seconds"] > 0 and step["peak_mb"] > 1 for step in steps)
    # The processes of step 3 import Python, so their CPU time is visible.
    assert steps[2]["cpu_seconds"] > 0.1


def test_other_library_writes_the_same_bytes(tmp_path):
    documents = [[*texts(29, n), "a special token <|endoftext|> is text"] for n in range(2)]
    inputs = [write_jsonl(tmp_path / f"{n}.jsonl", part) for n, part in enumerate(documents)]
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
    for word in ("method", "documents/s", "tokens/s", "over streaming", "memory", "5 native"):
        assert word in done.stdout
    assert "DIFFERENT" not in done.stdout


def test_batches_are_compared_with_single_documents(monkeypatch):
    keep_steps(monkeypatch)
    tokens = set()
    for library in encoders.LIBRARIES:
        done = run("batches", "--num-docs", "50", "--encoder", library, "--json")
        assert done.returncode == 0, done.stderr
        methods = json.loads(done.stdout)["methods"]
        names = {"single", "batch_32", "batch_64", "batch_100", "batch_100, 1 thread"}
        assert names <= {row["name"] for row in methods}
        assert {(row["run"]["runs"], row["run"]["warmup"]) for row in methods} == {(3, 1)}
        tokens |= {row["tokens"] for row in methods}
    assert len(tokens) == 1
    assert "speed-up" in run("batches", "--num-docs", "20", "--runs", "1").stdout


def test_lines_end_at_newlines_only(tmp_path, monkeypatch):
    keep_steps(monkeypatch)
    path = tmp_path / "t.jsonl"
    rows = [{"text": "one\u2028two\x85three"}, {"text": "four"}]
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
    done = run("batches", path, "--json")
    assert done.returncode == 0, done.stderr
    assert {row["documents"] for row in json.loads(done.stdout)["methods"]} == {2}


def test_method_with_other_tokens_has_no_time():
    with pytest.raises(TokenizeError, match="odd returns 7 tokens but single 2"):
        batches.count_tokens({"single": len, "odd": lambda texts: 7}, ["a", "b"])


def test_expected_time_comes_from_earlier_runs():
    rows = [{"seconds": seconds} for seconds in (1.0, 2.0, 9.0)]
    assert bench.expected_seconds([(rows, 3), (rows[:1], 2), (rows, 0), ([], 3)]) == 8.0


def test_page_is_rendered_from_the_results(tmp_path, monkeypatch):
    page, picture = tmp_path / "ladder-corpus.md", tmp_path / "ladder-corpus.svg"
    shutil.copy(bench.PAGE, page)
    monkeypatch.setattr(bench, "PAGE", page)
    monkeypatch.setattr(bench, "PICTURE", picture)
    bench.render(json.loads(bench.RESULTS.read_text()))
    assert page.read_text() == (ROOT / "docs" / "ladder-corpus.md").read_text()
    assert picture.read_text() == (ROOT / "docs" / "ladder-corpus.svg").read_text()


def test_steps_with_different_bytes_are_not_rendered():
    rows = {"1GB/tokenmill/ultra": [{"digest": "a"}], "1GB/tokenizers/ultra": [{"digest": "b"}]}
    with pytest.raises(SystemExit, match="different bytes for 1GB"):
        bench.check_bytes(rows)
    bench.check_bytes(
        {"1GB/tokenmill/ultra": [{"digest": "a"}], "5GB/tokenmill/ultra": [{"digest": "b"}]}
    )


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(8, 12, "holds"), (7, 9, "not clear"), (1, 7, "does not hold")],
)
def test_verdict_of_a_speed_up_follows_the_spread(low, high, expected):
    assert bench.verdict(8, low, high) == expected


def test_files_of_a_corpus_have_different_words(tmp_path, monkeypatch):
    documents = [" ".join(f"word{n}" for n in range(100))] * 20
    monkeypatch.setattr(bench.corpora, "stream", lambda name: iter(documents))
    paths = [tmp_path / f"{index}.jsonl" for index in range(2)]
    for index, path in enumerate(paths):
        bench._write_file(path, index, 5_000)
    first, second = (path.read_text() for path in paths)
    assert first != second
    assert all(5_000 <= len(text) < 7_000 for text in (first, second))
    assert {len(json.loads(line)["text"].split(" ")) for line in first.splitlines()} == {100}


def test_page_of_the_bottlenecks_is_rendered_from_the_results(tmp_path, monkeypatch):
    page = tmp_path / "bottlenecks.md"
    shutil.copy(bottlenecks.PAGE, page)
    monkeypatch.setattr(bottlenecks, "PAGE", page)
    read = [json.loads(path.read_text()) for path in (bottlenecks.RESULTS, bottlenecks.LADDER)]
    bottlenecks.render(*read)
    assert page.read_text() == (ROOT / "docs" / "bottlenecks.md").read_text()
