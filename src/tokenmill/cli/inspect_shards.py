"""Figures of a folder of shards → tables for a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from tokenmill.printable import printable

_SOURCES_SHOWN = 20
_TOKENS_SHOWN = 10
_BAR_WIDTH = 30


def show(figures: dict[str, Any], console: Console, sources: int = _SOURCES_SHOWN) -> None:
    """Tables for a terminal."""
    _totals(figures, console)
    _lengths(figures, console)
    _tokens(figures, console)
    _sources(figures, console, sources)


def _totals(figures: dict[str, Any], console: Console) -> None:
    vocabulary = figures["vocabulary"]
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    rows = {
        "documents": f"{figures['documents']:,}",
        "tokens": f"{figures['tokens']:,} ({figures['dtype']}, {figures['layout']})",
        "shards": f"{figures['shards']:,}",
        "bytes of text": f"{figures['bytes']:,}",
        "bytes a token": f"{figures['bytes_per_token']:.2f}",
        "tokens a document": f"{figures['tokens_per_document']:,.1f} "
        f"({figures['shortest_document']:,} to {figures['longest_document']:,})",
        "quarantined": f"{figures['quarantined']:,}",
        "vocabulary": f"{printable(figures['tokenizer']['name'])}, {vocabulary['size']:,} ids, "
        f"{vocabulary['unused']:,} unused ({vocabulary['unused_share']:.1%})",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table, markup=False)


def _lengths(figures: dict[str, Any], console: Console) -> None:
    rows = figures["lengths"]
    if not rows:
        return
    most = max(row["documents"] for row in rows)
    table = Table(title="tokens in a document", title_justify="left", box=None)
    table.add_column("from", justify="right")
    table.add_column("below", justify="right")
    table.add_column("documents", justify="right")
    table.add_column("")
    for row in rows:
        bar = "█" * max(1, round(_BAR_WIDTH * row["documents"] / most))
        table.add_row(f"{row['from']:,}", f"{row['to']:,}", f"{row['documents']:,}", bar)
    console.print(table)


def _tokens(figures: dict[str, Any], console: Console) -> None:
    table = Table(title="tokens most and least used", title_justify="left", box=None)
    for _ in range(2):
        table.add_column("token")
        table.add_column("count", justify="right")
    most, least = figures["most_used"], figures["least_used"]
    for index in range(min(_TOKENS_SHOWN, len(most))):
        cells = []
        for row in (most[index], least[index]):
            cells += [repr(row["token"]), f"{row['count']:,}"]
        table.add_row(*cells)
    console.print(table, markup=False)


def _sources(figures: dict[str, Any], console: Console, most: int) -> None:
    table = Table(title="sources", title_justify="left", box=None)
    table.add_column("source", overflow="fold")
    for name in ("documents", "tokens", "bytes a token", "quarantined"):
        table.add_column(name, justify="right")
    table.add_column("")
    sources = figures["sources"]
    for source in sources[:most]:
        table.add_row(
            printable(source["path"]),
            f"{source['documents']:,}",
            f"{source['tokens']:,}",
            f"{source['bytes_per_token']:.2f}",
            f"{source['quarantined']:,}",
            printable(source.get("error", "")),
        )
    console.print(table, markup=False)
    if len(sources) > most:
        console.print(f"and {len(sources) - most:,} more (--json shows all)")
