"""A row of a unit, or of a shard that was mixed → whether it is one, and the files that it names.

Journals and manifests may come from elsewhere, or from a disk that lost a part of them. What is no
row is not done; and no name in one leads out of the output's folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tokenmill.shards.folder import STEM, SUFFIX
from tokenmill.tokenizing.shuffle import PIECES

COUNTS = ("documents", "tokens", "bytes", "quarantined")
_COUNT_MAX = 1 << 63
_PIECE = re.compile(r"[0-9]{5,}\.[a-z_]+")


def is_whole(row: Any) -> bool:
    """Whether a row has all that is asked of it later."""
    if not isinstance(row, dict) or not _are(row.get("shards"), _is_shard):
        return False
    if "mix" in row:
        return _has_counts(row, "mix", "of") and isinstance(row.get("units"), str)
    return (
        _has_counts(row, "unit", *COUNTS)
        and isinstance(row.get("id"), str)
        and _are(row.get("segments"), _is_segment)
        and _are(row.get("pieces", []), _is_piece)
    )


def named_files(row: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """The names of a whole row's files, as they stand in the folder, and their bytes."""
    for piece in row.get("pieces", ()):
        yield f"{PIECES}/{piece['name']}", piece["bytes"]
    for shard in row["shards"]:
        for file in shard["files"]:
            yield shard["stem"] + file["suffix"], file["bytes"]


def _are(value: Any, is_one: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) and is_one(one) for one in value)


def _has_counts(value: dict[str, Any], *names: str) -> bool:
    return all(type(value.get(n)) is int and 0 <= value[n] < _COUNT_MAX for n in names)


def _is_segment(segment: dict[str, Any]) -> bool:
    return isinstance(segment.get("source"), str) and _has_counts(segment, *COUNTS)


def _is_shard(shard: dict[str, Any]) -> bool:
    return _matches(shard.get("stem"), STEM) and _are(shard.get("files"), _is_file)


def _is_file(file: dict[str, Any]) -> bool:
    is_summed = isinstance(file.get("checksum"), str)
    return is_summed and _matches(file.get("suffix"), SUFFIX) and _has_counts(file, "bytes")


def _is_piece(piece: dict[str, Any]) -> bool:
    return _matches(piece.get("name"), _PIECE) and _has_counts(piece, "bytes")


def _matches(value: Any, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None
