"""Names that tell no format → the format of the content, or a reason to skip the file.

Tests of corpus/detect.py and of skipped files in corpus/inputs.py.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest
from test_documents import SQUEEZE

import tokenmill
from tokenmill import corpus
from tokenmill.corpus import find
from tokenmill.errors import InputError, InputWarning, MissingInputError

TEXTS = ["one", "zwei 🌾", ""]
LINES = b"".join(json.dumps({"id": 1, "text": text}).encode() + b"\n" for text in TEXTS)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def kinds(given, **more) -> list[tuple[str, str, str | None]]:
    return [(Path(s.name).name, s.kind, s.compression) for s in find(given, **more)]


def texts_of(given, **more) -> list[bytes]:
    return [
        bytes(memoryview(block.data)[start:end])
        for block in corpus.read_files(given, None, 1 << 20, more)
        for start, end in block.spans.tolist()
    ]


def write_arrow_stream(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write(table)


@pytest.mark.parametrize("how", [None, *SQUEEZE])
@pytest.mark.parametrize("name", ["part-00000", "x.data", "x.jsonl.gzip"])
def test_json_lines_of_another_name_give_a_document_each(tmp_path, name, how):
    path = tmp_path / name
    path.write_bytes(SQUEEZE[how](LINES) if how else LINES)
    expected = [text.encode() for text in TEXTS]
    for given in (path, tmp_path, str(tmp_path / "*"), f"file://{path}", f"file://{tmp_path}"):
        assert kinds(given) == [(name, "jsonl", how)]
        assert texts_of(given) == expected


def test_tables_and_archives_of_another_name_are_detected(tmp_path):
    table = pa.table({"text": ["a", "b"]})
    parquet.write_table(table, tmp_path / "parquet-0")
    feather.write_feather(table, tmp_path / "arrow-0", compression="uncompressed")
    write_arrow_stream(table, tmp_path / "stream-0")
    (tmp_path / "wet-0").write_bytes(
        b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 1\r\n\r\nx\r\n\r\n"
    )
    found = [(name, kind) for name, kind, _ in kinds(tmp_path)]
    assert found == [
        ("arrow-0", "arrow"), ("parquet-0", "parquet"), ("stream-0", "arrow"), ("wet-0", "warc"),
    ]  # fmt: skip
    assert texts_of(tmp_path) == [b"a", b"b", b"a", b"b", b"a", b"b", b"x"]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\xef\xbb\xbf\n" + LINES, "jsonl"),
        (b'{"text": "cut off\n' + LINES, "jsonl"),
        (b'{"text": "\xff"}\n' + LINES, "jsonl"),
        (b'{"text": "' + b"long " * 50_000 + b'"}\n' + LINES, "jsonl"),
        (b'{"id": 1}', "jsonl"),
        (b"A text.\n" * 9 + LINES, "text"),
        (b'{\n  "text": "one object"\n}\n', "text"),
        (b"{}\n", "text"),
        (b"[1, 2]\n[3]\n", "text"),
        (b"{see the notes}\n", "text"),
        (b"", "text"),
        (b"PARIS, ORCHARD and GIF8", "text"),
    ],
)
def test_first_lines_tell_json_lines_from_text(tmp_path, data, kind):
    (tmp_path / "part-0").write_bytes(data)
    assert kinds(tmp_path / "part-0") == [("part-0", kind, None)]


def test_what_cannot_be_decided_is_refused_with_the_option(tmp_path):
    path = tmp_path / "mixed"
    path.write_bytes(LINES + b"A line of text.\n" * 5)
    with pytest.raises(InputError, match=r"mixed' may be JSON lines or text: 3 of .* 8 .*--input"):
        find(path)
    assert kinds(path, input_format="text") == [("mixed", "text", None)]


def test_a_named_file_of_another_program_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a", "b")
    for name, data in {
        "noname": PNG, "x.lz4": b"\x04\x22\x4d\x18\xff\0", "rows.orc": b"ORC\x0a\0\x8a",
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(data)
    for name, why in {
        "x.zip": "is an archive", "noname": "is an image", "x.lz4": "is compressed with lz4",
        "rows.orc": "is an ORC file",
    }.items():  # fmt: skip
        with pytest.raises(InputError, match=f"{name}' {why}; pass input_format"):
            find(tmp_path / name)
        assert kinds(tmp_path / name, input_format="text") == [(name, "text", None)]


def test_an_input_format_is_that_of_every_file_of_a_folder(tmp_path):
    for name in ("part-0", "b.log", "c.txt", "part-1.jsonl.bak"):
        (tmp_path / name).write_bytes(LINES)
    (tmp_path / "logo.png").write_bytes(PNG)
    (tmp_path / "_SUCCESS").write_bytes(b"")
    found = find(tmp_path, "jsonl")
    names = [Path(source.name).name for source in found]
    assert names == ["b.log", "c.txt", "part-0", "part-1.jsonl.bak"]
    assert {source.kind for source in found} == {"jsonl"}
    assert [(Path(one.path).name, one.may_be_data) for one in found.skipped] == [
        ("logo.png", False)
    ]


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "in"
    for name, data in {
        "good.jsonl": LINES, "README": b"A text.\n", "x.jsonl.lz4": b"\x04\x22\x4d\x18\xff\0",
        "x.npy": b"\x93NUMPY\x01\0", ".hidden.jsonl": LINES, "good.jsonl.bak": LINES,
        "logo.png": PNG, "disguised": PNG, "all.tar.gz": b"x", "_SUCCESS": b"", "_metadata": b"x",
        ".part-0.crc": b"x", "part-0.crc": b"crc\0", "._good.jsonl": b"x", ".git/a.jsonl": LINES,
        "_temporary/0/part-0.jsonl": LINES,
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


MAY_BE_DATA = [".hidden.jsonl", "README", "good.jsonl.bak", "x.jsonl.lz4", "x.npy"]


def test_skipped_files_of_a_folder_are_listed_and_a_warning(folder):
    with pytest.warns(InputWarning, match="5 files were skipped: .*and 2 more; pass --input") as w:
        found = find(folder)
    assert [Path(source.name).name for source in found] == ["good.jsonl"]
    reasons = {Path(one.path).name: one.reason for one in found.skipped}
    assert reasons == {
        ".hidden.jsonl": "is hidden", "README": "its format is unknown",
        "good.jsonl.bak": "is a copy or incomplete, as its name tells",
        "x.jsonl.lz4": "is compressed with lz4", "x.npy": "is a NumPy array",
        "logo.png": "is an image", "disguised": "is an image", "all.tar.gz": "is an archive",
    }  # fmt: skip
    assert [Path(one.path).name for one in found.skipped if one.may_be_data] == MAY_BE_DATA
    assert w[0].message.skipped == found.skipped


def test_skipped_files_are_an_error_with_strict(folder):
    with pytest.raises(InputError, match=r"5 files were skipped: .*README"):
        find(folder, strict=True)
    with pytest.raises(InputError, match="5 files were skipped"):
        tokenmill.train(folder, 300, strict=True)
    for name in MAY_BE_DATA:
        (folder / name).unlink()
    assert len(find(folder, strict=True).skipped) == 3  # files that are not text


def test_skipped_files_of_a_remote_folder_are_listed(folder):
    files = fsspec.filesystem("memory")
    files.put(str(folder), "/skipped", recursive=True)
    with pytest.warns(InputWarning, match="5 files were skipped: .*memory://"):
        assert [name for name, _, _ in kinds("memory://skipped")] == ["good.jsonl"]


def test_a_glob_skips_only_files_that_are_not_text(folder):
    for name in ("x.jsonl.lz4", "x.npy"):
        (folder / name).unlink()
    found = find(str(folder / "*"))
    assert [Path(source.name).name for source in found] == [
        "README", "good.jsonl", "good.jsonl.bak",
    ]  # fmt: skip
    assert {Path(one.path).name for one in found.skipped} == {"logo.png", "disguised", "all.tar.gz"}


def test_a_folder_without_inputs_names_the_skipped_files(tmp_path):
    (tmp_path / "notes").write_bytes(b"A text.")
    with pytest.raises(MissingInputError, match=r"contains no files .*1 file was skipped: .*notes"):
        find(tmp_path)


ARRAYS = {
    "pretty": json.dumps([{"text": "a"}, {"text": "b"}], indent=1),
    "a line for each": '[\n{"text": "a"},\n{"text": "b"}\n]\n',
    "from the first line": '[{"text": "a"},\n {"text": "b"}]\n',
}


@pytest.mark.parametrize("name", ["rows.json", "noname"])
@pytest.mark.parametrize("array", ARRAYS)
def test_one_json_array_is_named_with_the_way_out(tmp_path, array, name):
    path = tmp_path / name
    path.write_text(ARRAYS[array])
    with pytest.raises(InputError, match=r"line 1 is the start of a JSON array, .* jq -c"):
        texts_of(path)
    if array != "a line for each":  # whose last line is an object
        with pytest.raises(tokenmill.TokenmillError, match="is the start of a JSON array"):
            tokenmill.tokenize(path, tmp_path / "out", "gpt2", threads=1)
    path.write_text('[{"text": "a"}]')
    with pytest.raises(InputError, match=r"line 1 is a JSON array, .* jq -c"):
        texts_of(path)


def test_a_list_in_the_first_line_is_one_bad_record(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'[{"text": "list"}]\n' + LINES)
    assert texts_of(tmp_path / "a.jsonl", on_error="skip") == [text.encode() for text in TEXTS]
