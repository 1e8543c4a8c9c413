"""Shards → data sets of PyTorch: one by number, one in a seeded order that can go on anywhere.

Both give `(inputs, targets)`, the ids of a sequence but the last and but the first, or the ids of
a document, as int64. torch is an extra: pip install "tokenmill[torch]".
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.errors import MissingExtraError
from tokenmill.shards.folder import Shards, open  # noqa: A004
from tokenmill.shards.samples import Order, Samples, Stream

try:
    torch: Any = importlib.import_module("torch")
    data: Any = importlib.import_module("torch.utils.data")
except ImportError:
    raise MissingExtraError(
        'tokenmill.shards.torch needs torch: pip install "tokenmill[torch]"'
    ) from None


class ShardDataset(data.Dataset):  # type: ignore[misc]
    """Samples by number, for a sampler of torch; with a seed, in the order that it gives.

    `shards` are open or the path of a folder. A sample is a packed sequence; or, with `length`, a
    window of so many ids; or, with `documents`, a document. A sequence comes as two tensors, inputs
    and targets, and without `targets` as one.
    """

    def __init__(
        self,
        shards: Shards | str | Path,
        length: int | None = None,
        *,
        documents: bool = False,
        targets: bool = True,
        seed: int | None = None,
    ) -> None:
        self._samples = _samples(shards, length, documents, targets)
        self._targets = targets and not documents
        self._order = Order(len(self._samples), seed)

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"there is no sample {index}: there are {len(self)}")
        return _tensors(self._samples[self._order[index]], self._targets)


class ShardStream(data.IterableDataset):  # type: ignore[misc]
    """Samples in the order that the seed gives, those of one rank, shared out to its workers.

    `shards`, `length`, `documents` and `targets` are as in `ShardDataset`.
    Give `batch_size` as the data loader has it, and its batches are the same for any number of
    workers. Ranks come from torch.distributed where it runs. An iteration goes to the end of an
    epoch, and the next one begins the next; workers that a loader starts anew do not know of
    that, so call `set_epoch` before each. `seed=None` leaves the order as it is.
    """

    def __init__(
        self,
        shards: Shards | str | Path,
        length: int | None = None,
        *,
        documents: bool = False,
        targets: bool = True,
        seed: int | None = 0,
        rank: int | None = None,
        world_size: int | None = None,
        batch_size: int = 1,
    ) -> None:
        self._samples = _samples(shards, length, documents, targets)
        self._targets = targets and not documents
        here, all = _ranks()
        rank = here if rank is None else rank
        world_size = all if world_size is None else world_size
        self._stream = Stream(len(self._samples), seed, rank, world_size, batch_size)

    def __len__(self) -> int:
        """How many samples this rank takes from here to the end of the epoch."""
        return len(self._stream)

    def __iter__(self) -> Iterator[Any]:
        info = data.get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        for number in self._stream.numbers(worker, workers):
            yield _tensors(self._samples[number], self._targets)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration begins at this epoch's beginning."""
        self._stream.set_epoch(epoch)

    def state_dict(self, samples: int | None = None) -> dict[str, Any]:
        """Where it is, for `load_state_dict`. With workers of a plain DataLoader, which move on
        unseen, say how many `samples` this rank has taken since the epoch began or a state was
        loaded; torchdata's StatefulDataLoader asks each worker for its own."""
        return self._stream.state_dict(samples)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iteration goes on where the state was taken, for any number of ranks."""
        self._stream.load_state_dict(state)


def _samples(
    shards: Shards | str | Path, length: int | None, documents: bool, targets: bool
) -> Samples:
    found = shards if isinstance(shards, Shards) else open(shards)
    return Samples(found, length, documents=documents, targets=targets)


def _tensors(ids: Any, targets: bool) -> Any:
    # int64 is what embeddings and losses take; the copy also lets go of the mapped file.
    tensor = torch.from_numpy(ids.astype(np.int64))
    return (tensor[:-1], tensor[1:]) if targets else tensor


def _ranks() -> tuple[int, int]:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
