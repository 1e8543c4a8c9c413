"""Cells → a Markdown table; a document → the same with one generated block replaced."""

from __future__ import annotations

import sys
from pathlib import Path


def table(lines: list[list[str]], rule: str = "---:") -> str:
    head, *body = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    under = ["---", *(rule for _ in head[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, under, *body])


def number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 1:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def write_block(document: Path, name: str, block: str) -> None:
    """Put a text between the two markers of that name. Exit if the document lacks them."""
    start_mark, end_mark = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    text = document.read_text("utf-8") if document.exists() else ""
    before, start, rest = text.partition(start_mark)
    _, end, after = rest.partition(end_mark)
    if not (start and end):
        sys.exit(f"{document.name} has no block named {name}")
    document.write_text(f"{before}{start_mark}\n{block}\n{end_mark}{after}", "utf-8")
