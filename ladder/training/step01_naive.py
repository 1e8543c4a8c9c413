"""Step 1, naive: count all pairs of the whole text, merge the most frequent, and repeat.

The idea is byte-pair encoding itself. A text is split into words, and a word is a tuple of ids. At
first, each id is one byte. Of all adjacent pairs inside words, the most frequent gets a new id,
which replaces the pair everywhere. That is one merge.

`pattern` finds the words. It is the pattern of GPT-2 by default: letters, digits or other signs
with at most one space before them. `pattern.compiled` is the same for Python's `re`, which lacks
\\p{L}: `patterns.py` writes a set of the letters that occur in the text instead.

Costs: every merge traverses the whole text twice, so the time is text × merges. Each word of the
text is an object, even if it occurred before.
Saves: thought. Without state, errors are unlikely, so all later steps are compared with this one.
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
    words = [tuple(match.group().encode()) for match in pattern.compiled.finditer(text)]
    merges: list[Pair] = []
    for new in range(256, vocab_size):
        counts = count_pairs(words)
        if not counts:
            break  # every word is one token
        pair = most_frequent(counts)
        words = [merge(word, pair, new) if pair[0] in word else word for word in words]
        merges.append(pair)
    return merges


def count_pairs(words: list[Word]) -> Counter[Pair]:
    return Counter(pair for word in words for pair in pairwise(word))


def most_frequent(counts: Counter[Pair]) -> Pair:
    """Of equals the pair with the smaller ids."""
    most = max(counts.values())
    return min(pair for pair, count in counts.items() if count == most)


def merge(word: Word, pair: Pair, new: int) -> Word:
    """Replace the pair by `new` from the left: "aaa" becomes (aa)a, not a(aa)."""
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
