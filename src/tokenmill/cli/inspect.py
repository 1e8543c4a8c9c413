"""A tokenizer or a folder of shards → tables of its contents: `tokenmill inspect`.

Tokens are untrusted. Cells are rich `Text` without markup, made by `display.visible`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, TypedDict

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from tokenmill import inspection, object_store
from tokenmill.cli.app import Parser
from tokenmill.cli.options import PATTERN, TOKENIZER, add_options
from tokenmill.cli.output import add_json, check_outputs, console, count_of, say, say_json
from tokenmill.display import fold_runs, printable, shorten, visible
from tokenmill.errors import OptionError
from tokenmill.files import write_whole
from tokenmill.inspection.merges import Node, Pretoken, Word
from tokenmill.inspection.odd import ODD
from tokenmill.inspection.page import shards_page
from tokenmill.inspection.reach import REASONS
from tokenmill.inspection.report import EncodedText, TokenizerReport, length_rows, size_rows
from tokenmill.options import number, switch
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import journal
from tokenmill.tokenizing.output import open_output

_HELP = """
Print the contents of a tokenizer: number, length and script of its tokens, the longest tokens,
tokens that no text can produce, and odd ones. --word adds the merges of a word as a tree, --text a
text split into its tokens. For a folder that tokenize wrote: documents, their lengths, the most and
least used tokens, and the inputs.

examples:
  tokenmill inspect o200k_base
  tokenmill inspect tokenizer.json --word " tokenization"
  tokenmill inspect gpt2 --text "Hello, world" --html a.html
  cat book.txt | tokenmill inspect model/ --text-file -
  tokenmill inspect shards/ --html report.html
