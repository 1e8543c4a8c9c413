"""Files → runs of counts, on a Ray cluster.

A task counts some of the files and returns its counts in parts, by a hash of the pretokens. For
each part, another task adds up the counts of all files. So a pretoken is in one sum only. The sums
are the runs that the driver adds up.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill import ray_cluster
from tokenmill.corpus import Source
from tokenmill.errors import ClusterError, TrainingError
from tokenmill.native import _native
from tokenmill.options import table
from tokenmill.training import counting
from tokenmill.training.options import CountOptions

# Bytes of pretokens, their lengths, their counts.
Part: TypeAlias = "tuple[NDArray[np.uint8], NDArray[np.uint32], NDArray[np.uint64]]"

_TASKS_PER_PROCESSOR = 4
_PARTS_MAX = 64
_WAIT_SECONDS = 0.5
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_EMPTY: Part = np.empty(0, np.uint8), np.empty(0, np.uint32), np.empty(0, np.uint64)


def count_on_ray(
    plan: counting.Plan,
    sources: list[Source],
    report: Callable[[int], None],
) -> Iterator[bytes]:
    """The counts of files as runs, of which no two have a pretoken in common.

    `report` is called with numbers of bytes of files that are counted.
    """
    for source in sources:
        if not source.is_file:
            raise TrainingError(
                f"the engine ray counts files, which its machines can read, not {source.name!r}; "
                "count it on this machine into a .tmc file, and give that"
            )
    running: dict[Any, list[Source]] = {}
    address = plan.options["ray_address"]
    with ray_cluster.connected(address, plan.threads, lambda: running) as ray:
        processors = ray_cluster.processors(ray)
        # Sums are weighed, not parts of them.
        plain = [replace(source, weight=1.0) for source in sources]
        parts = min(processors, _PARTS_MAX)
        # Objects of this process are not sent.
        options = {name: plan.options[name] for name in table(CountOptions)}
        options |= {"threads": 1, "progress": None, "engine": ray_cluster.LOCAL}
        lean = replace(plan, sources=[], options=options, checkpoint=None)
        count = ray.remote(num_cpus=1, num_returns=parts + 1)(_count)
        add_up = ray.remote(num_cpus=1)(_add_up)
        counted = []
        for chunk in _chunks(plain, _TASKS_PER_PROCESSOR * processors):
            counted.append(count.remote(lean, chunk, parts, str(Path.cwd())))
            running[counted[-1][-1]] = chunk  # the last output of a task shows its end
        sums = [
            add_up.remote(plan.metadata, *(outputs[part] for outputs in counted))
            for part in range(parts)
        ]
        while running:  # no sum can begin before all tasks have ended
            ready, _ = ray.wait(list(running), timeout=_WAIT_SECONDS)
            for reference in ready:
                _get(ray, reference)
                report(sum(source.size or 0 for source in running.pop(reference)))
        for reference in sums:
            yield _get(ray, reference)


def _chunks(sources: list[Source], most: int) -> list[list[Source]]:
    """The files in groups of about as many bytes: each goes to the one that has the fewest."""
    groups: list[list[Source]] = [[] for _ in range(min(most, len(sources)))]
    sizes = [0] * len(groups)
    for source in sorted(sources, key=lambda source: -(source.size or 0)):
        least = sizes.index(min(sizes))
        groups[least].append(source)
        sizes[least] += (source.size or 0) + 1
    return groups


def _get(ray: Any, reference: Any) -> Any:
    """The output of a task, or its error."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause or error
        if isinstance(cause, RuntimeError) and "failed to import" in str(cause):  # as Ray says it
            raise ClusterError(ray_cluster.cannot_run(error)) from None
        raise cause from None  # the error of the task itself
    except ray.exceptions.RayError as error:
        raise ClusterError(
            f"a part of the counting was lost with its machine, more often than Ray tries again "
            f"({type(error).__name__}); give tasks more memory, or begin again"
        ) from None


def _count(plan: counting.Plan, sources: list[Source], parts: int, folder: str) -> list[Any]:
    """Count files on a machine of the cluster: the counts by parts, and True at the end."""
    ray_cluster.enter(folder)
    found = [[_EMPTY] for _ in range(parts)]
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as temporary:
        mine = replace(plan, sources=sources, folder=Path(temporary))
        for counts in counting.parts(counting.count_documents(mine).take()):
            for part, chosen in enumerate(_split(counts, parts)):
                found[part].append(chosen)
    return [*(tuple(map(np.concatenate, zip(*some, strict=True))) for some in found), True]


def _split(counts: _native.Inventory, parts: int) -> Iterator[Part]:
    """The entries of each part."""
    data, short, numbers = (np.asarray(array) for array in counts.arrays())
    lengths = short.astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    # Each byte by its place in its pretoken, so that no two orders of the same bytes are alike.
    place = np.arange(len(data), dtype=np.uint64) - np.repeat(starts, lengths).astype(np.uint64)
    with np.errstate(over="ignore"):
        mixed = (data + np.uint64(1)) * (place * _MULTIPLIER | np.uint64(1))
        sums = np.add.reduceat(mixed, starts) if len(starts) else mixed
        owner = (sums * _MULTIPLIER >> np.uint64(33)) % np.uint64(parts)
    for part in range(parts):
        chosen = owner == part
        yield data[np.repeat(chosen, lengths)], short[chosen], numbers[chosen]


def _add_up(metadata: bytes, *parts: Part) -> bytes:
    """The sum of what all tasks counted in one part, as a file of counts."""
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as temporary:
        paths = []
        for index, (data, lengths, numbers) in enumerate(parts):
            paths.append(str(Path(temporary) / f"{index}.tmc"))
            _native.Inventory(data, lengths, numbers).write(paths[-1], metadata)
        output = Path(temporary) / "sum.tmc"
        _native.merge_counts(paths, np.ones(len(paths)), str(output), metadata)
        return output.read_bytes()
