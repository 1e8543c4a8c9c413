"""A step of a ladder → its figures, a table and a plot. All ladders use this runner.

A step runs in a fresh process with `python -m MODULE` and prints one JSON object. A thread of the
parent process samples the memory of that process and its children every 10 ms. Figures are medians
of three runs with their range, after a warm-up. A long step has a process per run, and the runs of
all steps alternate (`measure_rounds`). A short one repeats its work in one process
(`measure_runs`).
"""

from __future__ import annotations

import gc
import json
import math
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rich.console import Console
from rich.table import Table

import tokenmill
from ladder.errors import LadderError
from tokenmill.cli import output
from tokenmill.errors import OptionError

RUNS = 3
WARMUP = 1
_SAMPLE_SECONDS = 0.01
_FILE_COLUMNS = 140
_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
Key = TypeVar("Key")
Row = TypeVar("Row")


# ── fresh processes ──────────────────────────────────────────────────────────────────────────


def run_fresh(module: str, arguments: list[str], name: str) -> tuple[dict[str, Any], int]:
    """Run a module with `python -m`, and return its JSON output and its peak memory in bytes."""
    roots = [str(Path(file).parents[1]) for file in (__file__, tokenmill.__file__)]
    paths = [*roots, os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    sampler = _MemorySampler(process)
    sampler.start()
    try:
        output, errors = process.communicate()
    finally:
        process.kill()
        sampler.join()
    if process.returncode:
        lines = errors.strip().splitlines() or ["no output"]
        raise LadderError(f"step {name!r} failed: {lines[-1]}")
    return json.loads(output), sampler.bytes


class _MemorySampler(threading.Thread):
    """Samples the memory of a process and its children."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self._process = process
        self.bytes = 0

    def run(self) -> None:
        while self._process.poll() is None:
            self.bytes = max(self.bytes, _tree_bytes(self._process.pid))
            time.sleep(_SAMPLE_SECONDS)


def _tree_bytes(pid: int) -> int:
    """Return the anonymous memory of a process and all its descendants."""
    total = 0
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        total = sum(
            int(line.split()[1]) * 1024 for line in status.splitlines() if line[:7] == "RssAnon"
        )
        for task in Path(f"/proc/{pid}/task").iterdir():
            children = (task / "children").read_text().split()
            total += sum(_tree_bytes(int(child)) for child in children)
    except OSError:
        pass  # the process has ended, or the system is not Linux
    return total


# ── runs ─────────────────────────────────────────────────────────────────────────────────────


def measure_rounds(
    found: dict[Key, list[Row]],
    measure: Callable[[Key], Row],
    runs: int = RUNS,
    save: Callable[[], object] = lambda: None,
    jobs: int = 1,
) -> None:
    """Measure each key of `found` until it has `runs` rows, and call `save` after each.

    The runs alternate, so a disturbance of the machine affects every key. `jobs` of them run at the
    same time.
    """
    order = [key for turn in range(runs) for key in found if turn >= len(found[key])]
    lock = threading.Lock()

    def run(key: Key) -> None:
        row = measure(key)
        with lock:
            found[key].append(row)
            save()

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, order))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run of a step in a fresh process, or the medians of several with the range of times."""

    step: int
    name: str
    seconds: float
    cpu_seconds: float
    peak_mb: float  # of the whole process
    cpu_min: float = 0.0
    cpu_max: float = 0.0
    seconds_min: float = 0.0
    seconds_max: float = 0.0


AnyMeasurement = TypeVar("AnyMeasurement", bound=Measurement)


def median_of(rows: Sequence[AnyMeasurement]) -> AnyMeasurement:
    """Return the medians of all figures, and what the rows have in common."""
    figures: dict[str, Any] = {}
    for field in fields(rows[0]):
        values = [getattr(row, field.name) for row in rows]
        if isinstance(values[0], bool):
            figures[field.name] = all(values)
        elif isinstance(values[0], float):
            figures[field.name] = statistics.median(values)
    cpu, seconds = ([getattr(row, name) for row in rows] for name in ("cpu_seconds", "seconds"))
    figures |= {"cpu_min": min(cpu), "cpu_max": max(cpu)}
    figures |= {"seconds_min": min(seconds), "seconds_max": max(seconds)}
    return replace(rows[0], **figures)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Medians and ranges of the counted runs in seconds, without the warm-up runs.

    CPU time is the figure for work on one thread, because other programs disturb it least.
    """

    cpu: float
    cpu_min: float
    cpu_max: float
    seconds: float
    seconds_min: float
    seconds_max: float
    runs: int
    warmup: int = 0

    def __mul__(self, factor: float) -> Statistics:
        """Return the statistics of another amount of work, for example one of a thousand calls."""
        times = ("cpu", "cpu_min", "cpu_max", "seconds", "seconds_min", "seconds_max")
        return replace(self, **{name: getattr(self, name) * factor for name in times})

    def as_json(self) -> dict[str, float | int]:
        return asdict(self)

    def spread(self) -> str:
        return spread(self.cpu, self.cpu_min, self.cpu_max)


class Times(NamedTuple):
    """The times of one call in seconds."""

    seconds: float
    cpu: float


def time_call(work: Callable[[], object]) -> Times:
    """Collect garbage, then call `work`."""
    gc.collect()
    start, cpu_start = time.perf_counter(), time.process_time()
    work()
    return Times(time.perf_counter() - start, time.process_time() - cpu_start)


def statistics_of(times: Sequence[Times], warmup: int = 0) -> Statistics:
    """Return the statistics of times without the first `warmup`."""
    counted = times[warmup:]
    if not counted:
        raise ValueError(f"{len(times)} times with a warm-up of {warmup} leave none")
    seconds, cpu = zip(*counted, strict=True)
    return Statistics(
        cpu=statistics.median(cpu),
        cpu_min=min(cpu),
        cpu_max=max(cpu),
        seconds=statistics.median(seconds),
        seconds_min=min(seconds),
        seconds_max=max(seconds),
        runs=len(counted),
        warmup=warmup,
    )


def measure_runs(work: Callable[[], object], runs: int = RUNS, warmup: int = WARMUP) -> Statistics:
    """Call `work` repeatedly."""
    return statistics_of([time_call(work) for _ in range(warmup + runs)], warmup)


# ── numbers and tables ───────────────────────────────────────────────────────────────────────


def unit_of(seconds: float) -> tuple[float, str]:
    """Return the largest unit in which a time is at least 1."""
    return next((unit for unit in _UNITS if seconds >= unit[0]), _UNITS[-1])


def number(value: float, like: float | None = None) -> str:
    """Format a value with three digits, or with as many decimals as `like`."""
    size = abs(value if like is None else like)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:,.{digits}f}"


def duration(seconds: float) -> str:
    """Format a time with three digits and its unit."""
    size, unit = unit_of(seconds)
    return f"{number(seconds / size)} {unit}"


def long_duration(seconds: float) -> str:
    """Format a long time in its largest unit, such as "1.5 hours"."""
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"


def spread(median: float, least: float, most: float) -> str:
    """Return a time and its range, such as "8.70 ms (8.50–9.10)", if the range is above 0.5 %."""
    if most - least <= 0.005 * most:
        return duration(median)
    size, _ = unit_of(median)
    ends = [number(each / size, median / size) for each in (least, most)]
    return f"{duration(median)} ({ends[0]}–{ends[1]})"


def megabytes(value: float) -> str:
    return f"{number(value)} MB"


def speed_up(before: float, after: float) -> str:
    ratio = before / after
    return f"{ratio:,.0f} ×" if ratio >= 100 else f"{ratio:.2f} ×"


def wide_console() -> Console:
    """Return the console for wide tables. A file or a pipe has 140 columns."""
    console = output.console()
    if not console.is_terminal:
        console.width = _FILE_COLUMNS
    return console


def print_table(console: Console, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table. Columns that do not fit continue in a second table with the same rows."""
    widths = [
        max(len(head), *(len(row[column]) for row in rows)) + 2 if rows else len(head) + 2
        for column, head in enumerate(heads)
    ]
    groups: list[list[int]] = [[0]]
    for column in range(1, len(heads)):
        if (
            len(groups[-1]) > 1
            and sum(widths[c] for c in [*groups[-1], column]) > console.width + 2
        ):
            groups.append([0])
        groups[-1].append(column)
    for columns in groups:
        table = Table(box=None, pad_edge=False)
        for column in columns:
            justify: Any = "right" if column else "left"
            table.add_column(heads[column], justify=justify, no_wrap=True)
        for row in rows:
            table.add_row(*(row[column] for column in columns))
        console.print(table, markup=False)


# ── plot ─────────────────────────────────────────────────────────────────────────────────────

_ROW = 26
_TOP = 104
_NAMES = 252  # start of the first panel
_PANEL = 250
_GAP = 84
_STYLE = """
  .ground { fill: #ffffff; stroke: #d0d7de; }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
  text { fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; }
  .faint { fill: #59636e; font-size: 12px; }
  .grid { stroke: #d8dee4; }
  .stem { stroke: #b6c0ca; stroke-width: 2; }
  .time { fill: #0969da; }
  .memory { fill: #9a6700; }
  .value { font-size: 12px; font-variant-numeric: tabular-nums; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #3d444d; }
    text { fill: #e6edf3; }
    .faint { fill: #9198a1; }
    .grid { stroke: #262c36; }
    .stem { stroke: #4b535d; }
    .time { fill: #4493f8; }
    .memory { fill: #d29922; }
  }
"""


def check_plot(path: Path) -> None:
    """Raise if a plot is not an SVG file."""
    if path.suffix.lower() != ".svg" and (path.is_file() or not path.exists()):
        raise OptionError(f"plot must be an SVG file such as plot.svg, got {str(path)!r}")


class Panel(NamedTuple):
    """One column of a plot: a value for some of the rows. `kind` is "time" or "memory"."""

    title: str
    kind: str
    values: Mapping[int, float]
    format: Callable[[float], str]


def draw(
    title: str,
    subtitle: str,
    names: Mapping[int, str],
    panels: Sequence[Panel],
    notes: Mapping[int, str] | None = None,
) -> str:
    """Return an SVG with a row per name and a panel per quantity.

    Each panel has a logarithmic scale with a dot at each value, because the length of a bar has no
    meaning on such a scale. The colours follow the reader's light or dark mode.
    """
    offsets = {key: _TOP + 14 + index * _ROW for index, key in enumerate(names)}
    width = _NAMES + len(panels) * (_PANEL + _GAP)
    height = _TOP + len(names) * _ROW + 36
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        _text(20, 30, title, "title"),
        _text(20, 50, subtitle, "faint"),
    ]
    for key, name in names.items():
        step, _, rest = name.partition(" ")
        parts.append(_text(38, offsets[key] + 4, step, "faint", "end"))
        parts.append(_text(48, offsets[key] + 4, rest))
    for index, panel in enumerate(panels):
        parts += _draw_panel(_NAMES + index * (_PANEL + _GAP), panel, offsets)
    for key, note in (notes or {}).items():
        parts.append(_text(_NAMES, offsets[key] + 4, note, "faint"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw_panel(left: int, panel: Panel, offsets: Mapping[int, int]) -> list[str]:
    parts = [_text(left, _TOP - 14, panel.title, panel.kind)]
    values = panel.values
    if not values:
        return parts
    low = math.floor(math.log10(min(values.values())))
    high = max(math.ceil(math.log10(max(values.values()))), low + 1)

    def x_of(value: float) -> float:
        return left + _PANEL * (math.log10(value) - low) / (high - low)

    bottom = max(offsets.values()) + 12
    for power in range(low, high + 1):
        x = x_of(10.0**power)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP} V{bottom}"/>')
        parts.append(_text(x, bottom + 18, _tick(panel.format(10.0**power)), "faint", "middle"))
    for key, value in values.items():
        x, y = x_of(value), offsets[key]
        parts.append(f'<path class="stem" d="M{left} {y} H{x:.1f}"/>')
        parts.append(f'<circle class="{panel.kind}" cx="{x:.1f}" cy="{y}" r="5"/>')
        parts.append(_text(x + 11, y + 4, panel.format(value), "value"))
    return parts


def _tick(text: str) -> str:
    """Remove decimals of a power of ten: "1.00 s" becomes "1 s"."""
    value, unit = text.split()
    return f"{float(value.replace(',', '')):,g} {unit}"


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    attributes = f' class="{kind}"' * bool(kind) + f' text-anchor="{anchor}"' * (anchor != "start")
    return f'<text x="{x:.1f}" y="{y}"{attributes}>{escape(text)}</text>'
