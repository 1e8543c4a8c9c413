"""Counts of words → tokens and merges, in the way of Hugging Face's BpeTrainer, on characters.

tokenmill's own training is on bytes, many times as quick, and used where it can be (`training`).
This one is for all that is left: words of characters, an alphabet that is limited, marks on the
parts of words. Words and their pairs are kept up to date merge by merge.

Invariant: an entry of the heap promises no less than its pair counts, and is put back if less.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import TypeAlias

from tokenmill.compat.tokenizers.trainers import BpeTrainer

Pair: TypeAlias = tuple[int, int]


def learn(
    counts: Mapping[str, int], trainer: BpeTrainer
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The tokens with their ids, and the merges in order."""
    tokens: dict[str, int] = {}
    specials = [token.content for token in trainer.special_tokens]
    for token in (*specials, *_alphabet(counts, trainer)):
        tokens.setdefault(token, len(tokens))
    words = [_symbols(word, tokens, trainer) for word in counts]
    state = _State(words, list(counts.values()), trainer.max_token_length)
    names = list(tokens)
    merges: dict[tuple[str, str], None] = {}
    prefix = trainer.continuing_subword_prefix or ""
    while len(tokens) < trainer.vocab_size:
        found = state.pop()
        if found is None or state.counts[found[0]] < max(1, trainer.min_frequency):
            break
        (left, right), places = found
        token = names[left] + names[right].removeprefix(prefix)
        id_ = tokens.setdefault(token, len(tokens))
        if id_ == len(names):
            names.append(token)
        merges[names[left], names[right]] = None
        state.merge((left, right), places, id_)
    return tokens, list(merges)


def _alphabet(counts: Mapping[str, int], trainer: BpeTrainer) -> list[str]:
    """The characters in order; with a limit, the most frequent, and those that were asked for."""
    found: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            found[character] += count
    asked = set(trainer.initial_alphabet)
    kept = sorted(found.keys() | asked, key=lambda each: (each not in asked, -found[each], each))
    return sorted(kept[: trainer.limit_alphabet])


def _symbols(word: str, tokens: dict[str, int], trainer: BpeTrainer) -> list[int]:
    """The ids of a word's characters with their marks; those not in the alphabet are left out."""
    made = []
    last = len(word) - 1
    for index, character in enumerate(word):
        if character not in tokens:
            continue
        prefix = trainer.continuing_subword_prefix if index else None
        suffix = trainer.end_of_word_suffix if index == last else None
        symbol = f"{prefix or ''}{character}{suffix or ''}"
        made.append(tokens.setdefault(symbol, len(tokens)))
    return made


class _State:
    """Words, what their pairs count, and a heap of pairs with the words that they came up in."""

    def __init__(self, words: list[list[int]], weights: list[int], longest: int | None) -> None:
        self.counts: Counter[Pair] = Counter()
        self._words, self._weights = words, weights
        self._lengths: dict[int, int] = {}  # of merged tokens; characters have 1
        self._longest = longest
        self._heap: list[tuple[int, Pair, int]] = []
        self._places: list[set[int]] = []
        found: dict[Pair, set[int]] = {}
        for index, word in enumerate(words):
            for pair in pairwise(word):
                self.counts[pair] += weights[index]
                found.setdefault(pair, set()).add(index)
        self._push(found)

    def _push(self, found: Mapping[Pair, set[int]]) -> None:
        for pair, places in found.items():
            if self.counts[pair] > 0:
                heapq.heappush(self._heap, (-self.counts[pair], pair, len(self._places)))
                self._places.append(places)

    def pop(self) -> tuple[Pair, set[int]] | None:
        """The pair that counts most, the first by ids among equals."""
        while self._heap:
            count, pair, index = heapq.heappop(self._heap)
            if self.counts[pair] == -count:
                return pair, self._places[index]
            heapq.heappush(self._heap, (-self.counts[pair], pair, index))
        return None

    def merge(self, pair: Pair, places: Iterable[int], id_: int) -> None:
        self._lengths[id_] = self._length(pair[0]) + self._length(pair[1])
        found: dict[Pair, set[int]] = {}
        for place in places:
            for changed, change in self._merge_word(self._words[place], pair, id_):
                self.counts[changed] += change * self._weights[place]
                if change > 0:
                    found.setdefault(changed, set()).add(place)
        self._push(found)

    def _merge_word(self, word: list[int], pair: Pair, id_: int) -> list[tuple[Pair, int]]:
        left, right = pair
        changes: list[tuple[Pair, int]] = []
        index = 0
        while index < len(word) - 1:
            if word[index] == left and word[index + 1] == right:
                word[index : index + 2] = [id_]
                if index > 0:
                    before = word[index - 1]
                    changes.append(((before, left), -1))
                    self._form(before, id_, changes)
                if index + 1 < len(word):
                    behind = word[index + 1]
                    changes.append(((right, behind), -1))
                    self._form(id_, behind, changes)
            index += 1
        return changes

    def _form(self, left: int, right: int, changes: list[tuple[Pair, int]]) -> None:
        if self._longest is None or self._length(left) + self._length(right) < self._longest:
            changes.append(((left, right), 1))

    def _length(self, id_: int) -> int:
        return self._lengths.get(id_, 1)
