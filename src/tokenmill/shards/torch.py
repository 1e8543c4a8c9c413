"""Shards → PyTorch datasets: by number, or as a stream in a seeded order that can be resumed.

A sample is `(inputs, targets)`, a sequence and the next id of each of its ids, or the ids of a
document. Ids are int64. torch is an extra: pip install "tokenmill[torch]".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.errors import ShardError, import_package
from tokenmill.shards.folder import Shards, open  # noqa: A004
from tokenmill.shards.samples import Order, Samples, Stream

torch: Any = import_package("torch", "tokenmill.shards.torch")
data: Any = import_package("torch.utils.data", "tokenmill.shards.torch")


class _Tensors:
    """Samples as tensors."""

    def __init__(
        self, shards: Shards | str | Path, length: int | None, documents: bool, targets: bool
    ) -> None:
        found = shards if isinstance(shards, Shards) else open(shards)
        self.samples = Samples(found, length, documents=documents, targets=targets)

    def __getitem__(self, number: int) -> Any:
        # Embeddings and losses need int64. The copy also releases the mapped file.
        tensor = torch.from_numpy(self.samples[number].astype(np.int64))
        return (tensor[:-1], tensor[1:]) if self.samples.has_targets else tensor


class ShardDataset(data.Dataset):  # type: ignore[misc]
    """Samples by number, for a sampler of torch, or in the order of a seed.

    `shards` are open, or a path or URL. A sample is a packed sequence, a window of `length` ids, or
    a document with `documents`. A sequence or window is two tensors of its length, inputs and
    targets. The last target is the id that follows in the shards. Without `targets` there is one
    tensor.
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
        self._tensors = _Tensors(shards, length, documents, targets)
        self._order = Order(len(self._tensors.samples), seed)

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} does not exist; the dataset has {len(self)}")
        return self._tensors[self._order[index]]


class ShardStream(Stream, data.IterableDataset):  # type: ignore[misc]
    """The samples of one rank in the order of a seed, divided among the workers of a data loader.

    `shards`, `length`, `documents` and `targets` are as in `ShardDataset`. `batch_size` must be
    that of the data loader; then its batches are the same for any number of workers. The rank is
    that of torch.distributed if it is initialized. An iteration ends with the epoch, and the next
    iteration is the next epoch. A loader that starts new workers does not keep the epoch, so call
    `set_epoch` before each iteration. `seed=None` keeps the order of the shards. `state_dict` and
    `load_state_dict` save and resume the position, as in `tokenmill.shards.samples.Stream`. If
    workers of a plain DataLoader have the position, `state_dict` without `samples` is an error.
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
        self._tensors = _Tensors(shards, length, documents, targets)
        is_parallel = torch.distributed.is_available() and torch.distributed.is_initialized()
        if rank is None:
            rank = torch.distributed.get_rank() if is_parallel else 0
        if world_size is None:
            world_size = torch.distributed.get_world_size() if is_parallel else 1
        # Shared with the workers of a data loader, which set it when they have taken over.
        self._workers_iterate = torch.zeros(1, dtype=torch.bool).share_memory_()
        super().__init__(len(self._tensors.samples), seed, rank, world_size, batch_size)

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration begin at the start of this epoch."""
        super().set_epoch(epoch)
        if data.get_worker_info() is None:
            self._workers_iterate.fill_(False)

    def state_dict(self, samples: int | None = None) -> dict[str, Any]:
        """Return the position. See `tokenmill.shards.samples.Stream.state_dict`."""
        if samples is None and data.get_worker_info() is None and self._workers_iterate:
            raise ShardError(
                "the workers of a data loader have the position of this stream; pass the number "
                "of samples that this rank has taken, state_dict(samples=…), or save the state of "
                "a StatefulDataLoader of torchdata"
            )
        return super().state_dict(samples)

    def __iter__(self) -> Iterator[Any]:
        info = data.get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        self._workers_iterate.fill_(info is not None)
        return map(self._tensors.__getitem__, self.numbers(worker, workers))
