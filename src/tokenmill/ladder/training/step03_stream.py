"""Step 3, stream type counting: words go into the counter as they are found.

The idea: nobody needs the list of all words. A generator walks through the text, character by
character, and each word is counted and forgotten. Written by hand, it also shows what the pattern
means: a word takes the one blank before it along, and of a longer gap the last character stays.

Costs: a step of the interpreter for every character, where step 2 had none.
Saves: the list, which is the largest thing in memory, and grows with the text; types do not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from tokenmill.ladder.training.patterns import compile_for, is_gpt2, kind_of

Pair = tuple[int, int]
Word = tuple[int, ...]


def train(text: str, pattern: str, vocab_size: int) -> list[Pair]:
    words = scan(text) if is_gpt2(pattern) else scan_with(compile_for(pattern, text), text)
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


def scan(text: str) -> Iterator[str]:
    """The words of GPT-2's pattern: letters, digits or signs, each with a blank before it."""
    start = 0
    while start < len(text):
        end = start
        kind = kind_of(text[start])
        if text.startswith(("'s", "'t", "'m", "'d"), start):
            end += 2
        elif text.startswith(("'re", "'ve", "'ll"), start):
            end += 3
        elif kind == "space":
            end = run(text, start)
            if end < len(text) and end - start > 1:
                end -= 1  # the last of a gap belongs to what follows
            elif end < len(text) and text[start] == " ":
                end = run(text, end)
        else:
            end = run(text, start)
        yield text[start:end]
        start = end


def run(text: str, start: int) -> int:
    """Where the characters of one kind end that begin here."""
    kind = kind_of(text[start])
    while start < len(text) and kind_of(text[start]) == kind:
        start += 1
    return start


def scan_with(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """The words of any other pattern, which is asked at one place after the other."""
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
