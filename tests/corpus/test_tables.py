"""Tables, crawl archives, folders, globs and URLs → documents, compared with other libraries.

Tests of corpus/inputs.py, corpus/tables.py and corpus/warc.py.
"""

from __future__ import annotations

import errno
import gzip
import itertools
import os
import sys
import threading
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from test_documents import SQUEEZE, packed, raises
from test_segments import gather

from tokenmill.corpus import DocumentOptions, Segment, cuts, find, read
from tokenmill.errors import InputError, InputWarning, MissingExtraError, MissingInputError

VALUES = ["one", "zwei — 中文 🌾", None, "", "x" * 100, "line\nbreak", None, "last 🌾" * 30]
TEXTS = [value.encode() for value in VALUES if value is not None]
IDS = [str(i) for i, value in enumerate(VALUES) if value is not None]


def write_table(table: pa.Table, path: Path, rows: int = 3) -> None:
    if ".parquet" in path.name:
        pq.write_table(table, path, row_group_size=rows)
    elif ".stream" in path.name:
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    elif ".feather" in path.name:
        pyarrow.feather.write_feather(table, path, chunksize=rows)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)


TABLES = ["t.parquet", "t.arrow", "t.feather", "t.stream.arrow"]


# ── Parquet and Arrow ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "dictionary"])
@pytest.mark.parametrize("block_bytes", [16, 1 << 20])
def test_each_row_is_a_document_and_a_null_is_a_problem(tmp_path, name, kind, block_bytes):
    if kind == "dictionary":
        column = pa.array(VALUES).dictionary_encode()
    elif kind == "binary":
        column = pa.array([v if v is None else v.encode() for v in VALUES], pa.binary())
    else:
        column = pa.array(VALUES, getattr(pa, kind)())
    path = tmp_path / name
    write_table(pa.table({"n": range(len(VALUES)), "body": column}), path)
    found = gather(path, field="body", id_field="n", block_bytes=block_bytes)
    assert found.texts == TEXTS
    assert found.names == IDS
    assert [(one.line, one.offset) for one in found.problems] == [(3, -1), (7, -1)]
    assert "has null in the column 'body'" in found.problems[0].reason


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("how", SQUEEZE)
def test_tables_may_be_compressed_as_a_whole(tmp_path, name, how):
    path = tmp_path / name
    write_table(pa.table({"text": VALUES}), path)
    whole = packed(path.read_bytes(), how, 2)
    path = path.with_name(f"{name}.{how}")
    path.write_bytes(whole)
    assert gather(path).texts == TEXTS
    path.write_bytes(whole[:-20])
    found = gather(path)
    assert found.texts == []
    assert "ends before its compressed data does" in found.problems[0].reason


@pytest.mark.parametrize("name", TABLES)
def test_segments_of_tables_give_the_same_documents(tmp_path, name):
    path = tmp_path / name
    texts = [f"document {i} — 中文 " * (i % 7) if i % 50 else None for i in range(400)]
    write_table(pa.table({"text": texts, "other": [b"x" * 100] * 400}), path, 11)
    [source] = find(path)
    whole = gather(path)
    counts = set()
    for unit_bytes in (1, 500, 3_000, 10**9):
        segments = cuts(source, DocumentOptions(), unit_bytes)
        assert all(one.end == two.start for one, two in itertools.pairwise(segments))
        parts = gather(path, segments)
        assert parts.texts == whole.texts == [text.encode() for text in texts if text is not None]
        assert parts.problems == whole.problems
        counts.add(len(segments))
    assert counts == {1} if "stream" in name else {1, 37} < counts


@pytest.mark.parametrize("name", TABLES)
def test_utf8_policies_hold_for_tables(tmp_path, name):
    path = tmp_path / name
    column = pa.array([b"good", b"caf\xe9", "é".encode(), b"\xe4\xb8" * 40], pa.binary())
    write_table(pa.table({"text": column}), path)
    found = gather(path, block_bytes=16)
    assert found.texts == [b"good", "é".encode()]
    assert [(one.line, one.record) for one in found.problems] == [
        (2, b"caf\xe9"), (4, b"\xe4\xb8" * 40)
    ]  # fmt: skip
    assert gather(path, utf8="bytes", block_bytes=16).texts == column.to_pylist()
    assert gather(path, utf8="replace", block_bytes=16).texts == [
        value.decode("utf-8", "replace").encode() for value in column.to_pylist()
    ]


