"""Step 3, "heap": the lowest rank lies on top of a heap, and parts are a linked list.

One idea: do not search for the lowest. Pairs wait in a heap, ordered by rank and then by place. A
part knows where the next and the one before begin, so joining two moves nothing. A pair that has
changed while it waited is left where it is, and thrown away when it comes up: its rank is no
longer the one that its place has.

Costs: four lists and a heap for each pretoken. A word of six bytes is done before they pay: there
this step is slower than the scan.
Saves: the scan. Time grows with n · log n: long pretokens (a line of base64, Chinese text, a file
without blanks) no longer take quadratic time.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush

from tokenmill.ladder.encoding.pretokens import Encode, cutter

NONE = 1 << 62  # the rank of a pair that is no token


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
    # A part is known by where it begins. These say where the next and the one before do.
    following = list(range(1, end + 1))
    before = list(range(-1, end - 1))
    pair_ranks = [ranks.get(pretoken[i : i + 2], NONE) for i in range(end - 1)]
    pair_ranks.append(NONE)
    heap = [(rank, start) for start, rank in enumerate(pair_ranks) if rank != NONE]
    heapify(heap)

    def rank_again(start: int) -> None:
        """The pair that begins here has changed: a new rank, and a new entry in the heap."""
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
            continue  # changed since it was put there
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
