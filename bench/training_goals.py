"""Rows of the training benchmark → the goals for training, each with its figure.

A ratio compares medians of one run. A goal without a figure is not met.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

# isort: split
from training_corpora import WHOLE

FILE, ITERATOR = "tokenmill, file", "tokenmill"
SCRIPTS = ("zh", "ja", "th")

Row = dict[str, Any]
Outcome = dict[str, Any]
Rows = dict[tuple[str, str, int], Row]  # system, text, threads


@dataclass(frozen=True)
class Goal:
    title: str
    bar: float
    at_least: bool
    figure: Callable[[Rows, Row], float]  # KeyError: not measured


def middle(rows: Rows, system: str, text: str, metric: str, threads: int = 2) -> float:
    return float(statistics.median(rows[system, text, threads][metric]))


def _faster(text: str, rival: str, bar: float) -> Goal:
    def figure(rows: Rows, _: Row) -> float:
        theirs = middle(rows, rival, text, "seconds")
        return theirs / middle(rows, FILE, text, "seconds")

    return Goal(f"{text}: times as fast as {rival}", bar, True, figure)


def _memory(text: str, bar: float) -> Goal:
    figure = lambda rows, _: middle(rows, FILE, text, "peak_mb")  # noqa: E731
    return Goal(f"{text}: MB above the text", bar, False, figure)


def _iterator(text: str) -> Goal:
    def figure(rows: Rows, _: Row) -> float:
        return middle(rows, ITERATOR, text, "seconds") / middle(rows, FILE, text, "seconds")

    return Goal(f"{text}: time from an iterator of str : from a file", 1.25, False, figure)


def _script(name: str) -> Goal:
    def figure(rows: Rows, texts: Row) -> float:
        each = {
            text: middle(rows, ITERATOR, text, "seconds") / texts[text]["unique"]
            for text in (name, "en")
        }
        return float(each[name] / each["en"])

    return Goal(f"{name}: time per unique pretoken : that of en", 3.0, False, figure)


def _threads() -> Goal:
    def figure(rows: Rows, _: Row) -> float:
        one, two = (middle(rows, ITERATOR, f"zh{WHOLE}", "seconds", n) for n in (1, 2))
        return one / two

    return Goal("zh in one document: one thread : two", 1.3, True, figure)


def _bounded(title: str, bar: float, figure: Callable[[Row], float]) -> Goal:
    return Goal(title, bar, False, lambda _, texts: figure(texts["zipf"]))


GOALS = (
    _faster("100MB", "gigatoken", 12.0),
    _faster("100MB", "rustbpe", 25.0),
    _faster("100MB", "tokenizers", 50.0),
    _memory("100MB", 200.0),
    _iterator("100MB"),
    _faster("1GB", "gigatoken", 15.0),
    _memory("1GB", 900.0),
    _iterator("1GB"),
    *map(_script, SCRIPTS),
    _threads(),
    # Measured by bench/training_memory.py; training.py copies the result into the texts.
    _bounded("10 million pretokens in 512 MB: peak MB", 600.0, lambda z: z["limited"]["peak_mb"]),
    _bounded(
        "10 million pretokens in 512 MB: time : without a limit",
        4.0,
        lambda z: z["limited"]["seconds"] / z["unlimited"]["seconds"],
    ),
)


def judge(rows: list[Row], texts: Row) -> list[Outcome]:
    """Return every goal with its figure, if it has one."""
    good = {(r["system"], r["text"], r["threads"]): r for r in rows if r["status"] == "ok"}
    return list(_outcomes(good, texts))


def _outcomes(rows: Rows, texts: Row) -> Iterator[Outcome]:
    for goal in GOALS:
        outcome: Outcome = {"goal": goal.title, "bar": goal.bar, "at_least": goal.at_least}
        try:
            value = goal.figure(rows, texts)
        except KeyError:
            yield outcome | {"met": False}
            continue
        met = value >= goal.bar if goal.at_least else value <= goal.bar
        yield outcome | {"value": round(value, 3), "met": met}
