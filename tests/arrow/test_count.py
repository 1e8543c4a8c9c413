"""Batches → counts → sums → a vocabulary: equal to `count_pretokens` for any batches."""

from __future__ import annotations

import pickle
import random

import hard_inputs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import LETTERS_ONLY, SEED

import tokenmill
from tokenmill import Tokenizer
from tokenmill.arrow import CountPretokens, count
from tokenmill.errors import InputError, TrainingError

FILES = [text[:400] for _, text in hard_inputs.files(600) if isinstance(text, str)]
TEXTS = [None, *hard_inputs.STRINGS[::9], "", "one two one two", None, *FILES]
TEXTS = [t if t is None else t.encode("utf-8", "replace").decode() for t in TEXTS]
OPTIONS = [
    {},
    {"pattern": "cl100k"},
    {"pattern": LETTERS_ONLY},
    {"pattern": "r50k", "special_tokens": ["one", "<|endoftext|>"], "separator": "two"},
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o))


def batches(table: pa.Table) -> list[pa.RecordBatch]:
    """The rows in batches of any size, in any order."""
    rng = random.Random(SEED)
    found, start = [], 0
    while start < len(table):
        size = rng.randrange(40)
        found += table.slice(start, size).to_batches()
        start += size
    rng.shuffle(found)
    return found


@each_option
def test_sums_over_any_split_are_the_counts_of_all(options, tmp_path):
    table = pa.table({"n": range(len(TEXTS)), "text": TEXTS})
    pq.write_table(table, tmp_path / "all.parquet")
    summary = tokenmill.count_pretokens(tmp_path / "all.parquet", tmp_path / "all.tmc", **options)
    counter = pickle.loads(pickle.dumps(CountPretokens(**options)))
    parts = [counter(batch) for batch in batches(table)]
    assert all(part.schema == counter.schema() for part in parts)
    sums = pa.Table.from_batches(parts).group_by("pretoken").aggregate([("count", "sum")])
    assert (len(sums), sum(sums["count_sum"].to_pylist())) == (summary.unique, summary.total)
    spark = counter.map_in_arrow(iter(batches(table)))
    # Summed by an engine, not summed at all, as one table or one by one: the same file.
    for counts in (sums, pa.Table.from_batches(parts), iter(parts), spark, [counter(table)]):
        assert counter.save(counts, tmp_path / "sums.tmc") == summary
        assert (tmp_path / "sums.tmc").read_bytes() == (tmp_path / "all.tmc").read_bytes()
    names = ["all.parquet", "all.tmc", "sums.tmc"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_vocabulary_is_learned_from_sums_as_from_texts(tmp_path):
    texts = ["grain in, tokens out", "tokens in, grain out"] * 5
    table = pa.table({"text": texts})
    counter = CountPretokens("gpt2")
    counter.save(counter(table), tmp_path / "sums.tmc")
    made = tokenmill.train(tmp_path / "sums.tmc", vocab_size=280)
    assert made == tokenmill.train_from_iterator(texts, vocab_size=280, pattern="gpt2")


def test_no_pretoken_and_no_count_are_left_out(tmp_path):
    given = pa.table({"sum": [3, 0, 2, 4], "pretoken": ["", "a", "b", "c"]})
    summary = CountPretokens().save(given, tmp_path / "x.tmc")
    assert (summary.unique, summary.total) == (2, 6)
    assert CountPretokens().save(given.slice(0, 2), tmp_path / "x.tmc").unique == 0


def test_large_parts_are_written_as_several_runs(tmp_path, monkeypatch):
    counter = CountPretokens()
    table = pa.table({"text": TEXTS})
    summary = counter.save(counter(table), tmp_path / "one.tmc")
    monkeypatch.setattr(count, "_RUN_BYTES", 500)
    assert counter.save(counter(table), tmp_path / "many.tmc") == summary
    assert (tmp_path / "many.tmc").read_bytes() == (tmp_path / "one.tmc").read_bytes()


def test_a_partition_gives_counts_out_when_its_tables_are_full(monkeypatch):
    counter = CountPretokens()
    table = pa.table({"text": TEXTS})
    few = list(counter.map_in_arrow(table.to_batches(max_chunksize=50)))
    assert len(few) == 1
    monkeypatch.setattr(count, "_MEMORY_MAX", 0)
    monkeypatch.setattr(count, "_ROWS_MAX", 7)
    many = list(counter.map_in_arrow(table.to_batches(max_chunksize=50)))
    assert len(many) > 50
    assert max(len(batch) for batch in many) == 7
    assert many[0].schema == pa.schema([("pretoken", pa.binary()), ("count", pa.int64())])
    sums = [
        pa.Table.from_batches(some).group_by("pretoken").aggregate([("count", "sum")])
        for some in (few, many)
    ]
    assert sums[0].sort_by("pretoken") == sums[1].sort_by("pretoken")


def test_a_series_becomes_as_many_lists_with_all_counts_in_the_first():
    counter = CountPretokens("gpt2")
    column = pa.chunked_array([["a b", None], ["a"]])
    lists = counter(column)
    lists.validate(full=True)
    assert lists.type == counter.type
    first, *rest = lists.to_pylist()
    assert {one["pretoken"]: one["count"] for one in first} == {b"a": 2, b" b": 1}
    assert rest == [[], []]
    assert counter(pa.array([], pa.string())).to_pylist() == []


def test_kinds_of_text_and_threads_make_no_difference():
    texts = pa.array(TEXTS)
    expected = sorted(CountPretokens()(pa.table({"text": texts})).to_pylist(), key=str)
    kinds = [pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int32(), "string")]
    for kind in kinds:
        array = texts.dictionary_encode() if pa.types.is_dictionary(kind) else texts.cast(kind)
        for threads in (1, 3, None):
            counter = CountPretokens(column="body", threads=threads)
            found = counter(pa.table({"body": array})).to_pylist()
            assert sorted(found, key=str) == expected
    assert CountPretokens()(pa.table({"text": pa.nulls(3)})).num_rows == 0
    assert CountPretokens()(pa.record_batch({"text": pa.array([], "string")})).num_rows == 0


