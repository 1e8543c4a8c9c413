"""A tokenizer or a folder of shards → tables of its contents: `tokenmill inspect`.

Tokens are untrusted. Cells are rich `Text` without markup, made by `display.visible`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, TypedDict

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from tokenmill import inspection, object_store
from tokenmill.cli.inputs import check_outputs
from tokenmill.cli.options import PATTERN, add_options
from tokenmill.cli.output import add_json, console, say, say_json
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

_HELP = """\
Prints the contents of a tokenizer: number, length and script of its tokens, the longest tokens,
tokens that no text can produce, and odd ones. --word adds the merges of a word as a tree, --text a
text split into its tokens. For a folder that tokenize wrote: documents, their lengths, the most and
least used tokens, and the inputs."""
_EXAMPLES = """
tokenmill inspect o200k_base
tokenmill inspect tokenizer.json --word " tokenization" --word naïve
tokenmill inspect cl100k_base --text "Hello, world" --html report.html
cat book.txt | tokenmill inspect model/ --text-file - --json
tokenmill inspect shards/ --html report.html
"""


class InspectOptions(TypedDict, total=False):
    """How a tokenizer is printed."""

    allow_special: Annotated[
        bool, switch("special tokens in the text are special; without it, they are ordinary text")
    ]
    rows: Annotated[int, number(10, "number of rows of each table")]
    pattern: Annotated[str | None, PATTERN]


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "inspect",
        help="print the contents of a tokenizer or of shards",
        description=_HELP,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "what",
        metavar="WHAT",
        help="tokenizer (a name such as o200k_base, a file or a folder), or folder of shards",
    )
    add_json(parser, "all figures as one JSON object")
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="HTML page with the same tables and plots"
    )
    group = parser.add_argument_group("options for tokenizers")
    group.add_argument(
        "--word", action="append", metavar="WORD", help="word whose merges are printed; repeatable"
    )
    text = group.add_mutually_exclusive_group()
    text.add_argument("--text", help="text to print as tokens, with their ids")
    text.add_argument(
        "--text-file", metavar="FILE", help="file to print as tokens; - is standard input"
    )
    add_options(group, InspectOptions)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    show: Callable[[Console], None]
    if options.html is not None:
        check_outputs([options.html], [options.what, options.text_file or ""])
    if object_store.is_address(options.what) or journal.is_output(Path(options.what)):
        _refuse_options(options)
        with journal.reading(options.what):
            figures = inspection.inspect_shards(options.what).as_json()
        page = "" if options.html is None else shards_page(figures)
        show = partial(show_shards, figures)
    else:
        report = _report(options)
        figures = report.as_json() if options.json else {}
        page = "" if options.html is None else report.html()
        show = partial(show_tokenizer, report, rows=options.rows)
    if options.html is not None:
        write_whole(options.html, page.encode("utf-8"))
    if options.json:
        say_json(figures)
        return
    show(console())
    if options.html is not None:
        say(f"{options.html}: HTML report")


def _report(options: argparse.Namespace) -> inspection.TokenizerReport:
    text = options.text
    if options.allow_special and text is None and options.text_file is None:
        raise OptionError("--allow-special needs a text; pass --text or --text-file")
    if options.text_file is not None:
        text = _read(options.text_file)
    tokenizer = Tokenizer.load(options.what, pattern=options.pattern)
    words = options.word or ()
    return inspection.inspect_tokenizer(
        tokenizer, words=words, text=text, allowed_special=bool(options.allow_special)
    )


def _read(name: str) -> str | bytes:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _refuse_options(options: argparse.Namespace) -> None:
    """Raise an error for an option that has no meaning for shards."""
    for name in ("word", "text", "text_file", "allow_special", "rows", "pattern"):
        if getattr(options, name):
            option = "--" + name.replace("_", "-")
            own = Path(options.what) / journal.TOKENIZER
            content = journal.load_manifest(open_output(options.what)) or {
                "tokenizer": {"name": "?"}
            }
            used = str(own) if own.exists() else content["tokenizer"]["name"]
            raise OptionError(
                f"{option} is an option for tokenizers, and {options.what!r} is a folder of "
                f"shards; inspect its tokenizer: {used!r}"
            )


_SOURCES_SHOWN = 20
_TOKENS_SHOWN = 10
_SHARD_BAR_WIDTH = 30


def show_shards(figures: dict[str, Any], console: Console, sources: int = _SOURCES_SHOWN) -> None:
    """Print tables of the figures of shards."""
    _shard_totals(figures, console)
    _shard_lengths(figures, console)
    _shard_tokens(figures, console)
    _sources(figures, console, sources)


def _shard_totals(figures: dict[str, Any], console: Console) -> None:
    vocabulary = figures["vocabulary"]
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    rows = {
        "documents": f"{figures['documents']:,}",
        "tokens": f"{figures['tokens']:,} ({figures['dtype']}, {figures['format']})",
        "shards": f"{figures['shards']:,}",
        "bytes of text": f"{figures['bytes']:,}",
        "bytes per token": f"{figures['bytes_per_token']:.2f}",
        "tokens per document": f"{figures['tokens_per_document']:,.1f} "
        f"({figures['shortest_document']:,} to {figures['longest_document']:,})",
        "quarantined": f"{figures['quarantined']:,}",
        "vocabulary": f"{printable(figures['tokenizer']['name'])}, {vocabulary['size']:,} ids, "
        f"{vocabulary['unused']:,} unused ({vocabulary['unused_share']:.1%})",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table, markup=False)


def _shard_lengths(figures: dict[str, Any], console: Console) -> None:
    rows = figures["lengths"]
    if not rows:
        return
    most = max(row["documents"] for row in rows)
    table = Table(title="tokens per document", title_justify="left", box=None)
    table.add_column("from", justify="right")
    table.add_column("below", justify="right")
    table.add_column("documents", justify="right")
    table.add_column("")
    for row in rows:
        bar = "█" * max(1, round(_SHARD_BAR_WIDTH * row["documents"] / most))
        table.add_row(f"{row['from']:,}", f"{row['to']:,}", f"{row['documents']:,}", bar)
    console.print(table)


def _shard_tokens(figures: dict[str, Any], console: Console) -> None:
    table = Table(title="most and least used tokens", title_justify="left", box=None)
    for _ in range(2):
        table.add_column("token")
        table.add_column("count", justify="right")
    most, least = figures["most_used"], figures["least_used"]
    for index in range(min(_TOKENS_SHOWN, len(most))):
        cells = []
        for row in (most[index], least[index]):
            cells += [repr(row["token"]), f"{row['count']:,}"]
        table.add_row(*cells)
    console.print(table, markup=False)


def _sources(figures: dict[str, Any], console: Console, most: int) -> None:
    table = Table(title="inputs", title_justify="left", box=None)
    for name in ("documents", "tokens", "bytes/token", "rejected"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("input", overflow="fold")
    sources = figures["sources"]
    for source in sources[:most]:
        error = f": {source['error']}" if source.get("error") else ""
        table.add_row(
            f"{source['documents']:,}",
            f"{source['tokens']:,}",
            f"{source['bytes_per_token']:.2f}",
            f"{source['quarantined']:,}",
            printable(source["path"] + error),
        )
    console.print(table, markup=False)
    if len(sources) > most:
        console.print(f"and {len(sources) - most:,} more (--json shows all)")


_ROWS = 10
_BAR_WIDTH = 18
_TOKEN_WIDTH = 40
_PIECES_SHOWN = 1_000


def show_tokenizer(report: TokenizerReport, console: Console, rows: int | None = None) -> None:
    """Print all tables. Words and texts of the command line come last, above the prompt."""
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


def _totals(report: TokenizerReport, console: Console) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in size_rows(report):
        table.add_row(name, Text(printable(value)))
    for name, lines in report.components.items():
        joint = "\n" if name == "pre-tokenizer" else "; "  # patterns may be long
        table.add_row(name, Text(joint.join(map(printable, lines))))
    console.print(table)


def _lengths(report: TokenizerReport, console: Console) -> None:
    table = _table("tokens by length")
    table.add_column("from", justify="right")
    table.add_column("to", justify="right")
    for unit in ("bytes", "characters"):
        table.add_column(unit, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
    # Numbers and padding take 42 columns.
    width = min(_BAR_WIDTH, max(1, (console.width - 42) // 2))
    rows = length_rows(report.lengths())
    most = [max((row[unit] for row in rows), default=1) for unit in ("bytes", "characters")]
    for row in rows:
        cells = [f"{row['from']:,}", f"{row['to']:,}"]
        for unit, highest in zip(("bytes", "characters"), most, strict=True):
            count = row[unit]
            bar = "█" * max(1, round(width * count / highest)) if count else ""
            cells += [f"{count:,}", bar]
        table.add_row(*cells)
    _print(console, table)


def _scripts(report: TokenizerReport, console: Console, most: int) -> None:
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


def _longest(report: TokenizerReport, console: Console, most: int) -> None:
    table = _table("longest tokens and words")
    for name in ("token", "word"):
        table.add_column(name)
        for unit in ("id", "bytes"):
            table.add_column(unit, justify="right")
    width = min(48, max(8, (console.width - 34) // 2))
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


def _unreachable(report: TokenizerReport, console: Console, most: int) -> None:
    found = report.unreachable()
    title = f"unreachable tokens: {found['count']:,}"
    if not found["count"]:
        console.print(Text(f"\n{title}", "italic"))
        return
    table = _table(title)
    table.add_column("token")
    table.add_column("id", justify="right")
    table.add_column("reason")
    table.add_column("encoded as")
    for row in found["tokens"][:most]:
        gives = Text(" │ ", "dim").join(_token(one, 12) for one in row["encoded_as"][:6])
        if len(row["encoded_as"]) > 6:
            gives.append(" …")
        table.add_row(_token(row, 24), f"{row['id']}", REASONS[row["reason"]], gives)
    _print(console, table, found["count"] - most)
    if len(found["reasons"]) > 1:
        reasons = (f"{n:,} {REASONS[name]}" for name, n in found["reasons"].items())
        console.print(f"in all: {'; '.join(reasons)}")


def _odd(report: TokenizerReport, console: Console, most: int) -> None:
    table = _table("odd tokens")
    table.add_column("kind")
    table.add_column("count", justify="right")
    table.add_column("examples", overflow="fold")
    for kind, places in report.odd.items():
        rows = [report.table.row(place) for place in places[: max(3, most // 3)]]
        examples = Text("  ").join(_token(row, 24) for row in rows)
        table.add_row(ODD[kind], f"{len(places):,}", examples)
    if report.odd:
        _print(console, table)


def _word(word: Word, console: Console) -> None:
    count = len(word.ids)
    head = Text(visible(word.word), "bold")
    head.append(f"  {count} token{'s'[: count != 1]}", "not bold")
    root = Tree(head, guide_style="dim")
    for index, pretoken in enumerate(word.pretokens):
        branch = root
        if len(word.pretokens) > 1:
            branch = root.add(Text(f"pretoken {index + 1}", "dim"))
        if pretoken.is_whole:
            label = _label(pretoken.nodes, Node(b"".join(_leaves(pretoken)), pretoken.ids[0]))
            branch = branch.add(label.append("  one token; merging alone gives", "dim"))
        _grow(branch, pretoken)
    console.print()
    console.print(root)


def _leaves(pretoken: Pretoken) -> Iterable[bytes]:
    return (node.token for node in pretoken.nodes if node.children is None)


def _grow(branch: Tree, pretoken: Pretoken) -> None:
    """Add the trees of a pretoken to a branch. Symbols without a merge become labels."""
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
    shown_, ids = text.tokens[:_PIECES_SHOWN], text.ids[:_PIECES_SHOWN]
    for line in rows_of_pieces(shown_, ids, console):
        console.print(line, soft_wrap=True)
    if len(text.ids) > _PIECES_SHOWN:
        console.print(f"and {len(text.ids) - _PIECES_SHOWN:,} more (--json shows all)")
    figures = text.figures()
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name in ("tokens", "distinct_tokens", "pretokens", "characters", "bytes"):
        table.add_row(name.replace("_", " "), f"{figures[name]:,}")
    table.add_row("bytes per token", f"{figures['bytes_per_token']:.2f}")
    table.add_row("characters per token", f"{figures['characters_per_token']:.2f}")
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
    """The token of a row, shortened."""
    token = bytes.fromhex(row["hex"]) if "hex" in row else row["token"]
    return Text(shorten(fold_runs(token), most))


STYLES = tuple(f"black on {colour}" for colour in ("#a6d8ff", "#ffd8a6", "#b9e8b0", "#e6c6f5"))


def rows_of_pieces(tokens: Sequence[bytes], ids: Sequence[int], console: Console) -> list[Text]:
    """Lines of tokens and lines of their ids, wrapped at the width and at newlines of the text.

    Without colours, a bar ends each token.
    """
    has_colours = console.color_system is not None and not console.no_color
    bar = " " if has_colours else "│"
    lines: list[Text] = []
    pieces, numbers = Text(), Text()
    for index, (token, id_) in enumerate(zip(tokens, ids, strict=True)):
        piece, number = _fitted(fold_runs(token), console.width - 1), str(id_)
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
    """Shorten a token that is wider than the terminal."""
    if cell_len(piece) <= width:
        return piece
    while cell_len(piece) > width - 1:
        piece = piece[:-1]
    return piece + "…"
