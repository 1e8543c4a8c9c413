"""Documents → shards → the same documents, and each file byte by byte.

Tests of shards/files.py, shards/flat.py, shards/mds.py, shards/shard_format.py and
shards/tables.py.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
import sys
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import shard_files
from conftest import examples
from hypothesis import given, settings
from shard_files import NARROW, WIDE, spec_of, write_in_pieces, write_whole

from tokenmill._native import Checksum
from tokenmill.errors import MissingExtraError, ShardError
from tokenmill.shards import FORMATS, File, Rows, Shard, flat, get_format, mds, tables
from tokenmill.shards.files import format_checksum
from tokenmill.shards.mds import MDS

SUFFIXES = {
    "megatron": (".bin", ".idx"),
    "datatrove": (".ds", ".ds.index", ".ds.metadata"),
    "olmo": (".npy", ".csv.gz"),
    "nanogpt": (".bin", ".ends.npy"),
    "llmc": (".bin", ".ends.npy"),
    "parquet": (".parquet",),
    "arrow": (".arrow",),
    "mds": (".mds",),
    "npy": (".npy", ".ends.npy"),
}


def suffixes_of(name: str, spec) -> tuple[str, ...]:
    packed = spec.sequence_length is not None
    return tuple(one for one in SUFFIXES[name] if not (packed and one == ".ends.npy"))


each_format = pytest.mark.parametrize("format_name", FORMATS)

some_documents = st.lists(st.lists(st.integers(0, 999), max_size=9), max_size=12)


def read(stem: Path, name: str, spec) -> list[list[int]]:
    reader = get_format(name).Reader(stem, spec)
    documents = [reader.document(index).tolist() for index in range(len(reader))]
    assert reader.ids.dtype == np.dtype(spec.dtype)
    assert reader.ids.tolist() == [id for document in documents for id in document]
    assert reader.ends.tolist() == np.cumsum([len(d) for d in documents]).tolist()
    reader.close()
    assert len(reader) == 0
    return documents


def contents(stem: Path, files: list[File]) -> dict[str, bytes]:
    """The files of a shard, compared with the sizes and checksums of the writer."""
    found = {file.suffix: stem.with_name(stem.name + file.suffix).read_bytes() for file in files}
    for file in files:
        assert file.bytes == len(found[file.suffix])
        whole = Checksum()
        whole.update(found[file.suffix])
        assert file.checksum == format_checksum(whole)
    assert {path.name for path in stem.parent.iterdir()} >= {stem.name + s for s in found}
    return found


@each_format
@pytest.mark.parametrize("wide", [False, True])
@settings(max_examples=max(5, examples(20)))  # each file is flushed to the disk
@given(documents=some_documents, rows=st.booleans(), seed=st.integers(0, 2**32))
def test_shards_give_back_their_documents_however_they_came(
    format_name, wide, tmp_path_factory, documents, rows, seed
) -> None:
    spec = spec_of(format_name, wide)
    folder = tmp_path_factory.mktemp("shard")
    whole, pieces = folder / "a.b-000", folder / "c.d-000"
    files = write_whole(whole, format_name, spec, documents, rows)
    assert tuple(file.suffix for file in files) == suffixes_of(format_name, spec)
    assert read(whole, format_name, spec) == documents
    others = write_in_pieces(pieces, format_name, spec, documents, rows, seed)
    assert contents(pieces, others) == contents(whole, files)
    assert files == others
    assert len(list(folder.iterdir())) == 2 * len(files), "something is left over"


@each_format
@settings(max_examples=max(5, examples(20)))  # each file is flushed to the disk
@given(count=st.integers(0, 9), seed=st.integers(0, 2**32))
def test_packed_sequences_come_back(format_name, tmp_path_factory, count, seed) -> None:
    spec = replace(spec_of(format_name, True), sequence_length=5)
    chance = random.Random(seed)
    documents = [[chance.randrange(1000) for _ in range(5)] for _ in range(count)]
    stem = tmp_path_factory.mktemp("shard") / "00000-000"
    files = write_whole(stem, format_name, spec, documents, False)
    assert tuple(file.suffix for file in files) == suffixes_of(format_name, spec)
    contents(stem, files)
    assert read(stem, format_name, spec) == documents


@each_format
def test_long_documents_and_many_come_back(format_name, tmp_path, monkeypatch) -> None:
    """Longer than the blocks that writers work in, which are made small for it."""
    monkeypatch.setattr(tables, "GROUP_IDS", 64)
    monkeypatch.setattr(tables, "GROUP_ROWS", 8)
    for module in (mds, flat):
        monkeypatch.setattr(module, "_BLOCK", 8)
    monkeypatch.setattr(mds, "_BLOCK_IDS", 64)
    chance = random.Random(1)
    lengths = [0, 64, 65, 0, 300, 1, 63, 1, 1, 70_000, *(chance.randrange(30) for _ in range(99))]
    documents = [[chance.randrange(1000) for _ in range(length)] for length in lengths]
    spec = spec_of(format_name, True)
    files = write_whole(tmp_path / "a", format_name, spec, documents, True)
    assert read(tmp_path / "a", format_name, spec) == documents
    for seed in range(3):
        others = write_in_pieces(tmp_path / "b", format_name, spec, documents, True, seed)
        assert others == files


@each_format
@pytest.mark.parametrize("when", ["empty", "open", "finished"])
def test_discard_leaves_no_files(format_name, tmp_path, when) -> None:
    writer = get_format(format_name).Writer(tmp_path / "00000-000", NARROW)
    if when != "empty":
        writer.append(np.array([1, 2], np.uint16), np.array([2], np.int64), None)
    if when == "open":
        writer.append(np.array([3], np.uint16), np.empty(0, np.int64))
    if when == "finished":
        writer.finish()
    writer.discard()
    assert not list(tmp_path.iterdir())


@each_format
def test_ids_that_do_not_fit_are_refused(format_name, tmp_path) -> None:
    writer = get_format(format_name).Writer(tmp_path / "a", NARROW)
    writer.append(np.array([5], np.uint32), np.array([1]), None)
    with pytest.raises(ShardError, match="65536 does not fit into uint16"):
        writer.append(np.array([65536], np.uint32), np.array([1]), None)
    writer.discard()


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(
        ShardError, match="'tar' is not a shard format; use one of megatron, datatrove"
    ):
        get_format("tar")


def test_only_nanogpt_refuses_wide_ids() -> None:
    refused = {name: get_format(name).refuse(WIDE) for name in FORMATS}
    assert refused.pop("nanogpt") == (
        "large has 100,000 ids; nanogpt supports ids below 65,536 (uint16), so use npy, llmc or "
        "megatron"
    )
    assert set(refused.values()) == {None}
    assert "below 2^31" in get_format("megatron").refuse(replace(WIDE, vocab_size=2**31 + 1))


# Byte by byte ----------------------------------------------------------------------------------

DOCUMENTS = [[1, 2, 3], [], [513, 4]]


def golden(tmp_path: Path, name: str, spec) -> dict[str, bytes]:
    stem = tmp_path / "s"
    return contents(stem, write_whole(stem, name, spec, DOCUMENTS, True))


IDS_16 = bytes([1, 0, 2, 0, 3, 0, 1, 2, 4, 0])
IDS_32 = struct.pack("<5I", 1, 2, 3, 513, 4)
ENDS = struct.pack("<3q", 3, 3, 5)


def npy_bytes(descr: str, shape: str, data: bytes) -> bytes:
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00\x76\x00" + head.ljust(117).encode() + b"\n" + data


ENDS_NPY = npy_bytes("<i8", "(3,)", ENDS)


def test_megatron_byte_by_byte(tmp_path) -> None:
    for spec, ids, code, size in ((NARROW, IDS_16, 8, 2), (WIDE, IDS_32, 4, 4)):
        index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, 3, 4)
        index += struct.pack("<3i3q4q", 3, 0, 2, 0, 3 * size, 3 * size, 0, 1, 2, 3)
        assert golden(tmp_path, "megatron", spec) == {".bin": ids, ".idx": index}


def test_datatrove_byte_by_byte(tmp_path) -> None:
    for spec, ids, head in ((NARROW, IDS_16, b"small|2"), (WIDE, IDS_32, b"large|4")):
        assert golden(tmp_path, "datatrove", spec) == {
            ".ds": ids,
            ".ds.index": ENDS,
            ".ds.metadata": head + b"\n5\n5.00 T",
        }


def test_datatrove_numbers_have_units() -> None:
    said = {0: "0.00 T", 7: "7.00 T", 999: "999 T", 1500: "1.50 kT", 999_999: "1.00 MT"}
    said |= {12_345_678: "12.3 MT", 2_147_000_000: "2.15 GT", 99_999_999_999_999: "100 TT"}
    assert {number: flat.metric(number) for number in said} == said


def test_olmo_byte_by_byte(tmp_path) -> None:
    found = golden(tmp_path, "olmo", WIDE)
    assert found[".npy"] == IDS_32
    assert gzip.decompress(found[".csv.gz"]).decode().splitlines() == [
        '0,3,"name, ""0""",source,',
        '3,3,"name, ""1""",source,',
        '3,5,"name, ""2""",source,',
    ]
    assert found[".csv.gz"][:10] == b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # no time, no name


