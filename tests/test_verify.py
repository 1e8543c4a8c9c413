"""Shards → whether they are what was written, and what is in them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from corpus_cases import contents, run, texts, write_jsonl

import tokenmill
from tokenmill import Tokenizer, tokenize
from tokenmill.tokenizing.inspect import inspect
from tokenmill.tokenizing.verify import verify


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "in.jsonl", texts(300, 2))


@pytest.mark.parametrize("options", [{}, {"pack": 32}, {"shuffle": 5}, {"bos": 50256}])
def test_what_was_written_is_good(tmp_path, corpus, options):
    out = tmp_path / "out"
    tokenize(corpus, out, "gpt2", unit_bytes=8192, shard_tokens=3000, **options)
    verdict = verify(out, decode=1.0, workers=2)
    assert verdict.is_good, verdict.findings
    assert verdict.documents == 300 and verdict.files >= 4
    some = verify(out, decode=0.2)
    assert some.is_good and 20 < some.documents < 120


def test_a_changed_byte_is_found(tmp_path, corpus):
    out = tmp_path / "out"
    tokenize(corpus, out, "gpt2")
    path = next(out.glob("*.bin"))
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)
    done = run("verify", out)
    assert done.returncode == 4 and path.name in done.stdout
    path.write_bytes(data[:-2])
    assert "bytes and should have" in run("verify", out).stdout
    path.unlink()
    found = json.loads(run("verify", out, "--json").stdout)
    assert found["good"] is False and path.name in found["findings"][0]


def test_files_beside_the_shards_are_checked_too(tmp_path, corpus):
    corpus.write_bytes(corpus.read_bytes() + b"{}\n")
    tokenize(corpus, tmp_path / "out", "gpt2", format="mds")
    assert verify(tmp_path / "out").is_good
    for name in ("index.json", "errors.jsonl"):
        data = (tmp_path / "out" / name).read_bytes()
        (tmp_path / "out" / name).write_bytes(data[:-1] + b" ")
        assert any(name in finding for finding in verify(tmp_path / "out").findings)


def test_tokenize_makes_files_of_a_complete_folder_again(tmp_path, corpus):
    out = tmp_path / "out"
    tokenize(corpus, out, "gpt2", unit_bytes=8192)
    before = contents(out)
    next(out.glob("*.bin")).unlink()
    tokenize(corpus, out, "gpt2", unit_bytes=8192)
    assert contents(out) == before


def test_a_damaged_manifest_says_what_to_do(tmp_path, corpus):
    out = tmp_path / "out"
    tokenize(corpus, out, "gpt2")
    before = contents(out)
    for damage in (b"{", b'{"format": "tokenmill.shards", "version": 1}'):
        (out / "manifest.json").write_bytes(damage)
        done = run("verify", out)
        assert done.returncode == 2 and "delete it" in done.stderr
    (out / "manifest.json").unlink()
    tokenize(corpus, out, "gpt2")
    assert contents(out) == before


def test_a_source_that_changed_is_found(tmp_path, corpus):
    out = tmp_path / "out"
    tokenize(corpus, out, "gpt2")
    status = corpus.stat()
    data = corpus.read_bytes()
    corpus.write_bytes(data.replace(b"the", b"teh", 1))
    os.utime(corpus, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run("verify", out).returncode == 0
    done = run("verify", out, "--full")
    assert done.returncode == 4
    assert "is not what was written" in done.stdout and "changed since it was read" in done.stdout


def test_a_folder_that_is_not_complete_says_so(tmp_path):
    done = run("verify", tmp_path)
    assert done.returncode == 2 and "no folder of shards" in done.stderr


def test_inspect_counts_every_token(tmp_path, corpus):
    out = tmp_path / "out"
    gpt2 = Tokenizer.load("gpt2")
    result = tokenize(corpus, out, gpt2, pack=32)
    found = inspect(out)
    ids = [id for text in texts(300, 2) for id in [*gpt2.encode(text), 50256]]
    assert found.uses.sum() == len(ids) == result.tokens
    assert all(found.uses[id] == ids.count(id) for id in set(ids[:200]))
    assert found.lengths.sum() == 300
    figures = json.loads(run("inspect", out, "--json").stdout)
    assert figures["documents"] == 300 and figures["tokens"] == len(ids)
    assert figures["vocabulary"]["used"] == len(set(ids))
    assert {"bytes", "quarantined", "most_used", "least_used", "sources"} <= figures.keys()


def test_inspect_shows_tables_and_a_page(tmp_path, corpus):
    out = tmp_path / "<out>"
    tokenize(corpus, out, "gpt2")
    page = tmp_path / "report.html"
    done = run("inspect", out, "--html", page)
    assert done.returncode == 0, done.stderr
    assert "documents" in done.stdout and "bytes a token" in done.stdout
    html = page.read_text()
    assert html.startswith("<!doctype html>") and "<svg" in html and "<out>" not in html
    assert "&lt;out&gt;" in html


def test_the_function_is_the_command(tmp_path, corpus):
    tokenize(corpus, tmp_path / "a", "gpt2")
    assert (
        run("tokenize", corpus, "--tokenizer", "gpt2", "--output", tmp_path / "b").returncode == 0
    )
    assert (tmp_path / "a/manifest.json").read_bytes() == (
        tmp_path / "b/manifest.json"
    ).read_bytes()
    assert len(tokenmill.shards.open(tmp_path / "a")) == 300
