"""Shards → PyTorch data sets: the same batches for any workers, resumed at any batch.

Tests of shards/torch.py. The pages docs/pytorch*.md are run.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import page_inputs
import pytest
import torch
from run_page import run_page
from shard_files import NARROW, write_folder
from torch.utils.data import DataLoader, DistributedSampler
from torchdata.stateful_dataloader import StatefulDataLoader

import tokenmill.shards
from tokenmill.errors import ShardError
from tokenmill.shards.torch import ShardDataset, ShardStream

SPEC = replace(NARROW, sequence_length=4)
ROWS = [[4 * row + place for place in range(4)] for row in range(47)]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    return write_folder(tmp_path, "npy", SPEC, [ROWS[:20], ROWS[20:21], ROWS[21:]])


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    documents = [list(range(n, 2 * n)) for n in range(20)]
    return write_folder(tmp_path, "megatron", NARROW, [documents[:9], documents[9:]])


def firsts(batches) -> list[list[int]]:
    """The row of each sample of each batch."""
    return [[int(first) // 4 for first in inputs[:, 0]] for inputs, _ in batches]


def test_samples_by_number(packed: Path) -> None:
    dataset = ShardDataset(packed)
    assert len(dataset) == 47
    for row in range(47):
        inputs, targets = dataset[row]
        assert (inputs.dtype, targets.dtype) == (torch.int64, torch.int64)
        assert inputs.tolist() == ROWS[row]
        assert targets.tolist() == [*ROWS[row][1:], ROWS[(row + 1) % 47][0]]
    assert ShardDataset(packed, targets=False)[3].tolist() == ROWS[3]
    with pytest.raises(IndexError):
        dataset[47]
    shuffled = ShardDataset(packed, seed=3)
    order = [int(shuffled[index][0][0]) // 4 for index in range(47)]
    assert sorted(order) == list(range(47))
    assert order != list(range(47))


def test_windows_and_documents(flat: Path) -> None:
    shards = tokenmill.shards.open(flat)
    ids = [shards.ids(shard).tolist() for shard in range(2)]
    dataset = ShardDataset(shards, 5)
    expected = [ids[k][s : s + 6] for k in range(2) for s in range(0, len(ids[k]) - 5, 5)]
    assert [[*x.tolist(), y.tolist()[-1]] for x, y in dataset] == expected
    documents = ShardDataset(shards, documents=True)
    assert [document.tolist() for document in documents] == [d.tolist() for d in shards]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_samplers_and_worker_processes(packed: Path, start: str) -> None:
    dataset = ShardDataset(packed, seed=1)
    sampler = DistributedSampler(dataset, num_replicas=2, rank=1, seed=4)
    context = torch.multiprocessing.get_context(start)
    loader = DataLoader(
        dataset, batch_size=5, sampler=sampler, num_workers=2, multiprocessing_context=context
    )
    alone = DataLoader(dataset, batch_size=5, sampler=sampler)
    assert firsts(loader) == firsts(alone)


def test_batches_are_the_same_for_any_number_of_workers(packed: Path) -> None:
    found = []
    for workers in (0, 1, 2, 3):
        stream = ShardStream(packed, seed=9, batch_size=4)
        loader = DataLoader(stream, batch_size=4, num_workers=workers)
        epochs = []
        for epoch in range(2):
            stream.set_epoch(epoch)
            epochs.append(firsts(loader))
        found.append(epochs)
    assert found[1:] == found[:-1]
    first, second = found[0]
    assert sorted(row for batch in first for row in batch) == list(range(47))
    assert first != second


def test_ranks_share_the_samples(packed: Path) -> None:
    taken = []
    for rank in range(3):
        stream = ShardStream(packed, rank=rank, world_size=3)
        assert len(stream) == 15
        taken += [int(inputs[0]) // 4 for inputs, _ in stream]
    assert len(taken) == len(set(taken)) == 45


@pytest.mark.parametrize("workers", [0, 2])
def test_training_resumes_with_other_workers_and_ranks(packed: Path, workers: int) -> None:
    """Two ranks take three batches each; then one rank takes the rest."""
    before, states = [], []
    for rank in range(2):
        stream = ShardStream(packed, rank=rank, world_size=2, batch_size=4)
        stream.set_epoch(5)
        batches = iter(DataLoader(stream, batch_size=4, num_workers=workers))
        before += [row for _ in range(3) for row in firsts([next(batches)])[0]]
        states.append(stream.state_dict(samples=12))
        del batches
    assert states[0] == states[1]
    stream = ShardStream(packed, batch_size=4)
    stream.load_state_dict(states[0])
    assert len(stream) == 47 - 24
    loader = DataLoader(stream, batch_size=4, num_workers=workers)
    after = [row for batch in firsts(loader) for row in batch]
    assert sorted(before + after) == list(range(47))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_keeps_each_workers_state(packed: Path, workers: int) -> None:
    def loader() -> StatefulDataLoader:
        stream = ShardStream(packed, seed=2, batch_size=4)
        return StatefulDataLoader(stream, batch_size=4, num_workers=workers)

    whole = firsts(loader())
    first = loader()
    batches = iter(first)
    begun = firsts([next(batches) for _ in range(5)])
    again = loader()
    again.load_state_dict(first.state_dict())
    assert begun + firsts(again) == whole


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_resumes_in_a_later_epoch(packed: Path, workers: int) -> None:
    def epoch_loader() -> StatefulDataLoader:
        stream = ShardStream(packed, seed=2, batch_size=4)
        stream.set_epoch(1)
        return StatefulDataLoader(stream, batch_size=4, num_workers=workers)

    first = epoch_loader()
    batches = iter(first)
    begun = firsts([next(batches) for _ in range(5)])
    state = first.state_dict()
    again = epoch_loader()
    again.load_state_dict(state)
    found = begun + firsts(again)
    assert found == firsts(epoch_loader())
    again.dataset.set_epoch(2)
    following = [row for batch in firsts(again) for row in batch]
    assert sorted(following) == list(range(47))
    assert following != [row for batch in found for row in batch]


@pytest.mark.parametrize(
    ("loader_class", "start"),
    [(DataLoader, "fork"), (DataLoader, "spawn"), (StatefulDataLoader, "fork")],
)
def test_a_state_that_only_workers_have_is_refused(packed: Path, loader_class, start: str) -> None:
    stream = ShardStream(packed, batch_size=4)
    assert stream.state_dict()["step"] == 0
    loader = loader_class(
        stream, batch_size=4, num_workers=2, multiprocessing_context=start, persistent_workers=True
    )
    batches = iter(loader)
    next(batches)
    with pytest.raises(ShardError, match=r"pass the number of samples .* state_dict\(samples=…\)"):
        stream.state_dict()
    assert stream.state_dict(4)["step"] == 4
    list(batches)
    with pytest.raises(ShardError, match="StatefulDataLoader of torchdata"):
        stream.state_dict()
    stream.set_epoch(1)
    assert stream.state_dict()["epoch"] == 1
    next(iter(loader))
    with pytest.raises(ShardError, match="the workers of a data loader"):
        stream.state_dict()
    next(iter(stream))
    assert stream.state_dict()["step"] == 1


@pytest.mark.parametrize("page", ["pytorch.md", "pytorch-resume.md"])
def test_the_pages_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(tokenmill.__file__).parents[1]))
    page_inputs.make(f"docs/{page}")
    run_page(Path(__file__).parents[2] / "docs" / page)


def test_ranks_come_from_torch_distributed(packed: Path, tmp_path: Path) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1
    )
    try:
        assert len(ShardStream(packed)) == 47
    finally:
        torch.distributed.destroy_process_group()
