"""Seconds of runs → mean ± σ, min … max: what hyperfine says of a command."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

RUNS = 10
WARMUP = 3
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@dataclass(frozen=True, slots=True)
class Statistics:
    """Times of some runs in seconds, without those that only warmed up."""

    mean: float
    sigma: float  # of a sample, n - 1; 0 for one run
    min: float
    max: float
    processor: float  # the mean time of all processors, which others on the machine disturb least
    runs: int
    warmup: int

    def __mul__(self, factor: float) -> Statistics:
        """The same for another amount of work, such as one of a thousand calls."""
        times = ("mean", "sigma", "min", "max", "processor")
        return replace(self, **{name: getattr(self, name) * factor for name in times})

    def as_json(self) -> dict[str, float | int]:
        return asdict(self)

    def spread(self) -> str:
        """Such as "8.7 ± 0.2 ms", in the unit of the mean."""
        size, unit = unit_of(self.mean)
        return f"{number(self.mean / size)} ± {number(self.sigma / size, self.mean / size)} {unit}"

    def span(self) -> str:
        """Such as "8.5 … 9.1 ms", in the unit of the mean."""
        size, unit = unit_of(self.mean)
        ends = [number(each / size, self.mean / size) for each in (self.min, self.max)]
        return f"{ends[0]} … {ends[1]} {unit}"


def of(seconds: Sequence[float], processor: Sequence[float], warmup: int = 0) -> Statistics:
    """The statistics of times, of which the first `warmup` are left out."""
    kept = seconds[warmup:]
    if not kept:
        raise ValueError(f"{len(seconds)} times with a warm-up of {warmup} leave none")
    busy = math.fsum(processor[warmup:]) / len(kept)
    mean = math.fsum(kept) / len(kept)
    squares = math.fsum((each - mean) ** 2 for each in kept)
    sigma = math.sqrt(squares / (len(kept) - 1)) if len(kept) > 1 else 0.0
    return Statistics(mean, sigma, min(kept), max(kept), busy, len(kept), warmup)


def measure(work: Callable[[], object], runs: int = RUNS, warmup: int = WARMUP) -> Statistics:
    """Calls `work` again and again. Garbage is collected in between."""
    seconds, processor = [], []
    for _ in range(warmup + runs):
        gc.collect()
        started, busy = time.perf_counter(), time.process_time()
        work()
        seconds.append(time.perf_counter() - started)
        processor.append(time.process_time() - busy)
    return of(seconds, processor, warmup)


def unit_of(seconds: float) -> tuple[float, str]:
    """The largest unit in which a time is one or more."""
    return next((unit for unit in _UNITS if seconds >= unit[0]), _UNITS[-1])


def number(value: float, like: float | None = None) -> str:
    """Three digits, or as many behind the point as `like` would have."""
    size = abs(value if like is None else like)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{digits}f}"


def duration(seconds: float) -> str:
    """One time with three digits and its unit."""
    size, unit = unit_of(seconds)
    return f"{number(seconds / size)} {unit}"
