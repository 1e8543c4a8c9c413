"""Shards → the documents that the real readers find in them, and the bytes of the real writers."""

from __future__ import annotations

import json
import os
import random
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import page_inputs
import pytest
import torch
from run_page import run_page
from shard_files import NARROW, WIDE, write_folder, write_whole

import tokenmill.shards
from tokenmill.shards import Spec
from tokenmill.shards.torch import ShardDataset

with warnings.catch_warnings():
    # Warnings about CUDA and its kernels, which are not installed.
    warnings.simplefilter("ignore")
    from datatrove.pipeline.tokens.tokenizer import TokenizedFile
    from datatrove.utils.dataset import DatatroveFolderDataset
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder
    from olmo_core.data.utils import iter_document_indices, load_array_slice
    from streaming import LocalDataset, MDSWriter, StreamingDataset

CHANCE = random.Random(6)
EOS = 0


def some(count: int, vocab_size: int, longest: int = 40) -> list[list[int]]:
    """Documents that end with the end of text."""
    lengths = [CHANCE.randrange(longest) for _ in range(count)]
    return [[CHANCE.randrange(1, vocab_size) for _ in range(n)] + [EOS] for n in lengths]


SPECS = (NARROW, WIDE)
both = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.dtype)
SEQUENCE = 16


def packed(spec: Spec) -> tuple[Spec, list[list[int]]]:
    """Sequences of one length."""
    rows = [[CHANCE.randrange(spec.vocab_size) for _ in range(SEQUENCE)] for _ in range(9)]
    return replace(spec, sequence_length=SEQUENCE), rows


@both
def test_megatron_reads_its_own(spec: Spec, tmp_path: Path) -> None:
    documents = [*some(30, spec.vocab_size), [], [5]]
    write_whole(tmp_path / "ours", "megatron", spec, documents, False)
    dataset = IndexedDataset(str(tmp_path / "ours"))
    assert [dataset[index].tolist() for index in range(len(dataset))] == documents
    assert dataset.document_indices.tolist() == list(range(len(documents) + 1))
    assert dataset.get(0, offset=1).tolist() == documents[0][1:]
    kind = {"uint16": np.uint16, "uint32": np.int32}[spec.dtype]
    builder = IndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=kind)
    for document in documents:
        builder.add_document(torch.tensor(document, dtype=torch.int64), [len(document)])
    builder.finalize(str(tmp_path / "theirs.idx"))
    for suffix in (".bin", ".idx"):
        theirs = (tmp_path / f"theirs{suffix}").read_bytes()
        assert (tmp_path / f"ours{suffix}").read_bytes() == theirs


@both
def test_datatrove_reads_its_own(spec: Spec, tmp_path: Path) -> None:
    parts = [some(20, spec.vocab_size), some(30, spec.vocab_size)]
    folder = tmp_path / "ours"
    folder.mkdir()
    write_folder(folder, "datatrove", spec, parts)
    size = np.dtype(spec.dtype).itemsize
    dataset = DatatroveFolderDataset(
        str(folder), seq_len=7, filename_pattern="*.ds", token_size=size, return_positions=True
    )
    expected, places = [], []
    for documents in parts:
        ids = [id for document in documents for id in document]
        within = [place for document in documents for place in range(len(document))]
        for start in range(0, len(ids) - 7, 8):
            expected.append(ids[start : start + 8])
            # A window begins at 0 wherever it begins in a document.
            first = next((k for k in range(1, 8) if within[start + k] == 0), 8)
            places.append([*range(first), *within[start + first : start + 8]])
    found = [dataset[index] for index in range(len(dataset))]
    assert [window["input_ids"].tolist() for window in found] == expected
    # datatrove leaves out an end that falls on a window's last place.
    same = [window["positions"].tolist()[:-1] for window in found]
    assert same == [window[:-1] for window in places]
    for number, documents in enumerate(parts):
        theirs = TokenizedFile(
            str(tmp_path),
            f"{number:05d}-000.ds",
            save_final_metadata=True,
            tokenizer_name_or_path=spec.tokenizer,
            token_size=size,
        )
        for document in documents:
            theirs.write(document, None)
        theirs.close()
        for suffix in (".ds", ".ds.index", ".ds.metadata"):
            name = f"{number:05d}-000{suffix}"
            assert (folder / name).read_bytes() == (tmp_path / name).read_bytes()


