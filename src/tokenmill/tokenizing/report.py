"""Figures of shards → a page of HTML that stands alone: tables and plots, no script, no network."""

from __future__ import annotations

from html import escape
from typing import Any

from tokenmill.page import bars, page, table
from tokenmill.printable import printable
from tokenmill.shown import shown

_SOURCES_MAX = 1000


def html(figures: dict[str, Any]) -> str:
    """The page."""
    sections = [
        _totals(figures),
        "<h2>Tokens in a document</h2>",
        bars(
            [
                (f"{row['from']:,} – {row['to'] - 1:,}", row["documents"])
                for row in figures["lengths"]
            ]
        ),
        "<h2>Tokens used most</h2>",
        bars([(shown(row["token"]), row["count"]) for row in figures["most_used"]]),
        "<h2>Tokens used least</h2>",
        table(
            ("token", "id", "count"),
            [
                (f"<code>{escape(shown(row['token']))}</code>", row["id"], f"{row['count']:,}")
                for row in figures["least_used"]
            ],
        ),
        "<h2>Sources</h2>",
        _sources(figures["sources"]),
    ]
    return page(printable(figures["output"]), sections)


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
        ("tokenizer", _escaped(figures["tokenizer"]["name"])),
        (
            "vocabulary",
            f"{vocabulary['size']:,} ids, {vocabulary['unused_share']:.1%} of them unused",
        ),
    ]
    return table((), rows)


def _sources(sources: list[dict[str, Any]]) -> str:
    rows = [
        (
            _escaped(source["path"]),
            f"{source['documents']:,}",
            f"{source['tokens']:,}",
            f"{source['bytes_per_token']:.2f}",
            f"{source['quarantined']:,}",
            _escaped(source.get("error", "")),
        )
        for source in sources[:_SOURCES_MAX]
    ]
    heads = ("source", "documents", "tokens", "bytes a token", "quarantined", "")
    more = len(sources) - _SOURCES_MAX
    return table(heads, rows) + (f"<p>and {more:,} more</p>" if more > 0 else "")


def _escaped(text: str) -> str:
    return escape(printable(text))
