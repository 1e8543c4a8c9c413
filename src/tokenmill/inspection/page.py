"""A report → a page of HTML that stands alone: plots, trees as nested boxes, coloured pieces.

There is no script in it and nothing is fetched. Tokens are untrusted: all of them go through
`shown` and are escaped, and each stands in an element of its own direction, so that Hebrew or
Arabic does not turn a row round.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from tokenmill.inspection.odd import ODD
from tokenmill.inspection.reach import REASONS
from tokenmill.inspection.texts import Pieces
from tokenmill.inspection.words import Pretoken, Word
from tokenmill.page import bars, page, table
from tokenmill.printable import printable
from tokenmill.shown import folded, shortened, shown

if TYPE_CHECKING:
    from tokenmill.inspection.report import Report

_ROWS_MAX = 1_000
_ROWS_OPEN = 50
_EXAMPLES = 200
_PIECES_MAX = 20_000
_TOKEN_WIDTH = 80
_STYLE = """
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; } p.note { color: #666; max-width: 46rem; }
code, .piece, .node > span { unicode-bidi: isolate; direction: ltr; }
td code { white-space: pre-wrap; overflow-wrap: anywhere; }
table.parts td { text-align: left; } table.parts td:first-child { white-space: nowrap; }
details { margin: .3rem 0; } summary { cursor: pointer; }
.lost td:nth-child(n+3), .lost th:nth-child(n+3) { text-align: left; }
.tokens code { display: inline-block; margin: .1rem .15rem; }
.side { display: flex; flex-wrap: wrap; gap: 0 3rem; }
.tree { display: flex; flex-wrap: wrap; align-items: flex-end; gap: 14px; overflow-x: auto;
  padding-bottom: .5rem; }
.row { display: flex; align-items: flex-end; gap: 4px; }
.node { display: inline-flex; flex-direction: column; align-items: stretch; gap: 4px; }
.node > span { border: 1px solid #9ab; border-radius: 4px; padding: 1px 6px; text-align: center;
  background: #eaf2fa; white-space: pre; font: 14px/1.4 ui-monospace, monospace; }
.leaf > span { background: #f6f6f6; border-color: #ccc; }
.root > span { background: #cfe3f7; font-weight: 600; }
.node small { display: block; font: 11px/1.3 system-ui, sans-serif; color: #567; }
.text { line-height: 2.6; }
.piece { display: inline-block; vertical-align: top; margin: 0 1px 4px 0; border-radius: 3px;
  padding: 0 2px; white-space: pre; font: 14px/1.5 ui-monospace, monospace; color: #111; }
.piece small { display: block; font: 10px/1.2 system-ui, sans-serif; color: #444; }
.c0 { background: #a6d8ff; } .c1 { background: #ffd8a6; } .c2 { background: #b9e8b0; }
.c3 { background: #e6c6f5; }
@media (prefers-color-scheme: dark) { p.note { color: #aaa; }
  .node > span { background: #1e2c3a; border-color: #456; } .leaf > span { background: #222;
  border-color: #444; } .root > span { background: #23476b; } .node small { color: #9bb; } }
"""


def html(report: Report) -> str:
    """The page."""
    sections = [_totals(report), *_words(report.words)]
    if report.text is not None:
        sections += _text(report.text)
    sections += [*_plots(report), *_longest(report), *_unreachable(report), *_odd(report)]
    return page(printable(report.tokenizer.name), sections, _STYLE)


def _totals(report: Report) -> str:
    from tokenmill.inspection.report import size_rows

    rows = [(escape(name), escape(printable(value))) for name, value in size_rows(report)[1:]]
    parts = [(escape(name), "<br>".join(map(_code, lines))) for name, lines in report.parts.items()]
    return table((), [*rows, *parts]).replace("<table>", '<table class="parts">', 1)


def _plots(report: Report) -> list[str]:
    from tokenmill.inspection.report import ranges_of_lengths

    lengths = report.lengths()
    rows = ranges_of_lengths(lengths)

    def plot(unit: str) -> str:
        return bars([(_range(row), row[unit]) for row in rows if row[unit]])

    scripts = report.scripts()
    return [
        "<h2>Length of tokens</h2>",
        f"<h3>in bytes ({lengths['mean_bytes']:.2f} on average)</h3>",
        plot("bytes"),
        f"<h3>in characters ({lengths['mean_characters']:.2f} on average)</h3>",
        plot("characters"),
        "<h2>Scripts</h2>",
        bars([(row["script"], row["tokens"]) for row in scripts]),
    ]


def _range(row: dict[str, int]) -> str:
    return f"{row['from']:,}" if row["from"] == row["to"] else f"{row['from']:,} – {row['to']:,}"


def _longest(report: Report) -> list[str]:
    def listed(words: bool) -> str:
        rows = [
            (_token(row, 32), row["id"], f"{row['bytes']:,}") for row in report.longest(words=words)
        ]
        return table(("token", "id", "bytes"), rows[:25])

    return [
        "<h2>Longest tokens</h2>",
        f'<div class="side"><div><h3>of all</h3>{listed(False)}</div>'
        f"<div><h3>of letters alone</h3>{listed(True)}</div></div>",
    ]


def _unreachable(report: Report) -> list[str]:
    found = report.unreachable()
    note = (
        '<p class="note">Encoding the text of such a token gives other tokens, and so do the texts '
        "around it that were tried.</p>"
    )
    if not found["count"]:
        return ["<h2>Unreachable tokens</h2>", "<p>none</p>"]
    reasons = table(
        ("why", "tokens"),
        [(escape(REASONS[name]), f"{n:,}") for name, n in found["reasons"].items()],
    )
    rows = [
        (
            _token(row),
            row["id"],
            escape(REASONS[row["reason"]]),
            " ".join(_token(one, 16) for one in row["gives"][:8])
            + (" …" if len(row["gives"]) > 8 else ""),
        )
        for row in found["tokens"][:_ROWS_MAX]
    ]
    more = found["count"] - _ROWS_MAX
    return [
        f"<h2>Unreachable tokens: {found['count']:,}</h2>",
        note,
        reasons,
        f'<details class="lost"{" open" if len(rows) <= _ROWS_OPEN else ""}>'
        "<summary>the tokens</summary>"
        + table(("token", "id", "why", "its text gives"), rows)
        + (f"<p>and {more:,} more</p>" if more > 0 else "")
        + "</details>",
    ]


def _odd(report: Report) -> list[str]:
    sections = ["<h2>Odd tokens</h2>"]
    for kind, places in report.odd.items():
        tokens = "".join(_token(report.entries.row(place), 40) for place in places[:_EXAMPLES])
        more = len(places) - _EXAMPLES
        sections.append(
            f"<details><summary>{escape(ODD[kind])}: {len(places):,}</summary>"
            f'<p class="tokens">{tokens}{f" and {more:,} more" if more > 0 else ""}</p></details>'
        )
    return sections if report.odd else [*sections, "<p>none</p>"]


def _words(words: list[Word]) -> list[str]:
    sections = []
    for word in words:
        count = len(word.ids)
        sections.append(
            f"<h2>Merges of <code>{escape(shown(word.word))}</code>: "
            f"{count} token{'s'[: count != 1]}</h2>"
        )
        trees = "".join(_tree(pretoken) for pretoken in word.pretokens)
        sections.append(f'<div class="tree">{trees}</div>')
    return sections


def _tree(pretoken: Pretoken) -> str:
    """Boxes that stand on the pieces they were merged from; a chain of any length."""
    boxes: list[str] = []
    roots = set(pretoken.roots)
    for place, node in enumerate(pretoken.nodes):
        # Each box is used once, so that what it is made of goes with it.
        inner, what = "", "" if node.id is None else f"{node.id}"
        if node.children is not None:
            left, right = node.children
            inner = f'<div class="row">{boxes[left]}{boxes[right]}</div>'
            boxes[left] = boxes[right] = ""
            rank = "" if node.rank == node.id else f" · rank {node.rank}"
            what = f"{what}{rank} · step {node.step}"
        kinds = "node" + (" root" if place in roots else "") + ("" if node.children else " leaf")
        boxes.append(
            f'<div class="{kinds}">{inner}<span>{escape(folded(node.token))}'
            f"<small>{what}</small></span></div>"
        )
    found = "".join(boxes[root] for root in pretoken.roots)
    if pretoken.is_whole:
        label = f"a token as it stands, {pretoken.ids[0]}; merging would give these"
        found = f'<div class="node"><div class="row">{found}</div><span>{label}</span></div>'
    return f'<div class="row">{found}</div>'


def _text(text: Pieces) -> list[str]:
    figures = text.figures()
    parts = []
    pairs = zip(text.tokens[:_PIECES_MAX], text.ids, strict=False)
    for index, (token, id_) in enumerate(pairs):
        parts.append(
            f'<span class="piece c{index % 4}">{escape(folded(token))}<small>{id_}</small></span>'
        )
        if token.endswith(b"\n"):
            parts.append("<br>")
    more = len(text.ids) - _PIECES_MAX
    rows = [
        (name.replace("_", " ").replace(" per ", " a "), _figure(value))
        for name, value in figures.items()
    ]
    return [
        "<h2>Text</h2>",
        f'<div class="text">{"".join(parts)}</div>',
        f"<p>and {more:,} more</p>" if more > 0 else "",
        table((), rows),
    ]


def _figure(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else f"{value:,}"


def _token(row: dict[str, Any], most: int = _TOKEN_WIDTH) -> str:
    token = bytes.fromhex(row["hex"]) if "hex" in row else row["token"]
    return f'<code title="{row["id"]}">{escape(shortened(folded(token), most))}</code>'


def _code(text: str) -> str:
    return f"<code>{escape(printable(text))}</code>"