def test_olmo_keeps_each_document_on_a_line(tmp_path) -> None:
    writer = get_format("olmo").Writer(tmp_path / "s", NARROW)
    rows = Rows(["a\nb\r\n\u2028c"], ["d\n,e"])
    writer.append(np.array([1], np.uint16), np.array([1]), rows)
    writer.finish()
    text = gzip.decompress((tmp_path / "s.csv.gz").read_bytes()).decode()
    assert text == '0,1,a b   c,"d ,e",\n'


def test_nanogpt_byte_by_byte(tmp_path) -> None:
    assert golden(tmp_path, "nanogpt", NARROW) == {".bin": IDS_16, ".ends.npy": ENDS_NPY}


def test_llmc_byte_by_byte(tmp_path) -> None:
    kinds = ((NARROW, IDS_16, 20240520, 1), (WIDE, IDS_32, 20240801, 7))
    for spec, ids, magic, version in kinds:
        header = struct.pack("<3i", magic, version, 5) + bytes(253 * 4)
        assert golden(tmp_path, "llmc", spec) == {".bin": header + ids, ".ends.npy": ENDS_NPY}


def test_npy_byte_by_byte(tmp_path) -> None:
    found = golden(tmp_path, "npy", WIDE)
    assert found == {".npy": npy_bytes("<u4", "(5,)", IDS_32), ".ends.npy": ENDS_NPY}
    np.save(tmp_path / "numpy.npy", np.frombuffer(IDS_32, "<u4"))
    assert found[".npy"] == (tmp_path / "numpy.npy").read_bytes()
    packed = replace(WIDE, sequence_length=2)
    write_whole(tmp_path / "p", "npy", packed, [[1, 2], [3, 4], [5, 6]], False)
    assert np.load(tmp_path / "p.npy").tolist() == [[1, 2], [3, 4], [5, 6]]


