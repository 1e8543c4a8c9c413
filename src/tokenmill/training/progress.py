"""The progress of `train` and `count_pretokens`, as a `progress` function gets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Phase: TypeAlias = Literal["counting", "adding up", "merging", "reporting"]


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a phase: `done` of `total` input bytes while counting, merges while merging.

    `total` is None if it is unknown, for example for a pipe. `unique` is about the number of unique
    pretokens so far. `best_count` is the count of the last merge. At the end of merging,
    `min_tracked_count` is the count below which pairs were not tracked. No merge has a lower count.
    """

    phase: Phase
    done: int
    total: int | None
    unique: int = 0
    best_count: int = 0
    min_tracked_count: int | None = None


Report: TypeAlias = Callable[[Progress], object]


def silent(_: Progress) -> None:
    """Ignore the progress."""
