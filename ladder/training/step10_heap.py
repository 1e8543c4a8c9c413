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

from ladder.training.patterns import compile_for

Pair = tuple[int, int]
Ids = bytes | list[int]

BITS = 21
MASK = (1 << BITS) - 1

SIZE_MIN = 2048  # a list that is shorter is not worth the work
LOST_MIN = 512
LIVE_SHARE = 0.25  # a list with a smaller live share is rebuilt
HEAP_SLACK = 4  # entries per pair that trigger a rebuild of the heap


def train(text: str, pattern: str, vocab_size: int) -> list[Pair]:
    trainer = Trainer(Counter(match.group() for match in compile_for(pattern, text).finditer(text)))
    merges: list[Pair] = []
    for new in range(256, vocab_size):
        if not trainer.counts:
            break
        key = trainer.most_frequent()
        trainer.merge(key, new)
        merges.append((key >> BITS, key & MASK))
    return merges


class Trainer:
    def __init__(self, found: Counter[str]) -> None:
        self.types: list[Ids] = [word.encode() for word in found]
        self.frequencies = list(found.values())
        self.counts: Counter[int] = Counter()
        self.index: defaultdict[int, list[int]] = defaultdict(list)
        self.lost: Counter[int] = Counter()  # how often a type has lost the pair
        self.changed: set[int] = set()  # by the merge that is being done
        for type_id, ids in enumerate(self.types):
            for left, right in pairwise(ids):
                self.counts[left << BITS | right] += self.frequencies[type_id]
                self.index[left << BITS | right].append(type_id)
        self.heap: list[Pair] = []
        self.fill_heap()

    def fill_heap(self) -> None:
        """With (-count, key), since the least is on top, and of equals the smaller pair."""
        self.heap = [(-count, key) for key, count in self.counts.items()]
        heapq.heapify(self.heap)

    def most_frequent(self) -> int:
        while True:
            count, key = self.heap[0]
            if self.counts.get(key) == -count:
                return key
            heapq.heappop(self.heap)  # the pair had this count once

    def merge(self, key: int, new: int) -> None:
        for type_id in self.index.pop(key):
            self.merge_type(type_id, key >> BITS, key & MASK, new)
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
            self.lost.pop(key, None)
            return
        size, lost = len(self.index[key]), self.lost[key]
        if size >= SIZE_MIN and lost >= LOST_MIN and size - lost < LIVE_SHARE * size:
            self.compact(key)

    def compact(self, key: int) -> None:
        pair = (key >> BITS, key & MASK)
        self.index[key] = [
            type_id
            for type_id in dict.fromkeys(self.index[key])
            if pair in pairwise(self.types[type_id])
        ]
        self.lost[key] = 0

    def merge_type(self, type_id: int, left: int, right: int, new: int) -> None:
        ids, frequency = self.types[type_id], self.frequencies[type_id]
        merged: list[int] = []
        at, last = 0, len(ids) - 1
        while at <= last:
            if ids[at] != left or at == last or ids[at + 1] != right:
                merged.append(ids[at])
                at += 1
                continue
            if merged:
                self.lower(merged[-1] << BITS | left, frequency)
                self.give(merged[-1] << BITS | new, frequency, type_id)
            if at + 1 < last:
                self.lower(right << BITS | ids[at + 2], frequency)
                self.give(new << BITS | ids[at + 2], frequency, type_id)
            merged.append(new)
            at += 2
        self.types[type_id] = merged

    def lower(self, key: int, frequency: int) -> None:
        """A type has lost a pair."""
        self.lost[key] += 1
        self.changed.add(key)
        self.counts[key] -= frequency
        if not self.counts[key]:
            del self.counts[key]

    def give(self, key: int, frequency: int, type_id: int) -> None:
        """A type has a pair that it did not have."""
        self.changed.add(key)
        self.counts[key] += frequency
        self.index[key].append(type_id)
