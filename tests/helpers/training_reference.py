"""Pretoken counts → merges, by the rules of each trainer: the reference of training.

`learn` counts all pairs again for every merge, as in the definition. It is the oracle.
`learn_fast` updates the counts and can learn from megabytes; a test compares the two. `train` adds
the vocabulary of each library: its tokens and their ids.

Every neighbour counts: "aaa" has (a, a) twice. Merging goes from the left. Among pairs of
one count the tie rule decides:

    tokenizers, rustbpe    the smaller (left id, right id)
    cs336                   the greater (left bytes, right bytes)
    minbpe                  the first one in the corpus, as it is merged so far

Invariant: a count never rises, and every merge makes a string that no token has.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import regex

from tokenmill import reference

TRAINERS = ("tokenizers", "rustbpe", "cs336", "minbpe")

Pair = tuple[int, int]
Merge = tuple[int, int, int]  # left id, right id, count


def learn(
    counts: Mapping[bytes, int],
    alphabet: Mapping[int, int],
    first_id: int,
    merges_max: int,
    trainer: str,
    min_frequency: int = 0,
    max_token_length: int | None = None,
    taken: Mapping[bytes, int] | None = None,
) -> list[Merge]:
    """The merges, with the count that each had; new ids are given from `first_id` on.

    `counts` is in order of first occurrence, which decides ties of minbpe. A string in `taken`, the
    text of a special token, gets its id from there and does not count for `merges_max`.
    Bytes that are not in `alphabet` are left out of their pretokens.
    """
    words = [(_ids(pretoken, alphabet), count) for pretoken, count in counts.items()]
    tokens = {id: bytes([byte]) for byte, id in alphabet.items()}
    merges: list[Merge] = []
    new = first_id
    while new < first_id + merges_max:
        pair_counts: dict[Pair, int] = {}  # in order of first occurrence
        for word, count in words:
            for pair in pairwise(word):
                if _fits(len(tokens[pair[0]]) + len(tokens[pair[1]]), max_token_length):
                    pair_counts[pair] = pair_counts.get(pair, 0) + count
        best = _best(pair_counts, tokens, trainer)
        if best is None or pair_counts[best] < max(1, min_frequency):
            break
        token = tokens[best[0]] + tokens[best[1]]
        id = (taken or {}).get(token, new)
        new += id == new
        for word, _ in words:
            reference.replace(word, *best, id)
        merges.append((*best, pair_counts[best]))
        tokens[id] = token
    return merges


def _best(pair_counts: dict[Pair, int], tokens: dict[int, bytes], trainer: str) -> Pair | None:
    if not pair_counts:
        return None
    most = max(pair_counts.values())
    equals = [pair for pair, count in pair_counts.items() if count == most]
    if trainer == "minbpe":
        return equals[0]
    if trainer == "cs336":
        return max(equals, key=lambda pair: (tokens[pair[0]], tokens[pair[1]]))
    return min(equals)


def _ids(pretoken: bytes, alphabet: Mapping[int, int]) -> list[int]:
    return [alphabet[byte] for byte in pretoken if byte in alphabet]


def _fits(length: int, max_token_length: int | None) -> bool:
    """Strictly shorter, as in tokenizers; but a pair of two bytes is never refused there."""
    return max_token_length is None or length == 2 or length < max_token_length


def learn_fast(
    counts: Mapping[bytes, int],
    alphabet: Mapping[int, int],
    first_id: int,
    merges_max: int,
    trainer: str,
    min_frequency: int = 0,
    max_token_length: int | None = None,
    taken: Mapping[bytes, int] | None = None,
) -> list[Merge]:
    """The result of `learn`, from counts that are updated: 10 MB of text in a minute."""
    state = _State(counts, alphabet, trainer, max_token_length)
    merges: list[Merge] = []
    new = first_id
    while new < first_id + merges_max:
        best = state.pop()
        if best is None or state.counts[best] < max(1, min_frequency):
            break
        merges.append((*best, state.counts[best]))
        id = (taken or {}).get(state.tokens[best[0]] + state.tokens[best[1]], new)
        new += id == new
        state.merge(best, id)
    return merges


class _State:
    """Words, the counts of their pairs, and a heap whose entries may be outdated.

    Counts never rise, and for minbpe the first position never moves forward. An entry is valid if
    it is still correct when it is popped. Otherwise it is pushed again with the correct values.
    """

    def __init__(
        self,
        counts: Mapping[bytes, int],
        alphabet: Mapping[int, int],
        trainer: str,
        max_token_length: int | None,
    ) -> None:
        self.words = [_ids(pretoken, alphabet) for pretoken in counts]
        self.weights = list(counts.values())
        self.tokens = {id: bytes([byte]) for byte, id in alphabet.items()}
        self.trainer = trainer
        self.limit = max_token_length
        self.counts: Counter[Pair] = Counter()
        self.places: dict[Pair, dict[int, None]] = {}  # words that hold a pair, or did; in order
        for index, word in enumerate(self.words):
            self._add(index, Counter(pairwise(word)))
        self.heap: list[Any] = []
        self._push(self.counts)

    def pop(self) -> Pair | None:
        while self.heap:
            key, pair = heapq.heappop(self.heap)
            if (now := self._key(pair)) == key:
                return pair if self.counts[pair] > 0 else None
            heapq.heappush(self.heap, (now, pair))
        return None

    def merge(self, pair: Pair, id: int) -> None:
        self.tokens[id] = self.tokens[pair[0]] + self.tokens[pair[1]]
        seen: dict[Pair, None] = {}
        for index in self.places.pop(pair):
            word = self.words[index]
            before = Counter(pairwise(word))
            if pair not in before:
                continue
            reference.replace(word, *pair, id)
            after = Counter(pairwise(word))
            for gone, times in (before - after).items():
                if gone in self.counts:  # a pair that is too long never was
                    self.counts[gone] -= times * self.weights[index]
            self._add(index, after - before)
            seen |= dict.fromkeys(after - before)
        assert self.counts.pop(pair) == 0
        self._push(p for p in seen if p in self.counts)

    def _add(self, index: int, pairs: Mapping[Pair, int]) -> None:
        for pair, times in pairs.items():
            if _fits(sum(len(self.tokens[id]) for id in pair), self.limit):
                self.counts[pair] += times * self.weights[index]
                self.places.setdefault(pair, {})[index] = None

    def _push(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            heapq.heappush(self.heap, (self._key(pair), pair))

    def _key(self, pair: Pair) -> tuple[Any, ...]:
        count = -self.counts[pair]
        if self.trainer == "minbpe":
            return (count, *self._first(pair))
        if self.trainer == "cs336":
            return (count, *(_Reversed(self.tokens[id]) for id in pair))
        return (count, pair)

    def _first(self, pair: Pair) -> tuple[int, int]:
        """Index of the first word that contains the pair, and the offset of the pair in it."""
        words = self.places[pair]
        while words:
            index = next(iter(words))
            at = 0
            for here in pairwise(self.words[index]):
                if here == pair:
                    return index, at
                at += len(self.tokens[here[0]])
            del words[index]
        return len(self.words), 0


@dataclass(frozen=True, order=False)
class _Reversed:
    token: bytes

    def __lt__(self, other: _Reversed) -> bool:
        return self.token > other.token


# ── The vocabulary of each library, from its merges ──────────────────────────────────────────


@dataclass(frozen=True)
class Trained:
    tokens: dict[bytes, int]  # without the special tokens, but for one that a merge spells
    merges: list[tuple[bytes, bytes]]
    counts: list[int]  # of the merges
    special_tokens: dict[str, int]


def train(
    counts: Mapping[bytes, int],
    vocab_size: int,
    trainer: str,
    special_tokens: Iterable[str] = (),
    min_frequency: int = 0,
    max_token_length: int | None = None,
    initial_alphabet: Iterable[int] = range(256),
    learn: Any = learn_fast,
) -> Trained:
    """A vocabulary of at most `vocab_size` tokens, unless special tokens and alphabet are more."""
    names = list(dict.fromkeys(special_tokens))
    alphabet = {byte: byte for byte in range(256)}
    taken: dict[bytes, int] = {}
    first_id = 256
    if trainer == "tokenizers":
        # Specials come first. One that is spelled like a token, in GPT-2's letters for bytes, is
        # that token: a byte of the alphabet, or the result of a later merge.
        taken = {spelled(name): id for id, name in enumerate(names) if spelled(name)}
        seen = {byte for pretoken in counts for byte in pretoken} | set(initial_alphabet)
        alphabet, first_id = {}, len(names)
        for byte in sorted(seen, key=LETTERS.__getitem__):
            alphabet[byte] = taken.get(bytes([byte]), first_id)
            first_id += alphabet[byte] == first_id
    behind = 0 if trainer == "tokenizers" else len(names)
    room = max(vocab_size - first_id - behind, 0)
    merges = learn(
        counts, alphabet, first_id, room, trainer, min_frequency, max_token_length, taken
    )
    tokens = {bytes([byte]): id for byte, id in alphabet.items()}
    spelling = {id: token for token, id in tokens.items()}
    new = first_id
    for left, right, _ in merges:
        token = spelling[left] + spelling[right]
        id = taken.get(token, new)
        new += id == new
        tokens[token], spelling[id] = id, token
    start = 0 if trainer == "tokenizers" else new
    return Trained(
        tokens,
        [(spelling[left], spelling[right]) for left, right, _ in merges],
        [count for _, _, count in merges],
        {name: start + at for at, name in enumerate(names)},
    )


def letters_of_bytes() -> list[str]:
    """GPT-2's letter for each byte: itself where Latin-1 shows it, else one from U+0100 on."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in shown else chr(next(others)) for byte in range(256)]


LETTERS = letters_of_bytes()
BYTES = {letter: byte for byte, letter in enumerate(LETTERS)}


def spelled(name: str) -> bytes:
    """The bytes of GPT-2's letters in `name`, empty if one of them is not such a letter."""
    return bytes(BYTES[c] for c in name) if all(c in BYTES for c in name) else b""


def in_letters(token: bytes) -> str:
    return "".join(LETTERS[byte] for byte in token)


def count(documents: Iterable[str], pattern: str) -> dict[bytes, int]:
    """The pretokens of all documents with their counts, in order of first occurrence."""
    matches = (m for text in documents for m in regex.finditer(pattern, text, regex.V1))
    counts = Counter(match.group() for match in matches)
    return {pretoken.encode(): count for pretoken, count in counts.items() if pretoken}