def mds_config(encoding: str, size: int | None) -> bytes:
    config = {
        "column_encodings": [encoding],
        "column_names": ["tokens"],
        "column_sizes": [size],
        "compression": None,
        "format": "mds",
        "hashes": ["xxh3_64"],
        "size_limit": None,
        "version": 2,
    }
    return json.dumps(config).encode()


def test_mds_byte_by_byte(tmp_path) -> None:
    config = mds_config("ndarray:uint16", None)
    samples = [
        struct.pack("<IBB", 8, 4, 3) + IDS_16[:6],
        struct.pack("<IBB", 2, 4, 0),
        struct.pack("<IBB", 6, 4, 2) + IDS_16[6:],
    ]
    starts = np.cumsum([4 + 16 + len(config), *map(len, samples)])
    expected = struct.pack("<5I", 3, *starts) + config + b"".join(samples)
    assert golden(tmp_path, "mds", NARROW) == {".mds": expected}
    packed = replace(NARROW, sequence_length=2)
    files = write_whole(tmp_path / "p", "mds", packed, [[1, 2], [3, 4]], False)
    config = mds_config("ndarray:uint16:2", 4)
    start = 16 + len(config)
    expected = struct.pack("<4I", 2, start, start + 4, start + 8) + config
    assert contents(tmp_path / "p", files)[".mds"] == expected + bytes([1, 0, 2, 0, 3, 0, 4, 0])


