"""Step 6, pair-to-type index: visit only the types that contain the pair.

The idea: a dictionary from each pair to the set of types that contain it. A type is a distinct
word, which is stored once with its frequency. A merge looks up its types and visits no other. They
are few: most pairs occur in a handful of types, and later merges have rarer pairs.

Costs: a set per pair. Each change of a type is now also a change of the index.
Saves: the traversal of all types for every merge. The time of the changes now grows with their
number, and not with types × merges, so a larger text or vocabulary has a larger gain. The search
for the most frequent pair still visits all pairs, until step 10.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ladder.training.patterns import Pattern

Pair = tuple[int, int]
Word = tuple[int, ...]


def train(text: str, pattern: Pattern, vocab_size: int) -> list[Pair]:
    trainer = Trainer(Counter(match.group() for match in pattern.compiled.finditer(text)))
    merges: list[Pair] = []
    for new in range(256, vocab_size):
        if not trainer.counts:
            break
        pair = trainer.most_frequent()
        trainer.merge(pair, new)
        merges.append(pair)
    return merges


class Trainer:
    def __init__(self, found: Counter[str]) -> None:
        self.types = [tuple(word.encode()) for word in found]
        self.frequencies = list(found.values())
        self.own_counts = [Counter(pairwise(word)) for word in self.types]
        self.counts: Counter[Pair] = Counter()
        self.index: defaultdict[Pair, set[int]] = defaultdict(set)
        for type_id, own in enumerate(self.own_counts):
            for pair, count in own.items():
                self.counts[pair] += count * self.frequencies[type_id]
                self.index[pair].add(type_id)

    def most_frequent(self) -> Pair:
        most = max(self.counts.values())
        return min(pair for pair, count in self.counts.items() if count == most)

    def merge(self, pair: Pair, new: int) -> None:
        for type_id in list(self.index[pair]):  # a copy, because merge_type removes its type
            self.merge_type(type_id, pair, new)

    def merge_type(self, type_id: int, pair: Pair, new: int) -> None:
        """Merge a type: subtract its old pairs from the counts, and add its new ones."""
        counts, index, frequency = self.counts, self.index, self.frequencies[type_id]
        old = self.own_counts[type_id]
        self.types[type_id] = merge(self.types[type_id], pair, new)
        own = self.own_counts[type_id] = Counter(pairwise(self.types[type_id]))
        # New pairs come first. Else a pair in both might be 0 in between, and lose its index.
        for other, count in own.items():
            counts[other] += count * frequency
            index[other].add(type_id)
        for other, count in old.items():
            counts[other] -= count * frequency
            if other not in own:
                index[other].remove(type_id)
            if not counts[other]:
                del counts[other], index[other]


def merge(word: Word, pair: Pair, new: int) -> Word:
    left, right = pair
    merged: list[int] = []
    for id in word:
        if id == right and merged and merged[-1] == left:
            merged[-1] = new
        else:
            merged.append(id)
    return tuple(merged)


if __name__ == "__main__":
    from alone import main

    main(train)
