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
_BLOCK_STEPS = 1 << 12


def mix_bits(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each number: the finalizer of SplitMix64, which is a bijection."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class Samples:
    """Arrays of ids, 0 … len − 1, in the order of the shards.

    A sample is a document, a packed sequence, or a window of `length` ids of a shard. With
    `targets`, a sequence or a window also has the id that follows it. Thus each sample begins with
    the last id of the previous one. The last sequence is followed by the first, so each id is a
    target once. The ids of a shard after its last full window are left out.
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
                f"{shards.path} is packed into sequences of {packed}, which split documents; leave "
                "out documents, or tokenize without --sequence-length"
            )
        if documents and length is not None:
            raise ShardError("length and documents exclude each other; leave out one of them")
        if not documents and length is None and packed is None:
            raise ShardError(
                f"{shards.path} is not packed; pass length=… for windows of ids, or documents=True"
            )
        if length is not None and length < 1:
            raise ShardError(f"length must be at least 1, got {length}")
        self.shards, self._length = shards, length
        self.has_targets = targets and not documents
        self._ends = list(accumulate(map(self._count, range(len(shards.shards)))))

    def _count(self, shard: int) -> int:
        found = self.shards.shards[shard]
        if self._length is None:
            return found.entries(self.shards.spec.sequence_length)
        return max(0, found.tokens - self.has_targets) // self._length

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> NDArray[Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} does not exist; the shards have {len(self)}")
        if self._length is None:
            ids = self.shards.document(index)
            if not self.has_targets:
                return ids
            return np.append(ids, self.shards.document((index + 1) % len(self))[:1])
        shard = bisect_right(self._ends, index)
        start = (index - (self._ends[shard - 1] if shard else 0)) * self._length
        return self.shards.reader(shard).stretch(start, start + self._length + self.has_targets)


class Order:
    """Samples 0 … count − 1 in the order of `seed` and `epoch`. None keeps the order.

    The sample at a position is the enciphered position. The cipher is a Feistel network over the
    next power of four. A value after the last sample is enciphered again (cycle walking: Black and
    Rogaway 2002). Every range of the order has the same cost, and the order is never in memory. The
    numbers are the same on every machine. The order is not secret: the cipher only mixes.
    """

    def __init__(self, count: int, seed: int | None, epoch: int = 0) -> None:
        self.count, self._seed = count, seed
        self._half = np.uint64((max(count - 1, 1).bit_length() + 1) // 2)
        key = np.array([(seed or 0) % 2**64, epoch], np.uint64)
        self._keys = np.asarray(np.random.Philox(key=key).random_raw(_ROUNDS), np.uint64)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, position: int) -> int:
        return int(self.take(np.array([position]))[0])

    def take(self, positions: NDArray[Any]) -> NDArray[np.int64]:
        """Return the samples at these positions."""
        if self._seed is None:
            return positions.astype(np.int64)
        values = self._encipher(positions.astype(np.uint64))
        while (beyond := np.flatnonzero(values >= self.count)).size:
            values[beyond] = self._encipher(values[beyond])
        return values.astype(np.int64)

    def _encipher(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        mask = (np.uint64(1) << self._half) - np.uint64(1)
        left, right = values >> self._half, values & mask
        for key in self._keys:
            left, right = right, left ^ (mix_bits(right ^ key) & mask)
        return (left << self._half) | right


class Stream:
    """The numbers of the samples of one rank.

    The seed determines the order of samples in each epoch. Of `world_size` ranks, rank r takes
    every `world_size`-th sample from position r. The last samples are left out if they are fewer
    than the ranks, so all ranks take the same number of steps. Workers of a rank take batches in
    turn, as in a data loader, so the batches are the same for any number of workers.
    **Invariant**: epoch, start and step determine all further samples.
    """

    def __init__(
        self, count: int, seed: int | None, rank: int = 0, world_size: int = 1, batch_size: int = 1
    ) -> None:
        if not 0 <= rank < world_size:
            raise ShardError(f"rank must be at least 0 and below {world_size}, got {rank}")
        if batch_size < 1:
            raise ShardError(f"batch_size must be at least 1, got {batch_size}")
        self.count, self.seed, self.rank, self.world_size = count, seed, rank, world_size
        self.batch_size = batch_size
        self.set_epoch(0)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration begin at the start of this epoch."""
        self.epoch = epoch
        self._start = 0  # the position in the order from which ranks take turns
        self._step = 0  # the number of samples that this rank, or this worker, took since then
        self._workers = 1  # the number of workers for which the step is valid

    def __len__(self) -> int:
        """Return the number of samples of this rank until the end of the epoch."""
        return self._steps() - self._step

    def _steps(self) -> int:
        return max(0, self.count - self._start) // self.world_size

    def numbers(self, worker: int = 0, workers: int = 1) -> Iterator[int]:
        """Yield the samples of a worker until the end of the epoch, then begin the next epoch.

        The state changes before each number is yielded.
        """
        if self._step and self._workers != workers:
            raise ShardError(
                f"the state is of a loader with {self._workers} workers, and this one has "
                f"{workers}; use the same number, or state_dict(samples)"
            )
        self._workers = workers
        order = Order(self.count, self.seed, self.epoch)
        for first in range(self._step, self._steps(), _BLOCK_STEPS):
            steps = np.arange(first, min(first + _BLOCK_STEPS, self._steps()))
            steps = steps[steps // self.batch_size % workers == worker]
            positions = self._start + self.rank + steps * self.world_size
            for step, number in zip(steps.tolist(), order.take(positions).tolist(), strict=True):
                self._step = step + 1
                yield number
        self.set_epoch(self.epoch + 1)

    def state_dict(self, samples: int | None = None) -> dict[str, Any]:
        """Return the position, for `load_state_dict`.

        The workers of a plain DataLoader have their own positions. Pass the number of `samples`
        that this rank has taken since the epoch began or a state was loaded. The
        StatefulDataLoader of torchdata calls this in each worker.
        """
        if samples is not None and not 0 <= samples <= self._steps():
            raise ShardError(f"samples must be from 0 to {self._steps()}, got {samples}")
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
        """Resume at the position of a state. The number of ranks and workers can differ, except for
        the state of one of several workers."""
        for key, mine in (("count", self.count), ("seed", self.seed)):
            if state[key] != mine:
                raise ShardError(
                    f"the state has {key} {state[key]}, and this stream has {mine}; use the same "
                    "shards and options"
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
                f"ranks, and this stream has {self.world_size}; use the same number, or "
                "state_dict(samples)"
            )