def test_mds_writes_longer_lengths_in_more_bytes(tmp_path) -> None:
    for length, head in ((255, b"\x04\xff"), (256, b"\x05\0\x01"), (65536, b"\x06\0\0\x01\0")):
        write_whole(tmp_path / "s", "mds", NARROW, [[9] * length], False)
        data = (tmp_path / "s.mds").read_bytes()
        sample = struct.pack("<I", len(head) + 2 * length) + head + b"\x09\0" * length
        assert data.endswith(b"}" + sample)


def test_mds_index_names_all_shards(tmp_path) -> None:
    shards = [Shard(f"0000{n}-000", n, 9, (File(".mds", 8 + n, f"{n:016x}"),)) for n in range(2)]
    name, data = MDS.make_index(shards, NARROW)
    assert name == "index.json"
    index = json.loads(data)
    assert index["version"] == 2
    assert [row["raw_data"] for row in index["shards"]] == [
        {"basename": "00000-000.mds", "bytes": 8, "hashes": {"xxh3_64": "0" * 16}},
        {"basename": "00001-000.mds", "bytes": 9, "hashes": {"xxh3_64": "0" * 15 + "1"}},
    ]
    assert [row["samples"] for row in index["shards"]] == [0, 1]


def test_tables_have_a_row_for_each_document(tmp_path) -> None:
    import pyarrow.ipc
    import pyarrow.parquet

    for spec, type in ((NARROW, "uint16"), (WIDE, "uint32")):
        write_whole(tmp_path / "s", "parquet", spec, DOCUMENTS, True)
        write_whole(tmp_path / "s", "arrow", spec, DOCUMENTS, True)
        parquet = pyarrow.parquet.read_table(tmp_path / "s.parquet")
        arrow = pyarrow.ipc.open_file(tmp_path / "s.arrow").read_all()
        for table in (parquet, arrow):
            assert str(table.schema.field("input_ids").type).startswith("large_list<")
            assert str(table.schema.field("input_ids").type.value_type) == type
            assert table.to_pydict() == {
                "input_ids": DOCUMENTS,
                "length": [3, 0, 2],
                "id": [f'name, "{number}"' for number in range(3)],
                "source": ["source"] * 3,
            }


def test_tables_have_null_for_missing_values(tmp_path) -> None:
    import pyarrow.parquet

    writer = get_format("parquet").Writer(tmp_path / "s", NARROW)
    writer.append(np.array([1], np.uint16), np.array([1]), None)
    writer.append(np.array([1, 2], np.uint16), np.array([1, 2]), Rows(None, ["a", "b"]))
    writer.append(np.array([1], np.uint16), np.array([1]), Rows(["x"], "c"))
    writer.finish()
    table = pyarrow.parquet.read_table(tmp_path / "s.parquet", columns=["id", "source"])
    found = {"id": [None, None, None, "x"], "source": [None, "a", "b", "c"]}
    assert table.to_pydict() == found


def test_tables_without_pyarrow_name_the_extra(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name in ("parquet", "arrow"):
        with pytest.raises(MissingExtraError, match="pip install pyarrow"):
            get_format(name).Writer(tmp_path / "s", NARROW)


# Limits ----------------------------------------------------------------------------------------


def test_shards_beyond_the_limit_of_a_format_are_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(flat.LlmC, "TOKENS_MAX", 4)
    monkeypatch.setattr(mds, "BYTES_MAX", 200)
    for name, words in (("llmc", "at most 2^31 − 1 ids"), ("mds", "at most 4 GiB")):
        writer = get_format(name).Writer(tmp_path / "s", NARROW)
        writer.append(*shard_files.joined([[1] * 5], "uint16"), None)
        with pytest.raises(ShardError) as caught:
            writer.finish()
        assert words in str(caught.value)
        assert "set a smaller --shard-tokens" in str(caught.value)
        writer.discard()
    assert not list(tmp_path.iterdir())
