"""Job and documents → the input of a system and the call that encodes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# isort: split
import corpora

# The order of a sweep. The jobs that a goal compares are adjacent.
TIMED_JOBS = ("count", "array", "list", "batch_list", "batch_array")
BATCH_JOBS = ("batch_list", "batch_array")
MEMORY_JOBS = ("memory", "memory_batch")
MEASURED_JOBS = ("load", *TIMED_JOBS, "latency", *MEMORY_JOBS)
JOBS = (*MEASURED_JOBS, "check", "reference")

# The call of a job that has no call of its own.
CALLS = {"latency": "list", "memory": "array", "memory_batch": "batch_array"}


@dataclass(frozen=True)
class Cell:
    """One row of numbers for every system."""

    vocabulary: str
    job: str
    corpus: str
    threads: int

    @classmethod
    def of(cls, row: dict[str, Any]) -> Cell:
        return cls(row["vocabulary"], row["job"], row["corpus"], row["threads"])


def inputs(system: Any, job: str, documents: list[str]) -> Any:
    """Return the input of a system: documents or one joined text, as str or bytes."""
    as_bytes = job in system.bytes_jobs
    if job in BATCH_JOBS:
        return [d.encode() for d in documents] if as_bytes else documents
    text = corpora.SEPARATOR.join(documents)
    return text.encode() if as_bytes else text


def size(job: str, documents: list[str]) -> int:
    separators = 0 if job in BATCH_JOBS else len(corpora.SEPARATOR) * (len(documents) - 1)
    return sum(len(d.encode()) for d in documents) + max(separators, 0)


def caller(system: Any, job: str, threads: int) -> Callable[[Any], Any]:
    if job == "batch_list":
        return lambda texts: system.batch_list(texts, threads)
    if job == "batch_array":
        return lambda texts: system.batch_array(texts, threads)
    if job == "array" and threads > 1:
        return lambda text: system.encode_array_on(text, threads)
    call: Callable[[Any], Any] = {
        "array": system.encode_array,
        "list": system.encode_list,
        "count": system.count,
    }[job]
    return call


def timed(call: Callable[[Any], Any], given: Any) -> tuple[float, Any]:
    started = time.perf_counter()
    produced = call(given)
    return time.perf_counter() - started, produced
