"""Bad records and files → each is in errors.jsonl, or stops the run."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from corpus_cases import command, expected_ids, texts, write_jsonl
from in_process import least_unsplit_bytes
from in_process import run_main as run
from in_process import threaded_runs as threaded_runs

import tokenmill
from tokenmill import Tokenizer, TokenmillError, tokenize
from tokenmill.tokenizing.options import MEMORY_MIN

COUNT = 1000


@pytest.fixture(scope="module")
def gpt2() -> Tokenizer:
    return Tokenizer.load("gpt2")


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def errors_of(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "errors.jsonl").read_bytes().splitlines()]


@pytest.fixture
def corpus(tmp_path: Path) -> tuple[Path, list[str]]:
    documents = texts(COUNT, 5)
    return write_jsonl(tmp_path / "in.jsonl", documents), documents


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b'{"text": "broken\n', "JSON"),
        (b'{"n": 1}\n', "text"),
        (b'{"text": null}\n', "null"),
        (b'{"text": 5}\n', "text"),
        (b'{"text": "caf\xe9 au lait"}\n', "UTF-8"),
    ],
)
def test_one_bad_line_of_a_thousand_is_quarantined(tmp_path, gpt2, corpus, bad, reason):
    path, documents = corpus
    lines = lines_of(path)
    lines[500] = bad
    path.write_bytes(b"".join(lines))
    done = run("tokenize", path, "--tokenizer", "gpt2", "--output", tmp_path / "out")
    assert done.returncode == 3, done.stderr
    assert "1 record rejected" in done.stdout
    (error,) = errors_of(tmp_path / "out")
    assert error["source"] == str(path) and error["line"] == 501
    assert error["offset"] == sum(map(len, lines[:500]))
    assert reason in error["reason"]
    (kept,) = (tmp_path / "out" / "quarantine").iterdir()
    row = json.loads(kept.read_bytes())
    assert "record" in row or "record_base64" in row
    found = [ids.tolist() for ids in tokenmill.shards.open(tmp_path / "out")]
    assert found == expected_ids(gpt2, documents[:500] + documents[501:], 50256)


def test_policies_for_bytes_that_are_not_utf8(tmp_path, gpt2, corpus):
    path, _documents = corpus
    lines = lines_of(path)
    lines[7] = b'{"text": "caf\xe9 au lait"}\n'
    path.write_bytes(b"".join(lines))
    for policy, text in (("replace", "caf\ufffd au lait"), ("bytes", b"caf\xe9 au lait")):
        result = tokenize(path, tmp_path / policy, gpt2, utf8=policy)
        assert result.documents == COUNT and result.is_complete
        assert result.manifest["options"]["utf8"] == policy
        ids = tokenmill.shards.open(tmp_path / policy)[7].tolist()
        assert ids == [*gpt2.encode(text), 50256]


def test_a_wrong_field_is_named_with_those_that_are_there(tmp_path, corpus):
    path, _ = corpus
    done = run(
        *("tokenize", path, "--tokenizer", "gpt2", "--field", "content"),
        *("--output", tmp_path / "out"),
    )
    assert done.returncode == 2
    assert "'content'" in done.stderr and "'text'" in done.stderr and "'n'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_field_that_holds_no_text_is_named(tmp_path, corpus):
    path, _ = corpus
    done = run("tokenize", path, "--tokenizer", "gpt2", "--field", "n", "--output", tmp_path / "o")
    assert done.returncode == 2 and "JSON number in the field 'n'" in done.stderr


def test_run_is_complete_if_stderr_is_closed(tmp_path, corpus):
    path, _ = corpus
    arguments = ("tokenize", path, "--tokenizer", "gpt2", "--output", tmp_path / "out")
    line = shlex.join(command(*arguments)) + " >/dev/null 2>&-"
    assert subprocess.run(["sh", "-c", line], timeout=60).returncode == 0
    assert (tmp_path / "out" / "manifest.json").exists()


def test_closed_streams_stop_a_run_before_its_first_file(tmp_path, corpus):
    path, _ = corpus
    arguments = ("tokenize", path, "--tokenizer", "gpt2", "--output", tmp_path / "out")
    line = shlex.join(command(*arguments)) + " >&- 2>&-"
    assert subprocess.run(["sh", "-c", line], timeout=60).returncode == 2
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    words = ("--tokenizer", "gpt2", "--output", tmp_path / "out")
    done = run("tokenize", path, *words, "--field", "body")
    assert "with --field" in done.stderr and "field=" not in done.stderr
    assert not list((tmp_path / "out").iterdir())
    assert run("tokenize", path, *words).returncode == 0
    assert not (tmp_path / "out" / ".lock").exists()


def test_a_byte_order_mark_is_removed(tmp_path, gpt2, corpus):
    path, _documents = corpus
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert tokenize(path, tmp_path / "out", gpt2).documents == COUNT


def test_every_member_of_a_gzip_file_is_read(tmp_path, gpt2, corpus):
    path, _documents = corpus
    lines = lines_of(path)
    packed = gzip.compress(b"".join(lines[:503])) + gzip.compress(b"".join(lines[503:]))
    (tmp_path / "in.jsonl.gz").write_bytes(packed)
    assert tokenize(tmp_path / "in.jsonl.gz", tmp_path / "out", gpt2).documents == COUNT


def test_one_truncated_file_of_four_does_not_stop_the_others(tmp_path, gpt2, corpus):
    path, documents = corpus
    lines = lines_of(path)
    inputs = []
    for number in range(4):
        packed = gzip.compress(b"".join(lines[250 * number : 250 * (number + 1)]))
        inputs.append(tmp_path / f"{number}.jsonl.gz")
        inputs[-1].write_bytes(packed[: len(packed) // 2] if number == 2 else packed)
    done = run("tokenize", *inputs, "--tokenizer", "gpt2", "--output", tmp_path / "out")
    assert done.returncode == 3, done.stderr
    (error,) = errors_of(tmp_path / "out")
    assert error["source"].endswith("2.jsonl.gz") and "byte" in error["reason"]
    sources = json.loads((tmp_path / "out" / "manifest.json").read_bytes())["sources"]
    good = [source["documents"] for source in sources]
    assert [good[0], good[1], good[3]] == [250] * 3 and 0 < good[2] < 250
    # It gave documents, but not all: the summary names it, too.
    assert "2.jsonl.gz: ends before its compressed data does" in done.stdout
    assert [source["path"] for source in sources if "error" in source] == [str(inputs[2])]
    found = [ids.tolist() for ids in tokenmill.shards.open(tmp_path / "out")]
    kept = documents[: 500 + good[2]] + documents[750:]
    assert found == expected_ids(gpt2, kept, 50256)


def test_files_without_documents_are_named(tmp_path, gpt2, corpus):
    path, _ = corpus
    (tmp_path / "empty.jsonl").write_bytes(b"")
    (tmp_path / "other.jsonl").write_bytes(b'{"body": "x"}\n' * 3)
    inputs = [path, tmp_path / "empty.jsonl", tmp_path / "other.jsonl"]
    result = tokenize(inputs, tmp_path / "out", gpt2)
    assert not result.is_complete
    assert [Path(source["path"]).name for source in result.failures] == [
        "empty.jsonl",
        "other.jsonl",
    ]
    assert result.documents == COUNT and result.quarantined == 4


def test_two_hundred_files_of_which_some_are_broken(tmp_path, gpt2):
    folder = tmp_path / "in"
    folder.mkdir()
    broken = {}
    expected = []
    for number in range(200):
        documents = texts(4, number)
        data = "".join(json.dumps({"text": text}) + "\n" for text in documents).encode()
        path = folder / f"{number:03d}.jsonl"
        if number % 25 == 3:
            path = path.with_suffix(".jsonl.gz")
            packed = gzip.compress(data, mtime=0)
            data, documents = packed[:-9], None
            broken[str(path)] = "byte"
        elif number % 25 == 5:
            data = data + b'{"text": bad}\n'
            broken[str(path)] = "JSON"
        elif number % 25 == 7:
            data, documents = data.replace(b'"text"', b'"body"'), []
            broken[str(path)] = "'body'"
        elif number % 25 == 9:
            data = data + b'{"text": "\xff"}\n'
            broken[str(path)] = "UTF-8"
        elif number % 25 == 11:
            data, documents = b"", []
            broken[str(path)] = "no documents"
        path.write_bytes(data)
        if documents is not None:
            expected += documents
    done = run("tokenize", folder, "--tokenizer", "gpt2", "--output", tmp_path / "out", "--json")
    assert done.returncode == 3, done.stderr
    errors = errors_of(tmp_path / "out")
    reasons = {error["source"]: error["reason"] for error in errors}
    assert reasons.keys() == broken.keys()
    assert all(words in reasons[name] for name, words in broken.items())
    totals = json.loads(done.stdout)
    assert totals["quarantined"] == len(errors) == 8 * (1 + 1 + 4 + 1 + 1)
    # Of a file that is cut off, whole records are kept; here all bytes of the text came out.
    assert totals["documents"] >= len(expected)


def test_on_error_fail_stops_and_names_the_record(tmp_path, corpus):
    path, _ = corpus
    lines = lines_of(path)
    lines[500] = b"{}\n"
    path.write_bytes(b"".join(lines))
    arguments = ("tokenize", path, "--tokenizer", "gpt2", "--output", tmp_path / "out")
    done = run(*arguments, "--on-error", "fail")
    assert done.returncode == 2
    assert f"{path}, line 501" in done.stderr
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_on_error_skip_counts_and_keeps_no_records(tmp_path, gpt2, corpus):
    path, _ = corpus
    path.write_bytes(path.read_bytes() + b"{}\n")
    result = tokenize(path, tmp_path / "out", gpt2, on_error="skip")
    assert result.quarantined == 1 and result.documents == COUNT
    (error,) = errors_of(tmp_path / "out")
    assert "record" not in error


def test_more_bad_records_than_allowed_stop_the_run(tmp_path, gpt2, corpus):
    path, _ = corpus
    path.write_bytes(path.read_bytes() + b"{}\n" * 10)
    with pytest.raises(TokenmillError, match="more than 9 records"):
        tokenize(path, tmp_path / "out", gpt2, max_errors=9)
    assert tokenize(path, tmp_path / "out", gpt2, max_errors=10).quarantined == 10


def test_paths_that_are_not_files_are_named(tmp_path, gpt2, corpus):
    path, _ = corpus
    folder = tmp_path / "in"
    folder.mkdir()
    path.rename(folder / "good.jsonl")
    (folder / "gone.jsonl").symlink_to("/nowhere")
    result = tokenize(folder, tmp_path / "out", gpt2)
    assert result.documents == COUNT
    (failure,) = result.failures
    assert failure["path"].endswith("gone.jsonl") and "No such file" in failure["error"]
    os.mkfifo(folder / "pipe.jsonl")
    with pytest.raises(TokenmillError, match="is not a regular file"):
        tokenize(folder, tmp_path / "other", gpt2)


def test_wrong_field_leaves_no_folder(tmp_path, gpt2, corpus):
    path, _documents = corpus
    with pytest.raises(TokenmillError, match="no field 'body'"):
        tokenize(path, tmp_path / "out", gpt2, field="body")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "txt"])
def test_a_document_that_cannot_be_cut_has_its_line_and_offset(tmp_path, gpt2, monkeypatch, suffix):
    limit = least_unsplit_bytes(monkeypatch)
    long = "x" * (limit + 1000)
    rows = ["one", "two", long, "three", long]
    if suffix == "jsonl":
        lines = [json.dumps({"text": text}) for text in rows]
        lines[1] = "{"  # a bad line does not shift the others
    else:
        lines = ["text", *rows] if suffix == "csv" else rows
    path = tmp_path / f"a.{suffix}"
    path.write_text("\n".join(lines) + "\n")
    more = {"separator": "\n"} if suffix == "txt" else {}
    tokenize(path, tmp_path / "out", gpt2, max_unsplit_bytes=limit, task_bytes=2 * limit, **more)
    found = [error for error in errors_of(tmp_path / "out") if error["bytes"] == len(long)]
    assert len(found) == 2
    data = path.read_bytes()
    for error in found:
        line = lines[error["line"] - 1]
        assert data[error["offset"] :].startswith(line.encode()) and long in line
        assert error["record"].startswith("x")


@pytest.mark.parametrize("split", [None, {"val": 0.5}])
def test_rejected_records_are_in_the_order_of_the_file(tmp_path, gpt2, monkeypatch, split):
    limit = least_unsplit_bytes(monkeypatch)
    # A block that grew for the longer one has all of the shorter one, and the line between them.
    longer, long = (json.dumps({"text": "x" * int(size * limit)}) for size in (2.2, 1.1))
    lines = ["{", longer, "[", long, '{"text": "one"}', "{{", longer, '{"text": "two"}']
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines) + "\n")
    bad = [
        number for number, line in enumerate(lines, 1) if "one" not in line and "two" not in line
    ]
    for memory in (MEMORY_MIN + (1 << 20), 1 << 30):  # blocks of 64 KiB, and larger ones
        out = tmp_path / f"out-{memory}"
        more = {"max_unsplit_bytes": limit, "memory": memory, "threads": 1, "split": split}
        tokenize(path, out, gpt2, task_bytes=1 << 30, **more)
        assert [error["line"] for error in errors_of(out)] == bad


def test_a_row_that_cannot_be_cut_has_its_number(tmp_path, gpt2, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    limit = least_unsplit_bytes(monkeypatch)
    rows = ["one", None, "x" * (limit + 1000), "three"]
    pytest.importorskip("pyarrow.parquet").write_table(
        pa.table({"text": rows}), tmp_path / "a.parquet"
    )
    tokenize(tmp_path / "a.parquet", tmp_path / "out", gpt2, max_unsplit_bytes=limit)
    assert [error["line"] for error in errors_of(tmp_path / "out")] == [2, 3]


def test_rejected_records_are_counted_by_reason(tmp_path, corpus):
    path, _ = corpus
    bad = b'{"text": null}\n' * 4 + b'{"t": 1}\n' * 2 + b"{\n" + b'{"text": "\xff"}\n' * 3
    path.write_bytes(bad + path.read_bytes())
    out = tmp_path / "out"
    words = ("tokenize", path, "--tokenizer", "gpt2", "--output", out)
    done = run(*words, "--json")
    found = json.loads(done.stdout)
    assert list(found["errors"].values()) == [4, 3, 2, 1]
    reasons = list(found["errors"])
    assert reasons[0] == "has null in the field 'text'"
    assert reasons[1].startswith("is not UTF-8: byte N is N; ")
    assert json.loads((out / "manifest.json").read_bytes())["errors"] == found["errors"]
    assert "4 × has null in the field 'text'" in run(*words).stdout


def test_summary_has_time_rates_memory_and_size(tmp_path, corpus):
    path, _ = corpus
    words = ("tokenize", path, "--tokenizer", "gpt2", "--output", tmp_path / "out")
    done = run(*words)
    assert re.search(
        r"s: text [\d.,]+ .B/s, input [\d.,]+ .B/s, output [\d.,]+ .B, peak memory [\d.,]+ .B",
        done.stdout,
    )
    found = json.loads(run(*words, "--json").stdout)
    written = sum(
        file.stat().st_size for file in (tmp_path / "out").iterdir() if file.name != "manifest.json"
    )
    assert found["bytes_written"] == written and found["peak_memory"] > 1 << 20
    assert found["seconds"] >= 0 and found["bytes_per_second"] == 0  # nothing was left to do


def test_max_errors_may_be_a_share(tmp_path, gpt2, corpus):
    path, _ = corpus
    path.write_bytes(path.read_bytes() + b"{}\n" * 10)  # of 1,010 records
    words = ("tokenize", path, "--tokenizer", "gpt2", "--output", tmp_path / "out")
    for _ in range(2):  # the second time, all tasks are done
        done = run(*words, "--max-errors", "0.9%")
        assert done.returncode == 2 and "more than 0.9% of the records" in done.stderr
    assert run(*words, "--max-errors", "1%").returncode == 3
    with pytest.raises(TokenmillError, match="share"):
        tokenize(path, tmp_path / "other", gpt2, max_errors="x%")
    with pytest.raises(TokenmillError, match="whole number"):
        gpt2.encode_files([path], max_errors=0.01)


def test_a_run_without_documents_has_its_own_exit_code(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": null}\n')
    done = run(
        *("tokenize", tmp_path / "a.jsonl", "--tokenizer", "gpt2", "--output", tmp_path / "out")
    )
    assert done.returncode == 5
    assert "no documents: has null in the field 'text'" in done.stdout
    assert "no document was found in any input" in done.stdout
