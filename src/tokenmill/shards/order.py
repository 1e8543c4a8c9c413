"""A seed and a number of samples → an order of them that is never written down.

The sample at a place is the place, enciphered: a Feistel network over the next power of four, whose
values beyond the last sample are enciphered again until they are below it (cycle walking: Black and
Rogaway 2002). Any stretch of the order costs the same, and none of it lies in memory. The numbers
are the same on every machine; they are no secret, so the rounds need only mix well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 6
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Order:
    """Samples 0 … count − 1 in an order that `seed` and `epoch` give; None leaves them as they
    are."""

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
