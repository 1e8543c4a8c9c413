"""Shards → samples, their order, and the share of each rank and worker, from any point on."""

from __future__ import annotations

import sys
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from shard_files import NARROW, WIDE, write_folder

import tokenmill.shards
from tokenmill.errors import MissingExtraError, ShardError
from tokenmill.shards.samples import Order, Samples, Stream

seeds = st.integers(0, 2**64 - 1)


@settings(max_examples=max(20, examples(100)))
@given(count=st.integers(0, 3000), seed=seeds, epoch=st.integers(0, 100))
def test_an_order_has_each_sample_once(count, seed, epoch) -> None:
    order = Order(count, seed, epoch)
    found = order.take(np.arange(count))
    assert sorted(found.tolist()) == list(range(count))
    assert all(order[place] == found[place] for place in range(0, count, 97))


def test_the_order_is_the_same_on_every_machine() -> None:
    assert Order(10, 3, 1).take(np.arange(10)).tolist() == [6, 1, 0, 5, 2, 3, 7, 4, 9, 8]
    places = np.array([0, 1, 10**12 - 1])
    assert Order(10**12, 1).take(places).tolist() == [769419027860, 719288571465, 877552976771]
    assert Order(5, None).take(np.arange(5)).tolist() == [0, 1, 2, 3, 4]


def test_the_order_mixes_well() -> None:
    """Places and samples are unrelated: of 100,000, as many fixed points, rises and same-half
    neighbours as chance gives, within five standard deviations."""
    count = 100_000
    found = Order(count, 5).take(np.arange(count))
    assert int((found == np.arange(count)).sum()) <= 8
    assert abs(int((np.diff(found) > 0).sum()) - count / 2) < 5 * (count / 12) ** 0.5
    halves = found < count // 2
    assert abs(int((halves[1:] == halves[:-1]).sum()) - count / 2) < 5 * (count / 4) ** 0.5
    assert abs(np.corrcoef(found, np.arange(count))[0, 1]) < 5 / count**0.5
    other = Order(count, 5, 1).take(np.arange(count))
    assert int((other == found).sum()) <= 8


@settings(max_examples=max(20, examples(100)))
@given(
    count=st.integers(0, 300),
    seed=st.none() | seeds,
    world=st.integers(1, 5),
    workers=st.integers(1, 4),
    batch=st.integers(1, 7),
)
def test_ranks_and_workers_share_an_epoch(count, seed, world, workers, batch) -> None:
    steps = count // world
    shares = []
    for rank in range(world):
        alone = Stream(count, seed, rank, world, batch)
        assert len(alone) == steps
        whole = list(alone.numbers())
        assert alone.epoch == 1
        lists = []
        for worker in range(workers):
            stream = Stream(count, seed, rank, world, batch)
            lists.append(list(stream.numbers(worker, workers)))
        # A loader takes a batch of each worker in turn.
        taken = []
        for start in range(0, count, batch):
            worker = start // batch % workers
            taken += lists[worker][:batch]
            del lists[worker][:batch]
        assert taken == whole
        shares.append(whole)
    together = [number for share in shares for number in share]
    assert len(together) == len(set(together)) == steps * world
    order = Order(count, seed).take(np.arange(steps * world)).tolist()
    turns = [shares[rank][step] for step in range(steps) for rank in range(world)]
    assert turns == order


