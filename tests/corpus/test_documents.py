"""Sources → documents: each text once, for every format. Errors name the file and the line.

Tests of corpus/documents.py, corpus/inputs.py, corpus/streams.py and
training/counting.py.
"""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import lzma
import random
import re
import sys
from pathlib import Path

import hard_inputs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from conftest import FIXTURES, SEED

from tokenmill import TrainingWarning, corpus
from tokenmill.corpus import Documents, Source
from tokenmill.corpus.streams import Stream
from tokenmill.errors import (
    InputError,
    MissingExtraError,
    MissingInputError,
    OptionError,
)
from tokenmill.patterns.schemes import pattern_of
from tokenmill.training.counting import Plan, _Counting, count_documents
from tokenmill.training.options import CountOptions, resolve_options

SQUEEZE = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor().compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
}
TEXTS = ["one", "zwei — 中文 🌾", "", "line\nbreak", 'a "quote" \\ and \t', "last"]


def find_sources(given, weights=None, format=None) -> list[Source]:
    """The sources of paths, or of texts and columns that Python holds."""
    several = given if isinstance(given, list | tuple) else [given]
    if several and all(isinstance(one, str | Path) for one in several):
        return corpus.find(given, format, weights, counts=True)
    return [corpus.from_python(given)]


def documents(given, format=None, start=0, batch_bytes=1 << 24, **options) -> list[bytes]:
    """All documents that training counts, as bytes. Of a long one, the parts."""
    found = []
    for source in find_sources(given, None, format):
        for block in blocks_of(source, start, batch_bytes, **options):
            view = memoryview(block.data)
            found += [bytes(view[start:end]) for start, end in block.spans.tolist()]
    return found


def plan_of(sources, folder, **options) -> Plan:
    return Plan(sources, resolve_options(CountOptions, options), pattern_of("r50k"), (), folder)


def blocks_of(source, start=0, batch_bytes=1 << 24, **options) -> list[Documents]:
    counting = _Counting(plan_of([source], Path(), **options))
    counting._batch_bytes = max(batch_bytes, 16)
    return [counting._sampled(block) for block in counting._read(source, start)]


def raw(text) -> bytes:
    return text.encode() if isinstance(text, str) else bytes(text)


def raises(error: type[Exception], *parts: object):
    return pytest.raises(error, match="(?s)" + ".*".join(re.escape(str(part)) for part in parts))


def packed(data: bytes, how: str, pieces: int) -> bytes:
    """`data` compressed in several members or frames."""
    cuts = [len(data) * i // pieces for i in range(pieces + 1)]
    return b"".join(SQUEEZE[how](data[a:b]) for a, b in itertools.pairwise(cuts))


# ── files ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", [None, *SQUEEZE])
@pytest.mark.parametrize("batch_bytes", [64, 5_000, 1 << 24])
def test_text_file_is_one_document_in_blocks(tmp_path, how, batch_bytes):
    data = b"\n".join(path.read_bytes()[:3_000] for path in FIXTURES[:8])
    path = tmp_path / ("text.txt" + (f".{how}" if how else ""))
    path.write_bytes(packed(data, how, 5) if how else data)
    assert b"".join(documents(path, batch_bytes=batch_bytes)) == data


@pytest.mark.parametrize("how", [None, *SQUEEZE])
@pytest.mark.parametrize("batch_bytes", [64, 1 << 24])
def test_json_lines_give_a_document_each(tmp_path, how, batch_bytes):
    lines = [
        json.dumps({"id": 1, "text": text}, ensure_ascii=i % 2 == 0) for i, text in enumerate(TEXTS)
    ]
    lines.insert(2, "")
    lines.insert(4, json.dumps({"text": None}))
    for end in ("", "\n", "\r\n"):
        data = b"\xef\xbb\xbf" + "\n".join(lines).encode() + end.encode()
        path = tmp_path / ("rows.jsonl" + (f".{how}" if how else ""))
        path.write_bytes(packed(data, how, 3) if how else data)
        assert documents(path, batch_bytes=batch_bytes) == [text.encode() for text in TEXTS]


def test_field_with_dots_leads_into_objects(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": {"b": "inner"}}\n{"a.b": "whole name"}\n')
    assert documents(path, field="a.b") == [b"inner", b"whole name"]


@pytest.mark.parametrize("how", [None, *SQUEEZE])
@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "binary", "dictionary"])
def test_parquet_gives_a_document_for_each_row(tmp_path, how, kind):
    values = [*TEXTS[:3], None, *TEXTS[3:]]
    if kind == "dictionary":
        column = pa.array(values).dictionary_encode()
    elif kind == "binary":
        column = pa.array([v if v is None else v.encode() for v in values], pa.binary())
    else:
        column = pa.array(values, getattr(pa, kind)())
    table = pa.table({"n": range(len(values)), "body": column})
    plain = tmp_path / "rows.parquet"
    pq.write_table(table, plain, row_group_size=3)
    path = plain
    if how:
        path = tmp_path / f"rows.parquet.{how}"
        path.write_bytes(packed(plain.read_bytes(), how, 2))
    for batch_bytes in (1, 1 << 24):
        found = documents(path, field="body", batch_bytes=batch_bytes)
        assert found == [text.encode() for text in TEXTS]


