"""Segments → documents: those of a plain reader, for any size of block and segment.

Tests of corpus/blocks.py, corpus/jsonl.py, corpus/text.py and corpus/utf8.py.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
from dataclasses import replace
from pathlib import Path

import document_references as twins
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from conftest import SEED, examples
from test_documents import SQUEEZE, packed

from tokenmill.corpus import find
from tokenmill.corpus.documents import (
    DocumentFailed,
    DocumentOptions,
    Documents,
    Problem,
    Segment,
    read,
)
from tokenmill.corpus.inputs import cuts

BLOCKS = (16, 33, 100, 1 << 20)


class Gathered:
    """The documents and problems of segments, joined as a reader joins them."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.names: list[str] = []
        self.problems: list[Problem] = []
        self._open: bytes | None = None

    def add(self, documents: Documents) -> None:
        view = memoryview(documents.data)
        for index, (start, end) in enumerate(documents.spans.tolist()):
            assert 0 <= start <= end <= len(view)
            text = bytes(view[start:end])
            if self._open is not None:
                text, self._open = self._open + text, None
            if documents.goes_on and index == len(documents.spans) - 1:
                self._open = text
            else:
                self.texts.append(text)
        if documents.names is not None:
            self.names += documents.names
        self.problems += documents.problems

    @property
    def places(self) -> list[tuple[int, int]]:
        assert self._open is None
        return [(problem.offset, problem.line) for problem in self.problems]


def gather(path: Path | str, segments: list[Segment] | None = None, kind=None, **options):
    if segments is None:
        segments = [Segment(source) for source in find(path, kind)]
    skip = {}
    while True:
        found = Gathered()
        try:
            for segment in segments:
                for documents in read(segment, DocumentOptions(**options, skip=skip)):
                    found.add(documents)
            return found
        except DocumentFailed as failure:
            assert failure.key not in skip
            skip[failure.key] = failure.reason


# ── text ─────────────────────────────────────────────────────────────────────────────────────

SEPARATORS = [b"\n", b"\n\n", b"aba", b"\r\n", b"aa", b"<|end|>", "中".encode(), b"x" * 40]
BYTES = [
    b"a", b"b", b"aa", b"\n", b"\n\n", b"\r\n", b"\r", b"<|end|>", b"<|en", "中".encode(),
    "é🌾".encode(), b"\xe4", b"\xff", b"\xb8\xad", b"word and word ", b"x" * 39, b"x" * 50, b"\0",
]  # fmt: skip


def random_text(rng: random.Random) -> bytes:
    pieces = rng.sample(BYTES, rng.randrange(1, 9))
    start = rng.choice([b"", b"", b"\xef\xbb\xbf"])
    return start + b"".join(rng.choices(pieces, k=rng.randrange(0, 60)))


@pytest.mark.parametrize("utf8", ["strict", "replace", "bytes"])
@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_texts_are_those_between_separators(tmp_path, utf8, block_bytes):
    rng = random.Random(SEED)
    path = tmp_path / "text.txt"
    for _ in range(max(20, examples(150))):
        data = random_text(rng)
        separator = rng.choice([None, *SEPARATORS])
        path.write_bytes(data)
        found = gather(path, separator=separator, utf8=utf8, block_bytes=block_bytes)
        assert (found.texts, found.places) == twins.split(data, separator, utf8), (data, separator)
        found = gather(path, kind="lines", utf8=utf8, block_bytes=block_bytes)
        assert (found.texts, found.places) == twins.lines(data, utf8), data


# ── JSON lines ───────────────────────────────────────────────────────────────────────────────


def random_string(rng: random.Random) -> bytes:
    parts = [
        b"word ", b"\\n", b"\\\\", b'\\"', b"\\u00e9", b"\\ud83c\\udf3e", b"\\ud83c", b"\\udf3e",
        b"\\\\ud83c", "é".encode(), "中🌾".encode(), b"/", b"\\/", b"x" * 30, b"\xe4\xb8", b"\xff",
    ]  # fmt: skip
    if rng.random() < 0.7:
        parts = parts[:-2]
    if rng.random() < 0.05:
        parts += [b"\t", b"\\u12", b"\\x", b"\\u12g4", b"\0"]
    return b'"' + b"".join(rng.choices(parts, k=rng.choice([0, 1, 3, 20]))) + b'"'


