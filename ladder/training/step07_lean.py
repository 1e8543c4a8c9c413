"""Step 7, memory-lean representations: the same algorithm in smaller objects.

The idea: Python objects have headers, and small objects are mostly header. This step makes four
changes for that one reason, as its source does:

1. A type is `bytes` until its first merge. Five ids take 38 bytes, and 80 as a tuple.
2. A pair is one number, `pack_pair(left, right)`, of 28 bytes instead of 56.
3. The index has a list of 8 bytes per type id. A set takes 33 to 200.
4. Types keep no counter. Their pairs are counted when needed.

The list is lazy: ids are only appended. It may contain a type twice, or a type that has lost the
pair. Each type is therefore checked before use.

Costs: these checks, and counting the pairs of a type twice per change.
Saves: most of the memory, and also time: sets and counters are slow to update.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ladder.training.patterns import Pattern

Pair = tuple[int, int]
Ids = bytes | list[int]

BITS = 21  # of an id in a key: two million entries are more than anyone trains
MASK = (1 << BITS) - 1


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
    """Return two ids as one number. The numbers have the same order as the pairs."""
    return left << BITS | right


def unpack_pair(key: int) -> Pair:
    return key >> BITS, key & MASK


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
        """Merge a type: subtract its old pairs from the counts, and add its new ones."""
        counts, index, frequency = self.counts, self.index, self.frequencies[type_id]
        old = packed_pairs(self.types[type_id])
        if key not in old:
            return  # stale, or a second entry
        self.types[type_id] = merge(self.types[type_id], key, new)
        own = packed_pairs(self.types[type_id])
        # New pairs come first: the count of a pair in both is never 0 in between.
        for other in own:
            counts[other] += frequency
            if other not in old:
                index[other].append(type_id)
        for other in old:
            counts[other] -= frequency
            if not counts[other]:
                del counts[other]


def packed_pairs(ids: Ids) -> list[int]:
    return [pack_pair(left, right) for left, right in pairwise(ids)]


def merge(ids: Ids, key: int, new: int) -> list[int]:
    left, right = unpack_pair(key)
    merged: list[int] = []
    for id in ids:
        if id == right and merged and merged[-1] == left:
            merged[-1] = new
        else:
            merged.append(id)
    return merged


if __name__ == "__main__":
    from alone import main

    main(train)
