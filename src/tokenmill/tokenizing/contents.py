"""Shards, opened by their layout's readers → what they hold of each source, and what is wrong.

Checksums say that files are those that were written; this says that a trainer can read them, and
finds in them the documents and tokens that the manifest promises: of each shard, and of each
source. A shard at a time, so it takes the memory of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import ShardError
from tokenmill.shards import Shards
from tokenmill.shards import open as open_shards
from tokenmill.tokenizing.shuffle import by_unit, places

_COUNTS = ("documents", "tokens")
_Located = tuple[int, NDArray[np.int64], NDArray[np.int64]]


def findings(folder: Path, content: dict[str, Any]) -> Iterator[str]:
    """What the readers find that is not as the manifest of the folder says."""
    try:
        shards = open_shards(folder)
    except ShardError as error:
        yield str(error)
        return
    sums = {
        row["unit"]: np.zeros((len(row["segments"]) + 1, len(_COUNTS)), np.int64)
        for row in content["units"]
    }
    bounds = {
        row["unit"]: np.cumsum([segment["documents"] for segment in row["segments"]])
        for row in content["units"]
    }
    try:
        for unit, numbers, lengths in _located(shards, content):
            # Which segment of its unit each document is of; behind the last one, of none.
            segments = np.searchsorted(bounds[unit], numbers, side="right")
            for index, weights in enumerate((None, lengths)):
                found = np.bincount(segments, weights, minlength=len(sums[unit]))
                sums[unit][:, index] += found.astype(np.int64)
    except ShardError as error:
        yield str(error)
        return
    yield from _differences(content, sums)


def _located(shards: Shards, content: dict[str, Any]) -> Iterator[_Located]:
    """The documents of each shard: their unit, their numbers there, and how many ids each has."""
    seed = content["options"]["shuffle"]
    index = 0
    for row in content["units"] if seed is None else ():
        place = 0
        for _ in row["shards"]:
            lengths = _lengths(shards, index)
            yield row["unit"], np.arange(place, place + len(lengths)), lengths
            place += len(lengths)
            index += 1
    counts = {row["unit"]: row["documents"] for row in content["units"]}
    for row in content["mixes"]:
        found = places(seed, counts, row["mix"], row["of"])
        all_lengths = [_lengths(shards, index + more) for more in range(len(row["shards"]))]
        index += len(row["shards"])
        lengths = np.concatenate([np.empty(0, np.int64), *all_lengths])
        if len(lengths) != len(found.units):
            raise ShardError(
                f"shard {row['mix']} has {len(lengths):,} documents, and its seed gives it "
                f"{len(found.units):,}"
            )
        for unit, here in by_unit(found.units):
            yield unit, found.numbers[here], lengths[here]


def _lengths(shards: Shards, index: int) -> NDArray[np.int64]:
    """How many ids each document of a shard has, as its reader finds them."""
    shard = shards.shards[index]
    shards.reader(index)  # which compares its documents, or sequences, with the manifest
    ends = shards.document_ends(index)
    lengths = np.diff(ends, prepend=0)
    first = 0
    if shards.spec.sequence is not None:
        starts = shards.document_starts(index)
        first = int(starts[0]) if len(starts) else 0
    shards.close()
    tokens = int(ends[-1]) if len(ends) else 0
    if len(ends) != shard.documents or tokens != shard.tokens:
        raise ShardError(
            f"{shard.stem} has {len(ends):,} documents and {tokens:,} tokens, and the manifest "
            f"says {shard.documents:,} and {shard.tokens:,}"
        )
    if first or (lengths < 0).any():
        raise ShardError(f"{shard.stem}: its documents do not lie one behind the other")
    return lengths


def _differences(content: dict[str, Any], sums: dict[int, NDArray[np.int64]]) -> Iterator[str]:
    said = {source["path"]: source for source in content["sources"]}
    held = {path: np.zeros(len(_COUNTS), np.int64) for path in said}
    for row in content["units"]:
        found = sums[row["unit"]]
        if found[:, 0].sum() != row["documents"] or found[-1].any():
            yield (
                f"unit {row['unit']}: the shards hold {found[:, 0].sum():,} documents of it, and "
                f"the manifest says {row['documents']:,}"
            )
        for segment, counts in zip(row["segments"], found, strict=False):
            held[segment["source"]] += counts
    for path, counts in held.items():
        for name, count in zip(_COUNTS, counts.tolist(), strict=True):
            if count != said[path][name]:
                yield (
                    f"{path}: the shards hold {count:,} {name} of it, and the manifest says "
                    f"{said[path][name]:,}"
                )
    for index, name in enumerate(_COUNTS):
        count = sum(int(counts[index]) for counts in held.values())
        if count != content["totals"][name]:
            yield (
                f"the shards hold {count:,} {name}, and the manifest says "
                f"{content['totals'][name]:,} in all"
            )
