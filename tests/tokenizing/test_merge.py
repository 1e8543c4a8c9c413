"""Shards → the same documents in shards of another size. Tests of tokenizing/merge.py."""

from __future__ import annotations

import numpy as np
import pytest
from corpus_cases import contents, texts, write_jsonl
from in_process import threaded_runs as threaded_runs

import tokenmill
from tokenmill import Tokenizer, TokenmillError, merge_shards, tokenize, verify
from tokenmill.shards import FORMATS
from tokenmill.tokenizing import merge


@pytest.fixture(scope="module")
def gpt2() -> Tokenizer:
    return Tokenizer.load("gpt2")


@pytest.fixture
def inputs(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        write_jsonl(folder / f"{number}.jsonl", [*texts(150, number), "", ""])
    return folder


@pytest.mark.parametrize("length", [None, 64])
@pytest.mark.parametrize("shard_format", FORMATS)
def test_merged_shards_are_those_of_one_task(
    tmp_path, gpt2, inputs, shard_format, length, monkeypatch
):
    monkeypatch.setattr(merge, "_BLOCK_TOKENS", 999)
    options = {"format": shard_format, "sequence_length": length}
    tokenize(inputs, tmp_path / "many", gpt2, task_bytes=4096, shard_tokens=700, **options)
    one = tokenize(inputs, tmp_path / "one", gpt2, shard_tokens=3000, **options)
    totals = merge_shards(tmp_path / "many", tmp_path / "merged", shard_tokens=3000)
    assert (
        totals["shards"] == one.shards < tokenmill.shards.open(tmp_path / "many").totals["shards"]
    )
    merged, expected = contents(tmp_path / "merged"), contents(tmp_path / "one")
    differ = {"manifest.json", "plan.json"}
    assert merged.keys() == expected.keys()
    assert {n: merged[n] for n in merged.keys() - differ} == {
        n: expected[n] for n in expected.keys() - differ
    }
    assert verify(tmp_path / "merged", sample=1.0).is_good


def test_a_merged_output_is_complete_and_restored(tmp_path, gpt2, inputs):
    many, merged = tmp_path / "many", tmp_path / "merged"
    (inputs / "3.jsonl").write_text('{"text": 1}\n{"text": "good"}\n')
    tokenize(inputs, many, gpt2, task_bytes=4096)
    merge_shards(many, merged)
    before = contents(merged)
    assert (merged / "errors.jsonl").read_bytes() == (many / "errors.jsonl").read_bytes()
    assert tokenize(inputs, merged, gpt2, task_bytes=4096).shards == 1
    assert contents(merged) == before
    (merged / "00000-000.bin").unlink()
    assert not verify(merged).is_good
    tokenize(inputs, merged, gpt2, task_bytes=4096)
    assert contents(merged) == contents(many)
    found = zip(tokenmill.shards.open(merged), tokenmill.shards.open(many), strict=True)
    assert all(np.array_equal(*pair) for pair in found)


def test_outputs_that_cannot_be_merged_are_refused(tmp_path, gpt2, inputs):
    tokenize(inputs, tmp_path / "a", gpt2)
    with pytest.raises(TokenmillError, match="has files"):
        merge_shards(tmp_path / "a", inputs)
    tokenize(inputs, tmp_path / "mixed", gpt2, shuffle=1)
    with pytest.raises(TokenmillError, match="is shuffled"):
        merge_shards(tmp_path / "mixed", tmp_path / "b")
    with pytest.raises(TokenmillError, match=r"no manifest\.json"):
        merge_shards(inputs, tmp_path / "b")
    assert not (tmp_path / "b").exists()
