"""An order of samples → those of one rank and one worker, from any point on.

In each epoch, samples stand in the order that the seed gives. Of `world_size` ranks, rank r takes
every so-many-th from its own on; those left over at the end, fewer than there are ranks, are left
out, so that all ranks take equally many steps. Workers of a rank take batches in turn, as a data
loader asks them: the batches are the same for any number of workers. **Invariant**: what comes
after a point is known from epoch, start and step alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tokenmill.errors import ShardError
from tokenmill.shards.order import Order

_BLOCK_STEPS = 1 << 12


class Stream:
    """Numbers of the samples of one rank."""

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
