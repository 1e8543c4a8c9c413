"""Work → how far it is: what `train` and `count` tell a `progress` function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Phase: TypeAlias = Literal["counting", "adding up", "merging", "reporting"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a phase is: bytes of the inputs while counting, merges while merging.

    `total` is None where nobody knows it, as for a pipe; `unique` is about how many different
    pretokens there are so far, and `best_count` how often the pair of the last merge occurred. When
    merging ends, `floor` says below which count pairs were not followed: no merge was.
    """

    phase: Phase
    done: int
    total: int | None
    unique: int = 0
    best_count: int = 0
    floor: int | None = None


Report: TypeAlias = Callable[[Progress], object]


def silent(_: Progress) -> None:
    """Tells nobody."""