"""
_ROWS = 10
_SOURCES_SHOWN = 20
_TOKENS_SHOWN = 10
_BAR_WIDTH = 18
_SHARD_BAR_WIDTH = 30
_PIECES_SHOWN = 1_000
_UNITS = ("bytes", "characters")


class InspectOptions(TypedDict, total=False):
    """How a tokenizer is printed."""

    allow_special: Annotated[
        bool, switch("special tokens in the text are special; without it, they are ordinary text")
    ]
    rows: Annotated[int, number(_ROWS, "number of rows of each table")]
    pattern: Annotated[str | None, PATTERN]


def add_inspect(parser: Parser) -> None:
    parser.explain(_HELP)
    parser.add_argument("what", metavar="WHAT", help=f"{TOKENIZER}, or folder of shards")
    add_json(parser, "all figures as one JSON object")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="HTML page with the same tables and plots"
    )
    group = parser.add_argument_group("options for tokenizers")
    group.add_argument("--word", action="append", help="word whose merges are printed (repeatable)")
    text = group.add_mutually_exclusive_group()
    text.add_argument("--text", help="text to print as tokens, with their ids")
    help = "file to print as tokens; - is standard input"
    text.add_argument("--text-file", metavar="FILE", help=help)
    add_options(group, InspectOptions)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    show: Callable[[Console], None]
    if arguments.html is not None:
        check_outputs([arguments.html], [arguments.what, arguments.text_file or ""])
    if object_store.is_address(arguments.what) or journal.is_output(Path(arguments.what)):
        _refuse_options(arguments)
        with journal.reading(arguments.what):
            figures = inspection.inspect_shards(arguments.what).as_json()
        page = "" if arguments.html is None else shards_page(figures)
        show = partial(_show_shards, figures)
    else:
        report = _inspect_tokenizer(arguments)
        figures = report.as_json() if arguments.json else {}
        page = "" if arguments.html is None else report.html()
        show = partial(_show_tokenizer, report, arguments.rows or _ROWS)
    if arguments.html is not None:
        write_whole(arguments.html, page.encode("utf-8"))
    if arguments.json:
        say_json(figures)
        return
    show(console())
    if arguments.html is not None:
        say(f"{arguments.html}: HTML report")


def _inspect_tokenizer(arguments: argparse.Namespace) -> TokenizerReport:
    text = arguments.text
    if arguments.allow_special and text is None and arguments.text_file is None:
        raise OptionError("--allow-special needs a text; pass --text or --text-file")
    if (name := arguments.text_file) is not None:
        text = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        with suppress(UnicodeDecodeError):
            text = text.decode("utf-8")
    tokenizer = Tokenizer.load(arguments.what, pattern=arguments.pattern)
    specials = bool(arguments.allow_special)
    return inspection.inspect_tokenizer(
        tokenizer, words=arguments.word or (), text=text, allowed_special=specials
    )


def _refuse_options(arguments: argparse.Namespace) -> None:
    """Raise an error for an option that has no meaning for shards."""
    for name in ("word", "text", "text_file", "allow_special", "rows", "pattern"):
        if getattr(arguments, name):
            manifest = journal.load_manifest(open_output(arguments.what))
            own = Path(arguments.what) / journal.TOKENIZER
            used = str(own) if own.exists() else manifest and manifest["tokenizer"]["name"]
            raise OptionError(
                f"--{name.replace('_', '-')} is an option for tokenizers, and {arguments.what!r} "
                f"is a folder of shards; inspect its tokenizer: {used or '?'!r}"
            )


# Columns of text. The others are numbers. The last two may take several lines.
_TEXTS = ("token", "word", "script", "reason", "encoded as", "kind", "", "examples", "input")


def _table(
    console: Console, title: str, heads: Iterable[str], rows: Iterable[Sequence[Any]], more: int = 0
) -> None:
    """Print a table. A column without a head has bars."""
    columns = [
        Column(
            head,
            justify="left" if head in _TEXTS else "right",
            no_wrap=head not in _TEXTS or not head,
            overflow="fold" if head in _TEXTS[-2:] else "ellipsis" if head else "crop",
        )
        for head in heads
    ]
    table = Table(*columns, title=title, title_justify="left", box=None)
    for row in rows:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else cell for cell in row))
    console.print("", table, sep="\n")
    if more > 0:
        console.print(f"and {more:,} more (--json shows all)")


def _pairs(console: Console, rows: Iterable[tuple[str, str | Text]]) -> None:
    """Print names and values."""
    columns = (Column(no_wrap=True), Column(overflow="fold"))
    table = Table(*columns, show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in rows:
        table.add_row(name, Text(printable(value)) if isinstance(value, str) else value)
    console.print(table)


def _bar(count: int, most: int, width: int = _BAR_WIDTH) -> str:
    return "█" * max(1, round(width * count / most)) if count else ""


def _token(row: dict[str, Any], most: int) -> Text:
    """The token of a row, shortened."""
    token = bytes.fromhex(row["hex"]) if "hex" in row else row["token"]
    return Text(shorten(fold_runs(token), most))


def _show_shards(figures: dict[str, Any], console: Console) -> None:
    """Print tables of the figures of shards."""
    vocabulary = figures["vocabulary"]
    rows = {
        "documents": f"{figures['documents']:,}",
        "tokens": f"{figures['tokens']:,} ({figures['dtype']}, {figures['format']})",
        "shards": f"{figures['shards']:,}",
        "bytes of text": f"{figures['bytes']:,}",
        "bytes per token": f"{figures['bytes_per_token']:.2f}",
        "tokens per document": f"{figures['tokens_per_document']:,.1f} "
        f"({figures['shortest_document']:,} to {figures['longest_document']:,})",
        "quarantined": f"{figures['quarantined']:,}",
        "vocabulary": f"{figures['tokenizer']['name']}, {vocabulary['size']:,} ids, "
        f"{vocabulary['unused']:,} unused ({vocabulary['unused_share']:.1%})",
    }
    _pairs(console, rows.items())
    if lengths := figures["lengths"]:
        most = max(row["documents"] for row in lengths)
        cells: list[Sequence[Any]] = [
            (row["from"], row["to"], count, _bar(count, most, _SHARD_BAR_WIDTH))
            for row in lengths
            if (count := row["documents"])
        ]
        _table(console, "tokens per document", ("from", "below", "documents", ""), cells)
    pairs = list(zip(figures["most_used"], figures["least_used"], strict=True))[:_TOKENS_SHOWN]
    cells = [
        [cell for row in pair for cell in (Text(repr(row["token"])), row["count"])]
        for pair in pairs
    ]
    _table(console, "most and least used tokens", ("token", "count") * 2, cells)
    cells = []
    for source in figures["sources"][:_SOURCES_SHOWN]:
        path = source["path"] + (f": {source['error']}" if source.get("error") else "")
        rate = f"{source['bytes_per_token']:.2f}"
        counts = (source["documents"], source["tokens"], rate, source["quarantined"])
        cells.append((*counts, Text(printable(path))))
    heads = ("documents", "tokens", "bytes/token", "rejected", "input")
    _table(console, "inputs", heads, cells, len(figures["sources"]) - _SOURCES_SHOWN)


def _show_tokenizer(report: TokenizerReport, most: int, console: Console) -> None:
    """Print all tables. Words and texts of the command line come last, above the prompt."""
    facts: list[tuple[str, str | Text]] = [*size_rows(report)]
    for name, lines in report.components.items():
        joint = "\n" if name == "pre-tokenizer" else "; "  # patterns may be long
        facts.append((name, Text(joint.join(map(printable, lines)))))
    _pairs(console, facts)
    lengths = length_rows(report.lengths())
    # Numbers and padding take 42 columns.
    width = min(_BAR_WIDTH, max(1, (console.width - 42) // 2))
    highest = {unit: max((row[unit] for row in lengths), default=1) for unit in _UNITS}
    rows: list[list[Any]] = [
        [row["from"], row["to"]]
        + [cell for unit in _UNITS for cell in (row[unit], _bar(row[unit], highest[unit], width))]
        for row in lengths
    ]
    _table(console, "tokens by length", ("from", "to", "bytes", "", "characters", ""), rows)
    scripts = report.scripts()
    rows = [
        [row["script"], count, f"{row['share']:.1%}", _bar(count, scripts[0]["tokens"])]
        for row in scripts[:most]
        if (count := row["tokens"])
    ]
    _table(console, "scripts", ("script", "tokens", "share", ""), rows, len(scripts) - most)
    width = min(48, max(8, (console.width - 34) // 2))
    rows = [
        [cell for row in pair if row for cell in (_token(row, width), str(row["id"]), row["bytes"])]
        for pair in zip_longest(report.longest()[:most], report.longest(words=True)[:most])
    ]
    heads = ("token", "id", "bytes", "word", "id", "bytes")
    _table(console, "longest tokens and words", heads, rows)
    _unreachable(report, console, most)
    rows = []
    for kind, places in report.odd.items():
        examples = (report.table.row(place) for place in places[: max(3, most // 3)])
        shown = Text("  ").join(_token(row, 24) for row in examples)
        rows.append([ODD[kind], len(places), shown])
    if rows:
        _table(console, "odd tokens", ("kind", "count", "examples"), rows)
    for word in report.words:
        _word(word, console)
    if report.text is not None:
        _text(report.text, console)


def _unreachable(report: TokenizerReport, console: Console, most: int) -> None:
    found = report.unreachable()
    title = f"unreachable tokens: {found['count']:,}"
    if not found["count"]:
        console.print(Text(f"\n{title}", "italic"))
        return
    rows = []
    for row in found["tokens"][:most]:
        gives = Text(" │ ", "dim").join(_token(one, 12) for one in row["encoded_as"][:6])
        gives.append(" …" if len(row["encoded_as"]) > 6 else "")
        rows.append((_token(row, 24), str(row["id"]), REASONS[row["reason"]], gives))
    heads = ("token", "id", "reason", "encoded as")
    _table(console, title, heads, rows, found["count"] - most)
    if len(found["reasons"]) > 1:
        reasons = (f"{n:,} {REASONS[name]}" for name, n in found["reasons"].items())
        console.print(f"in all: {'; '.join(reasons)}")


def _word(word: Word, console: Console) -> None:
    head = Text(visible(word.word), "bold")
    root = Tree(head.append(f"  {count_of(len(word.ids), 'token')}", "not bold"), guide_style="dim")
    for index, pretoken in enumerate(word.pretokens):
        branch = root
        if len(word.pretokens) > 1:
            branch = root.add(Text(f"pretoken {index + 1}", "dim"))
        if pretoken.is_whole:
            leaves = b"".join(node.token for node in pretoken.nodes if node.children is None)
            label = _label(pretoken.nodes, Node(leaves, pretoken.ids[0]))
            branch = branch.add(label.append("  one token; merging alone gives", "dim"))
        _grow(branch, pretoken)
    console.print("", root, sep="\n")


def _grow(branch: Tree, pretoken: Pretoken) -> None:
    """Add the trees of a pretoken to a branch. Symbols without a merge become labels."""
    trees: list[Tree] = []
    for node in pretoken.nodes:
        tree = Tree(_label(pretoken.nodes, node), guide_style="dim")
        children = node.children or ()
        tree.children += [trees[at] for at in children if pretoken.nodes[at].children is not None]
        trees.append(tree)
    branch.children += [trees[place] for place in pretoken.roots]


def _label(nodes: list[Node], node: Node) -> Text:
    label = Text(fold_runs(node.token), "bold")
    label.append("" if node.id is None else f" {node.id}", "not bold cyan")
    if node.children is not None:
        left, right = (fold_runs(nodes[child].token) for child in node.children)
        label.append(f"  = {left} + {right}", "not bold")
        rank = "" if node.rank == node.id else f", rank {node.rank}"
        label.append(f"  step {node.step}{rank}", "not bold dim")
    return label


def _text(text: EncodedText, console: Console) -> None:
    console.print()
    for line in _pieces(text.tokens[:_PIECES_SHOWN], text.ids[:_PIECES_SHOWN], console):
        console.print(line, soft_wrap=True)
    if len(text.ids) > _PIECES_SHOWN:
        console.print(f"and {len(text.ids) - _PIECES_SHOWN:,} more (--json shows all)")
    figures = text.figures()
    names = ("tokens", "distinct_tokens", "pretokens", "characters", "bytes")
    rows = [(name, f"{figures[name]:,}") for name in names]
    rows += [(name, f"{figures[name]:.2f}") for name in ("bytes_per_token", "characters_per_token")]
    console.print()
    _pairs(console, ((name.replace("_", " "), value) for name, value in rows))


_STYLES = tuple(f"black on {colour}" for colour in ("#a6d8ff", "#ffd8a6", "#b9e8b0", "#e6c6f5"))


def _pieces(tokens: Sequence[bytes], ids: Sequence[int], console: Console) -> list[Text]:
    """Lines of tokens and lines of their ids, wrapped at the width and at newlines of the text.

    Without colours, a bar ends each token.
    """
    has_colours = console.color_system is not None and not console.no_color
    bar, style = (" ", "") if has_colours else ("│", "dim")
    lines: list[Text] = []
    pieces, numbers = Text(), Text()
    for index, (token, id_) in enumerate(zip(tokens, ids, strict=True)):
        piece = Text(fold_runs(token), _STYLES[index % len(_STYLES)])
        piece.truncate(console.width - 1, overflow="ellipsis")
        cells = max(piece.cell_len, len(str(id_)))
        if pieces and pieces.cell_len + cells + 1 > console.width:
            lines += [pieces, numbers]
            pieces, numbers = Text(), Text()
        pieces.append_text(piece).append(" " * (cells - piece.cell_len) + bar, style)
        numbers.append(str(id_).ljust(cells) + bar, "dim")
        if token.endswith(b"\n"):
            lines += [pieces, numbers, Text()]
            pieces, numbers = Text(), Text()
    return [*lines, pieces, numbers] if pieces else lines[:-1]
