"""Shards → differences from their manifest and their sources, and a report of their contents.

Tests of cli/tokenize.py, inspection/shards.py and tokenizing/verify.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from corpus_cases import contents, texts, write_jsonl
from corpus_cases import run as run_process
from in_process import least_unsplit_bytes
from in_process import run_main as run
from in_process import threaded_runs as threaded_runs
from shard_files import replace_digested, write_digested

import tokenmill
from tokenmill import Tokenizer, tokenize
from tokenmill.inspection.shards import inspect_shards as inspect
from tokenmill.shards.folder import RESTORE
from tokenmill.tokenizing import verify as comparison
from tokenmill.tokenizing.verify import verify


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "in.jsonl", texts(300, 2))


@pytest.mark.parametrize("options", [{}, {"sequence_length": 32}, {"shuffle": 5}, {"bos": 50256}])
def test_complete_output_is_verified(tmp_path, corpus, options):
    out = tmp_path / "out"
    tokenize(corpus, out, "gpt2", task_bytes=8192, shard_tokens=3000, **options)
    verdict = verify(out, sample=1.0, threads=2)
    assert verdict.is_good, verdict.findings
    assert verdict.documents == 300 and verdict.files >= 4
    some = verify(out, sample=0.2)
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
    assert "bytes; expected" in run("verify", out).stdout
    path.unlink()
    found = json.loads(run("verify", out, "--json").stdout)
    assert found["good"] is False and path.name in found["findings"][0]


def edited(folder: Path, edit) -> None:
    """A manifest that says something else of files that are as they were written."""
    path = folder / "manifest.json"
    content = json.loads(path.read_bytes())
    edit(content)
    write_digested(path, content)


@pytest.mark.parametrize("shard_format", tokenmill.shards.FORMATS)
@pytest.mark.parametrize("options", [{}, {"sequence_length": 32}, {"shuffle": 5}])
def test_readers_find_the_documents_that_the_manifest_counts(tmp_path, shard_format, options):
    paths = [write_jsonl(tmp_path / f"{name}.jsonl", texts(60, name)) for name in range(4)]
    out = tmp_path / "out"
    options = {"task_bytes": 9000, "shard_tokens": 900} | options
    tokenize(paths, out, "gpt2", format=shard_format, **options)
    assert verify(out).findings == []
    for key, name in (("sources", "2.jsonl"), ("sources", "0.jsonl")):

        def edit(content, key=key, name=name):
            [row] = [row for row in content[key] if row["path"].endswith(name)]
            row["tokens"] += 1

        edited(out, edit)
        assert any(f"{name}: the shards have" in finding for finding in verify(out).findings)


def test_counts_that_do_not_add_up_are_found(tmp_path, corpus):
    out = tmp_path / "out"
    tokenize(corpus, out, "gpt2", task_bytes=8192)
    good = (out / "manifest.json").read_bytes()

    def change(*keys, by=1):
        def edit(content):
            for key in keys[:-1]:
                content = content[key]
            content[keys[-1]] += by

        return edit

    for edit, words in (
        (change("totals", "documents"), "the shards have 300 documents; expected 301"),
        (change("totals", "tokens"), "tokens; expected"),
        (change("tasks", 1, "documents"), "task 1: the shards have"),
        (change("tasks", 1, "segments", 0, "documents", by=-1), "task 1: the shards have"),
        (change("tasks", 0, "shards", 0, "documents"), "00000-000 has"),
        (change("tasks", 0, "shards", 0, "tokens"), "00000-000 has"),
    ):
        edited(out, edit)
        found = verify(out).findings
        assert any(words in finding for finding in found), (words, found)
        (out / "manifest.json").write_bytes(good)
    edited(out, lambda content: content["tasks"][0].pop("segments"))
    done = run("verify", out)
    assert done.returncode == 2 and "is damaged (KeyError: 'segments')" in done.stderr


def test_files_next_to_the_shards_are_checked(tmp_path, corpus):
    corpus.write_bytes(corpus.read_bytes() + b"{}\n")
    tokenize(corpus, tmp_path / "out", "gpt2", format="mds")
    assert verify(tmp_path / "out").is_good
    for name in ("index.json", "errors.jsonl"):
        data = (tmp_path / "out" / name).read_bytes()
        (tmp_path / "out" / name).write_bytes(data[:-1] + b" ")
        assert any(name in finding for finding in verify(tmp_path / "out").findings)


def test_tokenize_makes_files_of_a_complete_folder_again(tmp_path, corpus):
    out = tmp_path / "out"
    tokenize(corpus, out, "gpt2", task_bytes=8192)
    before = contents(out)
    next(out.glob("*.bin")).unlink()
    tokenize(corpus, out, "gpt2", task_bytes=8192)
    assert contents(out) == before


def test_verify_and_inspect_say_the_same_of_a_missing_shard(tmp_path, corpus):
    tokenize(corpus, tmp_path / "out", "gpt2")
    path = tmp_path / "out" / "00000-000.bin"
    size = path.stat().st_size
    path.unlink()
    said = f"00000-000.bin is missing; expected {size:,} bytes"
    done = run("verify", tmp_path / "out")
    assert done.returncode == 4 and done.stdout.startswith(f"{said}\n{RESTORE}\n")
    done = run("inspect", tmp_path / "out")
    assert done.returncode == 2 and f"{said}; {RESTORE}\n" in done.stderr


def test_a_damaged_manifest_is_an_error_with_the_way_out(tmp_path, corpus):
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


def test_foreign_journal_entries_are_ignored(tmp_path, corpus):
    out = tmp_path / "out"
    tokenize(corpus, out, "gpt2")
    before = contents(out)
    id_ = json.loads((out / "plan.json").read_bytes())["tasks"][0]["id"]
    (out / "manifest.json").unlink()
    texts_ = ["garbage", '{"task": 0}', '{"shuffled": 1}', "[]", "5", '{"task": "x", "id": []}']
    texts_ += [json.dumps({"task": 0, "id": id_, "shards": []}), "?"]
    (out / "journal").mkdir()
    for number, text in enumerate(texts_):
        path = out / "journal" / f"{number:05d}.json"
        if text.startswith("{"):
            write_digested(path, json.loads(text))
        else:
            path.write_text(text)
    tokenize(corpus, out, "gpt2")
    assert contents(out) == before


def test_a_manifest_that_was_edited_is_damaged(tmp_path, corpus):
    out = tmp_path / "out"
    tokenize(corpus, out, "gpt2")
    good = (out / "manifest.json").read_bytes()
    for was, now in (
        (b'"documents": 300', b'"documents": "x"'),
        (b'"dtype": "uint16"', b'"dtype": "float99"'),
        (b'"tasks": [', b'"tasks": [5, '),
        (b'"segments": [{', b'"segments": [[], {'),
    ):
        replace_digested(out / "manifest.json", good, was, now)
        for name in ("verify", "inspect"):
            done = run(name, out)
            assert done.returncode in (0, 2, 4) and "Traceback" not in done.stderr, done.stderr
    (out / "manifest.json").write_bytes(good)
    (out / "plan.json").unlink()
    done = run("verify", out, "--sample", "100%")
    assert done.returncode == 4 and done.stdout.startswith("plan.json is missing")
    done = run("inspect", out)
    assert done.returncode == 2 and "plan.json not found" in done.stderr


def test_a_source_that_changed_is_found(tmp_path, corpus):
    out = tmp_path / "out"
    tokenize(corpus, out, "gpt2")
    status = corpus.stat()
    data = corpus.read_bytes()
    corpus.write_bytes(data.replace(b"the", b"teh", 1))
    os.utime(corpus, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run("verify", out).returncode == 0
    done = run("verify", out, "--sample", "100%")
    assert done.returncode == 4
    assert "differs from the shards" in done.stdout and "changed since it was read" in done.stdout


@pytest.fixture(scope="module")
def lower(tmp_path_factory) -> Path:
    """A tokenizer that changes texts, so that they are encoded again to be compared."""
    path = tmp_path_factory.mktemp("lower") / "tokenizer.json"
    tokenmill.train_from_iterator(texts(50), vocab_size=300).save(path)
    content = json.loads(path.read_text())
    content["normalizer"] = {"type": "Lowercase"}
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    "options", [{}, {"sequence_length": 32, "format": "mds"}, {"format": "parquet"}]
)
@pytest.mark.parametrize("name", ["gpt2", "lower"])
def test_long_documents_are_compared_in_pieces(tmp_path, monkeypatch, lower, name, options):
    documents = ["A Short One", "Long " + " ".join(texts(200)), "", "Last " * 300]
    path = write_jsonl(tmp_path / "in.jsonl", documents)
    # The third line turns out bad when most of it was compared.
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(2, lines[1][:-3] + b'", "bad": nonsense}\n')
    path.write_bytes(b"".join(lines))
    tokenizer = lower if name == "lower" else name
    out = tmp_path / "out"
    result = tokenize(path, out, tokenizer, bos=5, eos=7, **options)
    assert (result.documents, result.quarantined) == (4, 1)
    status, data = path.stat(), path.read_bytes()
    at = data.index(b"Last ") + 1100
    for changed in (data, data[:at] + b"#" + data[at + 1 :], data[:at] + data[at + 10 :]):
        path.write_bytes(changed)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        verdicts = []
        for block_bytes in (64, 1000, 1 << 20):
            monkeypatch.setattr(comparison, "_BLOCK_BYTES", block_bytes)
            found = verify(out, sample=1.0)
            verdicts.append((found.documents, found.findings))
        assert verdicts[0] == verdicts[1] == verdicts[2]
        assert verdicts[0][0] == 4 and bool(verdicts[0][1]) == (changed != data)


def test_documents_around_those_that_were_too_long_are_compared(tmp_path, monkeypatch):
    limit = least_unsplit_bytes(monkeypatch)
    documents = ["short", "x" * (limit + 300_000), "a word " * (limit // 6), "after"]
    path = write_jsonl(tmp_path / "in.jsonl", documents)
    out = tmp_path / "out"
    result = tokenize(path, out, "gpt2", max_unsplit_bytes=limit)
    assert (result.documents, result.quarantined) == (3, 1)
    verdict = verify(out, sample=1.0)
    assert verdict.is_good and not verdict.notes and verdict.documents == 3


def test_an_incomplete_folder_is_an_error(tmp_path):
    done = run("verify", tmp_path)
    assert done.returncode == 2 and "not an output of tokenize" in done.stderr
    done = run("verify", tmp_path / "nowhere")
    assert done.returncode == 2
    assert "is not an output of tokenize: the folder does not exist" in done.stderr


def test_inspect_counts_every_token(tmp_path, corpus):
    out = tmp_path / "out"
    gpt2 = Tokenizer.load("gpt2")
    result = tokenize(corpus, out, gpt2, sequence_length=32)
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
    assert "documents" in done.stdout and "bytes per token" in done.stdout
    html = page.read_text()
    assert html.startswith("<!doctype html>") and 'class="bar"' in html and "<out>" not in html
    assert "&lt;out&gt;" in html


def test_inspect_shows_bad_inputs_first_and_whole_names_in_files(tmp_path):
    folder = tmp_path / ("long-name-" * 10)
    folder.mkdir()
    for number in range(30):
        write_jsonl(folder / f"{number:02}.jsonl", texts(3, number))
    write_jsonl(folder / "25.jsonl", [*texts(3), None])
    write_jsonl(folder / "27.jsonl", [*texts(3), None, None])
    (folder / "29.jsonl").write_bytes(b"")
    tokenize(folder, tmp_path / "out", "gpt2")
    done = run("inspect", tmp_path / "out")
    _, table = done.stdout.split("bytes/token")
    rows = [line.strip() for line in table.splitlines() if ".jsonl" in line]
    names = [row[row.index(str(folder)) + len(str(folder)) + 1 :] for row in rows]
    good = [f"{number:02}.jsonl" for number in range(17)]
    assert names == ["29.jsonl: no documents", "27.jsonl", "25.jsonl", *good]
    assert "and 10 more (--json shows all)" in done.stdout
    sources = inspect(tmp_path / "out").as_json()["sources"]
    assert [Path(source["path"]).stem for source in sources] == [f"{n:02}" for n in range(30)]


NASTY = "a\x1b]0;owned\x07\n[red]<b>\x9b2J\u202e"


def test_names_of_files_do_not_reach_the_terminal_as_they_are(tmp_path):
    folder = tmp_path / NASTY
    folder.mkdir()
    good = write_jsonl(folder / f"{NASTY}.jsonl", [*texts(5), None])
    (folder / os.fsdecode(b"caf\xe9.jsonl")).write_text("{}\n")
    out = tmp_path / f"{NASTY}out"
    common = ("--tokenizer", "gpt2", "--output", out)
    outcomes = [
        (3, run("tokenize", folder, *common)),
        (3, run("tokenize", folder, *common, "--json")),
        (2, run("tokenize", folder / "none", *common)),
        (2, run("tokenize", folder, *common, "--field", "nothing")),
        (2, run("tokenize", good, *common[:-1], tmp_path / "b", "--on-error", "fail")),
        (0, run("verify", out)),
        (0, run("inspect", out)),
        (0, run("inspect", out, "--json", "--html", tmp_path / "report.html")),
    ]
    good.write_bytes(good.read_bytes().replace(b"the", b"teh"))
    outcomes.append((4, run("verify", out, "--sample", "100%")))
    outcomes.append((4, run("verify", out, "--sample", "100%", "--json")))
    for code, done in outcomes:
        assert done.returncode == code, done.stderr
        for line in (done.stdout + done.stderr).split("\n"):
            assert line.isprintable(), line
    for said in (outcomes[0][1].stdout, outcomes[6][1].stdout):
        assert "\\x1b]0;owned" in said.replace("\n", "").replace(" ", "")
    assert json.loads(outcomes[7][1].stdout)["sources"][0]["path"] == str(good)
    html = (tmp_path / "report.html").read_text()
    assert all(line.isprintable() for line in html.split("\n"))
    assert "&lt;b&gt;" in html and "<b>" not in html and "caf\\udce9" in html


def test_the_function_is_the_command(tmp_path, corpus):
    tokenize(corpus, tmp_path / "a", "gpt2")
    done = run_process("tokenize", corpus, "--tokenizer", "gpt2", "--output", tmp_path / "b")
    assert done.returncode == 0
    assert (tmp_path / "a/manifest.json").read_bytes() == (
        tmp_path / "b/manifest.json"
    ).read_bytes()
    assert len(tokenmill.shards.open(tmp_path / "a")) == 300


def test_a_source_that_is_gone_is_named_and_no_other_is_blamed(tmp_path):
    paths = [write_jsonl(tmp_path / f"{n}.jsonl", texts(5, n)) for n in range(3)]
    tokenize(paths, tmp_path / "out", "gpt2")
    paths[0].unlink()
    verdict = verify(tmp_path / "out", sample=1.0)
    (finding,) = verdict.findings
    assert "0.jsonl: file not found, so task 0 is not compared" in finding


def test_shards_in_a_folder_of_inputs_are_not_inputs(tmp_path):
    write_jsonl(tmp_path / "a.jsonl", texts(5))
    tokenize(tmp_path, tmp_path / "one", "gpt2")
    assert tokenize(tmp_path, tmp_path / "two", "gpt2").is_complete


@pytest.mark.parametrize("sample", [0, 1.5, "101%", "some", True])
def test_a_sample_that_is_not_a_share_is_rejected(tmp_path, sample):
    with pytest.raises(tokenmill.TokenmillError, match="sample must be a share above 0"):
        verify(tmp_path, sample=sample)


def test_a_sample_may_be_a_percentage(tmp_path, corpus):
    tokenize(corpus, tmp_path / "out", "gpt2")
    assert verify(tmp_path / "out", sample="100%").documents == 300
    assert verify(tmp_path / "out").documents == 0


def test_a_source_that_grew_is_a_note(tmp_path):
    path = write_jsonl(tmp_path / "grows.jsonl", ["x"])
    tokenize(path, tmp_path / "out", "gpt2")
    assert not verify(tmp_path / "out", sample=1.0).notes
    with path.open("a") as file:
        file.write('{"text": "more"}\n')
    found = verify(tmp_path / "out", sample=1.0)
    assert found.is_good and "grows.jsonl: has grown by 17 bytes" in found.notes[0]


def test_verify_and_inspect_report_their_progress(tmp_path, corpus, monkeypatch):
    out = tmp_path / "shards"
    result = tokenize(corpus, out, "gpt2")
    seen = []
    verify(out, sample=1.0, progress=seen.append)
    assert {one.phase for one in seen} == {"checking files", "comparing"}
    checked = [one for one in seen if one.phase == "checking files"]
    assert checked[-1].done == checked[-1].total == result.bytes_written
    inspect(out, seen.append)
    assert (seen[-1].phase, seen[-1].done) == ("reading shards", result.tokens)
    assert run("verify", out).stderr == ""  # a short command shows none
    monkeypatch.setattr("tokenmill.cli.progress.AFTER", 0.0)
    assert "checking files: " in run("verify", out).stderr
    assert run("verify", out, "--quiet").stderr == ""
    assert f"reading shards: {result.tokens:,} of" in run("inspect", out).stderr
