"""Step 3, stream type counting: count each word as it is found.

The idea: the list of all words is not needed. A generator reads the text character by character,
and each word is counted at once. Written by hand, it also shows the meaning of the pattern: a word
includes one space before it, and the last character of longer whitespace belongs to the next word.

Costs: interpreter work for every character, which step 2 did not have.
Saves: the list, which is the largest object and grows with the text. Types do not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ladder.training.patterns import Pattern

Pair = tuple[int, int]
Word = tuple[int, ...]


def train(text: str, pattern: Pattern, vocab_size: int) -> list[Pair]:
    kinds = pattern.kinds
    words = scan(text, kinds) if kinds else scan_with(pattern.compiled, text)
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


def scan(text: str, kinds: dict[str, str]) -> Iterator[str]:
    """Yield the words of GPT-2's pattern: letters, digits or signs with a space before them.

    `kinds` has the class of each character: letter, number, space or sign.
    """
    start = 0
    while start < len(text):
        end = start
        kind = kinds[text[start]]
        if text.startswith(("'s", "'t", "'m", "'d"), start):
            end += 2
        elif text.startswith(("'re", "'ve", "'ll"), start):
            end += 3
        elif kind == "space":
            end = run(text, start, kinds)
            if end < len(text) and end - start > 1:
                end -= 1  # the last character belongs to the next word
            elif end < len(text) and text[start] == " ":
                end = run(text, end, kinds)
        else:
            end = run(text, start, kinds)
        yield text[start:end]
        start = end


def run(text: str, start: int, kinds: dict[str, str]) -> int:
    """Return the end of the characters of one kind that begin at `start`."""
    kind, end = kinds[text[start]], start
    while end < len(text) and kinds[text[end]] == kind:
        end += 1
    return end


def scan_with(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield the words of any other pattern. It is tried at each position in turn."""
    start = 0
    while start < len(text):
        match = pattern.match(text, start)
        if match and match.group():
            yield match.group()
            start = match.end()
        else:
            start += 1


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
