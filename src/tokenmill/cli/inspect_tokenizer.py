"""A report of a tokenizer → tables, trees and pieces for a terminal.

Tokens are untrusted: cells are `Text`, which has no markup, and hold what `shown` leaves.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from tokenmill.cli.pieces import rows_of_pieces
from tokenmill.inspection.odd import ODD
from tokenmill.inspection.reach import REASONS
from tokenmill.inspection.report import Report, ranges_of_lengths, size_rows
from tokenmill.inspection.texts import Pieces
from tokenmill.inspection.words import Node, Pretoken, Word
from tokenmill.printable import printable
from tokenmill.shown import folded, shortened, shown

_ROWS = 10
_BAR_WIDTH = 18
_TOKEN_WIDTH = 40
_PIECES_SHOWN = 1_000


def show(report: Report, console: Console, rows: int | None = None) -> None:
    """All of it; what was asked for stands at the end, where a terminal is looked at."""
    most = rows or _ROWS
    _totals(report, console)
    _lengths(report, console)
    _scripts(report, console, most)
    _longest(report, console, most)
    _unreachable(report, console, most)
    _odd(report, console, most)
    for word in report.words:
        _word(word, console)
    if report.text is not None:
        _text(report.text, console)


def _totals(report: Report, console: Console) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in size_rows(report):
        table.add_row(name, Text(printable(value)))
    for name, lines in report.parts.items():
        joint = "\n" if name == "pre-tokenizer" else "; "  # patterns may be long
        table.add_row(name, Text(joint.join(map(printable, lines))))
    console.print(table)


def _lengths(report: Report, console: Console) -> None:
    table = _table("length of tokens")
    table.add_column("from", justify="right")
    table.add_column("to", justify="right")
    for unit in ("bytes", "characters"):
        table.add_column(f"by {unit}", justify="right")
        table.add_column("")
    rows = ranges_of_lengths(report.lengths())
    most = [max((row[unit] for row in rows), default=1) for unit in ("bytes", "characters")]
    for row in rows:
        cells = [f"{row['from']:,}", f"{row['to']:,}"]
        for unit, highest in zip(("bytes", "characters"), most, strict=True):
            count = row[unit]
            bar = "█" * max(1, round(_BAR_WIDTH * count / highest)) if count else ""
            cells += [f"{count:,}", bar]
        table.add_row(*cells)
    _print(console, table)


def _scripts(report: Report, console: Console, most: int) -> None:
    found = report.scripts()
    table = _table("scripts")
    table.add_column("script")
    table.add_column("tokens", justify="right")
    table.add_column("share", justify="right")
    table.add_column("")
    for row in found[:most]:
        bar = "█" * max(1, round(_BAR_WIDTH * row["tokens"] / found[0]["tokens"]))
        table.add_row(row["script"], f"{row['tokens']:,}", f"{row['share']:.1%}", bar)
    _print(console, table, len(found) - most)


def _longest(report: Report, console: Console, most: int) -> None:
    table = _table("longest tokens and words")
    for name in ("token", "word"):
        table.add_column(name)
        for unit in ("id", "bytes"):
            table.add_column(unit, justify="right")
    width = min(48, max(16, (console.width - 28) // 2))
    both = (report.longest()[:most], report.longest(words=True)[:most])
    for pair in zip_longest(*both):
        cells: list[Text | str] = []
        for row in pair:
            if row is None:
                cells += ["", "", ""]
            else:
                cells += [_token(row, width), f"{row['id']}", f"{row['bytes']:,}"]
        table.add_row(*cells)
    _print(console, table)


def _unreachable(report: Report, console: Console, most: int) -> None:
    found = report.unreachable()
    title = f"unreachable tokens: {found['count']:,}"
    if not found["count"]:
        console.print(Text(f"\n{title}", "italic"))
        return
    table = _table(title)
    table.add_column("token")
    table.add_column("id", justify="right")
    table.add_column("why")
    table.add_column("its text gives")
    for row in found["tokens"][:most]:
        gives = Text(" │ ", "dim").join(_token(one, 12) for one in row["gives"][:6])
        if len(row["gives"]) > 6:
            gives.append(" …")
        table.add_row(_token(row, 24), f"{row['id']}", REASONS[row["reason"]], gives)
    _print(console, table, found["count"] - most)
    if len(found["reasons"]) > 1:
        reasons = (f"{n:,} {REASONS[name]}" for name, n in found["reasons"].items())
        console.print(f"in all: {'; '.join(reasons)}")


def _odd(report: Report, console: Console, most: int) -> None:
    table = _table("odd tokens")
    table.add_column("what")
    table.add_column("count", justify="right")
    table.add_column("such as", overflow="fold")
    for kind, places in report.odd.items():
        rows = [report.entries.row(place) for place in places[: max(3, most // 3)]]
        examples = Text("  ").join(_token(row, 24) for row in rows)
        table.add_row(ODD[kind], f"{len(places):,}", examples)
    if report.odd:
        _print(console, table)


def _word(word: Word, console: Console) -> None:
    count = len(word.ids)
    head = Text(shown(word.word), "bold")
    head.append(f"  {count} token{'s'[: count != 1]}", "not bold")
    root = Tree(head, guide_style="dim")
    for index, pretoken in enumerate(word.pretokens):
        branch = root
        if len(word.pretokens) > 1:
            branch = root.add(Text(f"pretoken {index + 1}", "dim"))
        if pretoken.is_whole:
            label = _label(pretoken.nodes, Node(b"".join(_leaves(pretoken)), pretoken.ids[0]))
            branch = branch.add(label.append("  a token as it stands; merging gives", "dim"))
        _grow(branch, pretoken)
    console.print()
    console.print(root)


def _leaves(pretoken: Pretoken) -> Iterable[bytes]:
    return (node.token for node in pretoken.nodes if node.children is None)


def _grow(branch: Tree, pretoken: Pretoken) -> None:
    """The trees of a pretoken; what merging begins with is named by what it becomes."""
    trees: list[Tree | None] = []
    for node in pretoken.nodes:
        tree = None
        if node.children is not None:
            tree = Tree(_label(pretoken.nodes, node), guide_style="dim")
            tree.children += [one for child in node.children if (one := trees[child]) is not None]
        trees.append(tree)
    for place in pretoken.roots:
        tree = trees[place]
        if tree is None:
            branch.add(_label(pretoken.nodes, pretoken.nodes[place]))
        else:
            branch.children.append(tree)


def _label(nodes: list[Node], node: Node) -> Text:
    label = Text(folded(node.token), "bold")
    label.append("" if node.id is None else f" {node.id}", "not bold cyan")
    if node.children is not None:
        left, right = (folded(nodes[child].token) for child in node.children)
        label.append(f"  = {left} + {right}", "not bold")
        rank = "" if node.rank == node.id else f", rank {node.rank}"
        label.append(f"  step {node.step}{rank}", "not bold dim")
    return label


def _text(text: Pieces, console: Console) -> None:
    console.print()
    shown_, ids = text.tokens[:_PIECES_SHOWN], text.ids[:_PIECES_SHOWN]
    for line in rows_of_pieces(shown_, ids, console):
        console.print(line, soft_wrap=True)
    if len(text.ids) > _PIECES_SHOWN:
        console.print(f"and {len(text.ids) - _PIECES_SHOWN:,} more (--json shows all)")
    figures = text.figures()
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name in ("tokens", "distinct_tokens", "pretokens", "characters", "bytes"):
        table.add_row(name.replace("_", " "), f"{figures[name]:,}")
    table.add_row("bytes a token", f"{figures['bytes_per_token']:.2f}")
    table.add_row("characters a token", f"{figures['characters_per_token']:.2f}")
    console.print()
    console.print(table)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=None)


def _print(console: Console, table: Table, more: int = 0) -> None:
    console.print()
    console.print(table)
    if more > 0:
        console.print(f"and {more:,} more (--rows, --json)")


def _token(row: dict[str, Any], most: int = _TOKEN_WIDTH) -> Text:
    """A row's token, of whatever bytes."""
    token = bytes.fromhex(row["hex"]) if "hex" in row else row["token"]
    return Text(shortened(folded(token), most))
