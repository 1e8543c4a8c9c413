"""Measured steps → a picture of their times and memory, as SVG.

Two panels with one row for each step and a scale of powers of ten. A dot is at the value; on such
a scale the length of a bar would say nothing. The colours follow the reader's, light or dark, and
the picture brings its own ground, so that it can be read on any page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from tokenmill.ladder.training.steps import STEPS, Measured, Skipped

_ROW = 26
_TOP = 104
_NAMES = 252  # where the first panel begins
_PANEL = 250
_GAP = 84
_WIDTH = _NAMES + 2 * _PANEL + _GAP + 84

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


def draw(rows: Sequence[Measured], skipped: Sequence[Skipped], subtitle: str) -> str:
    """The picture of all steps that were asked for."""
    numbers = sorted({row.step for row in rows} | {row.step for row in skipped})
    places = {number: _TOP + 14 + index * _ROW for index, number in enumerate(numbers)}
    height = _TOP + len(numbers) * _ROW + 36
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" aria-label="Time and memory by step">',
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="8"/>',
        _text(20, 30, "The same merges, one idea more a step", "title"),
        _text(20, 50, subtitle, "faint"),
    ]
    names = {step.number: step.name for step in STEPS}
    for number, y in places.items():
        parts.append(_text(38, y + 4, str(number), "faint", "end"))
        parts.append(_text(48, y + 4, names[number]))
    second = _NAMES + _PANEL + _GAP
    times = {row.step: row.seconds for row in rows}
    memory = {row.step: row.added_mb for row in rows if row.added_mb > 0}
    parts += _panel(_NAMES, "time", "time", times, places, seconds)
    parts += _panel(second, "memory", "memory that training adds", memory, places, megabytes)
    for row in skipped:
        note = f"skipped: about {seconds(row.estimated_seconds)}"
        parts.append(_text(_NAMES, places[row.step] + 4, note, "faint"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def seconds(value: float) -> str:
    return f"{_digits(value * 1e3)} ms" if value < 1 else f"{_digits(value)} s"


def megabytes(value: float) -> str:
    return f"{_digits(value)} MB"


def _digits(value: float) -> str:
    """Three digits, no more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _panel(
    left: int,
    kind: str,
    title: str,
    values: Mapping[int, float],
    places: Mapping[int, int],
    shown: Callable[[float], str],
) -> list[str]:
    """A scale of whole powers of ten above the rows, and a dot for each value."""
    parts = [_text(left, _TOP - 14, title, kind)]
    if not values:
        return parts
    low = math.floor(math.log10(min(values.values())))
    high = max(math.ceil(math.log10(max(values.values()))), low + 1)

    def x_of(value: float) -> float:
        return left + _PANEL * (math.log10(value) - low) / (high - low)

    bottom = max(places.values()) + 12
    for power in range(low, high + 1):
        x = x_of(10.0**power)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP} V{bottom}"/>')
        parts.append(_text(x, bottom + 18, _tick(shown(10.0**power)), "faint", "middle"))
    for number, value in values.items():
        x, y = x_of(value), places[number]
        parts.append(f'<path class="stem" d="M{left} {y} H{x:.1f}"/>')
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y}" r="5"/>')
        parts.append(_text(x + 11, y + 4, shown(value), "value"))
    return parts


def _tick(text: str) -> str:
    """A power of ten needs no zeros behind the point: 1.00 s is 1 s."""
    number, unit = text.split()
    return f"{float(number.replace(',', '')):,g} {unit}"


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    attributes = f' class="{kind}"' * bool(kind) + f' text-anchor="{anchor}"' * (anchor != "start")
    return f'<text x="{x:.1f}" y="{y}"{attributes}>{escape(text)}</text>'
