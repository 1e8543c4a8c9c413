"""A tokenizer or a folder of shards → tables of its contents: `tokenmill inspect`.

Tokens are untrusted. Cells are rich `Text` without markup, made by `display.visible`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Annotated, Any, TypedDict

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from tokenmill import inspection, object_store
from tokenmill.cli.app import Parser
from tokenmill.cli.options import PATTERN, TOKENIZER, add_options, options_of
from tokenmill.cli.output import add_json, check_outputs, console, count_of, say, say_json
from tokenmill.display import fold_runs, printable, shorten, visible
from tokenmill.errors import OptionError
from tokenmill.files import write_whole
from tokenmill.inspection.merges import Node, Pretoken, Word
from tokenmill.inspection.odd import ODD
from tokenmill.inspection.page import shards_page
from tokenmill.inspection.reach import REASONS
from tokenmill.inspection.report import EncodedText, TokenizerReport, length_rows, size_rows
from tokenmill.options import number, resolve, switch
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
_SOURCES_SHOWN = 20
_TOKENS_SHOWN = 10
_BAR_WIDTH = 18
_SHARD_BAR_WIDTH = 30
_TOKEN_WIDTH = 40
_PIECES_SHOWN = 1_000


class InspectOptions(TypedDict, total=False):
    """How a tokenizer is printed."""

    allow_special: Annotated[
        bool, switch("special tokens in the text are special; without it, they are ordinary text")
    ]
    rows: Annotated[int, number(10, "number of rows of each table")]
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
        rows = resolve(InspectOptions, options_of(arguments, InspectOptions))["rows"]
        show = partial(_show_tokenizer, report, rows)
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


# Tables


_number = partial(Column, justify="right", no_wrap=True)


def _table(title: str, *columns: Column | str) -> Table:
    return Table(*columns, title=title, title_justify="left", box=None)


def _pairs(rows: Iterable[tuple[str, str | Text]]) -> Table:
    """A table of names and values."""
    columns = (Column(no_wrap=True), Column(overflow="fold"))
    table = Table(*columns, show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in rows:
        table.add_row(name, Text(printable(value)) if isinstance(value, str) else value)
    return table


def _bar(count: int, most: int, width: int = _BAR_WIDTH) -> str:
    return "█" * max(1, round(width * count / most)) if count else ""


def _print(console: Console, table: Table, more: int = 0) -> None:
    console.print("", table, sep="\n")
    if more > 0:
        console.print(f"and {more:,} more (--json shows all)")


def _token(row: dict[str, Any], most: int = _TOKEN_WIDTH) -> Text:
    """The token of a row, shortened."""
    token = bytes.fromhex(row["hex"]) if "hex" in row else row["token"]
    return Text(shorten(fold_runs(token), most))


# Shards


def _show_shards(figures: dict[str, Any], console: Console) -> None:
    """Print tables of the figures of shards."""
    heads: Iterable[Column | str]
    cells: Any
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
    console.print(_pairs(rows.items()))
    heads = (_number("from"), _number("below"), _number("documents"))
    table = _table("tokens per document", *heads, "")
    most = max((row["documents"] for row in figures["lengths"]), default=0)
    for row in figures["lengths"]:
        bar = _bar(row["documents"], most, _SHARD_BAR_WIDTH)
        table.add_row(f"{row['from']:,}", f"{row['to']:,}", f"{row['documents']:,}", bar)
    if figures["lengths"]:
        _print(console, table)
    heads = ("token", _number("count"), "token", _number("count"))
    table = _table("most and least used tokens", *heads)
    for pair in list(zip(figures["most_used"], figures["least_used"], strict=True))[:_TOKENS_SHOWN]:
        cells = ((Text(repr(row["token"])), f"{row['count']:,}") for row in pair)
        table.add_row(*chain(*cells))
    _print(console, table)
    heads = map(_number, ("documents", "tokens", "bytes/token", "rejected"))
    table = _table("inputs", *heads, Column("input", overflow="fold"))
    for source in figures["sources"][:_SOURCES_SHOWN]:
        error = f": {source['error']}" if source.get("error") else ""
        counts = (f"{source[name]:,}" for name in ("documents", "tokens"))
        rate, rejected = f"{source['bytes_per_token']:.2f}", f"{source['quarantined']:,}"
        table.add_row(*counts, rate, rejected, Text(printable(source["path"] + error)))
    _print(console, table, len(figures["sources"]) - _SOURCES_SHOWN)


# Tokenizers


def _show_tokenizer(report: TokenizerReport, most: int, console: Console) -> None:
    """Print all tables. Words and texts of the command line come last, above the prompt."""
    cells: Any
    rows: list[tuple[str, str | Text]] = [*size_rows(report)]
    for name, lines in report.components.items():
        joint = "\n" if name == "pre-tokenizer" else "; "  # patterns may be long
        rows.append((name, Text(joint.join(map(printable, lines)))))
    console.print(_pairs(rows))
    _lengths(report, console)
    scripts = report.scripts()
    table = _table("scripts", "script", _number("tokens"), _number("share"), "")
    for row in scripts[:most]:
        bar = _bar(row["tokens"], scripts[0]["tokens"])
        table.add_row(row["script"], f"{row['tokens']:,}", f"{row['share']:.1%}", bar)
    _print(console, table, len(scripts) - most)
    columns = ("token", _number("id"), _number("bytes"), "word", _number("id"), _number("bytes"))
    table = _table("longest tokens and words", *columns)
    width = min(48, max(8, (console.width - 34) // 2))
    for pair in zip_longest(report.longest()[:most], report.longest(words=True)[:most]):
        cells = (
            (_token(row, width), f"{row['id']}", f"{row['bytes']:,}") if row else ("", "", "")
            for row in pair
        )
        table.add_row(*chain(*cells))
    _print(console, table)
    _unreachable(report, console, most)
    table = _table("odd tokens", "kind", _number("count"), Column("examples", overflow="fold"))
    for kind, places in report.odd.items():
        shown = [report.table.row(place) for place in places[: max(3, most // 3)]]
        examples = Text("  ").join(_token(row, 24) for row in shown)
        table.add_row(ODD[kind], f"{len(places):,}", examples)
    if report.odd:
        _print(console, table)
    for word in report.words:
        _word(word, console)
    if report.text is not None:
        _text(report.text, console)


def _lengths(report: TokenizerReport, console: Console) -> None:
    units = ("bytes", "characters")
    columns = [column for unit in units for column in (_number(unit), Column(no_wrap=True))]
    table = _table("tokens by length", _number("from"), _number("to"), *columns)
    # Numbers and padding take 42 columns.
    width = min(_BAR_WIDTH, max(1, (console.width - 42) // 2))
    rows = length_rows(report.lengths())
    most = {unit: max((row[unit] for row in rows), default=1) for unit in units}
    for row in rows:
        cells = ((f"{row[unit]:,}", _bar(row[unit], most[unit], width)) for unit in units)
        table.add_row(f"{row['from']:,}", f"{row['to']:,}", *chain(*cells))
    _print(console, table)


def _unreachable(report: TokenizerReport, console: Console, most: int) -> None:
    found = report.unreachable()
    title = f"unreachable tokens: {found['count']:,}"
    if not found["count"]:
        console.print(Text(f"\n{title}", "italic"))
        return
    table = _table(title, "token", _number("id"), "reason", "encoded as")
    for row in found["tokens"][:most]:
        gives = Text(" │ ", "dim").join(_token(one, 12) for one in row["encoded_as"][:6])
        if len(row["encoded_as"]) > 6:
            gives.append(" …")
        table.add_row(_token(row, 24), f"{row['id']}", REASONS[row["reason"]], gives)
    _print(console, table, found["count"] - most)
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
    console.print("", _pairs((name.replace("_", " "), value) for name, value in rows), sep="\n")


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
