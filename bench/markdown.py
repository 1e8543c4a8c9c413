"""Lines of cells → a Markdown table, and a block of a document → the same with new content."""

from __future__ import annotations

from pathlib import Path


def table(lines: list[list[str]], rule: str = "---:") -> str:
    head, *body = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    under = ["---", *(rule for _ in head[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, under, *body])


def number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"


def replace_block(document: Path, name: str, block: str) -> bool:
    """Puts a text between the two markers of that name; False where there are none."""
    start_mark, end_mark = f"<!-- {name}:start -->", f"<!-- {name}:end -->"
    text = document.read_text("utf-8") if document.exists() else ""
    before, start, rest = text.partition(start_mark)
    _, end, after = rest.partition(end_mark)
    if not (start and end):
        return False
    document.write_text(f"{before}{start_mark}\n{block}\n{end_mark}{after}", "utf-8")
    return True
