"""Results of a sweep → the goals for encoding, each with its figure and whether it is met.

A goal compares two figures of one sweep: tokenmill's with gigatoken's in the same cell, or two of
tokenmill. Each round gives a ratio, since both sides are measured one after the other in a round.
The figure is the median of these ratios. A goal without a figure is not met. The goals apply to
40 MB of text; the real documents alone are fewer, so their ratios are shown but not counted.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

# isort: split
from corpora import CORPORA, EVERYTHING, REAL, REAL_CORPORA
from jobs import Cell

OURS, RIVAL = "tokenmill", "gigatoken"
VOCABULARIES = ("r50k_base", "cl100k_base", "o200k_base")
THREADS = 2

Outcome = dict[str, Any]


@dataclass(frozen=True)
class Side:
    system: str
    job: str
    metric: str
    threads: int = 1

    def cell(self, vocabulary: str, corpus: str) -> Cell:
        return Cell(vocabulary, self.job, corpus, self.threads)


@dataclass(frozen=True)
class Goal:
    title: str
    bars: dict[str, float]  # corpus → the value to reach
    ours: Side
    against: Side | None  # None: our figure itself is compared with the bar
    at_least: bool = True

    @property
    def sides(self) -> list[Side]:
        return [self.ours, *([self.against] if self.against else [])]


def _speed(title: str, job: str, metric: str, bars: tuple[float, ...]) -> Goal:
    by_corpus = dict(zip(CORPORA, bars, strict=True))
    return Goal(title, by_corpus, Side(OURS, job, metric), Side(RIVAL, job, metric))


def _count(passes: str, metric: str) -> Goal:
    bars = dict.fromkeys(CORPORA, 1.0)
    sides = Side(OURS, "count", metric), Side(OURS, "array", metric)
    return Goal(f"count : our array, {passes}", bars, *sides)


def _threads(result: str, job: str, passes: str, metric: str) -> Goal:
    title = f"{THREADS} threads : our one, {result}, {passes}"
    return Goal(title, {"mix": 1.8}, Side(OURS, job, metric, THREADS), Side(OURS, job, metric))


def _call(characters: int) -> Goal:
    # Ours returns a list. gigatoken's `encode` returns an array, and that call is the bar, not the
    # slower one that makes a list of it.
    ours = Side(OURS, "latency", f"ns_{characters}")
    theirs = Side(RIVAL, "latency", f"array_ns_{characters}")
    return Goal(f"time of one call, {characters} characters", {"mix": 0.5}, ours, theirs, False)


def _memory(calls: str, job: str, threads: int) -> Goal:
    ours, theirs = (Side(system, job, "peak_mb", threads) for system in (OURS, RIVAL))
    return Goal(f"peak memory, {calls}", {EVERYTHING: 1 / 3}, ours, theirs, False)


COLD, WARM = ("cold", "cold_mb_s"), ("warm", "warm_mb_s")

GOALS = (
    #                                                      en   code mix  zh    ja    th
    _speed("text → array, cold", "array", COLD[1], (2.5, 2.5, 3.0, 10.0, 10.0, 10.0)),
    _speed("text → array, warm", "array", WARM[1], (1.6, 1.8, 1.7, 4.0, 4.0, 4.0)),
    _speed("texts → lists, cold", "batch_list", COLD[1], (2.0, 2.0, 2.0, 3.0, 3.0, 3.0)),
    _speed("texts → lists, warm", "batch_list", WARM[1], (2.0, 2.0, 2.0, 3.0, 3.0, 3.0)),
    _count(*COLD),
    _count(*WARM),
    _threads("array", "array", *COLD),
    _threads("array", "array", *WARM),
    _threads("ragged batch", "batch_array", *COLD),
    _threads("ragged batch", "batch_array", *WARM),
    _call(20),
    _call(200),
    _memory("text by text", "memory", 1),
    _memory(f"one batch, {THREADS} threads", "memory_batch", THREADS),
    # The first ids are included, so tables that are built lazily count.
    Goal("ms to load and first ids", {"": 30.0}, Side(OURS, "load", "first_ids_ms"), None, False),
)


# The same bars for the speeds on real documents alone.
REAL_GOALS = tuple(
    replace(goal, bars={name: goal.bars[name.removesuffix(REAL)] for name in REAL_CORPORA})
    for goal in GOALS
    if goal.against and goal.against.system == RIVAL and len(goal.bars) > 1
)


def needs(vocabulary: str) -> Iterator[tuple[str, Cell]]:
    """Yield (system, cell) for all that the goals compare; some are repeated."""
    yield RIVAL, Cell(vocabulary, "load", "", 1)  # the share of its first batch in a cold pass
    for goal in (*GOALS, *REAL_GOALS):
        for corpus in goal.bars:
            for side in goal.sides:
                yield side.system, side.cell(vocabulary, corpus)


def judge(rows: list[dict[str, Any]], some: tuple[Goal, ...] = GOALS) -> list[Outcome]:
    found = {(r["system"], Cell.of(r)): r for r in rows}
    return [
        _outcome(goal, vocabulary, corpus, found)
        for goal in some
        for vocabulary in VOCABULARIES
        for corpus in goal.bars
    ]


def _outcome(
    goal: Goal, vocabulary: str, corpus: str, found: dict[tuple[str, Cell], Any]
) -> Outcome:
    bar = goal.bars[corpus]
    outcome: Outcome = {
        "goal": goal.title,
        "vocabulary": vocabulary,
        "corpus": corpus,
        "bar": round(bar, 3),
        "at_least": goal.at_least,
        "met": False,
    }
    rows = [found.get((side.system, side.cell(vocabulary, corpus)), {}) for side in goal.sides]
    if whys := [why for why in map(_missing, goal.sides, rows) if why]:
        return outcome | {"why": whys[0]}
    samples = [r["metrics"][s.metric]["samples"] for s, r in zip(goal.sides, rows, strict=True)]
    values = _values(*samples)
    value = statistics.median(values)
    return outcome | {
        "value": round(value, 3),
        "low": round(min(values), 3),
        "high": round(max(values), 3),
        "met": value >= bar if goal.at_least else value <= bar,
    }


def _missing(side: Side, row: dict[str, Any]) -> str | None:
    """Return the reason if a side has no figure."""
    if not row:
        return "not measured"
    if side.metric not in row["metrics"]:
        return f"{side.system}: {row['status']}"
    return None


def _values(ours: list[float], theirs: list[float] | None = None) -> list[float]:
    """Return the ratio of each round, or our figures without another side."""
    if theirs is None:
        return ours
    # During a round one side has one sample more.
    return [a / max(b, 1e-3) for a, b in zip(ours, theirs, strict=False)]
