"""A complete folder of shards → its documents. Missing and wrong files are errors."""

from __future__ import annotations

import json
import pickle
import random
from dataclasses import replace

import numpy as np
import pytest
import shard_files
from conftest import examples
from shard_files import NARROW, replace_digested, spec_of, write_digested, write_folder

import tokenmill.shards
from tokenmill.errors import MissingInputError, ShardError
from tokenmill.shards import FORMATS, Shard, folder, get_format
from tokenmill.shards.files import NpyFile

PARTS = [[[1, 2, 3], [], [4]], [], [[5, 6]], [[7], [8, 9]]]
ALL = [document for part in PARTS for document in part]


@pytest.mark.parametrize("format_name", FORMATS)
def test_documents_of_all_shards_by_number(format_name, tmp_path) -> None:
    spec = spec_of(format_name, True)
    shards = tokenmill.shards.open(write_folder(tmp_path, format_name, spec, PARTS))
    assert (len(shards), shards.documents, shards.tokens) == (6, 6, 9)
    assert shards.totals["documents"] == 6
    assert (shards.spec, shards.format) == (spec, format_name)
    assert [document.tolist() for document in shards] == ALL
    assert [shards[index].tolist() for index in range(6)] == ALL
    assert shards[-1].tolist() == [8, 9]
    assert [shards.ids(shard).tolist() for shard in range(4)] == [
        [1, 2, 3, 4],
        [],
        [5, 6],
        [7, 8, 9],
    ]
    for start in range(4):
        for end in range(start, 4):
            assert shards.reader(3).stretch(start, end).tolist() == [7, 8, 9][start:end]
    last = shards[5]
    shards.close()
    assert last.tolist() == [8, 9]
    assert shards[0].tolist() == [1, 2, 3]
    for index in (6, -7):
        with pytest.raises(IndexError, match=f"document {index} does not exist; the shards have 6"):
            shards[index]
    assert f"6 documents, 9 ids in 4 shards of {format_name}" in repr(shards)
    assert [d.tolist() for d in pickle.loads(pickle.dumps(shards))] == ALL


@pytest.mark.parametrize("format_name", sorted({*FORMATS} - {"parquet"}))
def test_documents_are_not_copied(format_name, tmp_path) -> None:
    shards = tokenmill.shards.open(write_folder(tmp_path, format_name, NARROW, PARTS))
    document = shards[0]
    assert not document.flags.owndata
    assert not document.flags.writeable
    assert np.shares_memory(document, shards[0])


@pytest.mark.parametrize("format_name", FORMATS)
def test_packed_sequences_are_rows(format_name, tmp_path) -> None:
    spec = replace(spec_of(format_name, True), sequence_length=2)
    parts = [[[1, 2], [3, 4]], [[5, 6]]]
    shards = tokenmill.shards.open(write_folder(tmp_path, format_name, spec, parts))
    assert [shards.sequences(shard).tolist() for shard in range(2)] == parts
    assert [sequence.tolist() for sequence in shards] == [[1, 2], [3, 4], [5, 6]]


def test_packed_shards_have_the_starts_of_documents(tmp_path) -> None:
    spec = replace(NARROW, sequence_length=2)
    stem = tmp_path / "00000-000"
    files = shard_files.write_whole(stem, "megatron", spec, [[1, 2], [3, 4]], False)
    starts = NpyFile(stem, ".documents.npy", "<i8")
    starts.write(np.array([0, 3]))
    shard = Shard(stem.name, 2, 4, (*files, starts.finish()))
    shards = tokenmill.shards.open(shard_files.seal(tmp_path, "megatron", spec, [shard]))
    assert shards.document_starts(0).tolist() == [0, 3]
    assert shards.document_ends(0).tolist() == [3, 4]
    assert [shards.original(index).tolist() for index in (0, 1, 0, 1)] == [[1, 2, 3], [4]] * 2


def test_few_shards_are_open_at_a_time(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(folder, "_READERS_MAX", 3)
    parts = [[[number]] for number in range(10)]
    shards = tokenmill.shards.open(write_folder(tmp_path, "npy", NARROW, parts))
    numbers = list(range(10)) * 3
    random.Random(1).shuffle(numbers)
    for number in numbers:
        assert shards[number].tolist() == [number]
        assert len(shards._readers) <= 3


def test_unpacked_shards_have_no_sequences(tmp_path) -> None:
    shards = tokenmill.shards.open(write_folder(tmp_path, "npy", NARROW, PARTS))
    with pytest.raises(ShardError, match="is not packed, and its documents have different lengths"):
        shards.sequences(0)
    with pytest.raises(ShardError, match="00000-000 is not packed"):
        shards.document_starts(0)


def test_incomplete_folders_are_rejected(tmp_path) -> None:
    with pytest.raises(MissingInputError, match=r"folder of shards not found: .*nowhere"):
        tokenmill.shards.open(tmp_path / "nowhere")
    with pytest.raises(ShardError, match="it is not an output of tokenmill tokenize"):
        tokenmill.shards.open(tmp_path)
    (tmp_path / "plan.json").touch()
    with pytest.raises(ShardError, match="run the same tokenize command again to resume it"):
        tokenmill.shards.open(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "manifest.json is not JSON"),
        ("[]", "is not a manifest of tokenmill"),
        ('{"format": "other"}', "is not a manifest of tokenmill"),
        ('{"format": "tokenmill.shards", "version": 2}', "has version 2, and this tokenmill reads"),
        ('{"format": "tokenmill.shards", "version": 1}', "is damaged: its digest differs; run"),
    ],
)
def test_manifests_that_are_none_are_refused(tmp_path, text, words) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ShardError, match=words):
        tokenmill.shards.open(tmp_path)


