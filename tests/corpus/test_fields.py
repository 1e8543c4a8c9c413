"""Several names of a field, and names for patterns of inputs → the same documents in any format.

Tests of the option `field` in corpus/options.py, corpus/documents.py and the readers.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from conftest import SEED
from in_process import run_main
from in_process import threaded_runs as threaded_runs

import tokenmill
from tokenmill import corpus
from tokenmill.corpus import DocumentOptions, Segment, read
from tokenmill.corpus.documents import fields_of
from tokenmill.errors import InputError, TokenmillError

NAMES = ["text", "content", "doc.body"]


def documents(given, block_bytes: int = 1 << 20, **options):
    """The texts and their ids, and the line, size, reason and cause of each problem."""
    texts, problems = [], []
    for source in corpus.find(given):
        reading = DocumentOptions(block_bytes=block_bytes, **options)
        for block in read(Segment(source), reading):
            view = memoryview(block.data)
            found = [bytes(view[start:end]).decode() for start, end in block.spans.tolist()]
            texts += list(zip(found, block.names, strict=True)) if block.names else found
            problems += [(one.line, one.bytes, one.reason, one.cause) for one in block.problems]
    return texts, sorted(problems)


def expected_of(record: dict) -> object:
    """The value of the first field that exists; KeyError without one."""
    if "text" in record:
        return record["text"]
    if "content" in record:
        return record["content"]
    return record["doc"]["body"]


@pytest.mark.parametrize("block_bytes", [64, 1000, 1 << 20])
def test_the_first_field_that_exists_counts_in_each_line(tmp_path, block_bytes):
    rng = random.Random(SEED)
    values = ["short", "", "zwei 🌾\n", "long " * 50, None, 7]
    records, expected, bad = [], [], 0
    for number in range(500):
        record: dict = {"id": number}
        for name in rng.sample(NAMES, rng.randrange(4)):
            value = rng.choice(values) if rng.random() < 0.5 else f"text {number}"
            record |= {"doc": {"body": value}} if name == "doc.body" else {name: value}
        records.append(record)
        value = expected_of(record) if len(record) > 1 else None
        if isinstance(value, str):
            expected.append((value, str(number)))
        else:
            bad += 1
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    texts, problems = documents(path, block_bytes, field=NAMES, id_field="id")
    assert texts == expected
    assert len(problems) == bad
    assert documents(path, 1 << 16, field=NAMES, id_field="id") == (texts, problems)


def test_lines_without_any_field_name_all_of_them(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"body": "x"}\n{"content": null}\nbad\n{"content": 1}\n{"content": "good"}\n')
    texts, problems = documents(path, field=["text", "content"])
    assert texts == ["good"]
    assert [(line, cause) for line, _, _, cause in problems] == [
        (1, "field"), (2, "null"), (3, ""), (4, "field"),
    ]  # fmt: skip
    assert "has no field 'text' or 'content'; its fields are 'body'" in problems[0][2]
    assert problems[1][2] == "has null in the field 'content'"
    assert "has a JSON number in the field 'content'" in problems[3][2]


def test_tables_and_csv_files_use_the_first_column_that_exists(tmp_path):
    parquet.write_table(pa.table({"content": ["a"], "id": [1]}), tmp_path / "a.parquet")
    nested = pa.array([{"body": "b"}])
    parquet.write_table(pa.table({"doc": nested, "content": ["no"]}), tmp_path / "b.parquet")
    (tmp_path / "c.csv").write_text("content,text\nno,c\n")
    (tmp_path / "d.csv").write_text("id,content\n1,d\n")
    fields = ["text", "doc.other", "doc.body", "content"]
    assert documents(tmp_path, field=fields) == (["a", "b", "c", "d"], [])
    problems = documents(tmp_path, field=["x", "y"])[1]
    assert len(problems) == 4
    assert all("has no column 'x' or 'y'; its columns are" in one[2] for one in problems)


def test_the_longest_pattern_that_matches_chooses_the_field():
    field = {"*": ["text", "body"], "github/*": "content", "github/a*": "code"}
    for name, expected in {
        "x.jsonl": ("text", "body"), "data/github/x.jsonl": ("content",),
        "github/x.jsonl": ("content",), "s3://b/github/a.jsonl": ("code",),
    }.items():  # fmt: skip
        assert fields_of(field, name) == expected
    assert fields_of({"github/*": "content"}, "x.jsonl") == ("text",)


@pytest.fixture
def mixed(tmp_path) -> Path:
    (tmp_path / "in" / "github").mkdir(parents=True)
    (tmp_path / "in" / "a.jsonl").write_text('{"text": "one"}\n{"content": "two", "text": "2"}\n')
    (tmp_path / "in" / "b.jsonl").write_text('{"content": "three"}\n')
    (tmp_path / "in" / "github" / "c.jsonl").write_text('{"content": "four", "text": "no"}\n')
    return tmp_path / "in"


FIELDS = {"github/*": "content", "*": ["text", "content"]}


def test_functions_take_names_and_patterns(tmp_path, mixed):
    result = tokenmill.tokenize(mixed, tmp_path / "out", "gpt2", threads=1, field=FIELDS)
    tokenizer = tokenmill.Tokenizer.load("gpt2")
    with tokenmill.shards.open(tmp_path / "out") as shards:
        texts = [tokenizer.decode(ids.tolist()[:-1]) for ids in shards]
    assert texts == ["one", "2", "three", "four"]
    again = tokenmill.tokenize(mixed, tmp_path / "out", "gpt2", threads=1, field=FIELDS)
    assert again.tasks_resumed == again.tasks_total
    assert tokenmill.verify(tmp_path / "out", sample=1.0).is_good
    with pytest.raises(tokenmill.TokenmillError, match=r"field was .* and is 'text'"):
        tokenmill.tokenize(mixed, tmp_path / "out", "gpt2", threads=1)
    assert result.is_complete
    trained = tokenmill.train(mixed, 260, field=["text", "content"])
    assert trained.vocab_size == 260
    found = list(tokenizer.encode_files(mixed, field=FIELDS))
    assert len(found) == 4


def test_the_command_takes_names_and_patterns(tmp_path, mixed):
    fields = ["--field", "text", "--field", "content", "--field", "github/*=content"]
    done = run_main("count", str(mixed), "--tokenizer", "gpt2", "--json", *fields)
    figures = json.loads(done.stdout)
    assert (figures["documents"], figures["rejected"]) == (4, 0)
    command = ["--tokenizer", "gpt2", "--output", str(tmp_path / "out"), "--threads", "1"]
    assert run_main("tokenize", str(mixed), *command, *fields).returncode == 0
    assert run_main("count", str(mixed), "--field", "=x").returncode == 2


@pytest.mark.parametrize("field", ["", [], ["text", ""], [3], {}, {"": "x"}, {"a": {"b": "c"}}, 3])
def test_wrong_values_of_the_field_are_refused(tmp_path, mixed, field):
    with pytest.raises(TokenmillError, match="field must be a name, several names, or a mapping"):
        tokenmill.train(mixed, 300, field=field)


def test_a_pattern_without_an_input_is_an_error(tmp_path, mixed):
    with pytest.raises(InputError, match=r"field of 'gitlab/\*' matches no input"):
        tokenmill.train(mixed, 300, field={"gitlab/*": "content"})
    with pytest.raises(InputError, match="matches no input"):
        tokenmill.tokenize(mixed, tmp_path / "out", "gpt2", field={"gitlab/*": "content"})


def test_a_file_without_documents_is_named_with_its_reason_and_fields(tmp_path, mixed):
    result = tokenmill.tokenize(mixed, tmp_path / "out", "gpt2", threads=1)
    [failure] = result.failures
    assert failure["path"] == str(mixed / "b.jsonl")
    assert failure["error"].startswith(
        "no documents: has no field 'text'; its fields are 'content'"
    )
