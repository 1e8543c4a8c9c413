"""Step 1, "rebuild": find the best pair, make a new list with the two joined, and again.

What everybody writes first, and what the seed's Zig did. Of all neighbours that together are a
token, those with the lowest rank are joined, until no two are. It is the definition of byte-pair
encoding, so there is little to get wrong.

Costs: each merge looks at every pair, where looking joins two byte strings and hashes the result,
and copies the whole list. A pretoken of n bytes has up to n - 1 merges: time grows with n².
Saves: nothing yet. Nothing is kept between merges, though nearly all of it stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from tokenmill.ladder.encoding.pretokens import Encode, cutter


def prepare(ranks: Mapping[bytes, int], pattern: str) -> Encode:
    cut = cutter(pattern)

    def encode(text: str) -> list[int]:
        ids = []
        for pretoken in cut(text):
            ids += merge(pretoken, ranks)
        return ids

    return encode


def merge(pretoken: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    parts = [pretoken[i : i + 1] for i in range(len(pretoken))]
    while True:
        joins = [
            (ranks[left + right], index)
            for index, (left, right) in enumerate(pairwise(parts))
            if left + right in ranks
        ]
        if not joins:
            return [ranks[part] for part in parts]
        _, index = min(joins)  # of equal ranks, the leftmost
        parts = [*parts[:index], parts[index] + parts[index + 1], *parts[index + 2 :]]
