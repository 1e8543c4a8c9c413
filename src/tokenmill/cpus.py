"""The number of CPUs that this process may use: affinity, and the CPU quota of its cgroups."""

from __future__ import annotations

import math
import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path  # its import takes 3 ms, and `Tokenizer.load` does without


def cpu_count() -> int:
    """Return how many CPUs this process may use, by its affinity and its cgroup's quota."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    quota = _cgroup_quota()
    return count if quota is None else max(1, min(count, math.ceil(quota)))


@cache
def _cgroup_quota() -> float | None:
    from pathlib import Path

    return cgroup_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))


def cgroup_quota(own: Path, mount: Path) -> float | None:
    """Return the CPUs that cgroups of version 1 or 2 allow; None without a limit.

    `own` is the process's list of cgroups. A limit of any cgroup above its own applies, too. In a
    container the path may be the host's. Folders that do not exist are skipped.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    found: list[float | None] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for name in (controllers, "cpu") if controllers else (".",):
            folder = mount / name / path.strip("/")
            above = [parent for parent in folder.parents if parent.is_relative_to(mount)]
            found += map(_quota_of, (folder, *above))
    return min((quota for quota in found if quota is not None), default=None)


def _quota_of(folder: Path) -> float | None:
    """Return the limit of one cgroup: `cpu.max` of version 2, two files of version 1."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):  # "max" is not a number: no limit
        return None
