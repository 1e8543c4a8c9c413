"""One system, one job → one JSON line.   usage: measure.py SYSTEM VOCABULARY JOB [options]

A measurement is a process: the threads are limited and the CPU is pinned before anything is
imported, the text is ready before the clock starts, and what a pass returned is digested after it
stops. The sweep compares the digests with those of tiktoken: every timed result is a checked one.

Speeds are MB (10^6 bytes) of UTF-8 text a second, whatever the system takes as its input.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

SECONDS_WARM = 0.6  # later passes go on until this is used up, 1 to 5 of them
SECONDS_LATENCY = 0.5  # for each length
SECONDS_MEMORY = 20.0  # a slow system is stopped here, and gets a smaller share of the text
CHECK_MEGABYTES = 0.2  # documents of each corpus in a check
LATENCY_CHARACTERS = (20, 200)

TIMED_JOBS = ("array", "list", "batch_list", "batch_array", "count")
BATCH_JOBS = ("batch_list", "batch_array")
JOBS = ("load", *TIMED_JOBS, "latency", "memory", "check", "reference")


def main() -> None:
    parser = argparse.ArgumentParser(description="One measurement, in this process.")
    parser.add_argument("system")
    parser.add_argument("vocabulary")
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--corpus", default="mix", help="check: several, with commas")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--megabytes", type=float, default=12.0)
    args = parser.parse_args()
    limit_threads(args.threads)

    # Only now: numpy and the systems read the number of threads when they are imported.
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
    except Exception as error:  # a peer that breaks is a result, not a reason to stop the sweep
        result["status"] = f"failed: {type(error).__name__}: {str(error)[:200]}"
    print(json.dumps(result), flush=True)


def limit_threads(threads: int) -> None:
    """One thread: one CPU. Systems without an argument for it read the environment."""
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"  # numpy's: it would start threads that are never used
    if threads == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def run(system: Any, args: argparse.Namespace) -> dict[str, Any]:
    from vocabularies import vocabulary

    started = time.perf_counter()
    open_system(system)
    result: dict[str, Any] = {
        "status": "ok",
        "version": version(system.package),
        "how": system.how.get({"latency": "list", "memory": "array"}.get(args.job, args.job), ""),
        "import_ms": (time.perf_counter() - started) * 1e3,
    }
    v = vocabulary(args.vocabulary)
    if args.job == "load":
        return result | measure_load(system, v)
    if args.job == "memory":
        return result | measure_memory(system, v, args.corpus, args.megabytes)
    system.load(v)
    if args.job == "check":
        return result | check(system, v, args.corpus.split(","), args.threads)
    if args.job == "reference":
        return result | reference(system, args.corpus, args.megabytes)
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
    """Time to a loaded vocabulary, time to the first ids, and what it added to the memory."""
    gc.collect()
    before = resident_bytes()
    started = time.perf_counter()
    system.load_fastest(v)
    loaded = time.perf_counter()
    first: Any = b"Hello, world!" if not system.has_ids else "Hello, world!"
    system.encode_list(first)
    encoded = time.perf_counter()
    return {
        "metrics": {
            "load_ms": (loaded - started) * 1e3,
            "first_ids_ms": (encoded - started) * 1e3,
            "resident_mb": (resident_bytes() - before) / 1e6,
        }
    }


def measure_speed(system: Any, args: argparse.Namespace) -> dict[str, Any]:
    import corpora

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
    while not warm or (len(warm) < 5 and sum(warm) < SECONDS_WARM):
        del produced  # outside the clock, and before the next pass
        seconds, produced = timed(call, seen)
        warm.append(seconds)
    result["ids_again"] = digest(system, args.job, produced)
    del produced
    metrics = {"cold_mb_s": megabytes / cold, "warm_mb_s": megabytes / min(warm)}
    if args.job == "array" and text.unseen:
        seconds, produced = timed(call, unseen)
        metrics["unseen_mb_s"] = size(args.job, text.unseen) / 1e6 / seconds
        result["ids_unseen"] = digest(system, args.job, produced)
    return result | {"metrics": metrics}


def measure_latency(system: Any, corpus: str) -> dict[str, Any]:
    """The median of single calls in ns, with the clock's own time in it (see read_only)."""
    import corpora

    metrics: dict[str, float] = {}
    clock = time.perf_counter_ns
    for characters in LATENCY_CHARACTERS:
        strings: list[Any] = corpora.windows(corpus, characters, 2_000)
        if "latency" in system.bytes_jobs:
            strings = [s.encode() for s in strings]
        for string in strings:  # the first round warms up
            system.encode_list(string)
        times: list[int] = []
        until = time.perf_counter() + SECONDS_LATENCY
        while time.perf_counter() < until:
            for string in strings:
                started = clock()
                system.encode_list(string)
                times.append(clock() - started)
        metrics[f"ns_{characters}"] = statistics.median(times)
    return {"metrics": metrics, "input": "str"}


