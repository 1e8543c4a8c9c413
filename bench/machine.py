"""This machine → its description in the results."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def describe() -> dict[str, object]:
    return {
        "cpu": _cpu_model(),
        "cores": core_count(),
        "memory_gb": round(_memory_bytes() / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }


def core_count() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def without_folders(text: object) -> str:
    """Remove the folders of this machine from a text of the results."""
    return str(text).replace(str(ROOT) + os.sep, "").replace(sys.prefix, "venv")


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(x.split(":", 1)[1].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return 0
