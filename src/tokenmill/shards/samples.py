"""Shards → samples for training, by number: documents, packed sequences, or windows of ids."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ShardError
from tokenmill.shards.folder import Shards

_ROUNDS = 6
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_BLOCK_STEPS = 1 << 12


class Samples:
    """Arrays of ids, 0 … len − 1, in the order of the shards.

    With `length`, a sample is a window of so many ids of a shard, and of the one behind them where
    there are `targets`: then each window begins with the last id of the one before it, and each
    id of a shard but the first is a target once. What is left at a shard's end is no sample.
    """

    def __init__(
        self,
        shards: Shards,
        length: int | None = None,
        *,
        documents: bool = False,
        targets: bool = True,
    ) -> None:
        packed = shards.spec.sequence_length
        if documents and packed is not None:
            raise ShardError(
                f"{shards.path} is packed into sequences of {packed}, which cut documents: take "
                "the sequences, or tokenize without --sequence-length"
            )
        if documents and length is not None:
            raise ShardError("documents have lengths of their own: leave out length or documents")
        if not documents and length is None and packed is None:
            raise ShardError(
                f"{shards.path} is not packed: say length=… for windows of so many ids, or "
                "documents=True"
            )
        if length is not None and length < 1:
            raise ShardError(f"length is {length}, and must be at least 1")
        self.shards, self._length, self._extra = shards, length, int(targets)
        self._ends = list(accumulate(map(self._count, range(len(shards.shards)))))

    def _count(self, shard: int) -> int:
        found = self.shards.shards[shard]
        if self._length is None:
            return found.entries(self.shards.spec.sequence_length)
        return max(0, found.tokens - self._extra) // self._length

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> NDArray[Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no sample {index}: there are {len(self)}")
        if self._length is None:
            return self.shards.document(index)
        shard = bisect_right(self._ends, index)
        start = (index - (self._ends[shard - 1] if shard else 0)) * self._length
        return self.shards.reader(shard).stretch(start, start + self._length + self._extra)


class Order:
    """Samples 0 … count − 1 in an order that `seed` and `epoch` give; None leaves them as they are.

    The sample at a position is the enciphered position. The cipher is a Feistel network over the
    next power of four. A value beyond the last sample is enciphered again until it is below it
    (cycle walking: Black and Rogaway 2002). Every range of the order has the same cost, and the
    order is never in memory. The numbers are the same on every machine.
    """

    def __init__(self, count: int, seed: int | None, epoch: int = 0) -> None:
        self.count, self._seed = count, seed
        self._half = np.uint64((max(count - 1, 1).bit_length() + 1) // 2)
        keys = np.random.Philox(key=np.array([(seed or 0) % 2**64, epoch], np.uint64)).random_raw(
            _ROUNDS
        )
        self._keys = np.asarray(keys, np.uint64)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> int:
        return int(self.take(np.array([place]))[0])

    def take(self, places: NDArray[Any]) -> NDArray[np.int64]:
        """The samples at these places."""
        if self._seed is None:
            return places.astype(np.int64)
        values = self._encipher(places.astype(np.uint64))
        while (beyond := np.flatnonzero(values >= self.count)).size:
            values[beyond] = self._encipher(values[beyond])
        return values.astype(np.int64)

    def _encipher(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        mask = (np.uint64(1) << self._half) - np.uint64(1)
        left, right = values >> self._half, values & mask
        for key in self._keys:
            mixed = right ^ key
            # The finaliser of SplitMix64.
            mixed = (mixed ^ (mixed >> np.uint64(30))) * _M1
            mixed = (mixed ^ (mixed >> np.uint64(27))) * _M2
            mixed ^= mixed >> np.uint64(31)
            left, right = right, left ^ (mixed & mask)
        return (left << self._half) | right


class Stream:
    """Numbers of the samples of one rank.

    The seed gives the order of samples in each epoch. Of `world_size` ranks, rank r takes every
    `world_size`-th sample from position r on. Samples left over at the end, fewer than the ranks,
    are left out, so all ranks take the same number of steps. Workers of a rank take batches in
    turn, as a data loader asks for them: the batches are the same for any number of workers.
    **Invariant**: epoch, start and step determine all samples after a point.
    """

    def __init__(
        self, count: int, seed: int | None, rank: int = 0, world_size: int = 1, batch_size: int = 1
    ) -> None:
        if not 0 <= rank < world_size:
            raise ShardError(f"rank is {rank} of {world_size}: ranks count from 0")
        if batch_size < 1:
            raise ShardError(f"batch_size is {batch_size}, and must be at least 1")
        self.count, self.seed, self.rank, self.world_size = count, seed, rank, world_size
        self.batch_size = batch_size
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration begins at this epoch's beginning."""
        self.epoch = epoch
        self._start = 0  # the place in the order from which ranks take turns
        self._step = 0  # how many samples this rank, or this worker's share of it, is behind it
        self._workers = 1  # to whose turns the step belongs

    def __len__(self) -> int:
        """How many samples this rank takes from here to the end of the epoch."""
        return self._steps() - self._step

    def _steps(self) -> int:
        return max(0, self.count - self._start) // self.world_size

    def numbers(self, worker: int = 0, workers: int = 1) -> Iterator[int]:
        """The samples of a worker to the end of the epoch; the next one begins at its beginning.

        The state moves on with each number, before it is given.
        """
        if self._step and self._workers != workers:
            raise ShardError(
                f"the state is of a loader with {self._workers} workers, and this one has "
                f"{workers}: use as many, or a state that says its samples"
            )
        self._workers = workers
        order = Order(self.count, self.seed, self.epoch)
        for first in range(self._step, self._steps(), _BLOCK_STEPS):
            steps = np.arange(first, min(first + _BLOCK_STEPS, self._steps()))
            steps = steps[steps // self.batch_size % workers == worker]
            places = self._start + self.rank + steps * self.world_size
            for step, number in zip(steps.tolist(), order.take(places).tolist(), strict=True):
                self._step = step + 1
                yield number
        self.set_epoch(self.epoch + 1)

    def state_dict(self, samples: int | None = None) -> dict[str, Any]:
        """Where it is. In a process whose workers do the reading, and so move on unseen, `samples`
        says how many this rank has taken since the epoch began or a state was loaded."""
        if samples is not None and not 0 <= samples <= self._steps():
            raise ShardError(f"samples is {samples}: this rank takes {self._steps()} in an epoch")
        return {
            "count": self.count,
            "seed": self.seed,
            "epoch": self.epoch,
            "start": self._start,
            "step": self._step if samples is None else samples,
            "workers": self._workers if samples is None else 1,
            "world_size": self.world_size,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where the state was taken, for any number of ranks and workers, unless it is the
        state of one of several workers."""
        for key, mine in (("count", self.count), ("seed", self.seed)):
            if state[key] != mine:
                raise ShardError(
                    f"the state is of a stream with {key} {state[key]}, and this one has {mine}: "
                    "other shards or options give another order"
                )
        self.set_epoch(state["epoch"])
        if state["workers"] == 1:
            self._start = state["start"] + state["step"] * state["world_size"]
        elif state["world_size"] == self.world_size:
            self._start, self._step = state["start"], state["step"]
            self._workers = state["workers"]
        else:
            raise ShardError(
                f"the state is of one of {state['workers']} workers and {state['world_size']} "
                f"ranks, and here are {self.world_size}: use as many, or a state that says its "
                "samples"
            )
