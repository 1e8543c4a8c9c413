"""Rank file → packed vocabulary, the form of the embedded ones.   usage: pack.py RANKS IMAGE

A packed vocabulary (`core/vocabulary/image.zig` reads it) stores each token as its canonical pair,
the last step of encoding that token alone. It is small and needs no search when it is loaded. Every
token must be mergeable; this holds for all of OpenAI's vocabularies.
"""

import base64
import itertools
import struct
import sys
from pathlib import Path


def canonical_pair(token: bytes, ranks: dict[bytes, int]) -> tuple[int, int]:
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        joined = [ranks.get(a + b, sys.maxsize) for a, b in itertools.pairwise(parts)]
        lowest = min(joined)
        if lowest == sys.maxsize:
            raise ValueError(f"token {token!r} is unmergeable")
        at = joined.index(lowest)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return ranks[parts[0]], ranks[parts[1]]


def pack(ranks: dict[bytes, int]) -> bytes:
    tokens = {rank: token for token, rank in ranks.items()}
    ids_end = max(tokens) + 1
    gaps = [(i, i + 1) for i in range(ids_end) if i not in tokens]
    if [len(tokens[i]) for i in range(256)] != [1] * 256:
        raise ValueError("ids 0–255 must be the single bytes")
    bits = position = 0
    chunks = []
    for rank in range(256, ids_end):
        if rank not in tokens:
            continue
        width = (rank - 1).bit_length()
        for part in canonical_pair(tokens[rank], ranks):
            if part >= rank:
                raise ValueError(f"{tokens[rank]!r} is made of a later token")
            bits |= part << position
            position += width
        while position >= 8:
            chunks.append(bits & 0xFF)
            bits >>= 8
            position -= 8
    if position:
        chunks.append(bits)
    return b"".join(
        (
            b"TMV1",
            struct.pack("<III", ids_end, sum(map(len, ranks)), len(gaps)),
            *(struct.pack("<II", *gap) for gap in gaps),
            b"".join(tokens[i] for i in range(256)),
            bytes(chunks),
        )
    )


def main(source: Path, target: Path) -> None:
    lines = (line.split() for line in source.read_bytes().splitlines() if line)
    target.write_bytes(pack({base64.b64decode(token): int(rank) for token, rank in lines}))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