def measure_memory(system: Any, v: Any, corpus: str, megabytes: float) -> dict[str, Any]:
    """High-water mark while documents are encoded one by one and each result is dropped.

    Counted from before the load, so that a table built early and one built late weigh the same; a
    peak inside the load itself is not part of it.
    """
    import corpora

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


def check(system: Any, v: Any, names: list[str], threads: int) -> dict[str, Any]:
    """Each way to encode against tiktoken, on documents of each corpus and on the hard strings."""
    import corpora
    from systems import SYSTEMS

    oracle = SYSTEMS["tiktoken"]()
    oracle.open()
    oracle.load(v)
    checks: dict[str, dict[str, str]] = {}
    rough: dict[str, float] = {}
    for name in names:
        documents = corpora.read(name, CHECK_MEGABYTES).seen + corpora.hard_strings()
        expected = [oracle.encode_list(d) for d in documents]
        checks[name] = {
            job: compare(system, job, documents, expected, threads) for job in TIMED_JOBS
        }
        text = inputs(system, "array", documents)
        seconds, _ = timed(system.encode_array, text)
        rough[name] = len(corpora.SEPARATOR.join(documents).encode()) / 1e6 / seconds
    return {"checks": checks, "rough_mb_s": rough}


def compare(
    system: Any, job: str, documents: list[str], expected: list[list[int]], threads: int
) -> str:
    """'ok', or where the first difference is; the hard strings are the last documents."""
    import corpora

    give: list[Any] = [d.encode() for d in documents] if job in system.bytes_jobs else documents
    got: list[Any]
    try:
        if job == "batch_list":
            got = system.batch_list(give, threads)
        elif job == "batch_array":
            ids, offsets = system.batch_array(give, threads)
            flat, cuts = ids.tolist(), offsets.tolist()
            got = [flat[a:b] for a, b in itertools.pairwise(cuts)]
        elif job == "count":
            got = [system.count(d) for d in give]
        else:
            encode = system.encode_list if job == "list" else system.encode_array
            got = [list(map(int, encode(d))) for d in give]
    except Exception as error:
        return f"failed: {type(error).__name__}: {str(error)[:200]}"
    if len(got) != len(expected):
        return f"ids differ: {len(got)} results for {len(expected)} documents"
    # Numbers, not text: the results are published, the texts may not be.
    hard = len(documents) - len(corpora.hard_strings())
    for number, (have, want) in enumerate(zip(got, expected, strict=True)):
        where = f"document {number}" if number < hard else f"hard string {number - hard}"
        if job == "count" and have != len(want):
            return f"ids differ: counts {have} instead of {len(want)} in {where}"
        if job != "count" and have != want:
            pairs = zip(have, want, strict=False)
            at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(have), len(want)))
            return f"ids differ at id {at} of {where}"
    return "ok"


def reference(system: Any, corpus: str, megabytes: float) -> dict[str, Any]:
    """tiktoken's digests of what the timed jobs will produce from the same text."""
    import corpora

    text = corpora.read(corpus, megabytes)
    seen, unseen = (inputs(system, "array", documents) for documents in (text.seen, text.unseen))
    return {
        "bytes": size("array", text.seen),
        "text": digest(system, "array", system.encode_array(seen)),
        "unseen": digest(system, "array", system.encode_array(unseen)),
        "documents": digest(system, "batch_array", system.batch_array(text.seen, 1)),
    }


def inputs(system: Any, job: str, documents: list[str]) -> Any:
    """What the system gets: the documents, or one text of all of them; str or bytes."""
    import corpora

    as_bytes = job in system.bytes_jobs
    if job in BATCH_JOBS:
        return [d.encode() for d in documents] if as_bytes else documents
    text = corpora.SEPARATOR.join(documents)
    return text.encode() if as_bytes else text


def size(job: str, documents: list[str]) -> int:
    import corpora

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


def digest(system: Any, job: str, produced: Any) -> str | None:
    """Count and hash of the ids, the same for a list, an array, lists and a ragged array."""
    import numpy as np

    if not system.has_ids:
        return None
    if job == "count":
        return str(produced)
    offsets: Any = ()
    if job == "batch_list":
        offsets = np.cumsum([0, *map(len, produced)])
        produced = list(itertools.chain.from_iterable(produced))
    elif job == "batch_array":
        produced, offsets = produced
    ids = np.ascontiguousarray(produced, np.uint32)
    made = hashlib.blake2b(ids.tobytes(), digest_size=8)
    made.update(np.ascontiguousarray(offsets, np.uint64).tobytes())
    return f"{len(ids)} {made.hexdigest()}"


def resident_bytes() -> int:
    return status_bytes("VmRSS") or peak_bytes()


def peak_bytes() -> int:
    return status_bytes("VmHWM") or maximum_bytes()


def status_bytes(field: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(x.split()[1]) * 1024 for x in lines if x.startswith(field))
    except (OSError, StopIteration):
        return 0


def maximum_bytes() -> int:
    import resource

    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def reset_peak() -> None:
    """Linux: the high-water mark starts again from what is resident now."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main()
