"""Step 1, naive: find the best pair, build a new list with the pair merged, and repeat.

The idea is the definition of byte-pair encoding. Of all adjacent symbols that together are a token,
the pair with the lowest rank is merged, until no pair is a token.

Costs: each merge visits every pair, concatenates two byte strings and hashes the result, and
copies the whole list. A pretoken of n bytes has up to n - 1 merges, so time grows with n².
Saves: no state. Every merge computes everything again, although nearly all of it is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from ladder.encoding.pretokens import Encode, cutter


def prepare(ranks: Mapping[bytes, int], pattern: str) -> Encode:
    cut = cutter(pattern)

    def encode(text: str) -> list[int]:
        ids = []
        for pretoken in cut(text):
            ids += merge(pretoken, ranks)
        return ids

    return encode


def merge(pretoken: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    symbols = [pretoken[i : i + 1] for i in range(len(pretoken))]
    while True:
        pairs = [
            (ranks[left + right], index)
            for index, (left, right) in enumerate(pairwise(symbols))
            if left + right in ranks
        ]
        if not pairs:
            return [ranks[symbol] for symbol in symbols]
        _, index = min(pairs)  # of equal ranks, the leftmost
        symbols = [*symbols[:index], symbols[index] + symbols[index + 1], *symbols[index + 2 :]]