def test_files_that_are_gone_or_changed_are_named(tmp_path) -> None:
    write_folder(tmp_path, "megatron", NARROW, PARTS)
    path = tmp_path / "00003-000.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ShardError, match=r"00003-000\.bin has 5 bytes; expected 6; run"):
        tokenmill.shards.open(tmp_path)
    path.unlink()
    with pytest.raises(ShardError, match=r"00003-000\.bin is missing; expected 6 bytes; run"):
        tokenmill.shards.open(tmp_path)


def test_shards_that_differ_from_the_manifest_are_rejected(tmp_path) -> None:
    write_folder(tmp_path, "npy", NARROW, PARTS)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["tasks"][0]["shards"][2]["documents"] = 2
    write_digested(tmp_path / "manifest.json", manifest)
    shards = tokenmill.shards.open(tmp_path)
    with pytest.raises(ShardError, match="00002-000 has 1 documents, but its manifest has 2"):
        list(shards)


def test_manifests_that_name_files_elsewhere_are_refused(tmp_path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    path = write_folder(inner, "npy", NARROW, PARTS) / "manifest.json"
    good = path.read_bytes()
    (inner / "00000-000.npy").rename(tmp_path / "00000-000.npy")
    for old, new, words in (
        (b'"00000-000"', b'"../00000-000"', r"has a shard '\.\./00000-000'"),
        (b'"00000-000"', b'"00000-000/x"', "has a shard"),
        (b'"00000-000"', b"5", "has a shard 5"),
        (b'".npy"', b'"/../../00000-000.npy"', "the suffix '/../../00000-000.npy'"),
    ):
        replace_digested(path, good, old, new)
        with pytest.raises(ShardError, match=words):
            tokenmill.shards.open(inner)


def test_originals_of_many_packed_shards_are_those_that_were_packed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(folder, "_READERS_MAX", 2)
    spec = replace(NARROW, sequence_length=2)
    originals: list[list[int]] = []
    found = []
    for number in range(5):
        ids = list(range(10 * number + 1, 10 * number + 9))
        stem = tmp_path / f"{number:05d}-000"
        sequences = [ids[at : at + 2] for at in range(0, 8, 2)]
        files = shard_files.write_whole(stem, "megatron", spec, sequences, False)
        starts = NpyFile(stem, ".documents.npy", "<i8")
        starts.write(np.array([0, 3, 3]))
        originals += [ids[:3], [], ids[3:]]
        found.append(Shard(stem.name, 3, 8, (*files, starts.finish())))
    shards = tokenmill.shards.open(shard_files.seal(tmp_path, "megatron", spec, found))
    numbers = list(range(15)) * 2
    random.Random(2).shuffle(numbers)
    for number in numbers:
        assert shards.original(number).tolist() == originals[number]
        assert len(shards._readers) <= 2
    assert pickle.loads(pickle.dumps(shards)).original(14).tolist() == originals[14]


@pytest.mark.parametrize("format_name", FORMATS)
def test_damaged_files_are_refused_and_never_misread(format_name, tmp_path) -> None:
    """Files of the right size with other bytes: an error of ours, or other ids."""
    chance = random.Random(format_name)
    spec = spec_of(format_name, True)
    stem = tmp_path / "s"
    files = shard_files.write_whole(stem, format_name, spec, ALL, True)
    for file in files:
        path = tmp_path / f"s{file.suffix}"
        good = path.read_bytes()
        for size in (0, 1, len(good) // 2, len(good) - 1):
            path.write_bytes(good[:size])
            with_reader(format_name, stem, spec)
        for _ in range(max(10, examples(50))):
            bad = bytearray(good)
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
            path.write_bytes(bad)
            with_reader(format_name, stem, spec)
        path.write_bytes(good)


def with_reader(name: str, stem, spec) -> None:
    try:
        reader = get_format(name).Reader(stem, spec)
        for index in range(len(reader)):
            reader.document(index).tolist()
    except ShardError as error:
        assert str(stem) in str(error)
