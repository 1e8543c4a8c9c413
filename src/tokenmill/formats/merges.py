"""Tokens whose ids are ranks → the merges that make them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

Merge = tuple[bytes, bytes]


def find_merges(tokens: Mapping[int, bytes]) -> list[Merge]:
    """The pair that becomes each token, in the order of the ids.

    It is the last step of merging the token's bytes with lower ids alone; a token which that does
    not reach has none.
    """
    ranks = {token: id_ for id_, token in tokens.items()}
    merges = []
    for id_ in sorted(tokens):
        token = tokens[id_]
        if len(token) == 2:
            merges.append((token[:1], token[1:]))
        elif len(token) > 2:
            parts = _merge_below(token, ranks, id_)
            if len(parts) == 2:
                merges.append((parts[0], parts[1]))
    return merges


def _merge_below(token: bytes, ranks: Mapping[bytes, int], limit: int) -> list[bytes]:
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        best, at = min(
            (ranks.get(left + right, limit), index)
            for index, (left, right) in enumerate(pairwise(parts))
        )
        if best >= limit:
            break
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts
