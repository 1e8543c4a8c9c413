"""Step 3, priority queue: a heap yields the lowest rank, and symbols form a linked list.

The idea: do not search for the lowest rank. A heap has the pairs, ordered by rank and then by
position. Each symbol has the start of the next and of the previous one, so a merge moves no data. A
pair that changes stays in the heap, and is dropped when it comes up with an outdated rank.

Costs: four lists and a heap per pretoken. For a word of six bytes they cost more than they save:
this step is slower than the scan there.
Saves: the scan. Time grows with n · log n, so long pretokens (a line of base64, Chinese text, a
file without spaces) no longer take quadratic time.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from ladder.encoding.pretokens import Encode, cutter

NONE = 1 << 62  # the rank of a pair without a token


def prepare(ranks: Mapping[bytes, int], pattern: str) -> Encode:
    cut = cutter(pattern)

    def encode(text: str) -> list[int]:
        ids = []
        for pretoken in cut(text):
            ids += merge(pretoken, ranks)
        return ids

    return encode


def merge(pretoken: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    end = len(pretoken)
    # A symbol is identified by its start. These lists have the next and the previous start.
    following = list(range(1, end + 1))
    before = list(range(-1, end - 1))
    pair_ranks = [ranks.get(pretoken[i : i + 2], NONE) for i in range(end - 1)]
    pair_ranks.append(NONE)
    heap = [(rank, start) for start, rank in enumerate(pair_ranks) if rank != NONE]
    heapify(heap)

    def rank_again(start: int) -> None:
        """Update the rank of the pair that starts here, and push it again."""
        middle = following[start]
        rank = NONE
        if middle < end:
            rank = ranks.get(pretoken[start : following[middle]], NONE)
        pair_ranks[start] = rank
        if rank != NONE:
            heappush(heap, (rank, start))

    while heap:
        rank, start = heappop(heap)
        if pair_ranks[start] != rank:
            continue  # outdated
        gone = following[start]
        pair_ranks[gone] = NONE
        following[start] = after = following[gone]
        if after < end:
            before[after] = start
        rank_again(start)
        if start > 0:
            rank_again(before[start])
    ids = []
    start = 0
    while start < end:
        ids.append(ranks[pretoken[start : following[start]]])
        start = following[start]
    return ids