@pytest.mark.parametrize("name", TABLES)
def test_field_with_dots_leads_into_structs(tmp_path, name):
    path = tmp_path / name
    write_table(pa.table({"a": [{"b": "x", "c": {"d": "y"}}, None, {"b": "z", "c": None}]}), path)
    assert gather(path, field="a.b").texts == [b"x", b"z"]
    assert gather(path, field="a.c.d").texts == [b"y"]
    [problem] = gather(path, field="a.q").problems
    assert "no column 'q'" in problem.reason


@pytest.mark.parametrize("name", TABLES)
def test_mistakes_in_tables_are_one_problem(tmp_path, name):
    path = tmp_path / name
    write_table(pa.table({"n": [1, 2], "body": ["a", "b"]}), path)
    for field, part in (
        ("text", "has no column 'text'; its columns are 'n', 'body'. Name the right one"),
        ("n", "column 'n' contains int64, not texts"),
    ):
        found = gather(path, field=field)
        assert found.texts == []
        [problem] = found.problems
        assert part in problem.reason
        assert problem.line == 0
    path.write_bytes(b"PAR1 or ARROW1, but not really")
    [problem] = gather(path).problems
    assert "is not a" in problem.reason
    path.write_bytes(b"")
    assert len(gather(path).problems) == 1
    path.write_bytes(b"FEA1")
    [problem] = gather(path, kind="arrow").problems
    assert "version 1" in problem.reason


def test_damaged_row_group_is_a_problem_and_the_others_are_read(tmp_path):
    path = tmp_path / "rows.parquet"
    texts = [f"document {i}" * 20 for i in range(90)]
    table = pa.table({"text": texts})
    pq.write_table(table, path, row_group_size=30, use_dictionary=False, compression="zstd")
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(0)
    data = bytearray(path.read_bytes())
    frame = data.index(b"\x28\xb5\x2f\xfd", chunk.data_page_offset)
    data[frame : frame + 40] = b"\xff" * 40
    path.write_bytes(data)
    [source] = find(path)
    for segments in (None, cuts(source, DocumentOptions(), 1)):
        found = gather(path, segments)
        assert found.texts == [text.encode() for text in texts[:30] + texts[60:]]
        [problem] = found.problems
        assert problem.line == 31
        assert "is damaged from row 31 on" in problem.reason


@pytest.mark.parametrize("name", [*TABLES, "t.plain.parquet"])
def test_value_in_many_rows_takes_the_memory_of_few(tmp_path, name):
    path = tmp_path / name
    indices = pa.array([0, None, *[1] * 9_998])
    values = ["short", "x" * 40_000, *map(str, range(126))]
    column = pa.DictionaryArray.from_arrays(indices.cast(pa.int8()), pa.array(values))
    table = pa.table({"text": column})
    if "plain" in name:
        pq.write_table(table, path, store_schema=False)
    else:
        write_table(table, path, 10_000)
    [source] = find(path)
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        sizes = [
            documents.spans[:, 1] - documents.spans[:, 0]
            for documents in read(Segment(source), DocumentOptions(block_bytes=1 << 20))
        ]
    finally:
        pa.set_memory_pool(before)
    assert np.concatenate(sizes).tolist() == [5] + [40_000] * 9_998
    assert pool.max_memory() < 20 << 20


