"""Figures of shards → a page of HTML that stands alone: tables and plots, no script, no network."""

from __future__ import annotations

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
_SOURCES_MAX = 1000


def html(figures: dict[str, Any]) -> str:
    """The page."""
    name = escape(figures["output"])
    sections = [
        f"<h1>{name}</h1>",
        _totals(figures),
        "<h2>Tokens in a document</h2>",
        _bars(
            [
                (f"{row['from']:,} – {row['to'] - 1:,}", row["documents"])
                for row in figures["lengths"]
            ]
        ),
        "<h2>Tokens used most</h2>",
        _bars([(_shown(row["token"]), row["count"]) for row in figures["most_used"]]),
        "<h2>Tokens used least</h2>",
        _table(
            ("token", "id", "count"),
            [
                (f"<code>{escape(_shown(row['token']))}</code>", row["id"], f"{row['count']:,}")
                for row in figures["least_used"]
            ],
        ),
        "<h2>Sources</h2>",
        _sources(figures["sources"]),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(sections)
        + "\n</body></html>\n"
    )


def _totals(figures: dict[str, Any]) -> str:
    vocabulary = figures["vocabulary"]
    rows = [
        ("documents", f"{figures['documents']:,}"),
        ("tokens", f"{figures['tokens']:,}"),
        ("bytes of text", f"{figures['bytes']:,}"),
        ("bytes a token", f"{figures['bytes_per_token']:.3f}"),
        ("tokens a document", f"{figures['tokens_per_document']:,.1f}"),
        ("longest document", f"{figures['longest_document']:,}"),
        ("quarantined", f"{figures['quarantined']:,}"),
        ("shards", f"{figures['shards']:,} ({escape(figures['layout'])}, {figures['dtype']})"),
        ("tokenizer", escape(figures["tokenizer"]["name"])),
        (
            "vocabulary",
            f"{vocabulary['size']:,} ids, {vocabulary['unused_share']:.1%} of them unused",
        ),
    ]
    return _table((), rows)


def _sources(sources: list[dict[str, Any]]) -> str:
    rows = [
        (
            escape(source["path"]),
            f"{source['documents']:,}",
            f"{source['tokens']:,}",
            f"{source['bytes_per_token']:.2f}",
            f"{source['quarantined']:,}",
            escape(source.get("error", "")),
        )
        for source in sources[:_SOURCES_MAX]
    ]
    heads = ("source", "documents", "tokens", "bytes a token", "quarantined", "")
    more = len(sources) - _SOURCES_MAX
    return _table(heads, rows) + (f"<p>and {more:,} more</p>" if more > 0 else "")


def _table(heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>\n{body}</table>"


def _bars(rows: list[tuple[str, int]]) -> str:
    """A horizontal bar for each row."""
    if not rows:
        return "<p>none</p>"
    most = max(count for _, count in rows)
    room = _WIDTH - _LABEL - 110
    parts = []
    for index, (label, count) in enumerate(rows):
        top = index * _ROW
        width = max(1, round(room * count / most))
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


def _shown(token: str) -> str:
    """A token with its blanks visible."""
    return token.replace(" ", "␣").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