def random_value(rng: random.Random, depth: int = 0) -> bytes:
    pick = rng.random()
    if pick < 0.4:
        return random_string(rng)
    if pick < 0.6 or depth > 3:
        plain = [b"0", b"-12", b"1.5", b"true", b"false", b"null", b"NaN", b"-Infinity", b"12" * 40]
        if rng.random() < 0.04:
            plain = [b"01", b"+1", b".5", b"nul", b"", b"1.", b"1e", b"tru", b"-", b"1 2", b"Inf"]
        return rng.choice(plain)
    if pick < 0.75:
        return (
            b"[" + b",".join(random_value(rng, depth + 1) for _ in range(rng.randrange(4))) + b"]"
        )
    return random_object(rng, depth + 1)


def random_object(rng: random.Random, depth: int) -> bytes:
    keys = [b"text", b"id", b"a", b"b", b"a.b", b"\\u0061", b"k" * 300, b"t\\u0065xt", "é".encode()]
    space = rng.choice([b"", b"", b" ", b" \t\r "])
    members = []
    for _ in range(rng.randrange(9)):
        value = random_string(rng) if rng.random() < 0.5 else random_value(rng, depth)
        members.append(b'"%b"%b:%b%b%b' % (rng.choice(keys), space, space, value, space))
    comma = b"," if rng.random() > 0.02 else rng.choice([b",,", b"", b":"])
    return b"{" + space + comma.join(members) + b"}"


def random_lines(rng: random.Random) -> bytes:
    lines = []
    for _ in range(rng.randrange(8)):
        line = random_object(rng, 0) if rng.random() < 0.9 else random_value(rng)
        if rng.random() < 0.05:
            line = line[: rng.randrange(len(line) + 1)]
        if rng.random() < 0.05:
            line = rng.choice([b"", b"  ", b" \x0b ", b" " * 50, line + b"}", line + b" x"])
        lines.append(line)
    data = rng.choice([b"\n", b"\r\n"]).join(lines) + rng.choice([b"", b"\n", b"\r\n"])
    return rng.choice([b"", b"", b"\xef\xbb\xbf"]) + data


def same_names(found: list[str], expected: list[object]) -> bool:
    """Compare names. A value that is not a str is compared as JSON."""
    return len(found) == len(expected) and all(
        one == other if isinstance(other, str) else "\ufffd" in one or same_json(one, other)
        for one, other in zip(found, expected, strict=True)
    )


def same_json(written: str, value: object) -> bool:
    return json.dumps(json.loads(written)) == json.dumps(value)


@pytest.mark.parametrize("utf8", ["strict", "replace", "bytes"])
@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_json_lines_are_those_that_python_takes(tmp_path, utf8, block_bytes):
    rng = random.Random(SEED)
    path = tmp_path / "rows.jsonl"
    documents = 0
    rounds = max(30, examples(150))
    for _ in range(rounds):
        data = random_lines(rng)
        path.write_bytes(data)
        field = rng.choice(["text", "text", "a", "a.b", "a.a.b", "é"])
        id_field = rng.choice([None, "id", "b", "a.b", field])
        found = gather(path, field=field, id_field=id_field, utf8=utf8, block_bytes=block_bytes)
        texts, names, bad = twins.json_lines(data, field, id_field, utf8)
        assert (found.texts, found.places) == (texts, bad), (field, data)
        assert same_names(found.names, names), (id_field, data)
        documents += len(texts)
    assert documents > rounds // 10


# ── segments ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["text", "lines", "jsonl"])
def test_segments_give_the_documents_of_the_file(tmp_path, kind):
    rng = random.Random(SEED)
    path = tmp_path / "file"
    counts = set()
    rounds = max(60, examples(300))
    for _ in range(rounds):
        data = random_lines(rng) if kind == "jsonl" else random_text(rng)
        path.write_bytes(data)
        separator = rng.choice([None, *SEPARATORS]) if kind == "text" else None
        options = {"separator": separator, "block_bytes": rng.choice(BLOCKS)}
        [source] = find(path, kind)
        whole = gather(path, kind=kind, **options)
        segments = cuts(source, DocumentOptions(**options), rng.choice([1, 5, 30, 200]))
        assert segments[0].start == 0
        assert all(one.end == two.start for one, two in itertools.pairwise(segments))
        assert segments[-1].end in (None, len(data))
        parts = gather(path, segments, **options)
        assert parts.texts == whole.texts, (data, separator, segments)
        assert parts.problems == whole.problems, (data, separator, segments)
        counts.add(len(segments))
    assert len(counts) > rounds // 60


