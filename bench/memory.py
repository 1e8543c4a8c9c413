"""This process → its resident bytes and their peak."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path


def resident_bytes() -> int:
    return _status_bytes("VmRSS") or peak_bytes()


def peak_bytes() -> int:
    return _status_bytes("VmHWM") or _maximum_bytes()


def reset_peak() -> None:
    """Reset the peak to the resident bytes (Linux only)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _status_bytes(field: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(x.split()[1]) * 1024 for x in lines if x.startswith(field))
    except (OSError, StopIteration):
        return 0


def _maximum_bytes() -> int:
    import resource

    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
