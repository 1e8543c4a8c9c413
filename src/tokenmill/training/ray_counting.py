"""Files → one run of counts, on a Ray cluster.

A task counts some of the files and returns a run. Other tasks add up a few runs each, in several
rounds, until one is left.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill import ray_cluster
from tokenmill.corpus import Source
from tokenmill.errors import ClusterError, TrainingError
from tokenmill.native import _native
from tokenmill.options import table
from tokenmill.training import counting
from tokenmill.training.options import CountOptions

_TASKS_PER_PROCESSOR = 4
_RUNS_PER_TASK = 8
_WAIT_SECONDS = 0.5


def count_on_ray(
    plan: counting.Plan, sources: list[Source], report: Callable[[int], None]
) -> bytes:
    """The counts of files as a run.

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
        # Objects of this process are not sent.
        options = {name: plan.options[name] for name in table(CountOptions)}
        options |= {"threads": 1, "progress": None, "engine": ray_cluster.LOCAL}
        lean = replace(plan, sources=[], options=options, checkpoint=None)
        count = ray.remote(num_cpus=1, num_returns=2)(_count)
        add_up = ray.remote(num_cpus=1)(_add_up)
        runs = []
        for chunk in _chunks(plain, _TASKS_PER_PROCESSOR * processors):
            run, end = count.remote(lean, chunk, str(Path.cwd()))
            runs.append(run)
            running[end] = chunk
        while len(runs) > 1:
            starts = range(0, len(runs), _RUNS_PER_TASK)
            groups = [runs[start : start + _RUNS_PER_TASK] for start in starts]
            runs = [add_up.remote(plan.metadata, *group) for group in groups]
        while running:
            ready, _ = ray.wait(list(running), timeout=_WAIT_SECONDS)
            for reference in ready:
                _get(ray, reference)
                report(sum(source.size or 0 for source in running.pop(reference)))
        found: bytes = _get(ray, runs[0])
        return found


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


def _count(plan: counting.Plan, sources: list[Source], folder: str) -> tuple[bytes, bool]:
    """Count files on a machine of the cluster: the run, and True at the end."""
    ray_cluster.enter(folder)
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as temporary:
        mine = replace(plan, sources=sources, folder=Path(temporary))
        path = Path(temporary) / "run.tmc"
        counting.count_documents(mine).write(str(path), plan.metadata)
        return path.read_bytes(), True


def _add_up(metadata: bytes, *runs: bytes) -> bytes:
    """One run with the sums of several."""
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as temporary:
        paths = [Path(temporary) / f"{index}.tmc" for index in range(len(runs))]
        for path, run in zip(paths, runs, strict=True):
            path.write_bytes(run)
        output = Path(temporary) / "sum.tmc"
        _native.merge_counts(list(map(str, paths)), np.ones(len(runs)), str(output), metadata)
        return output.read_bytes()
