"""Tokens of a text → rows for a terminal: each piece above its id."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tokenmill.shown import folded

STYLES = tuple(f"black on {colour}" for colour in ("#a6d8ff", "#ffd8a6", "#b9e8b0", "#e6c6f5"))


def rows_of_pieces(tokens: Sequence[bytes], ids: Sequence[int], console: Console) -> list[Text]:
    """Pieces and ids, wrapped to the width and at the text's own lines.

    Where there are no colours, a bar ends each piece.
    """
    has_colours = console.color_system is not None and not console.no_color
    bar = " " if has_colours else "│"
    lines: list[Text] = []
    pieces, numbers = Text(), Text()
    for index, (token, id_) in enumerate(zip(tokens, ids, strict=True)):
        piece, number = _fitted(folded(token), console.width - 1), str(id_)
        cells = max(cell_len(piece), len(number))
        if pieces and pieces.cell_len + cells + 1 > console.width:
            lines += [pieces, numbers]
            pieces, numbers = Text(), Text()
        pieces.append(piece, STYLES[index % len(STYLES)])
        pieces.append(" " * (cells - cell_len(piece)) + bar, None if has_colours else "dim")
        numbers.append(number.ljust(cells) + bar, "dim")
        if token.endswith(b"\n"):
            lines += [pieces, numbers, Text()]
            pieces, numbers = Text(), Text()
    return [*lines, pieces, numbers] if pieces else lines[:-1]


def _fitted(piece: str, width: int) -> str:
    """A piece that is wider than the terminal without its end."""
    if cell_len(piece) <= width:
        return piece
    while cell_len(piece) > width - 1:
        piece = piece[:-1]
    return piece + "…"
