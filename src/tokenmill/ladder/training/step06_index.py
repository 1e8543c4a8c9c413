"""Step 6, pair-to-type index: go straight to the types that have the pair.

The idea: a dictionary from each pair to the set of types that hold it. A merge looks up its types
and sees no other. They are few: most pairs occur in a handful of types, and the longer a run goes
on, the rarer the pairs that it merges.

Costs: a set for each pair; and each change of a type is now a change of the index, too.
Saves: the walk through all types for every merge. This is the great leap of the ladder: from here
on the time no longer grows with types × merges, but with what the merges change.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from tokenmill.ladder.training.patterns import compile_for

Pair = tuple[int, int]
Word = tuple[int, ...]


def train(text: str, pattern: str, vocab_size: int) -> list[Pair]:
    trainer = Trainer(Counter(match.group() for match in compile_for(pattern, text).finditer(text)))
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
        for type_id in list(self.index[pair]):
            self.merge_type(type_id, pair, new)

    def merge_type(self, type_id: int, pair: Pair, new: int) -> None:
        """Takes the pairs that the type had from the counts, and gives those that it has then."""
        counts, index, frequency = self.counts, self.index, self.frequencies[type_id]
        old = self.own_counts[type_id]
        self.types[type_id] = merge(self.types[type_id], pair, new)
        own = self.own_counts[type_id] = Counter(pairwise(self.types[type_id]))
        for pair, count in own.items():
            counts[pair] += count * frequency
            index[pair].add(type_id)
        for pair, count in old.items():
            counts[pair] -= count * frequency
            if pair not in own:
                index[pair].remove(type_id)
            if not counts[pair]:
                del counts[pair], index[pair]


def merge(word: Word, pair: Pair, new: int) -> Word:
    left, right = pair
    merged: list[int] = []
    for id in word:
        if id == right and merged and merged[-1] == left:
            merged[-1] = new
        else:
            merged.append(id)
    return tuple(merged)
