"""Shards → samples for training, by number: documents, packed sequences, or windows of ids."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any

from numpy.typing import NDArray

from tokenmill.errors import ShardError
from tokenmill.shards.folder import Shards


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
