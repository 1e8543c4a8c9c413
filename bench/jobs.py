"""Job and documents → what a system is given, and the call that takes it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import corpora

TIMED_JOBS = ("array", "list", "batch_list", "batch_array", "count")
BATCH_JOBS = ("batch_list", "batch_array")
MEASURED_JOBS = ("load", *TIMED_JOBS, "latency", "memory")
JOBS = (*MEASURED_JOBS, "check", "reference")


def inputs(system: Any, job: str, documents: list[str]) -> Any:
    """What the system gets: the documents, or one text of all of them; str or bytes."""
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
