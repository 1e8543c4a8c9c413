"""Files → shards: the documents of the files, for all shard formats and options.

Tests of cli/tokenize.py, tokenizing/encoder.py, tokenizing/options.py, tokenizing/run.py,
tokenizing/shuffle.py, tokenizing/task.py and tokenizing/writer.py.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re
import resource
from pathlib import Path

import numpy as np
import pytest
from conftest import SEED, examples
from corpus_cases import contents, expected_ids, texts, write_jsonl
from hard_inputs import joined_fragments
from in_process import least_unsplit_bytes
from in_process import threaded_runs as threaded_runs

import tokenmill
from tokenmill import Tokenizer, TokenmillError, tokenize
from tokenmill.corpus import Segment, Source
from tokenmill.corpus.documents import DocumentFailed, Documents
from tokenmill.native import _native
from tokenmill.shards import FORMATS
from tokenmill.tokenizing import encoder
from tokenmill.tokenizing.options import resolve_options
from tokenmill.tokenizing.plan import Plan, Task
from tokenmill.tokenizing.task import make_encoder

UNIT_BYTES = 4096


@pytest.fixture(scope="module")
def gpt2() -> Tokenizer:
    return Tokenizer.load("gpt2")


@pytest.fixture(scope="module")
def documents() -> list[str]:
    return texts(400)


@pytest.fixture(scope="module")
def jsonl(tmp_path_factory: pytest.TempPathFactory, documents: list[str]) -> Path:
    return write_jsonl(tmp_path_factory.mktemp("in") / "documents.jsonl", documents)


@pytest.mark.parametrize("shard_format", FORMATS)
def test_every_shard_format_contains_the_documents(tmp_path, gpt2, documents, jsonl, shard_format):
    result = tokenize(jsonl, tmp_path, gpt2, format=shard_format, task_bytes=UNIT_BYTES, threads=2)
    assert result.is_complete
    eos = gpt2.special_tokens["<|endoftext|>"]
    expected = expected_ids(gpt2, documents, eos)
    if shard_format == "llmc":  # its documents begin with the end token
        expected = [[eos, *ids[:-1]] for ids in expected]
    shards = tokenmill.shards.open(tmp_path)
    assert len(shards.shards) > 3
    assert [ids.tolist() for ids in shards] == expected
    assert result.documents == len(documents)
    assert result.tokens == sum(map(len, expected))
    assert result.bytes == sum(len(text.encode()) for text in documents)


def test_output_is_the_same_for_any_workers_and_memory(tmp_path, gpt2, jsonl):
    first = tmp_path / "first"
    tokenize(jsonl, first, gpt2, task_bytes=UNIT_BYTES, threads=1)
    for index, (workers, memory) in enumerate([(2, 1 << 28), (3, 1 << 30)]):
        other = tmp_path / str(index)
        tokenize(jsonl, other, gpt2, task_bytes=UNIT_BYTES, threads=workers, memory=memory)
        assert contents(other) == contents(first)


def test_a_text_file_is_cut_at_its_separator(tmp_path, gpt2):
    documents = [text for text in texts(300, 3) if text]
    path = tmp_path / "corpus.txt"
    path.write_text("<|endoftext|>".join(documents), encoding="utf-8")
    options = {"separator": "<|endoftext|>", "task_bytes": UNIT_BYTES, "eos": "none"}
    tokenize(path, tmp_path / "out", gpt2, **options)
    shards = tokenmill.shards.open(tmp_path / "out")
    assert [ids.tolist() for ids in shards] == expected_ids(gpt2, documents, None)


def test_a_text_file_without_separator_is_one_document(tmp_path, gpt2):
    text = "\n".join(texts(3000, 4))
    path = tmp_path / "corpus.txt"
    path.write_text(text, encoding="utf-8")
    for memory in (1 << 28, 1 << 31):
        out = tmp_path / str(memory)
        tokenize(path, out, gpt2, memory=memory, threads=2, eos=50256, bos=50256)
        (ids,) = tokenmill.shards.open(out)
        assert ids.tolist() == [50256, *gpt2.encode(text), 50256]


def test_shards_end_with_the_document_that_fills_them(tmp_path, gpt2, documents, jsonl):
    tokenize(jsonl, tmp_path, gpt2, shard_tokens=1000)
    shards = tokenmill.shards.open(tmp_path)
    sizes = [shard.tokens for shard in shards.shards]
    assert len(sizes) > 5 and all(size >= 1000 for size in sizes[:-1])
    for index, shard in enumerate(shards.shards[:-1]):
        last = shards.reader(index).document(shard.documents - 1)
        assert shard.tokens - len(last) < 1000


def test_packed_sequences_hold_all_documents(tmp_path, gpt2, documents, jsonl):
    tokenize(jsonl, tmp_path, gpt2, sequence_length=64, task_bytes=UNIT_BYTES, shard_tokens=5000)
    shards = tokenmill.shards.open(tmp_path)
    expected = expected_ids(gpt2, documents, 50256)
    found = []
    for index in range(len(shards.shards)):
        sequences = shards.sequences(index)
        assert sequences.shape[1] == 64
        ids, ends = shards.ids(index), shards.document_ends(index)
        found += [part.tolist() for part in np.split(ids[: ends[-1]], ends[:-1])]
        assert set(ids[ends[-1] :].tolist()) <= {50256}
    assert found == expected


def test_shuffled_documents_are_all_there_in_another_order(tmp_path, gpt2, documents, jsonl):
    expected = expected_ids(gpt2, documents, 50256)
    seen = {}
    for seed, workers in ((1, 1), (1, 3), (2, 2)):
        out = tmp_path / f"{seed}-{workers}"
        options = {"task_bytes": UNIT_BYTES, "shard_tokens": 4000, "threads": workers}
        tokenize(jsonl, out, gpt2, shuffle=seed, **options)
        found = [ids.tolist() for ids in tokenmill.shards.open(out)]
        assert found != expected
        assert sorted(found) == sorted(expected)
        assert not (out / "pieces").exists()
        seen[seed, workers] = contents(out)
    assert seen[1, 1] == seen[1, 3]
    assert seen[1, 1] != seen[2, 2]


def test_names_of_documents_are_kept_if_the_shard_format_has_them(tmp_path, gpt2):
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [{"id": f"doc-{n}", "text": text} for n, text in enumerate(texts(50))]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for shuffle in (None, 7):
        out = tmp_path / f"out-{shuffle}"
        tokenize(path, out, gpt2, format="parquet", id_field="id", shuffle=shuffle)
        table = pq.read_table(next(out.glob("*.parquet"))).to_pydict()
        (column,) = [name for name, values in table.items() if isinstance(values[0], list)]
        found = dict(zip(table["id"], table[column], strict=True))
        assert found == {row["id"]: [*gpt2.encode(row["text"]), 50256] for row in rows}


def test_names_may_be_missing_in_some_inputs(tmp_path, gpt2):
    (tmp_path / "a.txt").write_text("no name")
    write_jsonl(tmp_path / "b.jsonl", texts(20))
    inputs = [tmp_path / "a.txt", tmp_path / "b.jsonl"]
    for shuffle in (None, 3):
        out = tmp_path / f"out-{shuffle}"
        result = tokenize(inputs, out, gpt2, format="olmo", id_field="n", shuffle=shuffle)
        assert result.documents == 21


def test_more_shuffled_shards_than_tasks_need_few_descriptors(tmp_path, gpt2):
    documents = texts(400, 8)
    path = write_jsonl(tmp_path / "a.jsonl", documents)
    seen = []
    options = {"task_bytes": 400, "shard_tokens": 300, "shuffle": 1}

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, before[1]))
    try:
        result = tokenize(path, tmp_path / "out", gpt2, progress=seen.append, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert seen and seen[-1].tasks == seen[-1].tasks_total > 64
    assert result.shards > 30
    found = [ids.tolist() for ids in tokenmill.shards.open(tmp_path / "out")]
    assert sorted(found) == sorted(expected_ids(gpt2, documents, 50256))


def test_a_document_that_cannot_be_cut_is_quarantined_for_any_workers(tmp_path, gpt2, monkeypatch):
    limit = least_unsplit_bytes(monkeypatch)
    documents = [
        "short",
        "x" * (limit + 300_000),
        ("y" * (limit - 100) + " and on ") * 2,
        "after " + "z" * (limit + 300_000) + " it",
    ]
    path = write_jsonl(tmp_path / "a.jsonl", documents)
    outputs = []
    for workers, memory in ((1, 1 << 30), (16, 208 << 20)):
        out = tmp_path / f"{workers}"
        result = tokenize(path, out, gpt2, max_unsplit_bytes=limit, threads=workers, memory=memory)
        assert (result.documents, result.quarantined) == (2, 2)
        outputs.append(contents(out))
    assert outputs[0] == outputs[1]
    found = [ids.tolist() for ids in tokenmill.shards.open(tmp_path / "1")]
    assert found == expected_ids(gpt2, [documents[0], documents[2]], 50256)


def test_long_stretches_are_found_in_pieces_of_any_size(gpt2):
    """The reference finds all split points of the text at once."""
    chance = random.Random(SEED)
    bound = 40
    options = resolve_options({"eos": None}, gpt2) | {"max_unsplit_bytes": bound}
    seen = {False: 0, True: 0}
    rounds = max(100, examples(400))
    for _ in range(rounds):
        lengths = [chance.choice([1, 5, 20, 36, 38, 46, 60]) for _ in range(chance.randrange(1, 6))]
        text = " ".join("x" * length for length in lengths).encode()
        outcomes = set()
        for size in (1, 3, 7, 1000):
            pieces = [text[start : start + size] for start in range(0, len(text), size)]
            is_rejected = False
            small = make_encoder(gpt2, options, 16)
            for index, piece in enumerate(pieces):
                spans = np.array([[0, len(piece)]], np.int64)
                goes_on = index < len(pieces) - 1
                block = Documents(piece, spans, goes_on=goes_on)
                try:
                    found = list(small.encode(block, 1))
                except DocumentFailed:
                    is_rejected = True
                    break
                is_rejected |= any(each.rejected is not None for each in found)
            outcomes.add(is_rejected)
        places = [0, *(m.start() for m in re.finditer(rb"(?<=x) ", text)), len(text)]
        gaps = [b - a for a, b in itertools.pairwise(places)]
        # The last stretch may be longer by the look-ahead of a split point.
        wanted = any(gap > bound for gap in gaps[:-1]) or gaps[-1] > bound + 4
        assert outcomes <= {wanted}, f"{lengths} TOKENMILL_SEED={SEED}"
        seen[wanted] += 1
    assert min(seen.values()) > rounds // 20


@pytest.mark.parametrize("text", [b"a", b"ACGT", b" ", b"\n", b"\r\n", "\u4f60".encode(), b" x\t"])
def test_each_byte_of_a_long_document_is_searched_for_a_cut_once(gpt2, monkeypatch, text):
    searched = []

    class Counted:
        @staticmethod
        def last_cut(data: bytes, names: list[bytes]) -> int | None:
            searched.append(len(data))
            return _native.last_cut(data, names)

    monkeypatch.setattr(encoder, "_native", Counted)
    options = resolve_options({"eos": None}, gpt2)
    size = 1 << 20
    data = text * (size // len(text))
    for step in (1 << 14, size):
        searched.clear()
        parts = [data[start : start + step] for start in range(0, len(data), step)]
        one = make_encoder(gpt2, options, 1 << 14)
        ids = []
        for index, part in enumerate(parts):
            spans = np.array([[0, len(part)]], np.int64)
            block = Documents(part, spans, goes_on=index < len(parts) - 1)
            ids += [encoded.ids for encoded in one.encode(block, 1)]
        assert sum(searched) < 1.1 * len(data)
        assert np.array_equal(np.concatenate(ids), gpt2.encode_array(data))


def test_documents_in_chunks_have_the_ids_of_the_whole(gpt2):
    chance = random.Random(SEED)
    options = resolve_options({"eos": None, "allowed_special": True}, gpt2)
    for document in joined_fragments(SEED, 1000 * max(100, examples(2000))):
        text = document.encode("utf-8", "replace")
        one = make_encoder(gpt2, options, chance.choice([5, 16, 40, 100]))
        spans = np.array([[0, len(text)]], np.int64)
        found = [encoded.ids for encoded in one.encode(Documents(text, spans), 1)]
        expected = gpt2.encode_array(text, allowed_special=True)
        assert np.array_equal(np.concatenate(found), expected), f"{text!r} TOKENMILL_SEED={SEED}"


def test_inputs_may_be_many_small_files_of_many_kinds(tmp_path, gpt2):
    folder = tmp_path / "in"
    folder.mkdir()
    expected = []
    for number in range(30):
        documents = texts(5, number)
        expected += documents
        data = "".join(json.dumps({"text": text}) + "\n" for text in documents).encode()
        if number % 2:
            (folder / f"{number:02d}.jsonl.gz").write_bytes(gzip.compress(data))
        else:
            (folder / f"{number:02d}.jsonl").write_bytes(data)
    result = tokenize(folder, tmp_path / "out", gpt2)
    assert result.shards == 1
    found = [ids.tolist() for ids in tokenmill.shards.open(tmp_path / "out")]
    assert found == expected_ids(gpt2, expected, 50256)


def test_a_complete_folder_is_left_as_it_is(tmp_path, gpt2, jsonl):
    tokenize(jsonl, tmp_path, gpt2)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    result = tokenize(jsonl, tmp_path, gpt2)
    assert result.is_complete and result.tasks_resumed == 1
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "tfrecord"}, "format must be one of"),
        ({"eos": "<|nothing|>"}, "is not a special token of"),
        ({"eos": 99_999_999}, "must be an id of"),
        ({"utf8": "loose"}, "utf8 must be one of"),
        ({"on_error": "ignore"}, "on_error must be one of"),
        ({"sequence_length": 0}, "must be a whole number"),
        ({"sequence_length": 8, "eos": "none"}, "--pad-id"),
        ({"dtype": "uint16"}, "cannot represent"),
        ({"format": "nanogpt"}, "nanogpt"),
        ({"separator": ""}, "separator must be a non-empty str"),
        ({"sequence_length": 8, "pad_id": 1_000_000}, "must be an id of"),
        ({"shuffle": 1 << 64}, "shuffle must be a whole number"),
        ({"sequence_length": 1 << 40}, "sequence_length must be a whole number from 1 to"),
        ({"pad_id": 5}, "--pad-id needs --sequence-length"),
        ({"dtype": "float"}, "dtype must be one of"),
        ({"field": 5}, "field must be"),
        ({"eos": 1.5}, "eos must be an id"),
        ({"threads": -1}, "threads must be"),
        ({"memory": 1}, "memory must be"),
        ({"max_errors": -1}, "max_errors must be"),
    ],
)
def test_impossible_options_are_rejected_before_any_file_is_written(
    tmp_path, jsonl, options, words
):
    with pytest.raises(TokenmillError, match=words):
        tokenize(jsonl, tmp_path / "out", "cl100k_base", **options)
    assert not (tmp_path / "out").exists()


def test_a_run_without_an_input_is_rejected(tmp_path, gpt2, jsonl):
    out = tmp_path / "out"
    with pytest.raises(TokenmillError, match="no input is given; pass a file"):
        tokenize([], out, gpt2)
    assert not out.exists()
    tokenize(jsonl, out, gpt2, format="parquet")
    with pytest.raises(TokenmillError, match=r"all inputs are in the output .*; pass another"):
        tokenize(next(out.glob("*.parquet")), out, gpt2)


def test_a_width_that_a_shard_format_rejects_is_named_with_the_way_out(tmp_path, jsonl):
    for name in ("nanogpt", "llmc"):
        out = tmp_path / name
        with pytest.raises(TokenmillError, match=r"uint32.*50,257 ids of gpt2 fit.*--dtype uint16"):
            tokenize(jsonl, out, "gpt2", format=name, dtype="uint32")
        assert tokenize(jsonl, out, "gpt2", format=name, dtype="uint16").documents
    with pytest.raises(TokenmillError, match=r"o200k_base has 200,0.*below 65,536.*use npy, llmc"):
        tokenize(jsonl, tmp_path / "out", "o200k_base", format="nanogpt")
    assert tokenize(jsonl, tmp_path / "out", "o200k_base", format="llmc").documents


def test_an_option_without_effect_on_any_input_is_rejected(tmp_path, gpt2):
    jsonl = write_jsonl(tmp_path / "a.jsonl", ["one", "two"], "body")
    text = tmp_path / "b.txt"
    text.write_text("three\nfour\n")
    for inputs, options, words in (
        (jsonl, {"field": "body", "separator": "\n"}, r"--separator '\\n' has no effect.* jsonl"),
        (text, {"field": "body"}, "--field 'body' has no effect.* text"),
        (text, {"id_field": "n", "format": "olmo"}, "--id-field 'n' has no effect.* text"),
        (
            jsonl,
            {"field": "body", "id_field": "n"},
            "megatron has no ids .*olmo, parquet",
        ),
        (
            jsonl,
            {"field": "body", "id_field": "n", "format": "olmo", "sequence_length": 8},
            "packed sequences have no ids",
        ),
        (text, {"on_error": "fail", "max_errors": 3}, "--max-errors has no effect"),
    ):
        with pytest.raises(TokenmillError, match=words):
            tokenize(inputs, tmp_path / "out", gpt2, **options)
        assert not (tmp_path / "out").exists()
    with pytest.raises(TokenmillError, match="has no id in the first 2 records"):
        tokenize(jsonl, tmp_path / "o", gpt2, field="body", id_field="name", format="olmo")
    # One that does something for some of them is right.
    result = tokenize(
        *([jsonl, text], tmp_path / "out", gpt2),
        field="body",
        separator="\n",
        id_field="n",
        format="parquet",
    )
    assert result.documents == 4 and result.is_complete


def test_an_end_token_must_be_chosen_or_disabled(tmp_path, jsonl):
    tokenizer = tokenmill.train_from_iterator(["abcabc abc"], vocab_size=260)
    with pytest.raises(TokenmillError, match="cannot choose eos"):
        tokenize(jsonl, tmp_path / "out", tokenizer)
    assert tokenize(jsonl, tmp_path / "out", tokenizer, eos=None).manifest["eos"] is None


def test_a_tokenizer_of_any_file_is_kept_with_the_shards(tmp_path, jsonl):
    tokenizer = tokenmill.train_from_iterator(["abcabc abc", "the of and"], vocab_size=262)
    tokenizer.save(tmp_path / "tokenizer.json")
    out = tmp_path / "out"
    tokenize(jsonl, out, tmp_path / "tokenizer.json", eos="none", threads=2)
    assert Tokenizer.load(out / "tokenizer.tokenmill").encode("the") == tokenizer.encode("the")


def test_a_folder_with_other_files_is_not_written_into(tmp_path, gpt2, jsonl):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(TokenmillError, match=r"thesis\.tex"):
        tokenize(jsonl, tmp_path, gpt2)


def test_memory_has_a_minimum_that_the_error_names(tmp_path, gpt2, jsonl):
    with pytest.raises(TokenmillError, match="memory must be at least 200MiB for 8 threads"):
        tokenize(jsonl, tmp_path / "out", gpt2, threads=8, memory=199 << 20)
    with pytest.raises(TokenmillError, match="memory must be a number of bytes of at least"):
        tokenize(jsonl, tmp_path / "out", gpt2, threads=1, memory="64MB")
    assert not (tmp_path / "out").exists()
    tokenize(jsonl, tmp_path / "out", gpt2, threads=8, memory=200 << 20)


@pytest.mark.parametrize(
    "size, count, compression, threads",
    [(900, 100, None, 1), (20_000, 10, None, 2), (20_000, 10, "gz", 9), (10**9, 1, None, 16)],
)
def test_small_files_use_few_threads(size, count, compression, threads):
    def plan_of(folder: str) -> Plan:
        names = [f"{folder}/{number}.jsonl" for number in range(count)]
        sources = [Source(name, "jsonl", compression, size) for name in names]
        segments = tuple(Segment(source) for source in sources)
        return Plan({}, {}, sources, [Task(0, "", segments, size * count)])

    assert plan_of("data").useful_threads(16) == threads
    assert plan_of("s3://bucket").useful_threads(16) == 16