def test_a_tokenizer_is_accepted_as_its_pattern(cl100k, tmp_path):
    table = pa.table({"text": TEXTS})
    assert repr(CountPretokens(cl100k)) == repr(CountPretokens("cl100k"))
    assert CountPretokens(cl100k)(table).num_rows == CountPretokens("cl100k")(table).num_rows


def test_mistakes_name_the_way_out(tmp_path, monkeypatch):
    counter, path = CountPretokens(), tmp_path / "x.tmc"
    with pytest.raises(InputError, match=r"no column 'text'; its columns are 'body'"):
        counter(pa.table({"body": ["x"]}))
    with pytest.raises(InputError, match="column 'text' contains int64, not texts"):
        counter(pa.table({"text": [1]}))
    with pytest.raises(InputError, match="has 'pretoken', 'a', 'b'; select these two"):
        counter.save(pa.table({"pretoken": [b"x"], "a": [1], "b": [2]}), path)
    with pytest.raises(InputError, match=r"whole numbers without nulls.*double"):
        counter.save(pa.table({"pretoken": [b"x"], "a": [1.5]}), path)
    with pytest.raises(InputError, match="with 1 nulls"):
        counter.save(pa.table({"pretoken": [b"x", None], "a": [1, 2]}), path)
    with pytest.raises(InputError, match="below 0"):
        counter.save(pa.table({"pretoken": [b"x"], "a": [-1]}), path)
    with pytest.raises(InputError, match="no counts to save"):
        counter.save(iter([counter.schema().empty_table()]), path)
    with pytest.raises(TypeError, match="batches of pyarrow, not str"):
        counter.save(["x"], path)
    with pytest.raises(TypeError, match="column must be the name of a column"):
        CountPretokens("gpt2", 3)
    monkeypatch.setattr(Tokenizer, "pattern", None)
    with pytest.raises(TrainingError, match="not cut by one pattern"):
        CountPretokens(Tokenizer.load("gpt2"))
