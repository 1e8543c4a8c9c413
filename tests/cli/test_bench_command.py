"""`tokenmill bench`: the ids and speeds of the installed libraries, on a user's documents.

Tests of cli/bench.py and cli/libraries.py.
"""

from __future__ import annotations

import json
import shutil

import pytest
from conftest import FIXTURES
from in_process import run_main

from tokenmill import Tokenizer
from tokenmill.cli import app, bench, libraries
from tokenmill.options import resolve

TEXTS = [path.read_text(encoding="utf-8")[:1500] for path in FIXTURES[:12]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Documents, a tokenizer.json, and a folder whose SentencePiece model is another tokenizer."""
    home = tmp_path_factory.mktemp("bench")
    rows = [json.dumps({"text": text, "id": number}) for number, text in enumerate(TEXTS)]
    (home / "part.jsonl").write_text("\n".join([*rows, "{not JSON"]), encoding="utf-8")
    (home / "book.txt").write_text("".join(TEXTS), encoding="utf-8")
    Tokenizer.load("gpt2").save(home / "tokenizer.json")
    sentencepiece = pytest.importorskip("sentencepiece")
    sentencepiece.SentencePieceTrainer.train(
        input=str(home / "book.txt"), model_prefix=str(home / "small"), vocab_size=700,
        model_type="bpe", character_coverage=0.98, minloglevel=2,
    )  # fmt: skip
    (home / "both").mkdir()
    shutil.copy(home / "tokenizer.json", home / "both")
    shutil.copy(home / "small.model", home / "both" / "tokenizer.model")
    return home


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """One core for each library, as the machine may have others to do."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def figures(*words, code=0, **more):
    done = run_main("bench", *words, "--rounds", "1", "--json", **more)
    assert done.returncode == code, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def test_named_tokenizer_has_the_ids_of_tiktoken_and_tokenizers(folder):
    found = figures("o200k_base", folder / "part.jsonl", "--threads", "2")
    assert [row["name"] for row in found["libraries"]] == ["tokenmill", "tokenizers", "tiktoken"]
    assert found["equal"] and all(row["equal"] for row in found["libraries"])
    assert (found["documents"], found["rejected"], found["threads"]) == (len(TEXTS), 1, 2)
    assert found["bytes"] == sum(len(text.encode()) for text in TEXTS)
    assert found["tokens"] == sum(map(Tokenizer.load("o200k_base").count, TEXTS))
    for row in found["libraries"]:
        assert row["bytes_per_second"] > 1000 and row["batch_tokens_per_second"] > 1000
        assert row["peak_mb"] > 1 and row["load_seconds"] > 0
    assert found["left_out"]["sentencepiece"] == "it needs a .model file"
    names = {row["name"] for row in found["libraries"]}
    assert names.isdisjoint(found["left_out"])
    assert names | set(found["left_out"]) == set(libraries.LIBRARIES)


def test_sentencepiece_model_is_compared_with_its_library(folder):
    found = figures(folder / "small.model", folder / "part.jsonl")
    names = {row["name"]: row["equal"] for row in found["libraries"]}
    assert names.pop("sentencepiece") is True
    assert set(names) <= {"tokenmill", "tokenizers"}
    assert "tiktoken" in found["left_out"]


def test_other_ids_are_named_and_the_exit_code_is_4(folder):
    found = figures(folder / "both", folder / "part.jsonl", code=app.DIFFERENT)
    rows = {row["name"]: row for row in found["libraries"]}
    assert rows["tokenizers"]["equal"] and not rows["sentencepiece"]["equal"]
    assert found["equal"] is False
    what = rows["sentencepiece"]["difference"]
    assert what["input"].endswith("part.jsonl")
    text = TEXTS[what["document"] - 1]
    ours = Tokenizer.load("gpt2").encode(text)
    theirs = Tokenizer.load(folder / "small.model").encode(text)
    assert ours[: what["position"]] == theirs[: what["position"]]
    assert (what["tokenmill_id"], what["id"]) == (ours[what["position"]], theirs[what["position"]])


def test_table_fits_60_columns_and_names_the_difference(folder):
    words = ("bench", folder / "both", "part.jsonl", "--rounds", "1", "--bytes", "4KB")
    done = run_main(*words, cwd=folder, env={"COLUMNS": "60"})
    assert done.returncode == app.DIFFERENT, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 60
    shown = " ".join(done.stdout.split())
    for part in (
        "library MB/s tokens/s batch MB/s memory ids", "tokenizers", "equal", "DIFFER",
        "sentencepiece: ids differ first in document 1 of part.jsonl, position ",
        "instead of tokenmill's id", "4,000 bytes", "The sample is small",
        "Speed relative to tokenizers: ",
    ):  # fmt: skip
        assert part in shown, part


def test_missing_libraries_are_not_an_error(folder, monkeypatch):
    monkeypatch.setattr(bench.util, "find_spec", lambda name: name == "tokenmill" or None)
    done = run_main("bench", "gpt2", folder / "book.txt", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    assert "pip install tokenizers tiktoken" in done.stdout
    assert "Not installed: tokenizers, tiktoken, sentencepiece," in done.stdout


def test_library_that_fails_is_left_out_with_the_reason(folder, tmp_path):
    """A library may refuse a file that tokenmill reads; here it cannot read a broken model."""
    shutil.copytree(folder / "both", tmp_path / "model")
    (tmp_path / "model" / "tokenizer.model").write_bytes(b"broken")
    found = figures(tmp_path / "model", folder / "part.jsonl")
    assert "sentencepiece" not in {row["name"] for row in found["libraries"]}
    assert "Error: " in found["left_out"]["sentencepiece"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("broken.json", "book.txt"), "broken.json"),
        (("nothing.json", "book.txt"), "nothing.json"),
        (("gpt2", "empty.txt"), "the inputs contain no text; pass other inputs"),
        (("gpt2", "part.jsonl", "--field", "id"), "contain no text; the first rejected record: "),
        (("gpt2", "nowhere.txt"), "nowhere.txt"),
        (("gpt2", "book.txt", "--rounds", "0"), "--rounds must be a whole number of at least 1"),
    ],
    ids=str,
)
def test_mistakes_are_one_line(folder, words, said):
    (folder / "broken.json").write_text('{"model": ')
    (folder / "empty.txt").write_text("")
    done = run_main("bench", *words, cwd=folder)
    assert done.returncode == app.USAGE
    assert said in done.stderr
    assert done.stderr.splitlines()[1:] in ([], ["See tokenmill bench --help"])


def sample_of(inputs, **given):
    return bench.read_sample([str(path) for path in inputs], resolve(bench.BenchOptions, given))


def test_sample_is_the_beginning_of_the_inputs(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "b.txt").write_text("谷物" * 10)
    both = [tmp_path / "a.txt", tmp_path / "b.txt"]
    assert sample_of(both).texts == ["one\ntwo\nthree\n", "谷物" * 10]
    assert sample_of(both, separator="\n").texts == ["one", "two", "three", "谷物" * 10]
    cut = sample_of(both, bytes=14 + 7)
    assert cut.texts == ["one\ntwo\nthree\n", "谷物"]
    assert cut.origins == [(str(tmp_path / "a.txt"), 1), (str(tmp_path / "b.txt"), 1)]


def test_long_document_is_one_document(tmp_path):
    text = "the mill mills the meal\n" * 500_000
    (tmp_path / "long.txt").write_text(text)
    assert sample_of([tmp_path / "long.txt"], bytes=len(text)).texts == [text]
    [part] = sample_of([tmp_path / "long.txt"], bytes=9_000_000).texts
    assert len(part) == 9_000_000 and text.startswith(part)
