"""Step 2, type frequency: merge each distinct word once.

The idea: pairs never cross the border of a word, so all copies of a word merge equally. It is
enough to keep each distinct word, a type, with its frequency, and to multiply its pair counts. The
space before a word is part of it, as the byte 32. (Files of GPT-2 write this byte as Ġ.)

Costs: a table of types, and the list of all words from which it is made.
Saves: most of the work. A megabyte of Python's own documents has 220,000 words and 11,000 types.
The longer a text is, the rarer new words are.
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
    words = [match.group() for match in pattern.compiled.finditer(text)]
    frequencies = Counter(words)
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
