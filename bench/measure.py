"""One system, one job → one JSON line.   usage: measure.py SYSTEM VOCABULARY JOB [options]

A measurement is a process. It limits the threads and pins the CPU before any import. It reads the
text before the clock starts, and hashes the ids after the clock stops. The sweep compares the hash
with that of tiktoken, so every timed result is checked.

Speeds are MB (10^6 bytes) of UTF-8 text per second, for all types of input.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import sys
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any

# isort: split
import corpora
from checks import check, digest, reference
from jobs import CALLS, JOBS, caller, inputs, size, timed
from memory import peak_bytes, reset_peak, resident_bytes

SECONDS_WARM = 0.9  # time for the warm passes, 2 to 5 of them
SECONDS_LATENCY = 0.5  # for each length and each type of result
SECONDS_MEMORY = 20.0  # a slow system stops here, with less text
LATENCY_CHARACTERS = (20, 200)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures one cell in this process.")
    parser.add_argument("system")
    parser.add_argument("vocabulary")
    parser.add_argument("job", choices=JOBS)
    parser.add_argument(
        "--corpus", default="mix", help="corpus; check takes several, separated by commas"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--megabytes", type=float, default=corpora.MEGABYTES)
    args = parser.parse_args()
    limit_threads(args.threads)

    # numpy and the systems read the number of threads when they are imported.
    from systems import SYSTEMS, UnsupportedError

    result: dict[str, Any] = vars(args) | {"load_average": os.getloadavg()[0]}
    try:
        if args.system not in SYSTEMS:
            raise UnsupportedError(f"no system {args.system!r}; there are: {', '.join(SYSTEMS)}")
        result |= run(SYSTEMS[args.system](), args)
    except UnsupportedError as error:
        result["status"] = f"unsupported: {error}"
    except ImportError as error:
        result["status"] = f"unsupported: not installed ({str(error)[:100]})"
    except Exception as error:  # a failing peer does not stop the sweep
        result["status"] = f"failed: {type(error).__name__}: {str(error)[:200]}"
    print(json.dumps(result), flush=True)


def limit_threads(threads: int) -> None:
    """Set the number of threads in the environment, and pin one thread to one CPU."""
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"  # numpy would start unused threads
    if threads == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def run(system: Any, args: argparse.Namespace) -> dict[str, Any]:
    from vocabularies import vocabulary

    started = time.perf_counter()
    open_system(system)
    result: dict[str, Any] = {
        "status": "ok",
        "version": version(system.package),
        "how": system.how.get(CALLS.get(args.job, args.job), ""),
        "import_ms": (time.perf_counter() - started) * 1e3,
    }
    v = vocabulary(args.vocabulary)
    if args.job == "load":
        return result | measure_load(system, v)
    if args.job == "memory":
        return result | measure_memory(system, v, args.corpus, args.megabytes)
    if args.job == "memory_batch":
        return result | measure_memory_batch(system, v, args)
    system.load(v)
    if args.job == "check":
        return result | check(system, v, args.corpus.split(","), args.threads)
    if args.job == "reference":
        return result | reference(system, args.corpus, args.megabytes, args.threads)
    if args.job == "latency":
        return result | measure_latency(system, args.corpus)
    return result | measure_speed(system, args)


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "source tree"


def open_system(system: Any) -> None:
    from systems import SIDE_FOLDER, UnsupportedError

    if system.side:
        folder = SIDE_FOLDER / system.side
        if not folder.exists():
            raise UnsupportedError(f"{system.side} is not installed; bench/sweep.py installs it")
        sys.path.insert(0, str(folder))
    system.open()


def measure_load(system: Any, v: Any) -> dict[str, Any]:
    """Measure the time to load, the time to the first ids, and the memory growth.

    The first batch of one short text is measured separately. Its set-up is part of a cold pass over
    a batch, and weighs more on a short text.
    """
    gc.collect()
    before = resident_bytes()
    started = time.perf_counter()
    system.load_fastest(v)
    loaded = time.perf_counter()
    first: Any = b"Hello, world!" if not system.has_ids else "Hello, world!"
    system.encode_list(first)
    encoded = time.perf_counter()
    resident = resident_bytes() - before
    batch_seconds, _ = timed(lambda texts: system.batch_list(texts, 1), [first])
    return {
        "metrics": {
            "load_ms": (loaded - started) * 1e3,
            "first_ids_ms": (encoded - started) * 1e3,
            "first_batch_ms": batch_seconds * 1e3,
            "resident_mb": resident / 1e6,
        }
    }


def measure_speed(system: Any, args: argparse.Namespace) -> dict[str, Any]:
    text = corpora.read(args.corpus, args.megabytes)
    seen = inputs(system, args.job, text.seen)
    unseen = inputs(system, args.job, text.unseen)
    call = caller(system, args.job, args.threads)
    megabytes = size(args.job, text.seen) / 1e6
    result: dict[str, Any] = {
        "bytes": size(args.job, text.seen),
        "documents": len(text.seen),
        "input": "bytes" if args.job in system.bytes_jobs else "str",
    }
    gc.collect()
    cold, produced = timed(call, seen)
    result["ids"] = digest(system, args.job, produced)
    warm: list[float] = []
    while len(warm) < 2 or (len(warm) < 5 and sum(warm) < SECONDS_WARM):
        del produced  # before the clock starts
        seconds, produced = timed(call, seen)
        warm.append(seconds)
    result["ids_again"] = digest(system, args.job, produced)
    del produced
    metrics = {"cold_mb_s": megabytes / cold, "warm_mb_s": megabytes / min(warm)}
    if args.job == "array" and args.threads == 1 and text.unseen:
        seconds, produced = timed(call, unseen)
        metrics["unseen_mb_s"] = size(args.job, text.unseen) / 1e6 / seconds
        result["ids_unseen"] = digest(system, args.job, produced)
    return result | {"metrics": metrics}


def measure_latency(system: Any, corpus: str) -> dict[str, Any]:
    """Measure the ns of one call on varied strings, to a list and to an array.

    Some systems return only one of them, which is converted to the other.
    """
    metrics: dict[str, float] = {}
    for characters in LATENCY_CHARACTERS:
        strings: list[Any] = corpora.windows(corpus, characters, 2_000)
        if "latency" in system.bytes_jobs:
            strings = [s.encode() for s in strings]
        metrics[f"ns_{characters}"] = call_ns(system.short_call("list"), strings)
        metrics[f"array_ns_{characters}"] = call_ns(system.short_call("array"), strings)
    return {"metrics": metrics, "input": "str"}


def call_ns(call: Callable[[Any], Any], strings: list[Any]) -> float:
    """Return the mean time of a call, from the best time of each hundred strings.

    A clock around each call adds 110 ns (timeit). A pass over all strings is so long that other
    processes interrupt it. With 0.6 to 0.7 of a CPU, the median of passes over 200 characters rose
    from 6.0 to 12.3 µs, and this mean from 5.5 to 7.1.
    """
    hundreds = [strings[at : at + 100] for at in range(0, len(strings), 100)]
    best = [math.inf] * len(hundreds)
    until = time.perf_counter() + SECONDS_LATENCY
    while math.inf in best or time.perf_counter() < until:
        for index, some in enumerate(hundreds):
            started = time.perf_counter_ns()
            for string in some:
                call(string)
            best[index] = min(best[index], time.perf_counter_ns() - started)
    return sum(best) / len(strings)


def measure_memory(system: Any, v: Any, corpus: str, megabytes: float) -> dict[str, Any]:
    """Measure the peak while documents are encoded one by one and each result is dropped.

    The baseline is the memory before the load, so tables count whether they are built early or
    late. A peak during the load does not count.
    """
    as_bytes = "memory" in system.bytes_jobs
    done = 0
    documents = corpora.stream(corpus)
    gc.collect()
    before = resident_bytes()
    system.load(v)
    gc.collect()
    loaded = resident_bytes()
    reset_peak()
    started = time.perf_counter()
    for document in documents:
        data = document.encode()
        system.encode_array(data if as_bytes else document)
        done += len(data)
        if done >= megabytes * 1e6 or time.perf_counter() - started > SECONDS_MEMORY:
            break
    return {
        "bytes": done,
        "input": "bytes" if as_bytes else "str",
        "metrics": {
            "peak_mb": (peak_bytes() - before) / 1e6,
            "grown_mb": (resident_bytes() - loaded) / 1e6,
        },
    }


def measure_memory_batch(system: Any, v: Any, args: argparse.Namespace) -> dict[str, Any]:
    """Measure the peak of one call for all documents, as measure_memory does.

    The baseline includes the documents. The result of the call counts.
    """
    documents = corpora.first(args.corpus, args.megabytes)
    gc.collect()
    before = resident_bytes()
    system.load(v)
    reset_peak()
    produced = system.batch_array(documents, args.threads)
    peak = peak_bytes()
    del produced
    return {
        "bytes": size("batch_array", documents),
        "input": "str",
        "metrics": {"peak_mb": (peak - before) / 1e6},
    }


if __name__ == "__main__":
    main()
