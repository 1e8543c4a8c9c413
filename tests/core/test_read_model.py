"""tokenizer.json read by the core: equal to json.loads and plain loops, or one named error."""

from __future__ import annotations

import json
import random
import time

import numpy as np
import pytest
from conftest import SEED, examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill import _native
from tokenmill.errors import VocabularyError
from tokenmill.formats.names import bytes_of, spell

NAMES = st.text(max_size=4) | st.text('ab"\\/é😀 \n', min_size=1, max_size=3)
FOUND = ("rest", "data", "lengths", "ids", "merges", "unmade")


def twin(document: dict) -> dict:
    """The same in plain Python."""
    vocab = document["model"]["vocab"]
    places = {name: place for place, name in enumerate(vocab)}
    merges = [
        merge if isinstance(merge, list) else merge.split(" ")
        for merge in document["model"]["merges"]
        if isinstance(merge, list) or not merge.startswith("#version")
    ]
    made = [left + right in vocab for left, right in merges]
    model = {**document["model"], "vocab": {}, "merges": []}
    return {
        "rest": {**document, "model": model},
        "data": "".join(vocab).encode(),
        "lengths": [len(name.encode()) for name in vocab],
        "ids": list(vocab.values()),
        "merges": [places[part] for merge in merges for part in merge],
        "unmade": -1 if all(made) else made.index(False),
    }


def read(data: bytes) -> dict:
    rest, names, lengths, ids, merges, unmade = _native.read_model(data, SEED)
    arrays = [np.asarray(array).tolist() for array in (lengths, ids, merges)]
    return dict(zip(FOUND, (json.loads(rest), names, *arrays, unmade), strict=True))


@st.composite
def documents(draw) -> dict:
    names = draw(st.lists(NAMES, unique=True, max_size=12))
    ids = draw(st.permutations(range(len(names))))
    parts = [name for name in names if name]
    merges: list = []
    if parts:
        part = st.sampled_from(parts)
        merges = [list(pair) for pair in draw(st.lists(st.tuples(part, part), max_size=8))]
        if not any(" " in name or name.startswith("#version") for name in parts) and draw(
            st.booleans()
        ):
            merges = ["#version: 0.2", *(f"{left} {right}" for left, right in merges)]
    vocab = dict(zip(names, ids, strict=True))
    items = [("vocab", vocab), ("merges", merges), ("type", "BPE"), ("more", [{"é": None}, -1.5])]
    model = dict(draw(st.permutations(items)))
    return dict(draw(st.permutations([("model", model), ("version", "1.0"), ("x", [])])))


@settings(max_examples=max(20, examples(100)))
@given(documents(), st.booleans(), st.sampled_from([None, 1]))
def test_every_file_reads_as_in_plain_python(document, ascii_only, indent):
    data = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode()
    assert read(data) == twin(document)


@settings(max_examples=max(20, examples(100)))
@given(st.lists(st.text(max_size=5) | st.binary(max_size=5).map(spell)))
def test_spelling_is_that_of_plain_python(names):
    lengths = np.array([len(name.encode()) for name in names], np.uint32)
    data, cut, kinds = _native.read_spelling("".join(names).encode(), lengths)
    expected = [bytes_of(name) or None for name in names]
    assert np.asarray(kinds).tolist() == [2 if found is None else 0 for found in expected]
    tokens = [name.encode() if f is None else f for name, f in zip(names, expected, strict=True)]
    assert data == b"".join(tokens)
    assert np.asarray(cut).tolist() == [len(token) for token in tokens]


def test_spelling_checks_the_lengths():
    with pytest.raises(ValueError, match="add up"):
        _native.read_spelling(b"abc", np.array([4], np.uint32))


def model(vocab: str, merges: str = "[]") -> bytes:
    return f'{{"model": {{"vocab": {vocab}, "merges": {merges}}}}}'.encode("utf-8", "surrogatepass")


