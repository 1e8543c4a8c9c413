"""Speeds by text and system → an SVG of bars, in light and dark colours."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

NAMES, BARS, FIGURES = 170, 430, 90  # widths of the three columns
ROW, GAP, TOP = 22, 34, 76
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; }
  .faint { fill: #59636e; }
  .ground { fill: #ffffff; stroke: #d1d9e0; }
  .ours { fill: #0969da; }
  .peer { fill: #b6c0ca; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0d1117; stroke: #3d444d; }
    text { fill: #e6edf3; }
    .faint { fill: #9198a1; }
    .ours { fill: #4493f8; }
    .peer { fill: #4b535d; }
  }
"""


def draw(title: str, subtitle: str, speeds: Mapping[str, Mapping[str, float]], ours: str) -> str:
    """Return an SVG with a group of bars per text. The length of a bar is the speed."""
    longest = max(value for group in speeds.values() for value in group.values())
    width = NAMES + BARS + FIGURES
    parts = [
        f'<text class="title" x="20" y="30">{escape(title)}</text>',
        f'<text class="faint" x="20" y="51">{escape(subtitle)}</text>',
    ]
    y = TOP
    for text, group in speeds.items():
        parts.append(f'<text class="faint" x="20" y="{y + 8}">{escape(text)}</text>')
        y += 18
        for system, value in group.items():
            kind = "ours" if system == ours else "peer"
            length = max(1.0, BARS * value / longest)
            parts += [
                f'<text x="{NAMES - 10}" y="{y + 14}" text-anchor="end">{escape(system)}</text>',
                f'<rect class="{kind}" x="{NAMES}" y="{y + 2}" width="{length:.1f}" '
                f'height="{ROW - 6}" rx="2"/>',
                f'<text x="{NAMES + length + 8:.1f}" y="{y + 14}">{value:,.0f}</text>',
            ]
            y += ROW
        y += GAP - ROW
    height = y + 6
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{escape(title)}">'
    )
    ground = (
        f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", ground, *parts, "</svg>"]) + "\n"
