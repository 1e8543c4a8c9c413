"""Step 8, windowed pair updates: update the counts around a merge, not for the whole type.

The idea: if (left, right) between `before` and `after` becomes `new`, two pairs disappear, (before,
left) and (right, after), and two appear, (before, new) and (new, after). The rest of the type is
unchanged. One pass is enough: it writes the merged ids, and updates these four pairs at each merge.
`before` is read from the output, so "abab" is correct, because its second merge changes a pair that
the first one made.

Costs: one larger loop, with more room for errors.
Saves: counting all pairs of a type before and after a merge, and the lists for that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from ladder.training.patterns import compile_for

Pair = tuple[int, int]
Ids = bytes | list[int]

BITS = 21
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
            for left, right in pairwise(ids):
                self.counts[left << BITS | right] += self.frequencies[type_id]
                self.index[left << BITS | right].append(type_id)

    def most_frequent(self) -> int:
        most = max(self.counts.values())
        return min(key for key, count in self.counts.items() if count == most)

    def merge(self, key: int, new: int) -> None:
        for type_id in self.index.pop(key):
            self.merge_type(type_id, key >> BITS, key & MASK, new)
        del self.counts[key]

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
        self.counts[key] -= frequency
        if not self.counts[key]:
            del self.counts[key]

    def give(self, key: int, frequency: int, type_id: int) -> None:
        """A type has a pair that it did not have."""
        self.counts[key] += frequency
        self.index[key].append(type_id)