AB = '{"a": 0, "b": 1, "ab": 2}'


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b"", "byte 0: expected '{'"),
        (b"[]", "byte 0: expected '{'"),
        (b'{"a": 1} x', "byte 9: unexpected data after the end"),
        (b"\xef\xbb\xbf{}", "byte 0"),
        (b'{"a": NaN}', "byte 6: not a JSON value"),
        (b'{"a": ' + b"[" * 65 + b"]" * 65 + b"}", "nested too deep"),
        (b'{"a": ' + b"[" * 1_000_000, "nested too deep"),
        (b'{"model": {}, "model": {}}', "duplicate key 'model'"),
        (model('{"a": 0}, "vocab": {"a": 0}'), "duplicate key 'vocab'"),
        (model(AB, '[], "merges": []'), "duplicate key 'merges'"),
        (model('{"a": 0, "\\u0061": 1}'), "model.vocab: duplicate token: a"),
        (model('{"a": 0, "é": 0}'), "model.vocab: duplicate id of token: é"),
        (model('{"a": -1}'), "model.vocab, byte 26: expected a non-negative integer"),
        (model('{"a": 1.0}'), "expected a non-negative integer"),
        (model('{"a": 1e3}'), "expected a non-negative integer"),
        (model('{"a": true}'), "expected a non-negative integer"),
        (model('{"a": "1"}'), "expected a non-negative integer"),
        (model('{"a": 01}'), "leading zero"),
        (model('{"a": 2096895}'), "too large"),
        (model('{"a": ' + "9" * 5000 + "}"), "too large"),
        (model('{"' + "a" * 65_536 + '": 0}'), "too long"),
        (model('{"\\ud800": 0}'), "surrogate"),
        (model('{"\ud800": 0}'), "not valid UTF-8"),
        (model('{"\x01": 0}'), "control character"),
        (model('{"a": 0,}'), "model.vocab, byte 28"),
        (model('{"a" 0}'), "expected ':'"),
        (model(AB, '["ab"]'), "merge 0: a merge must be two tokens separated by one space"),
        (model(AB, '["a b", "a  b"]'), "merge 1: a merge must be two tokens"),
        (model(AB, '["a c"]'), "merge 0: token of the merge not found in the vocabulary: c"),
        (model(AB, '["a "]'), "one side of the merge is empty"),
        (model(AB, '[["a"]]'), "expected ','"),
        (model(AB, '[["a", "b", "ab"]]'), "expected ']'"),
        (model(AB, '[["a", "b"], "a b"]'), "must be all strings or all arrays"),
        (model(AB, "[1]"), "a string or an array of two strings"),
    ],
)
def test_errors_name_the_position(data, parts):
    with pytest.raises(VocabularyError) as error:
        _native.read_model(data, 0)
    assert parts in str(error.value)


def test_largest_id_and_longest_token_are_read():
    assert read(model('{"a": 2096894}'))["ids"] == [2_096_894]
    assert read(model('{"' + "a" * 65_535 + '": 0}'))["lengths"] == [65_535]


def test_merge_without_a_token_is_reported():
    assert read(model(AB, '["a b", "b a", "b b"]'))["unmade"] == 1


def test_damaged_files_are_rejected_or_read_quickly():
    rng = random.Random(SEED)
    names = sorted({"".join(rng.choices('abcé▁Ġ"\\', k=rng.randint(1, 5))) for _ in range(300)})
    vocab = {name: id_ for id_, name in enumerate(names)}
    merges = [[rng.choice(names), rng.choice(names)] for _ in range(200)]
    whole = json.dumps({"a": [{}], "model": {"vocab": vocab, "merges": merges}}).encode()
    read(whole)
    start = time.process_time()
    for _ in range(examples(400)):
        cut = rng.randrange(len(whole))
        with pytest.raises(VocabularyError):
            _native.read_model(whole[:cut], 0)
    for _ in range(examples(2_000)):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    data[at] ^= 1 << rng.randrange(8)
                case 1:
                    del data[at : at + rng.randint(1, 20)]
                case 2:
                    data[at:at] = rng.choice(
                        [b"[", b"{", b'"', b"\\", b"\\u", b"1", b"\xff", b"\0"]
                    )
                case 3:
                    data[at:at] = data[(other := rng.randrange(len(data))) : other + 30]
        try:
            found = read(bytes(data))
        except (VocabularyError, UnicodeDecodeError):
            continue
        assert len(found["lengths"]) == len(found["ids"]) == len(set(found["ids"]))
        assert sum(found["lengths"]) == len(found["data"])
        assert all(place < len(found["ids"]) for place in found["merges"])
    assert time.process_time() - start < max(2, examples(20))


def test_a_large_vocabulary_is_read_in_linear_time():
    """The core's tests show that the seed decides which names share a slot."""
    vocab = {f"{number:08}": number for number in range(200_000)}
    data = json.dumps({"model": {"vocab": vocab, "merges": []}}).encode()
    start = time.process_time()
    _native.read_model(data, SEED)
    assert time.process_time() - start < 2
