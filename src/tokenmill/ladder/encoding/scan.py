"""Step 2, "scan": the rank of each pair is kept, and a merge changes two of them.

One idea: a merge touches its neighbours only. So the ranks stand in a list beside the parts, the
lowest is found by one scan over whole numbers, and after a merge the pair to the left and the pair
to the right get new ranks. The lists are changed in place.

Costs: the scan still passes all pairs for each merge, so time still grows with n². But processors
are good at such a scan: tiktoken does it too, where pretokens are short.
Saves: all but two look-ups a merge, and the new list.
"""

from __future__ import annotations

from collections.abc import Mapping

from tokenmill.ladder.encoding.pretokens import Encode, cutter

NONE = 1 << 62  # the rank of a pair that is no token: above all others


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
    # At each index: the rank of that part joined with the next. The last has no next.
    pair_ranks = [ranks.get(pretoken[i : i + 2], NONE) for i in range(len(pretoken) - 1)]
    pair_ranks.append(NONE)
    while (lowest := min(pair_ranks)) != NONE:
        index = pair_ranks.index(lowest)  # the leftmost
        parts[index] += parts.pop(index + 1)
        del pair_ranks[index]
        if index > 0:
            pair_ranks[index - 1] = ranks.get(parts[index - 1] + parts[index], NONE)
        if index + 1 < len(parts):
            pair_ranks[index] = ranks.get(parts[index] + parts[index + 1], NONE)
    return [ranks[part] for part in parts]
