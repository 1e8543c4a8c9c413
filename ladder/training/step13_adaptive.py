"""Step 13, adaptive compaction policy: learn the acceptable staleness of a list during the run.

The idea: the thresholds of step 9 were found on one text. Here a policy decides. It estimates the
live share of a list, and skips a list for some merges after each rebuild (`cooldown`). It also
records the savings of the last compactions (`shrink_history`): while their mean is above PAYOFF,
lists are rebuilt sooner, otherwise later. A rebuild removes about 1 - its live share, so the
threshold moves towards 1 - PAYOFF = 0.3. The mean follows slowly, so it first rises too far. Lists
of 256 entries are rebuilt too, which step 9 leaves alone. It builds on step 11, which stores types
as arrays. Step 12 is a dead end.

Costs: a decision for each pair that a merge changes, most of them without effect.
Saves: memory, on texts for which the fixed thresholds are wrong. As in step 9, it cannot save time.
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter, defaultdict, deque
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ladder.training.patterns import Pattern

Pair = tuple[int, int]
HeapEntry = tuple[int, int]  # -count and key: the top is the most frequent pair
Ids: TypeAlias = "array[int]"

BITS = 21
MASK = (1 << BITS) - 1

SIZE_MIN = 256  # a shorter list is not worth the work
COOLDOWN = 16  # merges after a compaction in which a list is left alone
SHRINK_HISTORY = 32  # number of compactions whose payoff is averaged
PAYOFF = 0.7  # of a compaction that was worth its work: the share of entries that it removed
HEAP_SLACK = 4  # entries per pair that trigger a rebuild of the heap


def train(text: str, pattern: Pattern, vocab_size: int) -> list[Pair]:
    trainer = Trainer(Counter(match.group() for match in pattern.compiled.finditer(text)))
    merges: list[Pair] = []
    for new in range(256, vocab_size):
        if not trainer.counts:
            break
        key = trainer.most_frequent()
        trainer.merge(key, new)
        merges.append(unpack_pair(key))
    return merges


def pack_pair(left: int, right: int) -> int:
    return left << BITS | right


def unpack_pair(key: int) -> Pair:
    return key >> BITS, key & MASK


class Policy:
    """Decides when a list is rebuilt: later, if recent rebuilds removed little."""

    def __init__(self) -> None:
        self.now = 0
        self.live_ratio = 0.25
        self.cooldown: dict[int, int] = {}  # the first merge at which a list may be rebuilt again
        self.shrink_history: deque[float] = deque(maxlen=SHRINK_HISTORY)

    def wants(self, key: int, touched: int, live: int) -> bool:
        return live < self.live_ratio * (touched + live) and self.now >= self.cooldown.get(key, 0)

    def note(self, key: int, size_before: int, size_after: int) -> None:
        """Record a rebuild, and move the threshold by its payoff and those before."""
        self.cooldown[key] = self.now + COOLDOWN
        self.shrink_history.append(1 - size_after / size_before)
        payoff = sum(self.shrink_history) / len(self.shrink_history)
        step = 0.01 if payoff > PAYOFF else -0.01
        self.live_ratio = min(max(self.live_ratio + step, 0.05), 0.5)


class Trainer:
    compactions = 0  # of all trainers

    def __init__(self, found: Counter[str]) -> None:
        self.types: list[Ids] = [array("I", list(word.encode())) for word in found]
        self.frequencies = list(found.values())
        self.counts: Counter[int] = Counter()
        self.index: defaultdict[int, list[int]] = defaultdict(list)
        self.touched: Counter[int] = Counter()  # losses of a pair since its list was built
        self.policy = Policy()
        self.changed: set[int] = set()  # pairs with higher or lower counts after the current merge
        for type_id, ids in enumerate(self.types):
            for left, right in pairwise(ids):
                self.counts[pack_pair(left, right)] += self.frequencies[type_id]
                self.index[pack_pair(left, right)].append(type_id)
        self.heap: list[HeapEntry] = []
        self.fill_heap()

    def fill_heap(self) -> None:
        """Fill the heap again. Of equal counts the smaller key comes first."""
        self.heap = [(-count, key) for key, count in self.counts.items()]
        heapq.heapify(self.heap)

    def most_frequent(self) -> int:
        while True:
            negative, key = self.heap[0]
            if self.counts.get(key) == -negative:
                return key
            heapq.heappop(self.heap)  # the pair had this count once

    def merge(self, key: int, new: int) -> None:
        self.policy.now = new  # new ids number the merges
        for type_id in self.index.pop(key):
            self.merge_type(type_id, *unpack_pair(key), new)
        del self.counts[key]
        for other in self.changed:
            self.maintain(other)
            if other in self.counts:
                heapq.heappush(self.heap, (-self.counts[other], other))
        self.changed.clear()
        if len(self.heap) > HEAP_SLACK * len(self.counts):
            self.fill_heap()

    def maintain(self, key: int) -> None:
        """Drop the list of a vanished pair, and rebuild a mostly stale one."""
        if key not in self.counts:
            self.index.pop(key, None)
            self.touched.pop(key, None)
            self.policy.cooldown.pop(key, None)
            return
        size, touched = len(self.index[key]), self.touched[key]
        live = size - touched  # exact until a rebuild lists each type once, then too low
        if size >= SIZE_MIN and self.policy.wants(key, touched, live):
            self.compact(key)
            self.policy.note(key, size, len(self.index[key]))

    def compact(self, key: int) -> None:
        Trainer.compactions += 1
        pair = unpack_pair(key)
        self.index[key] = [
            type_id
            for type_id in dict.fromkeys(self.index[key])
            if pair in pairwise(self.types[type_id])
        ]
        self.touched[key] = 0

    def merge_type(self, type_id: int, left: int, right: int, new: int) -> None:
        ids, frequency = self.types[type_id], self.frequencies[type_id]
        if (left, right) not in pairwise(ids):
            return  # stale, or a second entry
        merged: Ids = array("I")
        at, last = 0, len(ids) - 1
        while at <= last:
            if ids[at] != left or at == last or ids[at + 1] != right:
                merged.append(ids[at])
                at += 1
                continue
            if merged:
                self.subtract(pack_pair(merged[-1], left), frequency)
                self.add(pack_pair(merged[-1], new), frequency, type_id)
            if at + 1 < last:
                self.subtract(pack_pair(right, ids[at + 2]), frequency)
                self.add(pack_pair(new, ids[at + 2]), frequency, type_id)
            merged.append(new)
            at += 2
        self.types[type_id] = merged

    def subtract(self, key: int, frequency: int) -> None:
        """Subtract a pair that a type has lost."""
        self.touched[key] += 1
        self.changed.add(key)
        self.counts[key] -= frequency
        if not self.counts[key]:
            del self.counts[key]

    def add(self, key: int, frequency: int, type_id: int) -> None:
        """Add a pair that a type has gained."""
        self.changed.add(key)
        self.counts[key] += frequency
        self.index[key].append(type_id)


if __name__ == "__main__":
    from alone import main

    main(train)
