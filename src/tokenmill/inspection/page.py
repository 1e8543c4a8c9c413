"""A report of a tokenizer or of shards → an HTML page without scripts and external files.

Tokens are untrusted. Every token passes through `display`, is escaped, and has an element with its
own text direction, so Hebrew or Arabic text does not reorder a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from tokenmill.display import fold_runs, printable, shorten, visible
from tokenmill.inspection.merges import Pretoken, Word
from tokenmill.inspection.odd import ODD
from tokenmill.inspection.reach import REASONS
from tokenmill.inspection.report import EncodedText, TokenizerReport, length_rows, size_rows

_ROWS_MAX = 1_000
_ROWS_OPEN = 50
_LONGEST = 25
_EXAMPLES = 200
_TEXT_TOKENS_MAX = 20_000
_TOKEN_WIDTH = 80
_BAR_HEIGHT = 22
_BAR_LABEL = 180
_BAR_LABEL_WIDTH = 24
_BAR_PLOT = 460
_BAR_NUMBER = 80


def tokenizer_page(report: TokenizerReport) -> str:
    """Return the page of a tokenizer."""
    sections = [_components(report), *_words(report.words)]
    if report.text is not None:
        sections += _text(report.text)
    for part in (_plots, _longest, _unreachable, _odd):
        sections += part(report)
    return _page(report.tokenizer.name, sections)


def _components(report: TokenizerReport) -> str:
    rows = [(name, _text_cell(value)) for name, value in size_rows(report)[1:]]
    for name, lines in report.components.items():
        cell = _code if name == "pre-tokenizer" else _text_cell
        rows.append((name, "<br>".join(map(cell, lines))))
    return _facts(rows)


def _plots(report: TokenizerReport) -> list[str]:
    lengths = report.lengths()
    sections = ["<h2>Length of tokens</h2>"]
    for unit in ("bytes", "characters"):
        bars = [(_range(row["from"], row["to"]), row[unit]) for row in length_rows(lengths)]
        sections.append(f"<h3>in {unit} ({lengths[f'mean_{unit}']:.2f} on average)</h3>")
        sections.append(_bars([bar for bar in bars if bar[1]]))
    scripts = [(row["script"], row["tokens"]) for row in report.scripts()]
    return [*sections, "<h2>Scripts</h2>", _bars(scripts)]


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} – {high:,}"


def _longest(report: TokenizerReport) -> list[str]:
    def table(words: bool) -> str:
        rows = report.longest(words=words)[:_LONGEST]
        cells = [(_token(row, 32), row["id"], f"{row['bytes']:,}") for row in rows]
        return _table(("token", "id", "bytes"), cells)

    return [
        "<h2>Longest tokens</h2>",
        f'<div class="side"><div><h3>all tokens</h3>{table(False)}</div>'
        f"<div><h3>letters only</h3>{table(True)}</div></div>",
    ]


def _unreachable(report: TokenizerReport) -> list[str]:
    found = report.unreachable()
    if not found["count"]:
        return ["<h2>Unreachable tokens</h2>", "<p>none</p>"]
    reasons = [(escape(REASONS[name]), f"{n:,}") for name, n in found["reasons"].items()]
    rows = [
        (
            _token(row),
            row["id"],
            escape(REASONS[row["reason"]]),
            " ".join(_token(one, 16) for one in row["encoded_as"][:8])
            + (" …" if len(row["encoded_as"]) > 8 else ""),
        )
        for row in found["tokens"][:_ROWS_MAX]
    ]
    return [
        f"<h2>Unreachable tokens: {found['count']:,}</h2>",
        '<p class="note">The text of such a token is encoded as other tokens, alone and inside '
        "the texts that were tried.</p>",
        _table(("reason", "tokens"), reasons),
        f'<details class="lost"{" open" if len(rows) <= _ROWS_OPEN else ""}>'
        "<summary>tokens</summary>"
        + _table(("token", "id", "reason", "encoded as"), rows)
        + _more(found["count"] - _ROWS_MAX)
        + "</details>",
    ]


def _odd(report: TokenizerReport) -> list[str]:
    sections = ["<h2>Odd tokens</h2>"]
    for kind, indexes in report.odd.items():
        tokens = "".join(_token(report.table.row(index), 40) for index in indexes[:_EXAMPLES])
        sections.append(
            f"<details><summary>{escape(ODD[kind])}: {len(indexes):,}</summary>"
            f'<p class="tokens">{tokens}</p>{_more(len(indexes) - _EXAMPLES)}</details>'
        )
    return sections if report.odd else [*sections, "<p>none</p>"]


def _words(words: list[Word]) -> list[str]:
    sections = []
    for word in words:
        count = len(word.ids)
        sections += [
            f"<h2>Merges of <code>{escape(visible(word.word))}</code>: "
            f"{count} token{'s'[: count != 1]}</h2>",
            f'<div class="tree">{"".join(map(_tree, word.pretokens))}</div>',
        ]
    return sections


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


def _text(text: EncodedText) -> list[str]:
    tokens = []
    pairs = zip(text.tokens[:_TEXT_TOKENS_MAX], text.ids, strict=False)
    for index, (token, id_) in enumerate(pairs):
        tokens.append(
            f'<span class="token c{index % 4}">{escape(fold_runs(token))}'
            f"<small>{id_}</small></span>" + "<br>" * token.endswith(b"\n")
        )
    figures = [
        (name.replace("_", " "), f"{value:.2f}" if isinstance(value, float) else f"{value:,}")
        for name, value in text.figures().items()
    ]
    return [
        "<h2>Text</h2>",
        f'<div class="text">{"".join(tokens)}</div>',
        _more(len(text.ids) - _TEXT_TOKENS_MAX),
        _facts(figures),
    ]


def shards_page(figures: dict[str, Any]) -> str:
    """Return the page of shards, from `ShardReport.as_json`."""
    vocabulary = figures["vocabulary"]
    facts = [
        ("documents", f"{figures['documents']:,}"),
        ("tokens", f"{figures['tokens']:,}"),
        ("bytes of text", f"{figures['bytes']:,}"),
        ("bytes per token", f"{figures['bytes_per_token']:.3f}"),
        ("tokens per document", f"{figures['tokens_per_document']:,.1f}"),
        ("longest document", f"{figures['longest_document']:,} tokens"),
        ("quarantined", f"{figures['quarantined']:,}"),
        ("shards", f"{figures['shards']:,} ({escape(figures['format'])}, {figures['dtype']})"),
        ("tokenizer", _text_cell(figures["tokenizer"]["name"])),
        ("vocabulary", f"{vocabulary['size']:,} ids, {vocabulary['unused_share']:.1%} unused"),
    ]
    lengths = [(_range(row["from"], row["to"] - 1), row["documents"]) for row in figures["lengths"]]
    least = [(_token(row), row["id"], f"{row['count']:,}") for row in figures["least_used"]]
    sources = [
        (
            _text_cell(source["path"]),
            f"{source['documents']:,}",
            f"{source['tokens']:,}",
            f"{source['bytes_per_token']:.2f}",
            f"{source['quarantined']:,}",
            _text_cell(source.get("error", "")),
        )
        for source in figures["sources"][:_ROWS_MAX]
    ]
    heads = ("source", "documents", "tokens", "bytes per token", "quarantined", "")
    return _page(
        figures["output"],
        [
            _facts(facts),
            "<h2>Tokens per document</h2>",
            _bars(lengths),
            "<h2>Most frequent tokens</h2>",
            _bars([(visible(row["token"]), row["count"]) for row in figures["most_used"]]),
            "<h2>Least frequent tokens</h2>",
            _table(("token", "id", "count"), least),
            "<h2>Sources</h2>",
            _table(heads, sources) + _more(len(figures["sources"]) - _ROWS_MAX),
        ],
    )


# Elements. Cells of tables are HTML, all other arguments are text.


def _page(title: str, sections: Iterable[str]) -> str:
    name = _text_cell(title)
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{name}</title><style>\n{style}</style></head>\n<body>\n<h1>{name}</h1>\n"
        + "\n".join(sections)
        + "\n</body></html>\n"
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]], kind: str = "") -> str:
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table{kind}>{f'<tr>{head}</tr>' if head else ''}\n{body}</table>"


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    return _table((), rows, ' class="facts"')


def _bars(rows: Sequence[tuple[str, int]]) -> str:
    """Return a horizontal bar for each label and number."""
    if not rows:
        return "<p>none</p>"
    most = max(1, *(count for _, count in rows))
    bars = []
    for index, (label, count) in enumerate(rows):
        top = index * _BAR_HEIGHT
        width = max(1, round(_BAR_PLOT * count / most))
        text = escape(shorten(label, _BAR_LABEL_WIDTH))
        bars.append(
            f'<text x="{_BAR_LABEL - 8}" y="{top + 15}" text-anchor="end">{text}</text>'
            f'<rect class="bar" x="{_BAR_LABEL}" y="{top + 4}" width="{width}" '
            f'height="{_BAR_HEIGHT - 8}"/>'
            f'<text x="{_BAR_LABEL + width + 6}" y="{top + 15}">{count:,}</text>'
        )
    width, height = _BAR_LABEL + _BAR_PLOT + _BAR_NUMBER, len(rows) * _BAR_HEIGHT
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
        f"{''.join(bars)}</svg>"
    )


def _more(count: int) -> str:
    return f"<p>and {count:,} more</p>" if count > 0 else ""


def _token(row: dict[str, Any], width_max: int = _TOKEN_WIDTH) -> str:
    token = bytes.fromhex(row["hex"]) if "hex" in row else row["token"]
    return f'<code title="{row["id"]}">{escape(shorten(fold_runs(token), width_max))}</code>'


def _code(text: str) -> str:
    return f"<code>{_text_cell(text)}</code>"


def _text_cell(text: str) -> str:
    return escape(printable(text))
