"""Titles, tables and bars → a page of HTML that stands alone: no script, no network.

What comes from files is escaped here, except cells of tables, which may hold elements: those are
made by whoever fills them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } th { font-weight: 600; }
td, th { padding: .15rem .8rem .15rem 0; text-align: right; vertical-align: top; }
td:first-child, th:first-child { text-align: left; }
code { background: #f2f2f2; padding: 0 .25rem; white-space: pre; }
.bar { fill: #3a6ea5; } svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
@media (prefers-color-scheme: dark) { body { color: #e8e8e8; background: #161616; }
  code { background: #2a2a2a; } .bar { fill: #7fb0e0; } }
"""
_ROW = 22
_LABEL = 150
_WIDTH = 720


def page(title: str, sections: Iterable[str], style: str = "") -> str:
    """The page, whose sections are HTML."""
    name = escape(title)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{name}</title><style>{_STYLE}{style}</style></head>\n<body>\n<h1>{name}</h1>\n"
        + "\n".join(sections)
        + "\n</body></html>\n"
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table whose cells are HTML."""
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>" if heads else f"<table>{body}</table>"


def bars(rows: Sequence[tuple[str, int]]) -> str:
    """A horizontal bar for each label and its number."""
    if not rows:
        return "<p>none</p>"
    most = max(count for _, count in rows)
    room = _WIDTH - _LABEL - 110
    parts = []
    for index, (label, count) in enumerate(rows):
        top = index * _ROW
        width = max(1, round(room * count / most)) if most else 1
        parts.append(
            f'<text x="{_LABEL - 8}" y="{top + 15}" text-anchor="end">{escape(label)}</text>'
            f'<rect class="bar" x="{_LABEL}" y="{top + 4}" width="{width}" height="{_ROW - 8}"/>'
            f'<text x="{_LABEL + width + 6}" y="{top + 15}">{count:,}</text>'
        )
    height = len(rows) * _ROW
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'style="max-width: 100%" role="img">{"".join(parts)}</svg>'
    )
