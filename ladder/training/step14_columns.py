"""Step 14, structure of arrays: all types in a few long arrays, and merges as arithmetic.

The idea: until now a type is an object, and a merge is a loop over objects. Here a position is a
row of a table whose columns are numpy arrays: the id, the previous and the next position, and the
frequency of the type. Types follow each other with END between them. The index contains positions,
not types, so a merge processes all of its positions at once: it compares, links and counts whole
columns, and the interpreter runs once per merge and neighbouring pair. If two ids become one, the
first position gets the new id and the second leaves the chain. No data is moved. "the" five times
and "men" once are:

    position      0    1    2    3    4    5    6    7    8
    id          END    t    h    e  END    m    e    n  END
    before       -1    0    1    2    3    4    5    6    7
    after         1    2    3    4    5    6    7    8    9
    frequency     0    5    5    5    5    1    1    1    1

    merge (h, e) → 256: id[2] = 256, id[3] = GONE, after[2] = 4, before[4] = 2

The positions of a pair are known when the younger of its ids is made, and later only disappear. A
list is therefore made once. An entry of the heap can only be too high, so a pair is pushed again
when it comes up too high, not at every change of its count.

It replaces step 13 as a whole: three changes follow from the columns (all positions at once, lists
made once, a heap without pushes), so it is shown as one step.

Costs: about fifty calls of numpy per merge, even for one position; care with overlaps, as in "abab"
and "aaa"; and a higher peak of memory than that of step 13, while all pairs are sorted at the
start.
Saves: nearly all work on Python objects. A position takes 20 bytes, and an entry of the index 4.
Most of the remaining time is the counting of words.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ladder.training.patterns import Pattern

Pair = tuple[int, int]
HeapEntry = tuple[int, int]  # -count and key: the top is the most frequent pair
Column = npt.NDArray[Any]

BITS = 21
MASK = (1 << BITS) - 1
END = -1  # the id between two types
GONE = -2  # the id of a position that has become part of another


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


def unpack_pair(key: int) -> Pair:
    return key >> BITS, key & MASK


class Trainer:
    def __init__(self, found: Counter[str]) -> None:
        words = [word.encode() for word in found]
        ends = np.cumsum([0, *(len(word) + 1 for word in words)])
        self.id = np.full(ends[-1] + 1, END, np.int32)
        is_end = np.zeros(len(self.id), bool)
        is_end[ends] = True
        self.id[~is_end] = np.frombuffer(b"".join(words), np.uint8)
        self.before = np.arange(-1, len(self.id) - 1, dtype=np.int32)
        self.after = np.arange(1, len(self.id) + 1, dtype=np.int32)
        # Position 0 is an END. Each type follows with the END after it.
        frequencies = np.array([0, *found.values()], np.int64)
        self.frequency = np.repeat(frequencies, np.diff(ends, prepend=-1))
        self.counts: dict[int, int] = {}
        self.index: dict[int, Column] = {}
        self.heap: list[HeapEntry] = []
        self.add(np.flatnonzero(~is_end[:-1] & ~is_end[1:]).astype(np.int32))

    def most_frequent(self) -> int:
        while True:
            negative, key = heapq.heappop(self.heap)
            now = self.counts.get(key, 0)
            if now == -negative:
                return key
            if now:
                heapq.heappush(self.heap, (-now, key))

    def merge(self, key: int, new: int) -> None:
        del self.counts[key]
        first = self.positions(key)
        second = self.after[first]
        self.subtract(key, first, second)
        last = self.after[second]
        self.id[first], self.id[second] = new, GONE
        self.after[first], self.before[last] = last, first
        # A pair of two new ids is left of one merge and right of another. It is added once, on the
        # left.
        left = self.before[first]
        self.add(left[self.id[left] != END])
        right = self.id[self.after[first]]
        self.add(first[(right != END) & (right != new)])

    def positions(self, key: int) -> Column:
        """Return the positions of a pair in order, without stale and overlapping ones."""
        left, right = unpack_pair(key)
        first: Column = self.index.pop(key)
        first = first[(self.id[first] == left) & (self.id[self.after[first]] == right)]
        if left == right:  # "aaaa" is a run of positions 0, 1 and 2, of which 0 and 2 are merged
            number = np.arange(len(first))
            follows = np.append(False, self.after[first[:-1]] == first[1:])
            run_start = np.maximum.accumulate(np.where(follows, 0, number))
            first = first[(number - run_start) % 2 == 0]
        return first

    def subtract(self, key: int, first: Column, second: Column) -> None:
        """Subtract the pairs that start before and after the merged positions."""
        before, after = self.before[first], self.after[second]
        # In "abab" the pair (b, a) is after one merge and before another. It is counted once, in
        # `second` of the left merge.
        touches = np.append(False, before[1:] == second[:-1])
        starts = np.concatenate(
            [before[(self.id[before] != END) & ~touches], second[self.id[after] != END]]
        )
        for other, _, count in self.grouped(starts):
            if other == key:
                continue  # an "aa" of "aaa", which has gone with the others
            self.counts[other] -= count
            if not self.counts[other]:
                del self.counts[other], self.index[other]

    def add(self, starts: Column) -> None:
        """Count the new pairs that begin at these positions."""
        for key, positions, count in self.grouped(starts):
            self.index[key] = positions
            self.counts[key] = count
            heapq.heappush(self.heap, (-count, key))

    def grouped(self, starts: Column) -> Iterator[tuple[int, Column, int]]:
        """Yield each pair that begins at one of the positions, with its positions and its count."""
        if not len(starts):
            return
        keys = self.id[starts].astype(np.int64) << BITS | self.id[self.after[starts]]
        order = np.argsort(keys, kind="stable")
        keys, ordered = keys[order], starts[order]
        at = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
        counts = np.add.reduceat(self.frequency[ordered], at)
        bounds = [*at.tolist(), len(keys)]
        for number, (key, count) in enumerate(zip(keys[at].tolist(), counts.tolist(), strict=True)):
            yield key, ordered[bounds[number] : bounds[number + 1]], count


if __name__ == "__main__":
    from alone import main

    main(train)