def test_datatrove_formats_numbers_the_same_way() -> None:
    import humanize

    from tokenmill.shards.flat import metric

    numbers = [*range(2000), *(CHANCE.randrange(10 ** (1 + n % 17)) for n in range(5000))]
    numbers += [10**k + d for k in range(1, 18) for d in (-1, 0, 1)]
    assert [metric(n) for n in numbers] == [humanize.metric(n, unit="T") for n in numbers]


@both
def test_olmo_core_reads_its_own(spec: Spec, tmp_path: Path) -> None:
    documents = some(50, spec.vocab_size)
    write_whole(tmp_path / "s", "olmo", spec, documents, True)
    path, kind = tmp_path / "s.npy", np.dtype(spec.dtype).type
    spans = list(iter_document_indices(path, local_cache=tmp_path, dtype=kind))
    assert spans == list(iter_document_indices(path, eos_token_id=EOS, dtype=kind))
    found = [load_array_slice(path, start, end, kind).tolist() for start, end in spans]
    assert found == documents


@both
def test_streaming_reads_its_own(spec: Spec, tmp_path: Path) -> None:
    parts = [some(20, spec.vocab_size), [*some(5, spec.vocab_size), [9] * 300, [8] * 70_000]]
    folder = tmp_path / "ours"
    folder.mkdir()
    write_folder(folder, "mds", spec, parts)
    documents = [document for part in parts for document in part]
    dataset = LocalDataset(str(folder))
    assert [dataset[index]["tokens"].tolist() for index in range(len(dataset))] == documents
    for number, part in enumerate(parts):
        out = tmp_path / f"theirs{number}"
        columns = {"tokens": f"ndarray:{spec.dtype}"}
        with MDSWriter(
            columns=columns, out=str(out), hashes=["xxh3_64"], size_limit=None
        ) as theirs:
            for document in part:
                theirs.write({"tokens": np.array(document, spec.dtype)})
        shard = (out / "shard.00000.mds").read_bytes()
        assert (folder / f"{number:05d}-000.mds").read_bytes() == shard


@both
def test_streaming_reads_packed_sequences(spec: Spec, tmp_path: Path) -> None:
    spec, rows = packed(spec)
    write_folder(tmp_path, "mds", spec, [rows[:4], rows[4:]])
    # It checks the hashes that index.json gives, too.
    dataset = StreamingDataset(
        local=str(tmp_path), batch_size=1, validate_hash="xxh3_64", shuffle=False
    )
    assert [dataset[index]["tokens"].tolist() for index in range(len(rows))] == rows


def test_streaming_reads_documents_without_ids(tmp_path: Path) -> None:
    write_folder(tmp_path, "mds", NARROW, [[[1], [], [2]]])
    dataset = LocalDataset(str(tmp_path))
    assert [dataset[index]["tokens"].tolist() for index in range(3)] == [[1], [], [2]]


def test_nanogpt_reads_its_own(tmp_path: Path) -> None:
    """As get_batch of its train.py does: windows of a memmap at random places."""
    documents = some(50, NARROW.vocab_size)
    write_whole(tmp_path / "train", "nanogpt", NARROW, documents, False)
    data = np.memmap(tmp_path / "train.bin", dtype=np.uint16, mode="r")
    ids = [id for document in documents for id in document]
    for start in torch.randint(len(data) - 8, (4,)).tolist():
        x = torch.from_numpy(data[start : start + 8].astype(np.int64))
        y = torch.from_numpy(data[start + 1 : start + 9].astype(np.int64))
        assert (x.tolist(), y.tolist()) == (ids[start : start + 8], ids[start + 1 : start + 9])


@both
def test_llmc_reads_its_own(spec: Spec, tmp_path: Path) -> None:
    """As _load_data_shard of its train_gpt2.py and train_llama3.py does."""
    documents = some(50, spec.vocab_size)
    write_whole(tmp_path / "train", "llmc", spec, documents, False)
    magic, version = {"uint16": (20240520, 1), "uint32": (20240801, 7)}[spec.dtype]
    with (tmp_path / "train.bin").open("rb") as file:
        header = np.frombuffer(file.read(256 * 4), dtype=np.int32)
        assert (header[0], header[1]) == (magic, version)
        tokens = np.frombuffer(file.read(), dtype=spec.dtype)
    assert len(tokens) == header[2]
    assert tokens.tolist() == [id for document in documents for id in document]


