"""Each changed, missing, renamed and additional file of an output is found, and made again."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest
from conftest import examples
from corpus_cases import contents, texts, write_jsonl
from in_process import run_main as run
from in_process import threaded_runs as threaded_runs

import tokenmill
from tokenmill import Tokenizer, TokenmillError, tokenize
from tokenmill.tokenizing.verify import verify

OPTIONS = {"task_bytes": 5000, "threads": 1}
CASES = {
    "plain": {},
    "packed": {"sequence_length": 32, "format": "mds"},
    "shuffled": {"shuffle": 3, "shard_tokens": 900},
    "sets": {"split": {"val": 0.2}},
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    paths = [write_jsonl(folder / f"{n}.jsonl", texts(60, n)) for n in range(3)]
    paths[1].write_bytes(paths[1].read_bytes() + b"{bad\n")
    return paths


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A tokenizer that is not embedded, so the output has a file of it."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenmill.train_from_iterator(texts(50), vocab_size=300, special_tokens=["<|e|>"]).save(path)
    return Tokenizer.load(path)


@pytest.fixture(params=CASES)
def case(request, tmp_path, inputs, tokenizer):
    """An output, and its files."""
    given = OPTIONS | CASES[request.param]
    tokenize(inputs, tmp_path / "out", tokenizer, eos="<|e|>", **given)
    return tmp_path / "out", contents(tmp_path / "out")


def named(out: Path) -> list[str]:
    return sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())


def findings(out: Path) -> list[str]:
    """The findings of verify. A manifest that is damaged is an error."""
    try:
        return verify(out).findings
    except TokenmillError as error:
        return [str(error)]


def test_each_flipped_bit_is_found_and_names_the_file(case):
    out, _ = case
    chance = random.Random(7)
    assert findings(out) == []
    for name in named(out):
        data = (out / name).read_bytes()
        for _ in range(examples(4)):
            place = chance.randrange(len(data))
            changed = bytearray(data)
            changed[place] ^= 1 << chance.randrange(8)
            (out / name).write_bytes(changed)
            found = findings(out)
            assert found and Path(name).name in found[0], (name, place, found)
        (out / name).write_bytes(data)
    assert findings(out) == []


def test_missing_cut_renamed_and_additional_files_are_named(case):
    out, before = case
    for name in named(out):
        path = out / name
        data = path.read_bytes()
        path.write_bytes(data[:-1])
        assert any(path.name in finding for finding in findings(out)), name
        path.unlink()
        assert any(path.name in finding for finding in findings(out)), name
        if path.name != "manifest.json":
            (out / "other").write_bytes(data)
            assert "other is not a file of the output; move or delete it" in findings(out)
            (out / "other").unlink()
        path.write_bytes(data)
    assert findings(out) == [] and contents(out) == before


def test_repair_gives_the_bytes_of_an_undamaged_run(case):
    out, before = case
    for name in named(out):
        path = out / name
        data = path.read_bytes()
        for damage in (data[:-1] + bytes([data[-1] ^ 1]), None):
            path.unlink() if damage is None else path.write_bytes(damage)
            if name in ("plan.json", "tokenizer.tokenmill"):
                with pytest.raises(TokenmillError, match=r"same tokenize command again|not found"):
                    tokenmill.repair(out)
                path.write_bytes(data)
            elif name == "manifest.json" and damage is None:
                with pytest.raises(TokenmillError, match="run the same tokenize command again"):
                    tokenmill.repair(out)
                path.write_bytes(data)
            else:
                tokenmill.repair(out, threads=1)
            assert contents(out) == before, (name, damage is None)


def test_tokenize_makes_a_deleted_file_again(case, inputs, tokenizer, request):
    out, before = case
    given = OPTIONS | CASES[request.node.callspec.params["case"]]
    for name in named(out):
        (out / name).unlink()
        tokenize(inputs, out, tokenizer, eos="<|e|>", **given)
        assert contents(out) == before, name


def test_digest_stands_for_all_files(tmp_path, inputs, capsys):
    outs = [tmp_path / "a", tmp_path / "b"]
    for out, threads in zip(outs, (1, 2), strict=True):
        tokenize(inputs, out, "gpt2", task_bytes=5000, threads=threads)
    assert verify(outs[0]).digest == verify(outs[1]).digest
    digest = verify(outs[0]).digest
    assert verify(outs[0], expect=digest).is_good
    assert run("verify", outs[0], "--expect", digest).stdout.endswith(f"\ndigest {digest}\n")
    done = run("verify", outs[0], "--expect", "abc", "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["findings"] == [f"the digest is {digest}; expected abc"]
    other = tmp_path / "c"
    tokenize(inputs[:2], other, "gpt2", task_bytes=5000)
    assert verify(other).digest != digest


def test_manifest_of_another_output_in_a_set_is_found(tmp_path, inputs):
    for name, share in (("a", 0.2), ("b", 0.4)):
        tokenize(inputs, tmp_path / name, "gpt2", split={"val": share}, **OPTIONS)
    for path in (tmp_path / "a" / "val").iterdir():
        path.unlink()
    for path in (tmp_path / "b" / "val").iterdir():
        shutil.copy(path, tmp_path / "a" / "val")
    assert "val/manifest.json is of another output" in findings(tmp_path / "a")


def test_repair_refuses_inputs_that_have_changed(tmp_path):
    path = write_jsonl(tmp_path / "in.jsonl", texts(60, 1))
    out = tmp_path / "out"
    tokenize(path, out, "gpt2")
    write_jsonl(path, texts(60, 2))
    next(out.glob("*.bin")).unlink()
    with pytest.raises(TokenmillError, match=r"in\.jsonl"):
        tokenmill.repair(out)


def test_repair_of_a_merged_output_names_merge(tmp_path, inputs):
    tokenize(inputs, tmp_path / "out", "gpt2", **OPTIONS)
    tokenmill.merge_shards(tmp_path / "out", tmp_path / "merged")
    assert findings(tmp_path / "merged") == []
    next((tmp_path / "merged").glob("*.bin")).unlink()
    with pytest.raises(TokenmillError, match="which repair cannot make"):
        tokenmill.repair(tmp_path / "merged")


def test_command_repairs_and_reports(tmp_path, inputs, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenize(inputs, "out", "gpt2", **OPTIONS)
    before = contents(tmp_path / "out")
    os.truncate("out/00001-000.bin", 10)
    done = run("verify", "out")
    assert done.returncode == 4 and "tokenmill repair" in done.stdout
    assert run("repair", "out").returncode == 3  # the inputs have a rejected record
    assert contents(tmp_path / "out") == before
    assert run("verify", "out").returncode == 0
