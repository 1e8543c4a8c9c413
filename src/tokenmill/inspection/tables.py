"""Figures of a report → tables, which the terminal and the HTML page show.

Texts in cells are untrusted. `printable` or `Tokens.texts` must make them safe to show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tokenmill.display import fold_runs, shorten

# The heads of columns of text. Other columns are numbers, and a column of bars has no head.
TEXT_HEADS = ("token", "word", "script", "reason", "encoded as", "kind", "", "examples", "input")


@dataclass(frozen=True, slots=True)
class Bar:
    """A number as a bar, whose width is that of the largest number of its column."""

    label: str
    count: int
    most: int
    width: int

    def __str__(self) -> str:
        return "█" * max(1, round(self.width * self.count / self.most)) if self.count else ""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens, as `TokenTable.row` returns them. Each is shortened to `width` characters.

    If there are more than `most` tokens, an ellipsis follows the first.
    """

    rows: Sequence[dict[str, Any]]
    width: int
    joint: str = "  "
    most: int = 1 << 30

    def texts(self) -> list[str]:
        """The tokens with every character visible."""
        rows = self.rows[: self.most]
        tokens = (bytes.fromhex(row["hex"]) if "hex" in row else row["token"] for row in rows)
        return [shorten(fold_runs(token), self.width) for token in tokens]


Cell: TypeAlias = int | str | Bar | Tokens


@dataclass(frozen=True, slots=True)
class Table:
    """A table with the first of `total` rows. The remark is only for the page."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    total: int = 0
    note: str = ""
    remark: str = ""

    @property
    def more(self) -> int:
        """The number of rows that are left out."""
        return max(0, self.total - len(self.rows))


def range_label(low: int, high: int) -> str:
    """The label of a bar for the numbers from `low` to `high`."""
    return f"{low:,}" if low == high else f"{low:,} – {high:,}"


def token_width(columns: int) -> int:
    """The most characters of a token next to other columns."""
    return max(24, columns * 3 // 10)
