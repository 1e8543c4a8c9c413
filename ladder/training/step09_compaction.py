"""Step 9, lazy index compaction: rebuild lists that are mostly stale.

The idea: a lazy list only grows. Each type that loses a pair leaves one stale entry in the list of
the pair. These losses are counted. After each merge, the lists of the pairs with lower counts are
checked: the list of a vanished pair is dropped, and a long, mostly stale list is rebuilt from the
types that still contain the pair, each once.

Costs: a counter per pair, and a set per merge.
Saves: memory, but no time. The list of a pair is filled by the merge that makes the younger of its
two ids, and read by the merge of the pair. Both happen once. Without compaction an entry is read
once, and compaction cannot read fewer: the merge reads the remaining entries again.
"""

from __future__ import annotations

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
        self.lowered: set[int] = set()  # by the merge that is being done
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
        for other in self.lowered:
            self.maintain(other)
        self.lowered.clear()

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
        self.lowered.add(key)
        self.counts[key] -= frequency
        if not self.counts[key]:
            del self.counts[key]

    def give(self, key: int, frequency: int, type_id: int) -> None:
        """A type has a pair that it did not have."""
        self.counts[key] += frequency
        self.index[key].append(type_id)
