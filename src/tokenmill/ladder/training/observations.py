"""Measured steps → what was once observed about them, and whether it holds here.

The ladder follows a document that describes thirteen of its steps, with a figure for some. Each of
its observations is a claim about two steps: that one takes less, more or the same time or memory.

A claim holds if at least half of the difference that it names is seen, or 2 % where it names none;
"the same" is within 2 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tokenmill.ladder.training.steps import Measured

MARGIN = 0.02
RULE = "A claim holds if half of what it names is seen, or 2 % where it names no figure."
_FAR = 2.0  # times: what "far above" means

Quantity = Literal["time", "memory"]
Side = Literal["less", "more", "same", "not more"]


@dataclass(frozen=True, slots=True)
class Claim:
    before: int
    after: int
    quantity: Quantity
    side: Side
    said: str
    figure: float = 2 * MARGIN


CLAIMS = (
    Claim(1, 2, "time", "less", "types with frequencies avoid repeated work"),
    Claim(2, 3, "memory", "less", "streaming reduces peak memory significantly"),
    Claim(2, 3, "time", "more", "streaming in Python loses time"),
    Claim(3, 4, "time", "less", "the regular expression wins much of it back"),
    Claim(3, 4, "memory", "not more", "and keeps the memory saved"),
    Claim(4, 5, "time", "less", "incremental counts reduce repeated work substantially"),
    Claim(5, 6, "time", "less", "the index reduces work further"),
    Claim(6, 7, "memory", "less", "lean representations reduce memory"),
    Claim(7, 8, "time", "less", "windows reduce scans of whole types"),
    Claim(8, 9, "time", "less", "compaction is faster (50 MB, 500 entries)"),
    Claim(9, 10, "time", "less", "the heap is 4.3 % faster (100 MB, 2,000)", 0.043),
    Claim(9, 10, "memory", "same", "and takes 0.2 % more memory"),
    Claim(10, 11, "time", "more", "arrays are 5.9 % slower (100 MB, 2,000)", 0.059),
    Claim(10, 11, "memory", "less", "and take 1.6 % less memory", 0.016),
    Claim(11, 12, "time", "more", "batching is 6.5 % slower (500 MB, 10,000; 8.2 %: 2,000)", 0.065),
    Claim(11, 12, "memory", "same", "and takes the same memory"),
    Claim(11, 13, "time", "less", "adaptive compaction is 14.3 % faster (100 MB, 10,000)", 0.143),
    Claim(11, 13, "memory", "same", "and takes 0.2 % less memory"),
)


@dataclass(frozen=True, slots=True)
class Observation:
    steps: str
    said: str
    here: str
    holds: bool

    @property
    def verdict(self) -> str:
        return "holds" if self.holds else "does not hold here"


def observe(rows: Mapping[int, Measured]) -> list[Observation]:
    """All claims whose steps were measured, and about whose merges nothing is wrong."""
    right = {number: row for number, row in rows.items() if row.merges_equal}
    found = []
    for claim in CLAIMS:
        if claim.before in right and claim.after in right:
            ratio = _ratio(right[claim.before], right[claim.after], claim.quantity)
            if ratio is not None:
                found.append(_judged(claim, ratio))
    if {5, 6, 9, 10} <= right.keys():
        found.append(_index_above_heap(right))
    return found


def _ratio(before: Measured, after: Measured, quantity: Quantity) -> float | None:
    if quantity == "time":
        return after.cpu_seconds / before.cpu_seconds
    # What training adds; too little to be seen is nothing to be compared.
    return after.added_mb / before.added_mb if min(before.added_mb, after.added_mb) >= 1 else None


def _judged(claim: Claim, ratio: float) -> Observation:
    holds = {
        "less": ratio < 1 - claim.figure / 2,
        "more": ratio > 1 + claim.figure / 2,
        "same": abs(ratio - 1) <= MARGIN,
        "not more": ratio <= 1 + MARGIN,
    }[claim.side]
    steps = f"{claim.before} → {claim.after}"
    return Observation(steps, claim.said, f"{claim.quantity} {change(ratio)}", holds)


def _index_above_heap(rows: Mapping[int, Measured]) -> Observation:
    index = 1 / (_ratio(rows[5], rows[6], "time") or 1)
    heap = 1 / (_ratio(rows[9], rows[10], "time") or 1)
    here = f"index {index:.2f} × faster, heap {heap:.2f} ×"
    return Observation(
        "6, 10", "the index is worth far more than the heap", here, index - 1 > _FAR * (heap - 1)
    )


def change(ratio: float) -> str:
    """A ratio as people say it: +6.5 %, −14.3 %, ÷ 4.2, × 3.0."""
    if ratio >= 2:
        return f"× {ratio:.1f}"
    if ratio <= 0.5:
        return f"÷ {1 / ratio:.1f}"
    return f"{(ratio - 1) * 100:+.1f} %".replace("-", "−")
