"""CSV and TSV files → documents, as the csv module reads them. Bad rows are problems.

Tests of corpus/csv.py and corpus/options.py.
"""

from __future__ import annotations

import csv
import importlib
import io
import random
from contextlib import ExitStack

import pytest
from conftest import SEED, examples
from test_segments import gather

from tokenmill.corpus import DocumentOptions, Segment, Source, find
from tokenmill.corpus import csv as rows
from tokenmill.corpus.detect import look_at
from tokenmill.corpus.options import READERS, ReadOptions
from tokenmill.options import table


@pytest.mark.parametrize("block_bytes", [16, 200, 1 << 20])
@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_rows_are_those_of_the_csv_module(tmp_path, kind, block_bytes):
    rng = random.Random(SEED)
    path = tmp_path / f"t.{kind}"
    pieces = ["word", " ", ",", "\t", '"', '""', "\n", "\r\n", "é", "中🌾", "x" * 40, ""]
    for _ in range(max(20, examples(150))):
        written = [
            ["".join(rng.choices(pieces, k=rng.choice([0, 1, 4, 9]))) for _ in range(3)]
            for _ in range(rng.randrange(9))
        ]
        file = io.StringIO(newline="")
        writer = csv.writer(
            file,
            delimiter="," if kind == "csv" else "\t",
            lineterminator=rng.choice(["\n", "\r\n"]),
            quoting=rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
        )
        writer.writerow(["id", "text", "more"])
        writer.writerows(written)
        data = file.getvalue().encode()
        path.write_bytes(data if rng.random() < 0.7 else data.rstrip(b"\r\n"))
        found = gather(path, id_field="id", block_bytes=block_bytes)
        assert found.problems == []
        assert found.texts == [row[1].encode() for row in written]
        assert found.names == [row[0] for row in written]


@pytest.mark.parametrize("block_bytes", [16, 1 << 20])
def test_bad_rows_are_problems_and_the_others_are_documents(tmp_path, block_bytes):
    path = tmp_path / "t.csv"
    lines = [
        b"id,text",
        b"1,good",
        b"2",
        b'3,"two\nlines"',
        b"4,too,many",
        b'5,5" disk',
        b'6,"closed" and more',
        b"",
        b"7,caf\xe9",
        b'8,"open',
        b"9,last",
    ]
    path.write_bytes(b"\r\n".join(lines))
    found = gather(path, block_bytes=block_bytes)
    assert found.texts == [b"good", b"two\nlines", b'5" disk', b"last"]
    assert [(one.line, one.reason.split(":")[0]) for one in found.problems] == [
        (3, "has 1 fields, and the first row has 2"),
        (6, "has 3 fields, and the first row has 2"),
        (8, "has text after a closing quotation mark"),
        (10, "is not UTF-8"),
        (11, "has an open quotation mark"),
    ]
    assert found.problems[3].offset == path.read_bytes().index(b"7,caf")
    [problem] = gather(path, field="body").problems
    assert "has no column 'body'; its columns are 'id', 'text'" in problem.reason


def test_row_that_never_ends_does_not_take_the_file_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "ROW_BYTES_MAX", 1_000)
    path = tmp_path / "t.csv"
    good = [b"document %d" % i for i in range(500)]
    for long in (b'"open', b"x" * 5_000, b'"' + b"x" * 5_000 + b'"'):
        path.write_bytes(b"text\n" + b"\n".join([*good[:100], long, *good[100:]]) + b"\n")
        for block_bytes in (16, 700, 1 << 20):
            found = gather(path, block_bytes=block_bytes)
            assert found.texts == good
            [problem] = found.problems
            assert problem.line == 102
            assert problem.bytes == min(len(long) + 1, 1_000)
            assert "is longer than 1,000 bytes" in problem.reason


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_problems_of_rows_do_not_depend_on_blocks(tmp_path, end):
    rng = random.Random(SEED)
    path = tmp_path / "t.csv"
    bad = [b'"closed" and more', b'"a\nb" and more', b'"x"y', b"1,2,3", b'"caf\xe9"', b"caf\xe9"]
    for _ in range(max(5, examples(30))):
        lines = [rng.choice([b"good", *bad]) + b"z" * rng.randrange(40) for _ in range(20)]
        path.write_bytes(end.join([b"text", *lines, b'"open', b"last"]))
        expected = gather(path, block_bytes=1 << 20)
        assert expected.problems
        for block_bytes in (16, 17, 23, 64, 100):
            found = gather(path, block_bytes=block_bytes)
            assert found.texts == expected.texts
            assert found.problems == expected.problems


def test_new_format_can_use_the_rows_with_another_delimiter(tmp_path):
    path = tmp_path / "rows.ssv"
    path.write_bytes(b'id;text\n1;one, two\n2;"a;b"\n')
    with ExitStack() as stack:
        read = rows.read_documents(
            Segment(Source(str(path), "ssv")), DocumentOptions(), stack, b";"
        )
        texts = [bytes(block.data) for block in read if len(block.spans)]
    assert texts == [b"one, twoa;b"]


@pytest.mark.parametrize("name", READERS)
def test_row_of_the_table_makes_a_format_complete(name, tmp_path):
    """The suffixes, first bytes, reader and option of a format come from its row in READERS."""
    reader = READERS[name]
    module = importlib.import_module(f"tokenmill.corpus.{reader.module}")
    assert callable(module.read_documents)
    assert name in table(ReadOptions)["input_format"].choices
    for suffix in reader.suffixes:
        path = tmp_path / f"file{suffix}"
        path.write_bytes(b"")
        assert [source.kind for source in find(tmp_path)] == [name]
        path.unlink()
    for start in reader.starts:
        path = tmp_path / "no suffix"
        path.write_bytes(start + b"\0\xff")
        assert look_at(str(path)).kind == name