def test_parquet_field_with_dots_leads_into_structs(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(
        pa.table({"a": [{"b": "x", "c": {"d": "y"}}, None, {"b": "z", "c": None}]}), path
    )
    assert documents(path, field="a.b") == [b"x", b"z"]
    assert documents(path, field="a.c.d") == [b"y"]
    with raises(InputError, "rows.parquet", "'q'", "'b', 'c'"):
        documents(path, field="a.q")


@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz", "t.jsonl", "t.jsonl.zst", "t.parquet"])
@pytest.mark.parametrize("batch_bytes", [200, 3_000])
def test_reading_resumes_at_any_byte_of_the_documents(tmp_path, name, batch_bytes):
    path = tmp_path / name
    texts = [f"document {i} — 中文 " * (i % 7) for i in range(400)]
    if "jsonl" in name:
        data = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    else:
        data = " ".join(texts).encode()
    if "parquet" in name:
        pq.write_table(pa.table({"text": texts}), path, row_group_size=11)
    else:
        how = name.rpartition(".")[2]
        path.write_bytes(packed(data, how, 3) if how in SQUEEZE else data)
    [source] = find_sources(path)
    blocks = blocks_of(source, 0, batch_bytes)
    whole = b"".join(documents(path))
    size = 0
    for block in blocks[:: len(blocks) // 7 + 1]:
        size += int((block.spans[:, 1] - block.spans[:, 0]).sum())
        for start in (size, size - 1, size // 2):
            assert b"".join(documents(path, start=start, batch_bytes=batch_bytes)) == whole[start:]
    assert blocks[-1].bytes_read >= path.stat().st_size * 0.9


def test_globs_and_many_paths_keep_their_order(tmp_path, monkeypatch):
    for name in ("b.txt", "a.txt", "sub/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    assert documents("*.txt") == [b"a.txt", b"b.txt"]
    assert documents("**/*.txt") == [b"a.txt", b"b.txt", b"sub/c.txt"]
    paths = [tmp_path / "b.txt", tmp_path / "sub" / "*.txt", tmp_path / "a.txt"]
    assert documents(paths) == [b"b.txt", b"sub/c.txt", b"a.txt"]
    (tmp_path / "[x].txt").write_text("a name is a name first")
    assert documents("[x].txt") == [b"a name is a name first"]


@pytest.mark.parametrize("how", [None, "gz"])
def test_stdin_is_read_to_its_end(tmp_path, monkeypatch, how):
    data = b"from a pipe\n" * 9_000
    path = tmp_path / "pipe"
    path.write_bytes(packed(data, how, 2) if how else data)
    with path.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert b"".join(documents("-", batch_bytes=4_096)) == data


# ── texts and columns ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("batch_bytes", [1, 1 << 24])
def test_iterables_of_texts(batch_bytes):
    texts = [
        *TEXTS,
        b"\xff bytes",
        bytearray(b"array"),
        memoryview(b"view"),
        memoryview(b"s-t")[::2],
    ]
    expected = list(map(raw, texts))
    for given in (texts, tuple(texts), iter(texts), (t for t in texts), [texts[:3], texts[3:]]):
        assert documents(given, batch_bytes=batch_bytes) == expected
    assert documents([]) == []


@pytest.mark.parametrize("batch_bytes", [1, 1 << 24])
def test_arrow_columns_of_every_kind(batch_bytes):
    expected = [text.encode() for text in TEXTS]
    values = [*TEXTS[:2], None, *TEXTS[2:]]
    kinds = [pa.string(), pa.large_string(), pa.string_view()]
    for kind in kinds:
        column = pa.array(["cut off", *values, "too"], kind)[1:-1]
        for given in (
            column,
            pa.chunked_array([column[:3], column[3:]]),
            pa.table({"text": column}),
        ):
            assert documents(given, batch_bytes=batch_bytes) == expected
    assert documents(pa.table({"a": [{"b": "x"}]}), field="a.b") == [b"x"]


def test_arrow_texts_show_the_memory_of_the_column():
    column = pa.array(["first", "second"])
    [source] = find_sources(column)
    [block] = blocks_of(source)
    assert pa.py_buffer(block.data).address == column.buffers()[2].address
    assert block.spans.tolist() == [[0, 5], [5, 11]]


# ── samples ──────────────────────────────────────────────────────────────────────────────────


def test_sample_is_a_share_that_depends_on_the_text_and_the_seed_alone(tmp_path):
    texts = [f"document number {i}" for i in range(4_000)]
    kept = documents(iter(texts), sample=0.25, seed=1)
    assert 850 < len(kept) < 1_150
    shuffled = random.Random(SEED).sample(texts, len(texts))
    assert sorted(documents(iter(shuffled), sample=0.25, seed=1, batch_bytes=100)) == sorted(kept)
    assert documents([text.encode() for text in texts], sample=0.25, seed=1) == kept
    assert documents(iter(texts), sample=0.25, seed=2) != kept
    assert documents(iter(texts), sample=1.0) == [text.encode() for text in texts]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    assert documents(path, sample=0.25, seed=1) == kept


def test_sample_of_a_text_file_takes_lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"line {i}\n" for i in range(2_000)))
    kept = documents(path, sample=0.1, batch_bytes=500)
    assert kept == documents(path, sample=0.1)
    assert 120 < len(kept) < 290
    assert all(re.fullmatch(rb"line \d+\n", line) for line in kept)


def test_lines_are_documents_if_asked_for(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\r\n\n two \x0b\x85\nlast")
    for batch_bytes in (4, 1 << 20):
        found = documents(path, format="lines", batch_bytes=batch_bytes)
        assert found == [b"one\r\n", b"\n", b" two \x0b\x85\n", b"last"]


# ── mistakes ─────────────────────────────────────────────────────────────────────────────────


def test_missing_inputs_are_named(tmp_path):
    with raises(MissingInputError, "nowhere.txt", "glob"):
        documents(tmp_path / "nowhere.txt")
    with raises(MissingInputError, "no file matches", "*.nothing"):
        documents(str(tmp_path / "*.nothing"))
    with raises(MissingInputError, "a long text", "[text]"):
        documents("a long text\nof two lines")
    with raises(MissingInputError, "folder", tmp_path, ".jsonl"):
        documents(tmp_path)


def test_list_of_str_is_a_list_of_paths(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("x")
    assert documents([str(path)]) == [b"x"]
    assert documents(iter([str(path)])) == [str(path).encode()]


def test_binary_files_are_refused(tmp_path):
    path = tmp_path / "image.txt"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with raises(InputError, "image.txt", "not text", "byte 8"):
        documents(path)
    path.write_bytes("wide".encode("utf-16"))
    with raises(InputError, "image.txt", "UTF-16", "iconv"):
        documents(path)
    path.write_bytes(b"caf\xe9 au lait")
    with pytest.warns(TrainingWarning) as notes:
        assert documents(path) == [b"caf\xe9 au lait"]
    assert len(notes) == 1
    assert "image.txt is not UTF-8 (byte 3 is 0xE9)" in str(notes[0].message)


def test_json_mistakes_name_file_and_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    good = '{"text": "x"}\n'
    for bad, *parts in (
        ('{"text": "y"', "line 3", "not JSON"),
        ('{"body": "y", "id": 1}', "line 3", "no field 'text'", "'body', 'id'", "--field"),
        ("{}", "line 3", "no field 'text'", "none"),
        ('{"text": 5}', "line 3", "a JSON number in the field 'text'"),
        ('{"text": ["a"]}', "line 3", "a JSON array in the field 'text'"),
        ('["text"]', "line 3", "JSON array, not an object"),
    ):
        path.write_text(good + "\n" + bad + "\n" + good)
        for batch_bytes in (8, 1 << 20):
            with raises(InputError, path, *parts):
                documents(path, batch_bytes=batch_bytes)
    path.write_bytes(good.encode() + b'{"text": "caf\xe9"}\n')
    with raises(InputError, path, "line 2", "not UTF-8", "byte 27"):
        documents(path, utf8="strict")
    assert documents(path) == [b"x", b"caf\xe9"]


@pytest.mark.parametrize("how", SQUEEZE)
def test_compressed_file_that_is_cut_off_or_damaged_is_named(tmp_path, how):
    data = random.Random(SEED).randbytes(50_000).replace(b"\0", b"x")
    whole = packed(data, how, 2)
    # A file that ends exactly after its first member is complete.
    first = len(packed(data[: len(data) // 2], how, 1))
    path = tmp_path / f"text.{how}"
    for end in (len(whole) - 1, first + 9, first - 1, 40):
        path.write_bytes(whole[:end])
        with raises(InputError, path, "ends before its compressed data does", "again"):
            documents(path)
    damaged = bytearray(whole)
    damaged[len(whole) // 3] ^= 0xFF
    path.write_bytes(bytes(damaged[:100]) + b"nonsense" * 9 if how == "zst" else damaged)
    with raises(InputError, path):
        documents(path)
    path.write_bytes(whole + b"behind the end")
    with raises(InputError, path, "is damaged"):
        documents(path)
    path.write_bytes(b"plain text")
    with raises(InputError, path, f"is called .{how}"):
        documents(path)


@pytest.mark.parametrize("how", ["gz", "xz"])
def test_padded_file_is_whole(tmp_path, how):
    path = tmp_path / f"t.{how}"
    path.write_bytes(SQUEEZE[how](b"text") + bytes(600) + SQUEEZE[how](b" and more") + bytes(8))
    assert documents(path) == [b"text and more"]
    path.write_bytes(b"")
    assert documents(path) == []


@pytest.mark.parametrize("how", SQUEEZE)
def test_a_small_file_of_much_text_comes_in_bounded_pieces(tmp_path, how):
    path = tmp_path / f"t.{how}"
    path.write_bytes(packed(bytes(b"a" * (40 << 20)), how, 2))
    with path.open("rb", buffering=0) as file:
        stream = Stream(file, str(path), how)
        count, most = 0, 0
        while stream._inflate():
            count += len(stream._ready)
            most = max(most, len(stream._ready))
    assert count == 40 << 20
    assert most <= 17 << 20


def test_parquet_mistakes_are_named(tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1 but not really")
    with raises(InputError, path, "not a Parquet file"):
        documents(path)
    pq.write_table(pa.table({"n": [1, 2], "body": ["a", "b"]}), path)
    with raises(InputError, path, "no column 'text'", "'n', 'body'", "--field"):
        documents(path)
    with raises(InputError, path, "int64, not texts"):
        documents(path, field="n")


@pytest.mark.parametrize("package, name", [("zstandard", "t.zst"), ("pyarrow", "t.parquet")])
def test_package_that_is_not_installed_is_named(tmp_path, monkeypatch, package, name):
    path = tmp_path / name
    path.write_bytes(zstandard.compress(b"text"))
    monkeypatch.setitem(sys.modules, package, None)
    with raises(MissingExtraError, path, package, "pip install", package):
        documents(path)


def test_wrong_types_are_named():
    for given in (5, None, 1.5):
        with raises(TypeError, "a path, an iterable", given):
            documents(given)
    with raises(TypeError, "one bytes", "[text]"):
        documents(b"text")
    with raises(TypeError, "document 2", "int 5"):
        documents(["a", "b", 5])
    with raises(TypeError, "document 0", "PosixPath", "as a list"):
        documents(iter([Path("a.txt")]))
    with raises(TypeError, "document 0, item 1", "NoneType"):
        documents([["a", None]])
    with raises(InputError, "column", "int64"):
        documents(pa.array([1, 2]))


def test_weights_fit_inputs(tmp_path):
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text(name)
    every = str(tmp_path / "*.txt")
    a, b = tmp_path / "a.txt", tmp_path / "b.txt"
    assert [s.weight for s in find_sources(every, {every: 2})] == [2, 2, 2]
    assert [s.weight for s in find_sources(every, {a: 2.5, str(b): 3})] == [2.5, 3, 1]
    assert [s.weight for s in find_sources(every, {"*/b*": 0.5})] == [1, 0.5, 1]
    with raises(OptionError, "nothing.txt", "matches no input", "a.txt"):
        find_sources(every, {"nothing.txt": 2})
    for weight in (0, -1, float("nan"), float("inf"), "2", True, None):
        with raises(OptionError, "weight", "a.txt", repr(weight)):
            find_sources(every, {a: weight})
    with raises(OptionError, "two weights"):
        find_sources(every, {"*a.txt": 2, "*/a*": 3})
    with raises(InputError, "twice", "--weight"):
        find_sources([a, b, a])


def test_hard_texts_come_through_every_format(tmp_path):
    texts = [t for t in hard_inputs.STRINGS if not re.search("[\ud800-\udfff]", t)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    parquet = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": texts}), parquet)
    expected = [text.encode() for text in texts]
    assert documents(path) == documents(parquet) == documents(iter(texts)) == expected


# ── one way in ───────────────────────────────────────────────────────────────────────────────


def test_training_reads_records_of_every_format_in_a_folder(tmp_path):
    (tmp_path / "a.json").write_text('{"text": "one"}\n')
    (tmp_path / "b.csv").write_text("id,text\n1,two\n")
    (tmp_path / "c.tsv").write_text("id\ttext\n1\tthree\n")
    page = b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 4\r\n\r\nfour\r\n\r\n"
    (tmp_path / "d.wet.gz").write_bytes(gzip.compress(page))
    with pa.OSFile(str(tmp_path / "e.arrow"), "wb") as file:
        table = pa.table({"text": ["five", None]})
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    assert documents(tmp_path) == [b"one", b"two", b"three", b"four", b"five"]
    counts = tmp_path / "f.tmc"
    assert tokenmill_count(tmp_path, counts) == 5


def tokenmill_count(folder: Path, output: Path) -> int:
    counted = count_documents(plan_of(find_sources(folder), folder)).take()
    counted.write(str(output), b"{}")
    return counted.total()


def test_wrong_field_is_reported_also_if_the_file_has_a_bad_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('not JSON\n{"body": "x"}\n')
    [source] = find_sources(path)
    error = corpus.find_wrong_field([source], corpus.DocumentOptions())
    assert "line 2 has no field 'text'; its fields are 'body'" in error
    assert corpus.find_wrong_field([source], corpus.DocumentOptions(field="body")) is None
    with raises(InputError, "line 2 has no field 'text'"):
        count_documents(plan_of([source], tmp_path))


def test_rejected_records_are_skipped_up_to_a_number(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "x"}\nnot JSON\n{"text": null}\n{"text": 5}\n{"text": "y"}\n')
    assert documents(path, on_error="skip", max_errors=2) == [b"x", b"y"]
    with raises(InputError, "more than 1 records", "line 2 is not JSON"):
        documents(path, on_error="skip", max_errors=1)
    plan = plan_of(find_sources(path), tmp_path, on_error="skip")
    with pytest.warns(TrainingWarning, match="2 records gave no document, the first:"):
        assert count_documents(plan).take().total() == 2
