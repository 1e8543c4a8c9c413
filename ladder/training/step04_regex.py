"""Step 4, stream type counting by regex: the same stream, from an engine written in C.

The idea: `finditer` is the generator of step 3 without the interpreter in its loop. 35 lines become
one. It splits as step 2 did, and needs as little memory as step 3.

Costs: only the need to write the definition of a word as a regular expression.
Saves: the time that step 3 lost, with the memory of step 3. Any pattern works.
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
    frequencies = Counter(match.group() for match in pattern.compiled.finditer(text))
    types = {tuple(word.encode()): frequency for word, frequency in frequencies.items()}
    merges: list[Pair] = []
    for new in range(256, vocab_size):
        counts = count_pairs(types)
        if not counts:
            break
        pair = most_frequent(counts)
        types = {
            merge(word, pair, new) if pair[0] in word else word: frequency
            for word, frequency in types.items()
        }
        merges.append(pair)
    return merges


def count_pairs(types: dict[Word, int]) -> Counter[Pair]:
    counts: Counter[Pair] = Counter()
    for word, frequency in types.items():
        for pair in pairwise(word):
            counts[pair] += frequency
    return counts


def most_frequent(counts: Counter[Pair]) -> Pair:
    most = max(counts.values())
    return min(pair for pair, count in counts.items() if count == most)


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