def test_segments_are_about_as_large_as_asked_for(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": "some words"}\n' * 10_000)
    [source] = find(path)
    segments = cuts(source, DocumentOptions(), 10_000)
    assert len(segments) == 23
    assert all(9_950 < segment.end - segment.start < 10_050 for segment in segments[:-1])
    assert cuts(source, DocumentOptions(), 10**6) == [Segment(source)]


def test_files_that_cannot_be_cut_are_one_segment(tmp_path):
    lines = b'{"text": "some words"}\n' * 1_000
    for name, data in (
        ("a.jsonl.gz", gzip.compress(lines)),
        ("not_called.jsonl", gzip.compress(lines, 0)),
        ("text.txt", lines),
        ("separators.txt", b"\n" * 10_000),
        ("table.csv", lines),
        ("empty.jsonl", b""),
    ):
        path = tmp_path / name
        path.write_bytes(data)
        [source] = find(path)
        separator = b"\n\n" if name == "separators.txt" else None
        options = DocumentOptions(separator=separator)
        assert cuts(source, options, 100) == [Segment(source)], name
    found = gather(tmp_path / "separators.txt", separator=b"\n\n", block_bytes=16)
    assert found.texts == [b""] * 5_000


# ── compressed files, and files that fail ────────────────────────────────────────────────────


@pytest.mark.parametrize("how", SQUEEZE)
@pytest.mark.parametrize("block_bytes", [50, 1 << 20])
def test_compressed_lines_come_from_every_member(tmp_path, how, block_bytes):
    data = b"".join(b'{"text": "document %d"}\n' % i for i in range(1_000))
    path = tmp_path / f"rows.jsonl.{how}"
    path.write_bytes(packed(data, how, 2))
    found = gather(path, block_bytes=block_bytes)
    assert found.texts == [b"document %d" % i for i in range(1_000)]
    assert found.problems == []


@pytest.mark.parametrize("how", SQUEEZE)
@pytest.mark.parametrize("kind", ["jsonl", "text", "lines"])
def test_truncated_file_gives_its_good_prefix_and_one_problem(tmp_path, how, kind):
    rng = random.Random(SEED)
    lines = [b'{"text": "%d %b"}' % (i, rng.randbytes(30).hex().encode()) for i in range(3_000)]
    data = b"\n".join(lines) + b"\n"
    whole = packed(data, how, 3)
    path = tmp_path / f"rows.{kind}.{how}"
    path.write_bytes(whole[: len(whole) * 3 // 4])
    for block_bytes in (100, 1 << 20):
        found = gather(path, kind=kind, separator=b"\n", block_bytes=block_bytes)
        count = len(found.texts)
        assert 1_000 <= count < 3_000
        expected = (
            [json.loads(line)["text"].encode() for line in lines] if kind == "jsonl" else lines
        )
        assert found.texts == expected[:count]
        [problem] = found.problems
        assert f"at byte {path.stat().st_size:,}" in problem.reason
        assert "ends before its compressed data does" in problem.reason
        assert len(b"\n".join(lines[:count])) < problem.offset <= len(data)
        assert problem.line == count + 1
    # A file that is one document has none, if its end is not there.
    found = gather(path, kind="text", block_bytes=10_000)
    assert found.texts == []
    assert len(found.problems) == 1
    assert found.places


@pytest.mark.parametrize("how", SQUEEZE)
def test_damaged_file_gives_its_documents_before_the_damage(tmp_path, how):
    data = b"".join(b'{"text": "document %d"}\n' % i for i in range(40_000))
    whole = bytearray(packed(data, how, 8))
    path = tmp_path / f"rows.jsonl.{how}"
    path.write_bytes(whole[: len(whole) // 2] + b"no such thing" * 9 + whole[len(whole) // 2 :])
    found = gather(path, block_bytes=5_000)
    assert found.texts == [b"document %d" % i for i in range(len(found.texts))]
    assert len(found.texts) >= 10_000
    [problem] = found.problems
    assert "is damaged" in problem.reason


def test_file_with_the_wrong_suffix_is_one_problem(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(b'{"text": "x"}\n')
    [problem] = gather(path).problems
    assert problem.line == 0
    assert "is called .gz" in problem.reason


def test_file_that_is_gone_or_cut_is_a_problem(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": "x"}\n' * 10)
    sources = find(path)
    path.write_bytes(b'{"text": "x"}\n' * 5)
    found = gather(path, [Segment(source) for source in sources])
    assert len(found.texts) == 5
    assert "had 140 bytes and ends at 70" in found.problems[0].reason
    path.unlink()
    for kind in ("jsonl", "text", "csv", "parquet", "arrow", "warc"):
        segments = [Segment(replace(source, kind=kind)) for source in sources]
        [problem] = gather(path, segments).problems
        assert "No such file" in problem.reason


# ── the failures of other tools, each in 1,000 lines ─────────────────────────────────────────


def thousand(defect: bytes | None) -> list[bytes]:
    lines = [b'{"text": "document %d"}' % i for i in range(1_000)]
    if defect is not None:
        lines[10] = defect
    return lines


@pytest.mark.parametrize("block_bytes", [16, 1_000, 1 << 20])
@pytest.mark.parametrize(
    "defect, reason",
    [
        (b'{"text": "document', "is not JSON"),
        (b'{"body": "x", "id": 5}', "has no field 'text'; its fields are 'body', 'id'"),
        (b'{"text": null}', "has null in the field 'text'"),
        (b'{"text": 5.5}', "has a JSON number in the field 'text', not a text"),
        (b'{"text": {"a": "b"}}', "has a JSON object in the field 'text', not a text"),
        (b'["text", "many more of them"]', "is a JSON array, not an object"),
        (b'{"text": "caf\xe9"}', "is not UTF-8: byte 243 is 0xE9"),
        (b'{"text": "x", "caf\xe9": 5}', "is not UTF-8: byte 248 is 0xE9"),
        (b'{"text": "x", "a": ' + b"[" * 2_000 + b"]" * 2_000 + b"}", "nested more than 1,000"),
    ],
)
def test_bad_line_is_a_problem_and_the_others_are_documents(tmp_path, block_bytes, defect, reason):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(thousand(defect)))
    found = gather(path, block_bytes=block_bytes)
    assert found.texts == [b"document %d" % i for i in range(1_000) if i != 10]
    [problem] = found.problems
    assert reason in problem.reason
    assert (problem.source, problem.offset, problem.line) == (str(path), 230, 11)
    assert (problem.bytes, problem.record) == (len(defect), defect)


def test_wrong_field_name_is_a_problem_for_each_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(thousand(None)))
    found = gather(path, field="body")
    assert found.texts == []
    assert len(found.problems) == 1_000
    assert all("fields are 'text'. Name the right one" in one.reason for one in found.problems)
    assert [one.line for one in found.problems] == list(range(1, 1_001))


@pytest.mark.parametrize("block_bytes", [16, 1 << 20])
def test_utf8_policies(tmp_path, block_bytes):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(thousand(b'{"text": "caf\xe9 \xe4\xb8"}')))
    for utf8, text in (("replace", "caf\ufffd \ufffd".encode()), ("bytes", b"caf\xe9 \xe4\xb8")):
        found = gather(path, utf8=utf8, block_bytes=block_bytes)
        assert len(found.texts) == 1_000
        assert found.texts[10] == text
        assert found.problems == []


def test_byte_order_mark_is_removed_from_documents(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join(thousand(None)))
    assert len(gather(path).texts) == 1_000
    path.write_bytes(b"\xef\xbb\xbftext")
    assert gather(path, kind="text").texts == [b"text"]
    path.write_bytes(b"\xef\xbb\xbftext\nwords\n")
    assert gather(path, kind="csv").texts == [b"words"]


def test_empty_text_is_a_document_and_an_empty_file_has_none(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": ""}\n')
    assert gather(path).texts == [b""]
    for kind in ("jsonl", "text", "lines", "csv", "warc"):
        path.write_bytes(b"")
        found = gather(path, kind=kind)
        assert (found.texts, found.problems) == ([], [])


def test_record_of_a_problem_is_bounded(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": "' + b"x" * 200_000)
    for block_bytes in (1_000, 1 << 20):
        [problem] = gather(path, block_bytes=block_bytes).problems
        assert problem.bytes == 200_010
        assert problem.record == path.read_bytes()[: 64 << 10]


def test_of_a_field_that_comes_again_the_last_counts(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"text": "%b", "text": "second"}\n{"text": "third"}' % (b"first" * 50))
    for block_bytes in (16, 100, 1 << 20):
        assert gather(path, block_bytes=block_bytes).texts == [b"second", b"third"]


def test_pieces_of_a_long_document_are_bounded(tmp_path):
    path = tmp_path / "long"
    text = "Zeile — 中文 🌾 \\n \\ud83c\\udf3e ".encode() * 20_000
    path.write_bytes(text)
    [source] = find(path, "text")
    sizes = []
    for documents in read(Segment(source), DocumentOptions(block_bytes=4_096)):
        sizes.append(len(memoryview(documents.data)))
        for start, end in documents.spans.tolist():
            bytes(memoryview(documents.data)[start:end]).decode()
    assert max(sizes) <= 4_096
    assert len(sizes) > 100


def warc(texts: list[str]) -> bytes:
    records = []
    for number, text in enumerate(texts):
        size = len(text.encode())
        head = f"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Target-URI: http://x/{number}\r\n"
        records.append(f"{head}Content-Length: {size}\r\n\r\n{text}\r\n\r\n".encode())
    return b"".join(records)


@pytest.mark.parametrize("block_bytes", [16, 100, 1 << 20])
@pytest.mark.parametrize("kind", ["jsonl", "warc", "parquet"])
def test_records_longer_than_the_limit_are_problems(tmp_path, kind, block_bytes):
    texts = ["first", "x" * 5_000, "é" * 1_000, "third", "y" * 3_000, ""]
    path = tmp_path / "records"
    if kind == "jsonl":
        lines = [json.dumps({"id": number, "text": text}) for number, text in enumerate(texts)]
        path.write_text("\n".join(lines))
    elif kind == "warc":
        path.write_bytes(warc(texts))
    else:
        parquet.write_table(pa.table({"id": range(len(texts)), "text": texts}), path)
    limit = 2_500 if kind == "jsonl" else 2_000
    id_field = "WARC-Target-URI" if kind == "warc" else "id"
    options = {"max_document_bytes": limit, "id_field": id_field, "block_bytes": block_bytes}
    found = gather(path, kind=kind, **options)
    kept = [0, 3, 5] if kind == "jsonl" else [0, 2, 3, 5]
    assert found.texts == [texts[number].encode() for number in kept]
    assert [name.rpartition("/")[2] for name in found.names] == [str(number) for number in kept]
    reason = f"is longer than {limit:,} bytes; raise max_document_bytes (--max-document-bytes)"
    assert [problem.reason for problem in found.problems] == [reason] * (len(texts) - len(kept))
    assert all(problem.bytes >= limit for problem in found.problems)
    assert len({problem.line for problem in found.problems}) == len(found.problems)


@pytest.mark.parametrize("block_bytes", [16, 100])
def test_document_that_fails_late_is_a_problem_and_the_others_are_kept(tmp_path, block_bytes):
    path = tmp_path / "text"
    parts = ["a" * 400, "b" * 300 + "\udcff", "c", "d" * 500 + "\udcfe", "e" * 90]
    path.write_bytes("|".join(parts).encode("utf-8", "surrogateescape"))
    found = gather(path, kind="text", separator=b"|", block_bytes=block_bytes)
    assert found.texts == [parts[index].encode() for index in (0, 2, 4)]
    assert [(problem.offset, problem.bytes) for problem in found.problems] == [
        (401, 301),
        (705, 501),
    ]
    assert found.problems[0].record == b"b" * 300 + b"\xff"
