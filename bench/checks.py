"""The ids of a system → whether they equal those of tiktoken."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import corpora
from jobs import TIMED_JOBS, inputs, size, timed

CHECK_MEGABYTES = 0.2  # documents of each corpus in a check


def check(system: Any, v: Any, names: list[str], threads: int) -> dict[str, Any]:
    """Compare each way to encode with tiktoken, on documents of each corpus and hard strings."""
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
    """Return 'ok' or the position of the first difference. Hard strings are the last documents."""
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
    # The results are published, the texts may not be, so a difference is described by numbers.
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


def reference(system: Any, corpus: str, megabytes: float, threads: int) -> dict[str, Any]:
    """Return the digests of tiktoken's ids for the text of the timed jobs."""
    text = corpora.read(corpus, megabytes)
    seen, unseen = (inputs(system, "array", documents) for documents in (text.seen, text.unseen))
    return {
        "bytes": size("array", text.seen),
        "text": digest(system, "array", system.encode_array(seen)),
        "unseen": digest(system, "array", system.encode_array(unseen)),
        "documents": digest(system, "batch_array", system.batch_array(text.seen, threads)),
    }


def digest(system: Any, job: str, produced: Any) -> str | None:
    """Return the number and hash of the ids, equal for lists, arrays and ragged arrays."""
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