@settings(max_examples=max(20, examples(100)))
@given(count=st.integers(1, 300), seed=seeds, world=st.integers(1, 4), data=st.data())
def test_a_stream_resumes_at_its_state(count, seed, world, data) -> None:
    stop = data.draw(st.integers(0, count // world))
    told = data.draw(st.booleans())
    states, before = [], []
    for rank in range(world):
        stream = Stream(count, seed, rank, world)
        stream.set_epoch(4)
        numbers = stream.numbers()
        before += [next(numbers) for _ in range(stop)]
        if told:  # as a process does whose workers have moved on unseen
            stream = Stream(count, seed, rank, world)
            stream.set_epoch(4)
        states.append(stream.state_dict(stop if told else None))
    assert all(state == states[0] for state in states)
    new_world = data.draw(st.integers(1, 4))
    after = []
    for rank in range(new_world):
        stream = Stream(count, seed, rank, new_world)
        stream.load_state_dict(states[0])
        after += list(stream.numbers())
        assert stream.epoch == 5
        assert len(stream) == count // new_world
    left = count - stop * world
    assert len(after) == left // new_world * new_world
    assert len({*before, *after}) == len(before) + len(after)


@settings(max_examples=max(20, examples(100)))
@given(
    count=st.integers(1, 200), workers=st.integers(2, 4), batch=st.integers(1, 5), data=st.data()
)
def test_each_worker_resumes_at_its_own_state(count, workers, batch, data) -> None:
    for worker in range(workers):
        whole = list(Stream(count, 1, batch_size=batch).numbers(worker, workers))
        stream = Stream(count, 1, batch_size=batch)
        numbers = stream.numbers(worker, workers)
        stop = data.draw(st.integers(0, len(whole)))
        begun = [next(numbers) for _ in range(stop)]
        state = stream.state_dict()
        again = Stream(count, 1, batch_size=batch)
        again.load_state_dict(state)
        if stop:
            assert begun + list(again.numbers(worker, workers)) == whole


def test_iterations_go_through_the_epochs() -> None:
    stream = Stream(50, 7)
    first, second = list(stream.numbers()), list(stream.numbers())
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    stream.set_epoch(0)
    assert list(stream.numbers()) == first


def test_streams_reject_wrong_arguments() -> None:
    with pytest.raises(ShardError, match="rank must be at least 0 and below 2, got 2"):
        Stream(9, 0, 2, 2)
    with pytest.raises(ShardError, match="batch_size must be at least 1, got 0"):
        Stream(9, 0, batch_size=0)
    stream = Stream(9, 0)
    with pytest.raises(ShardError, match="samples must be from 0 to 9, got 10"):
        stream.state_dict(10)
    with pytest.raises(ShardError, match="the state has count 9, and this stream has 8; use"):
        Stream(8, 0).load_state_dict(stream.state_dict())
    with pytest.raises(ShardError, match="the state has seed 0, and this stream has None"):
        Stream(9, None).load_state_dict(stream.state_dict())
    next(stream.numbers(1, 2))
    state = stream.state_dict()
    other = Stream(9, 0)
    other.load_state_dict(state)
    with pytest.raises(ShardError, match="a loader with 2 workers, and this one has 3"):
        next(other.numbers(0, 3))
    with pytest.raises(ShardError, match="one of 2 workers and 1 ranks, and this stream has 2"):
        Stream(9, 0, 0, 2).load_state_dict(state)


PARTS = [[[1, 2, 3], [], [4, 5, 6, 7]], [], [[8, 9]], [[10]]]


@pytest.mark.parametrize("layout_name", ["npy", "mds", "arrow", "parquet"])
def test_windows_of_ids_are_samples(layout_name, tmp_path) -> None:
    shards = tokenmill.shards.open(write_folder(tmp_path, layout_name, WIDE, PARTS))
    with_targets = Samples(shards, 2)
    found = [with_targets[index].tolist() for index in range(len(with_targets))]
    assert found == [[1, 2, 3], [3, 4, 5], [5, 6, 7]]
    without = Samples(shards, 2, targets=False)
    found = [without[index].tolist() for index in range(len(without))]
    assert found == [[1, 2], [3, 4], [5, 6], [8, 9]]
    documents = Samples(shards, documents=True)
    found = [documents[index].tolist() for index in range(len(documents))]
    assert found == [document for part in PARTS for document in part]
    for index in (-1, len(without)):
        with pytest.raises(IndexError, match=f"sample {index} does not exist"):
            without[index]


@pytest.mark.parametrize("shard_format", ["npy", "mds", "arrow", "parquet"])
@pytest.mark.parametrize("length", [1, 4])
def test_each_id_of_packed_sequences_is_a_target_once(shard_format, length, tmp_path) -> None:
    rows = np.arange(6 * length).reshape(-1, length).tolist()
    spec = replace(NARROW, sequence_length=length)
    folder = write_folder(tmp_path, shard_format, spec, [rows[:2], [], rows[2:3], rows[3:]])
    shards = tokenmill.shards.open(folder)
    samples, without = Samples(shards), Samples(shards, targets=False)
    assert len(samples) == len(without) == 6
    assert [without[index].tolist() for index in range(6)] == rows
    found = np.stack([samples[index] for index in range(6)])
    assert found.shape == (6, length + 1) and found.dtype == np.uint16
    assert found[:, :-1].tolist() == rows
    assert found[:, 1:].ravel().tolist() == [*range(1, 6 * length), 0]


def test_samples_reject_wrong_arguments(tmp_path) -> None:
    flat, packed = tmp_path / "flat", tmp_path / "packed"
    flat.mkdir()
    packed.mkdir()
    shards = tokenmill.shards.open(write_folder(flat, "npy", NARROW, PARTS))
    with pytest.raises(ShardError, match="is not packed; pass length"):
        Samples(shards)
    with pytest.raises(ShardError, match="length and documents exclude each other"):
        Samples(shards, 5, documents=True)
    with pytest.raises(ShardError, match="length must be at least 1, got 0"):
        Samples(shards, 0)
    rows = [[[1, 2], [3, 4]]]
    shards = tokenmill.shards.open(
        write_folder(packed, "npy", replace(NARROW, sequence_length=2), rows)
    )
    with pytest.raises(ShardError, match="packed into sequences of 2, which split documents"):
        Samples(shards, documents=True)


def test_without_torch_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "tokenmill.shards.torch", raising=False)
    with pytest.raises(MissingExtraError, match="pip install torch"):
        __import__("tokenmill.shards.torch")
