"""Step 9, lazy index compaction: lists that have become mostly stale are made anew.

The idea: a lazy list never forgets. Once a type loses a pair, the list of the pair is stale by one
entry. So those losses are counted, and after each merge the lists of the pairs that it has lowered
are looked at: the list of a pair that is gone is dropped, and one that is long and mostly stale is
made anew from the types that still hold the pair, each once.

Costs: a counter for each pair, and a set for each merge.
Saves: memory, but no time. A pair's list is filled by the merge that makes the younger of its two
ids, and read by the merge of the pair; both happen once. So without compaction an entry is looked
at once, and compaction cannot look at fewer: those that it keeps are looked at again by the merge.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from tokenmill.ladder.training.patterns import compile_for

Pair = tuple[int, int]
Ids = bytes | list[int]

BITS = 21
MASK = (1 << BITS) - 1

SIZE_MIN = 2048  # a list that is shorter is not worth the work
LOST_MIN = 512
LIVE_SHARE = 0.25  # below it a list is made anew


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
        for key in self.lowered:
            self.maintain(key)
        self.lowered.clear()

    def maintain(self, key: int) -> None:
        """Drops the list of a pair that is gone, and makes one anew that is mostly stale."""
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
