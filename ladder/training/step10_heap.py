"""Step 10, heap pair selection: the most frequent pair is on top of a heap.

The idea: until now each merge searches the counts of all pairs for the largest. A heap has it on
top. A heap cannot change a count inside it. A pair with a changed count is therefore pushed again,
and an outdated entry is dropped when it comes up. If three of four entries are outdated, the heap
is rebuilt.

Costs: a push for every changed pair, and the outdated entries.
Saves: two traversals of all counts per merge. They run in C, so they are cheap while pairs are few.
The gain grows with the vocabulary, and is far smaller than that of the index.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ladder.training.patterns import Pattern

Pair = tuple[int, int]
HeapEntry = tuple[int, int]  # -count and key: the top is the most frequent pair
Ids = bytes | list[int]

BITS = 21
MASK = (1 << BITS) - 1

# The thresholds of the source. A list that meets one of two rules is rebuilt.
COMPACTION_SIZE_THRESHOLD = 2048  # at least this size, and half of it stale
COMPACTION_MIN_TOUCHED_FOR_WASTE = 512  # at least this many stale entries,
COMPACTION_LIVE_RATIO_THRESHOLD = 0.25  # and a smaller live share than this
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


class Trainer:
    compactions = 0  # of all trainers

    def __init__(self, found: Counter[str]) -> None:
        self.types: list[Ids] = [word.encode() for word in found]
        self.frequencies = list(found.values())
        self.counts: Counter[int] = Counter()
        self.index: defaultdict[int, list[int]] = defaultdict(list)
        self.touched: Counter[int] = Counter()  # losses of a pair since its list was built
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
            return
        size, touched = len(self.index[key]), self.touched[key]
        live = size - touched  # exact until a rebuild lists each type once, then too low
        is_long = size >= COMPACTION_SIZE_THRESHOLD and live < touched
        is_waste = (
            touched >= COMPACTION_MIN_TOUCHED_FOR_WASTE
            and live < COMPACTION_LIVE_RATIO_THRESHOLD * size
        )
        if is_long or is_waste:
            self.compact(key)

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
        merged: list[int] = []
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