def test_small_rows_are_read_many_at_a_time(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": ["a text"] * 200_000}), path, row_group_size=50_000)
    [source] = find(path)
    sizes = [len(documents.spans) for documents in read(Segment(source), DocumentOptions())]
    assert sum(sizes) == 200_000
    assert len(sizes) < 30


@pytest.mark.parametrize("name, package", [("t.parquet", "pyarrow"), ("t.arrow", "pyarrow")])
def test_package_that_is_not_installed_is_an_error(tmp_path, monkeypatch, name, package):
    path = tmp_path / name
    write_table(pa.table({"text": ["a"]}), path)
    monkeypatch.setitem(sys.modules, package, None)
    with raises(MissingExtraError, path, package, "pip install", "pyarrow"):
        gather(path)


# ── archives ─────────────────────────────────────────────────────────────────────────────────


def warc_record(kind: str, text: bytes, uri: str = "http://example.org/") -> bytes:
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {uri}\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text + b"\r\n\r\n"


@pytest.mark.parametrize("block_bytes", [16, 300, 1 << 20])
@pytest.mark.parametrize("name", ["t.wet", "t.warc.wet.gz"])
def test_archives_of_texts(tmp_path, name, block_bytes):
    texts = ["one\n", "", "zwei — 中文 🌾\r\n\r\nWARC/1.0\r\n", "x" * 1_000, "last 🌾" * 99]
    records = [warc_record("warcinfo", b"software: x\r\n" * 60)]
    records += [warc_record("conversion", t.encode(), f"u{i}") for i, t in enumerate(texts)]
    records.insert(4, warc_record("conversion", b"caf\xe9" * 50))
    pack = gzip.compress if name.endswith("gz") else bytes
    path = tmp_path / name
    path.write_bytes(b"".join(map(pack, records)))
    found = gather(path, id_field="WARC-Target-URI", block_bytes=block_bytes)
    assert found.texts == [text.encode() for text in texts]
    assert found.names == [f"u{i}" for i in range(len(texts))]
    [problem] = found.problems
    assert "is not UTF-8" in problem.reason
    assert problem.record == records[4][: len(records[4]) - 4]
    replaced = gather(path, utf8="replace", block_bytes=block_bytes)
    assert replaced.texts[3] == ("caf\ufffd" * 50).encode()


@pytest.mark.parametrize("block_bytes", [16, 1 << 20])
def test_unsupported_and_broken_archives_are_problems(tmp_path, block_bytes):
    path = tmp_path / "t.warc"
    good = warc_record("conversion", b"text")
    for bad, part in (
        (warc_record("response", b"HTTP/1.1 200 OK\r\n\r\n<html>"), "use the .wet file"),
        (b"no record\r\n", "is not a WARC file here: b'no record"),
        (b"WARC/1.0\r\nContent-Length: x\r\n\r\n", "Content-Length is b'x'"),
        (b"WARC/1.0\r\nContent-Length: %b\r\n\r\n" % (b"9" * 5_000), "Content-Length is b'999"),
        (b"WARC/1.0\r\nContent-Length: %b\r\n\r\n" % (b"9" * 18), "record without its end"),
        (good[:-10], "is a record without its end"),
        (warc_record("conversion", b"x" * 1_000)[:-10], "is a record without its end"),
        (b"WARC/1.0\r\n" + b"x" * 70_000, "head has no end"),
    ):
        path.write_bytes(good + bad)
        found = gather(path, block_bytes=block_bytes)
        assert found.texts == [b"text"]
        [problem] = found.problems
        assert part in problem.reason


# ── checksums ────────────────────────────────────────────────────────────────────────────────


class Seen:
    def __init__(self) -> None:
        self.data = b""

    def update(self, data) -> None:
        self.data += bytes(data)


@pytest.mark.parametrize(
    "name",
    ["t.txt", "t.jsonl", "t.jsonl.gz", "t.csv", "t.wet", "t.jsonl.no.gz", *TABLES, "t.parquet.zst"],
)
def test_checksum_sees_each_byte_of_the_file_once(tmp_path, name):
    path = tmp_path / name
    write_table(pa.table({"text": VALUES * 10}), path)
    if not any(part in name for part in ("parquet", "arrow", "feather")):
        path.write_bytes(b'{"text": "x"}\n' * 100)
    how = path.suffix[1:]
    if how in SQUEEZE and ".no." not in name:
        # Cut off, so that the reader stops before the end.
        path.write_bytes(packed(path.read_bytes(), how, 2)[:-9] + b"and more")
    [source] = find(path)
    for unit_bytes in (200, 10**9):
        seen, bytes_read = Seen(), 0
        options = DocumentOptions(separator=b"\n", checksum=seen, block_bytes=64)
        for segment in cuts(source, options, unit_bytes):
            last = 0
            for documents in read(segment, options):
                last = documents.bytes_read or last
            bytes_read += last
        assert seen.data == path.read_bytes()
        assert bytes_read <= len(seen.data)


# ── inputs ───────────────────────────────────────────────────────────────────────────────────


def names_of(given, format=None) -> list[tuple[str, str, str | None]]:
    return [(Path(s.name).name, s.kind, s.compression) for s in find(given, format)]


def test_kinds_are_known_by_names(tmp_path):
    expected = [
        ("a.txt", "text", None), ("b.JSONL.GZ", "jsonl", "gz"), ("c.json.zst", "jsonl", "zst"),
        ("d.parquet", "parquet", None), ("e.feather", "arrow", None), ("f.csv.xz", "csv", "xz"),
        ("g.tsv.bz2", "tsv", "bz2"), ("h.warc.wet.gz", "warc", "gz"), ("i.v1.2.md", "text", None),
    ]  # fmt: skip
    for name, _, _ in expected:
        (tmp_path / name).write_bytes(b"x")
    assert names_of([tmp_path / name for name, _, _ in expected]) == expected
    for other in ("image.png", "noname", ".hidden.txt", ".git/a.txt", "data.gz"):
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).write_bytes(b"x")
    with pytest.warns(InputWarning, match=r"3 files were skipped: .*hidden.txt .*data.gz .*noname"):
        assert names_of(tmp_path) == expected
    assert names_of(str(tmp_path / "*.txt")) == expected[:1]
    assert names_of(tmp_path / "noname") == [("noname", "text", None)]
    assert names_of(tmp_path / "a.txt", "lines") == [("a.txt", "lines", None)]


