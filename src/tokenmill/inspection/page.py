"""Facts and tables of a report → an HTML page without scripts and external files.

The terminal shows the same tables (cli/inspect.py). Texts in cells are untrusted. Every token
passes through `display`, is escaped, and has an element with its own text direction, so Hebrew or
Arabic text does not reorder a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tokenmill.display import fold_runs, printable, shorten, visible
from tokenmill.inspection.merges import Pretoken, Word

if TYPE_CHECKING:
    from tokenmill.inspection.report import EncodedText

# The heads of columns of text. The other columns are numbers.
TEXT_HEADS = ("token", "word", "script", "reason", "encoded as", "kind", "", "examples", "input")
PAGE_ROWS = 1_000  # the most rows of a table
_TOKEN_WIDTH = 48
_ROWS_OPEN = 50
_TOKENS_SHOWN = 20
_TEXT_TOKENS_MAX = 20_000
_BAR_WIDTH = 260

# A list has tokens, as `TokenTable.row` returns them.
Cell: TypeAlias = int | str | list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with the first of `total` rows. The remark is only for the page.

    A column without a head shows its numbers as bars.
    """

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

    @property
    def bars(self) -> dict[int, Any]:
        """The largest number of each column of bars."""
        columns = [at for at, head in enumerate(self.heads) if not head]
        return {at: max(row[at] for row in self.rows) for at in columns}


def token_texts(rows: Iterable[dict[str, Any]], width: int) -> list[str]:
    """The tokens of a cell with every character visible, each of at most `width` characters."""
    tokens = (bytes.fromhex(row["hex"]) if "hex" in row else row["token"] for row in rows)
    return [shorten(fold_runs(token), width) for token in tokens]


def page(
    title: str,
    facts: Iterable[tuple[str, list[str]]],
    tables: Iterable[Table],
    words: Iterable[Word] = (),
    text: EncodedText | None = None,
) -> str:
    """Return the page of a report."""
    name = _safe(title)
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    sections = [_facts(facts), *map(_word, words)]
    sections += [] if text is None else [_text(text)]
    sections += map(_section, tables)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{name}</title><style>\n{style}</style></head>\n<body>\n<h1>{name}</h1>\n"
        + "\n".join(sections)
        + "\n</body></html>\n"
    )


def _word(word: Word) -> str:
    count = len(word.ids)
    return (
        f"<h2>Merges of <code>{escape(visible(word.word))}</code>: "
        f"{count} token{'s'[: count != 1]}</h2>\n"
        f'<div class="tree">{"".join(map(_tree, word.pretokens))}</div>'
    )


def _tree(pretoken: Pretoken) -> str:
    """Return nested boxes: each token below the two symbols that it was merged from."""
    boxes: list[str] = []
    for index, node in enumerate(pretoken.nodes):
        inner, label = "", "" if node.id is None else f"{node.id}"
        if node.children is not None:
            left, right = node.children
            inner = f'<div class="row">{boxes[left]}{boxes[right]}</div>'
            boxes[left] = boxes[right] = ""  # used once; keeps memory linear
            rank = "" if node.rank == node.id else f" · rank {node.rank}"
            label += f"{rank} · step {node.step}"
        kind = " root" * (index in pretoken.roots) + " leaf" * (node.children is None)
        boxes.append(
            f'<div class="node{kind}">{inner}<span>{escape(fold_runs(node.token))}'
            f"<small>{label}</small></span></div>"
        )
    trees = "".join(boxes[root] for root in pretoken.roots)
    if pretoken.is_whole:
        label = f"one token, {pretoken.ids[0]}; merging alone would produce these tokens"
        trees = f'<div class="node"><div class="row">{trees}</div><span>{label}</span></div>'
    return f'<div class="row">{trees}</div>'


def _text(text: EncodedText) -> str:
    tokens = []
    pairs = zip(text.tokens[:_TEXT_TOKENS_MAX], text.ids, strict=False)
    for index, (token, id_) in enumerate(pairs):
        tokens.append(
            f'<span class="token c{index % 4}">{escape(fold_runs(token))}'
            f"<small>{id_}</small></span>" + "<br>" * token.endswith(b"\n")
        )
    tokens.append(_more(len(text.ids) - _TEXT_TOKENS_MAX))
    return f'<h2>Text</h2>\n<div class="tokens">{"".join(tokens)}</div>\n{_facts(text.facts())}'


def _facts(facts: Iterable[tuple[str, list[str]]]) -> str:
    rows = []
    for name, lines in facts:
        tag = "code" if name == "pre-tokenizer" else "span"
        value = "<br>".join(f"<{tag}>{_safe(line)}</{tag}>" for line in lines)
        rows.append(f"<tr><td>{name}</td><td>{value}</td></tr>")
    return f'<table class="facts">{"".join(rows)}</table>'


def _section(table: Table) -> str:
    parts = [f"<h2>{_safe(table.title[:1].upper() + table.title[1:])}</h2>"]
    parts += [f'<p class="note">{_safe(text)}</p>' for text in (table.remark, table.note) if text]
    if table.rows:
        shown = _table(table) + _more(table.more)
        if len(table.rows) > _ROWS_OPEN:
            shown = f"<details><summary>{len(table.rows):,} rows</summary>{shown}</details>"
        parts.append(shown)
    return "\n".join(parts)


def _table(table: Table) -> str:
    kinds = [' class="text"' if head in TEXT_HEADS else "" for head in table.heads]
    heads = zip(kinds, table.heads, strict=True)
    lines = ["".join(f"<th{kind}>{head}</th>" for kind, head in heads)]
    bars = table.bars
    for row in table.rows:
        cells = [_bar(cell, bars[at]) if at in bars else _cell(cell) for at, cell in enumerate(row)]
        pairs = zip(kinds, cells, strict=False)
        lines.append("".join(f"<td{kind}>{cell}</td>" for kind, cell in pairs))
    return "<table>" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _bar(count: Any, most: int) -> str:
    width = max(1, round(_BAR_WIDTH * count / most)) if count else 0
    return f'<div class="bar" style="width:{width}px"></div>'


def _cell(cell: Cell) -> str:
    if not isinstance(cell, list):
        return _safe(cell) if isinstance(cell, str) else f"{cell:,}"
    pairs = zip(cell, token_texts(cell, _TOKEN_WIDTH), strict=True)
    codes = [f'<code title="{row["id"]}">{escape(text)}</code>' for row, text in pairs]
    shown = " ".join(codes[:_TOKENS_SHOWN])
    if rest := codes[_TOKENS_SHOWN:]:
        shown += f"<details><summary>{len(rest):,} more</summary>{' '.join(rest)}</details>"
    return shown


def _more(count: int) -> str:
    return f"<p>and {count:,} more</p>" if count > 0 else ""


def _safe(text: str) -> str:
    return escape(printable(text))
