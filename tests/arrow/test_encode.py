"""`Encode` → the ids of `encode`, for every type of Arrow column."""

from __future__ import annotations

import json
import pickle
import random
import subprocess
import sys

import hard_inputs
import numpy as np
import pyarrow as pa
import pytest
from conftest import SEED, examples
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenmill
from tokenmill import Tokenizer
from tokenmill.arrow import Encode
from tokenmill.arrow import encode as module
from tokenmill.errors import InputError, MissingExtraError, OptionError, TokenizeError

TEXTS = [None, "It's 1,234 naïve 中文 🙂", "", None, "hello <|endoftext|>", "x" * 5000, None]
KINDS = [
    *(pa.string(), pa.large_string(), pa.string_view()),
    *(pa.binary(), pa.large_binary(), pa.binary_view()),
    *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.large_string())),
]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


def column(texts, kind):
    if pa.types.is_dictionary(kind):
        return pa.array(texts, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(texts, pa.string()).cast(kind)


def encoded(tokenizer, texts, **options):
    return [None if text is None else tokenizer.encode(text, **options) for text in texts]


@each_kind
def test_every_kind_of_text_gives_the_ids_of_encode(cl100k, kind):
    table = pa.table({"n": range(len(TEXTS)), "text": column(TEXTS, kind)})
    result = Encode(cl100k)(table)
    result.validate(full=True)
    assert result["tokens"].type == pa.large_list(pa.uint32())
    assert result["tokens"].to_pylist() == encoded(cl100k, TEXTS)
    assert result.drop_columns("tokens").equals(table)


@each_kind
def test_slices_and_chunks_give_the_same_ids(cl100k, kind):
    encode = Encode(cl100k)
    whole = column(TEXTS, kind)
    for start in range(len(TEXTS)):
        for count in (0, 1, 3, len(TEXTS)):
            ids = encode(whole.slice(start, count))
            ids.validate(full=True)
            assert ids.to_pylist() == encoded(cl100k, TEXTS[start : start + count])
    chunks = pa.chunked_array([whole.slice(0, 2), whole.slice(2, 0), whole.slice(2)])
    table = encode(pa.table({"text": chunks}))
    table.validate(full=True)
    assert table["tokens"].num_chunks == chunks.num_chunks
    assert table["tokens"].to_pylist() == encoded(cl100k, TEXTS)


@settings(max_examples=max(20, examples(100)))
@given(st.lists(st.none() | st.text(max_size=12), max_size=20), st.data())
def test_any_column_cut_anywhere_is_encoded_as_its_texts(texts, data):
    tokenizer = Tokenizer.load("gpt2")
    kind = data.draw(st.sampled_from(KINDS[:6]))
    start = data.draw(st.integers(0, len(texts)))
    end = data.draw(st.integers(start, len(texts)))
    batch = pa.record_batch({"text": column(texts, kind)}).slice(start, end - start)
    result = Encode(tokenizer, eos="<|endoftext|>")(batch)
    result.validate(full=True)
    ids = encoded(tokenizer, texts[start:end])
    expected = [None if one is None else [*one, 50256] for one in ids]
    assert result.column("tokens").to_pylist() == expected
    [spark] = Encode(tokenizer, eos="<|endoftext|>").map_in_arrow([batch])
    spark.validate(full=True)
    assert spark.column("tokens").to_pylist() == expected


def test_hard_inputs_are_encoded_on_any_number_of_threads(tokenizer):
    texts = [text.encode() for _, text in hard_inputs.files(3000) if isinstance(text, str)]
    texts += [bytes(text) for text in hard_inputs.BYTES[::5]]
    random.Random(SEED).shuffle(texts)
    table = pa.table({"text": pa.array(texts, pa.binary())})
    expected = [tokenizer.encode(text) for text in texts]
    for threads in (1, 3, None):
        assert Encode(tokenizer, threads=threads)(table)["tokens"].to_pylist() == expected


def test_narrow_ids_where_the_vocabulary_fits(tokenizer):
    fits = tokenizer.vocab_size <= 1 << 16
    assert Encode(tokenizer).type == pa.large_list(pa.uint16() if fits else pa.uint32())
    wide = Encode(tokenizer, dtype=np.uint32)
    assert wide.type == pa.large_list(pa.uint32())
    assert wide(pa.array(["grain"])).to_pylist() == [tokenizer.encode("grain")]


def test_a_dtype_that_is_too_small_is_refused(cl100k):
    with pytest.raises(OptionError, match="uint16 is too small"):
        Encode(cl100k, dtype="uint16")
    with pytest.raises(OptionError, match=r"numpy\.uint32 or numpy\.uint16"):
        Encode(cl100k, dtype="int64")


def test_nothing_is_copied_by_arrow(cl100k):
    table = pa.table({"text": ["some text that has ids"] * 1000})
    encode = Encode(cl100k)
    before = pa.total_allocated_bytes()
    result = encode(table)
    assert pa.total_allocated_bytes() == before
    assert len(result["tokens"].chunk(0).values) == 5000


def test_a_text_of_a_dictionary_is_encoded_once(cl100k, monkeypatch):
    rows = pa.array(["a text", None, "another"] * 50).dictionary_encode()
    seen = []
    lists = Encode._lists
    monkeypatch.setattr(Encode, "_lists", lambda *a: seen.append(len(a[2])) or lists(*a))
    assert Encode(cl100k)(rows).to_pylist() == encoded(cl100k, rows.to_pylist())
    assert seen == [150, 2]
    # A slice that is shorter than its dictionary is not worth it.
    assert Encode(cl100k)(rows.slice(3, 1)).to_pylist() == encoded(cl100k, ["a text"])
    assert seen[2:] == [1]


def test_ends_and_specials_are_those_that_were_asked_for(cl100k):
    texts = ["a<|endoftext|>", None, ""]
    end = cl100k.special_tokens["<|endoftext|>"]
    array = pa.array(texts)
    ids = encoded(cl100k, texts, allowed_special=True)
    assert Encode(cl100k, allowed_special=True)(array).to_pylist() == ids
    assert Encode(cl100k, allowed_special={"<|endoftext|>"})(array).to_pylist() == ids
    for eos in ("auto", "<|endoftext|>", end, str(end)):
        found = Encode(cl100k, allowed_special=True, eos=eos, bos=7)(array).to_pylist()
        assert found == [None if one is None else [7, *one, end] for one in ids]
    with pytest.raises(TokenizeError, match="is not a special token of cl100k_base"):
        Encode(cl100k, eos="<eos>")


def test_all_null_and_empty_tables_keep_the_schema(cl100k):
    encode = Encode(cl100k)
    nulls = pa.table({"text": pa.nulls(3), "n": [1, 2, 3]})
    assert encode(nulls)["tokens"].to_pylist() == [None] * 3
    assert encode(nulls).schema == encode.schema(nulls.schema)
    for table in (nulls.slice(0, 0), nulls.schema.empty_table()):
        assert encode(table).num_rows == 0
        assert encode(table).schema == encode.schema(nulls.schema)
    batch = pa.record_batch({"text": pa.array([], pa.string_view())})
    assert encode(batch).schema == encode.schema(batch.schema)
    assert encode(pa.nulls(2).dictionary_encode()).to_pylist() == [None, None]
    assert list(encode.map_in_arrow([])) == []


def test_columns_are_kept_dropped_or_replaced(cl100k):
    schema = pa.schema([("id", pa.int64()), ("text", pa.string()), ("url", pa.string())])
    schema = schema.with_metadata({"made": "by hand"})
    table = pa.table({"id": [1], "text": ["grain"], "url": ["x"]}, schema)
    names = {
        (): ["id", "text", "url", "tokens"],
        (("keep", False),): ["tokens"],
        (("keep", ("url", "id")),): ["id", "url", "tokens"],
        (("output", "text"),): ["id", "text", "url"],
        (("output", "text"), ("keep", ("id",))): ["id", "text"],
        (("output", "url"), ("keep", ("id",))): ["id", "url"],
    }
    for options, expected in names.items():
        encode = Encode(cl100k, **dict(options))
        for given_ in (table, table.to_batches()[0]):
            result = encode(given_)
            assert type(result) is type(given_)
            assert result.schema.equals(encode.schema(schema), check_metadata=True)
            assert result.schema.names == expected
            assert result.column(encode._output).to_pylist() == [cl100k.encode("grain")]


def test_sparks_lists_have_signed_numbers(tokenizer):
    batch = pa.record_batch({"text": TEXTS})
    [result] = Encode(tokenizer).map_in_arrow(iter([batch]))
    assert result.schema.field("tokens").type == pa.list_(pa.int32())
    assert result.column("tokens").to_pylist() == encoded(tokenizer, TEXTS)


def test_other_columns_of_arrow_are_read_through_their_capsules(cl100k):
    class Foreign:
        def __arrow_c_array__(self, requested_schema=None):
            return pa.array(TEXTS).__arrow_c_array__(requested_schema)

    class Series:
        def to_arrow(self):
            return pa.chunked_array([TEXTS])

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.chunked_array([TEXTS]).__arrow_c_stream__(requested_schema)

    for made in (Foreign, Series, Stream):
        assert Encode(cl100k)(made()).to_pylist() == encoded(cl100k, TEXTS)


# Mistakes


def test_mistakes_name_the_column_and_the_way_out(cl100k):
    table = pa.table({"body": ["x"], "n": [1]})
    with pytest.raises(InputError, match=r"no column 'text'; its columns are 'body', 'n'.*column="):
        Encode(cl100k)(table)
    with pytest.raises(InputError, match="no column 'text'"):
        Encode(cl100k).schema(table.schema)
    with pytest.raises(InputError, match=r"column 'n' contains int64, not texts; name a column of"):
        Encode(cl100k, "n")(table)
    twice = pa.Table.from_arrays([pa.array(["x"])] * 2, names=["text", "text"])
    with pytest.raises(InputError, match="more than one column 'text'"):
        Encode(cl100k)(twice)
    with pytest.raises(InputError, match="has a column 'n' already; give the ids another name"):
        Encode(cl100k, "body", "n")(table)
    with pytest.raises(InputError, match="keep names the column 'url', and the table has 'body'"):
        Encode(cl100k, "body", keep=["url"])(table)
    with pytest.raises(TypeError, match="names of columns, not 'url'"):
        Encode(cl100k, keep="url")
    with pytest.raises(TypeError, match="output must be the name of a column, not 3"):
        Encode(cl100k, output=3)
    with pytest.raises(TypeError, match=r"got dict; in Ray Data use batch_format='pyarrow'"):
        Encode(cl100k)({"text": np.array(["x"])})


def test_too_many_ids_for_a_list_of_sparks_are_refused(cl100k, monkeypatch):
    monkeypatch.setattr("tokenmill.arrow.encode._OFFSET_MAX", 3)
    batch = pa.record_batch({"text": ["one two three four"]})
    with pytest.raises(InputError, match="maxRecordsPerBatch"):
        list(Encode(cl100k).map_in_arrow([batch]))


def test_without_pyarrow_the_extra_is_named(cl100k, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for make in (lambda: Encode(cl100k), tokenmill.arrow.CountPretokens):
        with pytest.raises(MissingExtraError, match="pip install pyarrow"):
            make()


# Pickles


@pytest.fixture
def nothing_loaded(monkeypatch):
    monkeypatch.setattr(module, "_loaded", {})


@pytest.fixture
def own(tmp_path):
    texts = ["a tokenizer of one's own, with merges of its own"] * 3
    return tokenmill.train_from_iterator(texts, vocab_size=280, special_tokens=["<|end|>"])


def test_of_an_embedded_tokenizer_the_name_and_the_specials_travel(tokenizer):
    assert len(pickle.dumps(Encode(tokenizer))) < 600 + 40 * len(tokenizer.special_tokens)


def test_a_pickle_is_loaded_once_in_a_process_and_only_for_texts(own, nothing_loaded):
    encode = Encode(own, eos="<|end|>", keep=False)
    sent = pickle.dumps(encode)
    module._loaded.clear()
    first, second = pickle.loads(sent), pickle.loads(sent)
    assert pickle.dumps(first) == sent
    assert not module._loaded
    assert first.schema(pa.schema([("text", pa.string())])).names == ["tokens"]
    assert not module._loaded
    table = pa.table({"text": ["a tokenizer", None]})
    assert first(table) == second(table) == encode(table)
    assert first.tokenizer == own
    assert first.tokenizer is second.tokenizer
    assert pickle.loads(sent).tokenizer is first.tokenizer


def test_tasks_in_the_process_that_sends_share_its_tokenizer(own, nothing_loaded):
    assert pickle.loads(pickle.dumps(Encode(own))).tokenizer is own


def test_a_process_remembers_few_tokenizers(nothing_loaded, tmp_path):
    for size in range(257, 267):
        made = tokenmill.train_from_iterator(["some text to learn from"], vocab_size=size)
        pickle.dumps(Encode(made))
    assert len(module._loaded) == module._LOADED_MAX
    assert next(reversed(module._loaded.values())) is made


FRESH = """
import json, pickle, sys
import pyarrow as pa
with open(sys.argv[1], "rb") as file:
    encode = pickle.load(file)
print(json.dumps(encode(pa.array(["a tokenizer", None])).to_pylist()))
"""


def test_a_pickle_is_all_that_another_process_needs(own, tmp_path):
    path = tmp_path / "encode.pickle"
    path.write_bytes(pickle.dumps(Encode(own)))
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(path)], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [own.encode("a tokenizer"), None]


def test_no_engine_is_imported_before_it_is_asked_for():
    code = (
        "import sys, pyarrow, tokenmill.arrow as arrow; arrow.Encode('gpt2')(pyarrow.array(['x']));"
        "print([n for n in ('ray', 'pyspark', 'daft', 'pandas') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    lean = "import sys, tokenmill.arrow; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", lean], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_repr_has_the_settings(cl100k):
    assert repr(Encode(cl100k)) == "<Encode 'text' → 'tokens': cl100k_base, uint32>"
