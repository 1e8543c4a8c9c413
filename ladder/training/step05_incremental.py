"""Step 5, incremental pair updates: count once, then update the counts.

The idea: a merge changes only the types that contain the pair. Each type therefore keeps the counts
of its own pairs. If they contain the pair, the counts of the type are subtracted from the global
counts, the type is merged, and its new counts are added. All other types stay unchanged.

Costs: a counter per type, which is most of the memory here, and the first state that can be wrong:
each subtraction must equal the earlier addition.
Saves: counting all pairs again for every merge. A look at each type remains.
"""

from __future__ import annotations

from collections import Counter
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
        for own, frequency in zip(self.own_counts, self.frequencies, strict=True):
            for pair, count in own.items():
                self.counts[pair] += count * frequency

    def most_frequent(self) -> Pair:
        most = max(self.counts.values())
        return min(pair for pair, count in self.counts.items() if count == most)

    def merge(self, pair: Pair, new: int) -> None:
        for type_id, own in enumerate(self.own_counts):
            if pair in own:
                self.merge_type(type_id, pair, new)

    def merge_type(self, type_id: int, pair: Pair, new: int) -> None:
        """Merge a type: subtract its old pairs from the counts, and add its new ones."""
        counts, frequency = self.counts, self.frequencies[type_id]
        old = self.own_counts[type_id]
        self.types[type_id] = merge(self.types[type_id], pair, new)
        own = self.own_counts[type_id] = Counter(pairwise(self.types[type_id]))
        # New pairs come first: the count of a pair in both is never 0 in between.
        for other, count in own.items():
            counts[other] += count * frequency
        for other, count in old.items():
            counts[other] -= count * frequency
            if not counts[other]:
                del counts[other]


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
