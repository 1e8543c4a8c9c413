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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ladder.training.patterns import Pattern

Pair = tuple[int, int]
Ids = bytes | list[int]

BITS = 21
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
            for left, right in pairwise(ids):
                self.counts[pack_pair(left, right)] += self.frequencies[type_id]
                self.index[pack_pair(left, right)].append(type_id)

    def most_frequent(self) -> int:
        most = max(self.counts.values())
        return min(key for key, count in self.counts.items() if count == most)

    def merge(self, key: int, new: int) -> None:
        for type_id in self.index.pop(key):
            self.merge_type(type_id, *unpack_pair(key), new)
        del self.counts[key]

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
        self.counts[key] -= frequency
        if not self.counts[key]:
            del self.counts[key]

    def add(self, key: int, frequency: int, type_id: int) -> None:
        """Add a pair that a type has gained."""
        self.counts[key] += frequency
        self.index[key].append(type_id)


if __name__ == "__main__":
    from alone import main

    main(train)