def test_folders_are_walked_in_the_order_of_names(tmp_path):
    for name in ("b/2.txt", "b/1.txt", "a/z.jsonl", "c.txt", "b/deep/0.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = [str(Path(s.name).relative_to(tmp_path)) for s in find(tmp_path)]
    assert found == ["a/z.jsonl", "b/1.txt", "b/2.txt", "b/deep/0.csv", "c.txt"]
    (tmp_path / "empty").mkdir()
    with raises(MissingInputError, "empty", "no files", ".jsonl"):
        find(tmp_path / "empty")


def test_a_link_to_an_input_is_named_with_its_target(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b"")
    for name in ("a.jsonl", "y.jsonl"):
        (tmp_path / name).symlink_to("x.jsonl")
        with raises(InputError, name, "is a link to", "x.jsonl", "which is an input too"):
            find(tmp_path)
        (tmp_path / name).unlink()


def test_links_to_folders_are_followed_and_each_folder_is_walked_once(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    for path in (inside / "b" / "1.txt", outside / "deep" / "2.txt", outside / ".no" / "3.txt"):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
    (inside / "a").symlink_to("b")
    (inside / "c").symlink_to(outside)
    (inside / "nowhere").symlink_to(tmp_path / "gone")
    (outside / "deep" / "up").symlink_to(outside)
    (outside / "back").symlink_to(inside)
    with pytest.warns(InputWarning, match="1 file was skipped: .*nowhere"):
        found = [str(Path(s.name).relative_to(inside)) for s in find(inside)]
    assert found == ["b/1.txt", "c/deep/2.txt"]


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    for name in ("a/1.txt", "a/shut/2.txt", "b/3.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    scan = os.scandir

    def scandir(place):
        if str(place).rstrip("/").endswith("shut"):
            raise PermissionError(errno.EACCES, "Permission denied", str(place))
        return scan(place)

    monkeypatch.setattr(os, "scandir", scandir)
    for given in ("", "a", "a/**/*.txt", "*/*/*.txt", "**/*.txt"):
        with raises(InputError, "a/shut", "Permission denied", "would be missing"):
            find(str(tmp_path / given))
    for given in ("b", "b/**/*.txt", "*/*.txt", "a/*/2.txt"):
        assert find(str(tmp_path / given))


def test_one_file_by_two_names_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("b.jsonl").write_bytes(b"")
    Path("d").mkdir()
    Path("link.jsonl").symlink_to("b.jsonl")
    for other, why in {
        "d/../b.jsonl": "given twice", "link.jsonl": "is a link to 'b.jsonl'",
        tmp_path / "b.jsonl": "given twice",
    }.items():  # fmt: skip
        with raises(InputError, other, why):
            find(["b.jsonl", other])


def test_mistakes_in_names_are_errors(tmp_path, monkeypatch):
    with raises(MissingInputError, "file not found", "nowhere.txt", "URL"):
        find("nowhere.txt")
    with raises(MissingInputError, "no file matches", "*.nothing"):
        find(str(tmp_path / "*.nothing"))
    (tmp_path / "a.txt").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    with raises(InputError, "given twice"):
        find(["a.txt", tmp_path])
    with raises(InputError, "format", "nonsense"):
        find("a.txt", "nonsense")
    with raises(InputError, "parquet", "pipe"):
        find("-", "parquet")
    for given in (5, b"a.txt", ["a.txt", 5]):
        with raises(TypeError, "must be a path"):
            find(given)


def test_pipe_is_an_input_if_asked_for(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    os.mkfifo(path)
    with raises(InputError, path, "can be read only once"):
        find(path)
    [source] = find(path, pipes=True)
    assert (source.kind, source.compression, source.size) == ("jsonl", "gz", None)
    writer = threading.Thread(
        target=path.write_bytes, args=[gzip.compress(b'{"text": "x"}\n' * 900)]
    )
    writer.start()
    found = gather(path, [Segment(source)])
    writer.join()
    assert (found.texts, found.problems) == ([b"x"] * 900, [])


@pytest.mark.parametrize("how", [None, "gz"])
def test_stdin_is_read_to_its_end(tmp_path, monkeypatch, how):
    data = b'{"text": "from a pipe"}\n' * 900 + b"bad\n"
    path = tmp_path / "pipe"
    path.write_bytes(packed(data, how, 2) if how else data)
    with path.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        found = gather("-", kind="jsonl", block_bytes=4_096)
    assert found.texts == [b"from a pipe"] * 900
    assert [(one.source, one.line) for one in found.problems] == [("-", 901)]
    assert str(found.problems[0]).startswith("standard input, line 901 is not JSON")
    [source] = find("-", "jsonl")
    assert cuts(source, DocumentOptions(), 1) == [Segment(source)]


def test_urls_are_read_through_fsspec(tmp_path, monkeypatch):
    files = fsspec.filesystem("memory")
    lines = b'{"text": "x"}\n' * 100 + b"bad\n"
    pq.write_table(pa.table({"text": VALUES}), tmp_path / "t.parquet")
    files.pipe("/corpus/a.jsonl", lines)
    files.pipe("/corpus/b.jsonl.gz", gzip.compress(lines))
    files.pipe("/corpus/c.parquet", (tmp_path / "t.parquet").read_bytes())
    files.pipe("/corpus/image.png", b"")
    found = gather("memory://corpus")
    assert found.texts == [b"x"] * 200 + TEXTS
    assert [problem.line for problem in found.problems] == [101, 101, 3, 7]
    source = find("memory://corpus/*.jsonl")[0]
    assert source.size == len(lines)
    segments = cuts(source, DocumentOptions(), 300)
    assert len(segments) == 5
    parts = gather("", segments)
    assert parts.texts == [b"x"] * 100
    assert [problem.line for problem in parts.problems] == [101]
    with raises(MissingInputError, "memory://nothing"):
        find("memory://nothing")
    with raises(InputError, "nonsense://x", "fsspec"):
        find("nonsense://x")
    files.rm("/corpus/a.jsonl")
    [problem] = gather("", [Segment(source)]).problems
    assert "corpus/a.jsonl" in problem.reason
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with raises(MissingExtraError, "memory://corpus", "pip install", "fsspec"):
        find("memory://corpus")