@pytest.mark.parametrize("page", ["training-megatron.md", "training-programs.md"])
def test_a_page_of_training_programs_runs(page: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    bin_folder = Path(sys.executable).parent
    command = tmp_path / "bin" / "tokenmill"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {bin_folder}/python -m tokenmill "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(command.parent), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", str(Path(tokenmill.__file__).parents[1]))
    page_inputs.make(f"docs/{page}")
    run_page(Path(__file__).parents[2] / "docs" / page)


def test_numpy_and_pyarrow_read_their_own(tmp_path: Path) -> None:
    import pyarrow.feather
    import pyarrow.parquet

    documents = some(50, WIDE.vocab_size)
    for name in ("npy", "parquet", "arrow"):
        write_whole(tmp_path / "s", name, WIDE, documents, True)
    ids, ends = np.load(tmp_path / "s.npy", mmap_mode="r"), np.load(tmp_path / "s.ends.npy")
    assert [part.tolist() for part in np.split(ids, ends[:-1])] == documents
    assert pyarrow.parquet.read_table(tmp_path / "s.parquet")["input_ids"].to_pylist() == documents
    assert pyarrow.feather.read_table(tmp_path / "s.arrow")["input_ids"].to_pylist() == documents


TEXTS = [f"Document {number}: " + "more and more. " * (number % 7) for number in range(60)]


def run(folder: Path, shard_format: str, **options: object) -> tokenmill.shards.Shards:
    """The texts after `tokenmill tokenize`, in several shards."""
    folder.mkdir()
    (folder / "in.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in TEXTS))
    out = folder / "out"
    tokenmill.tokenize(
        [folder / "in.jsonl"], out, "cl100k_base", format=shard_format, shard_tokens=300, **options
    )
    shards = tokenmill.shards.open(out)
    assert len(shards.shards) > 2
    return shards


def test_readers_read_the_shards_of_a_run(tmp_path: Path) -> None:
    megatron = run(tmp_path / "megatron", "megatron")
    tokenizer = tokenmill.Tokenizer.load("cl100k_base")
    encoded = [[*ids, megatron.spec.eos] for ids in tokenizer.encode_batch(TEXTS)]
    found: list[list[int]] = []
    for shard in megatron.shards:
        dataset = IndexedDataset(str(megatron.path / shard.stem))
        found += [dataset[index].tolist() for index in range(len(dataset))]
    assert found == encoded
    dataset = LocalDataset(str(run(tmp_path / "mds", "mds").path))
    assert [dataset[index]["tokens"].tolist() for index in range(len(dataset))] == encoded
    dataset = DatatroveFolderDataset(
        str(run(tmp_path / "datatrove", "datatrove").path),
        seq_len=0,
        filename_pattern="*.ds",
        token_size=4,
    )
    ids = [int(dataset[index]["input_ids"][0]) for index in range(len(dataset))]
    assert ids == [id for document in encoded for id in document]


def test_readers_read_the_packed_shards_of_a_run(tmp_path: Path) -> None:
    shards = run(tmp_path / "mds", "mds", sequence_length=64)
    assert any(shard.padding for shard in shards.shards)
    rows = [row.tolist() for row in shards]
    assert {len(row) for row in rows} == {64}
    dataset = LocalDataset(str(shards.path))
    assert [dataset[index]["tokens"].tolist() for index in range(len(dataset))] == rows
    samples = ShardDataset(shards, targets=False)
    assert [samples[index].tolist() for index in range(len(samples))] == rows
    pairs = ShardDataset(shards)
    inputs, targets = zip(*(pairs[index] for index in range(len(pairs))), strict=True)
    stream = torch.tensor(rows).ravel()
    assert torch.stack(inputs).tolist() == rows
    assert torch.stack(targets).ravel().equal(stream.roll(-1))
    tokenizer = tokenmill.Tokenizer.load("cl100k_base")
    originals = [shards.original(index)[:-1] for index in range(len(TEXTS))]
    assert [tokenizer.decode(ids.tolist()) for ids in originals] == TEXTS


@pytest.mark.parametrize("name", tokenmill.shards.FORMATS)
def test_ours_reads_all(name: str, tmp_path: Path) -> None:
    parts = [some(20, NARROW.vocab_size), some(3, NARROW.vocab_size)]
    shards = tokenmill.shards.open(write_folder(tmp_path, name, NARROW, parts))
    assert [document.tolist() for document in shards] == [d for part in parts for d in part]
