"""Step 7, memory-lean representations: the same algorithm in smaller objects.

The idea: Python's objects have heads, and small ones are mostly head. A tuple of five ids takes 80
bytes; `bytes` are a sequence of ids, too, and take 38, so a type stays bytes until a merge touches
it. A pair as one number, left << 21 | right, takes 28 bytes in place of 56, and sorts as the pair
does. A list has 8 bytes for each type id, a set 33 to 200. And no type keeps a counter: its pairs
are counted when they are needed.

The list is lazy: ids are only ever appended. It may hold a type twice, or one that has lost the
pair, and so a type is looked at before it is believed.

Costs: such looks, and counting the pairs of a type twice for each change of it.
Saves: most of the memory, and with it time: sets and counters are slow to keep right.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from tokenmill.ladder.training.patterns import compile_for

Pair = tuple[int, int]
Ids = bytes | list[int]

BITS = 21  # of an id in a key: two million entries are more than anyone trains
MASK = (1 << BITS) - 1


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
        for type_id, ids in enumerate(self.types):
            for key in packed_pairs(ids):
                self.counts[key] += self.frequencies[type_id]
                self.index[key].append(type_id)

    def most_frequent(self) -> int:
        most = max(self.counts.values())
        return min(key for key, count in self.counts.items() if count == most)

    def merge(self, key: int, new: int) -> None:
        for type_id in self.index.pop(key):
            self.merge_type(type_id, key, new)

    def merge_type(self, type_id: int, key: int, new: int) -> None:
        """Takes the pairs that the type had from the counts, and gives those that it has then."""
        counts, index, frequency = self.counts, self.index, self.frequencies[type_id]
        old = packed_pairs(self.types[type_id])
        if key not in old:
            return  # stale, or met for the second time
        self.types[type_id] = merge(self.types[type_id], key, new)
        own = packed_pairs(self.types[type_id])
        for key in own:
            counts[key] += frequency
            if key not in old:
                index[key].append(type_id)
        for key in old:
            counts[key] -= frequency
            if not counts[key]:
                del counts[key]


def packed_pairs(ids: Ids) -> list[int]:
    return [left << BITS | right for left, right in pairwise(ids)]


def merge(ids: Ids, key: int, new: int) -> list[int]:
    left, right = key >> BITS, key & MASK
    merged: list[int] = []
    for id in ids:
        if id == right and merged and merged[-1] == left:
            merged[-1] = new
        else:
            merged.append(id)
    return merged
