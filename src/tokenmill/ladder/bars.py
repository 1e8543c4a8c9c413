"""Names and numbers → bars in an SVG, on a logarithmic scale, from nothing but text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

_ROW, _TOP, _LEFT, _WIDTH, _RIGHT = 26, 46, 170, 420, 110


def draw(title: str, bars: Sequence[tuple[str, float, str]], marked: frozenset[str]) -> str:
    """A bar for each name, as long as the logarithm of its number says; `marked` are grey.

    The scale begins at the power of ten below the smallest number.
    """
    if not bars or any(value <= 0 for _, value, _ in bars):
        raise ValueError("bars on a logarithmic scale need numbers above zero")
    low = math.floor(math.log10(min(value for _, value, _ in bars)) - 1e-9)
    high = math.ceil(math.log10(max(value for _, value, _ in bars)) + 1e-9)
    bottom = _TOP + _ROW * len(bars)
    width, height = _LEFT + _WIDTH + _RIGHT, bottom + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for power in range(low, high + 1):
        x = _LEFT + _WIDTH * (power - low) / (high - low)
        parts.append(f'<path d="M{x:.1f} {_TOP - 4}V{bottom}" stroke="#dddddd"/>')
    for index, (name, value, label) in enumerate(bars):
        y = _TOP + _ROW * index
        length = _WIDTH * (math.log10(value) - low) / (high - low)
        colour = "#9aa0a6" if name in marked else "#2b6cb0"
        parts += [
            f'<text x="{_LEFT - 8}" y="{y + 16}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{_LEFT}" y="{y + 3}" width="{length:.1f}" height="18" fill="{colour}"/>',
            f'<text x="{_LEFT + length + 6:.1f}" y="{y + 16}">{escape(label)}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"
