"""A tokenizer or a folder of shards → tables of its contents: `tokenmill inspect`.

Tokens are untrusted. Cells are rich `Text` without markup, made by `display.visible`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict

from rich.console import Console
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text
from rich.tree import Tree

from tokenmill import inspection
from tokenmill.cli import progress
from tokenmill.cli.app import Parser
from tokenmill.cli.options import ALLOW_SPECIAL, PATTERN, TOKENIZER, add_options
from tokenmill.cli.output import add_json, check_outputs, console, count_of, say, say_json
from tokenmill.display import fold_runs, printable, visible
from tokenmill.errors import OptionError
from tokenmill.files import write_whole
from tokenmill.inspection import ShardReport, TokenizerReport
from tokenmill.inspection.merges import Node, Pretoken, Word
from tokenmill.inspection.page import TEXT_HEADS, Table, token_texts
from tokenmill.inspection.report import EncodedText
from tokenmill.options import number
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import journal
from tokenmill.tokenizing.output import open_output

_HELP = """
Print tables of a tokenizer: numbers, lengths and scripts of its tokens, the longest tokens, tokens
that no text produces, and odd ones. --word adds the merges of a word, and --text a text split into
its tokens.

Of a folder that tokenize wrote, the tables show documents, their lengths, the most and least used
tokens, and the inputs.

examples:
  tokenmill inspect o200k_base
  tokenmill inspect tokenizer.json --word " tokenization"
  tokenmill inspect gpt2 --text "Hello, world" --html a.html
  cat book.txt | tokenmill inspect model/ --text-file -
  tokenmill inspect shards/ --html report.html
"""
_ROWS = 10
_BAR_WIDTH = 18
# The other columns of a table of lengths, and of the table of the longest tokens.
_NUMBERS_WIDTH = 42
_IDS_WIDTH = 34
_TOKEN_WIDTH = 24
_IDS_SHOWN = 6
_PIECES_SHOWN = 1_000


class InspectOptions(TypedDict, total=False):
    """How a tokenizer is printed."""

    allow_special: Annotated[bool, ALLOW_SPECIAL]
    rows: Annotated[int, number(_ROWS, "number of rows of each table")]
    pattern: Annotated[str | None, PATTERN]


def add_inspect(parser: Parser) -> None:
    parser.explain(_HELP)
    parser.add_argument("what", metavar="WHAT", help=f"{TOKENIZER}; or a folder of shards")
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
    if arguments.html is not None:
        check_outputs([arguments.html], [arguments.what, arguments.text_file or ""])
    if inspection.is_shards(arguments.what):
        _refuse_options(arguments)
        with journal.reading(arguments.what):
            with progress.show("auto", late=True) as shown:
                found = inspection.inspect_shards(arguments.what, shown)
            _show(found, arguments)
    else:
        _show(_inspect_tokenizer(arguments), arguments)


def _show(report: TokenizerReport | ShardReport, arguments: argparse.Namespace) -> None:
    if arguments.html is not None:
        write_whole(arguments.html, report.html().encode("utf-8"))
    if arguments.json:
        say_json(report.as_json())
        return
    page = console()
    _facts(page, report.facts())
    for table in report.tables(arguments.rows or _ROWS):
        _table(page, table)
    if isinstance(report, TokenizerReport):  # the last lines are above the prompt
        for word in report.words:
            _word(word, page)
        if report.text is not None:
            _text(report.text, page)
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
    names = ("word", "text", "text_file", "allow_special", "rows", "pattern")
    if given := [name for name in names if getattr(arguments, name)]:
        manifest = journal.load_manifest(open_output(arguments.what))
        own = Path(arguments.what) / journal.TOKENIZER
        used = str(own) if own.exists() else manifest and manifest["tokenizer"]["name"]
        raise OptionError(
            f"--{given[0].replace('_', '-')} is an option for tokenizers, and {arguments.what!r} "
            f"is a folder of shards; inspect its tokenizer: {used or '?'!r}"
        )


def _facts(console: Console, facts: Iterable[tuple[str, list[str]]]) -> None:
    """Print names and values."""
    columns = (Column(no_wrap=True), Column(overflow="fold"))
    table = RichTable(*columns, show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, lines in facts:
        joint = "\n" if name == "pre-tokenizer" else "; "  # patterns may be long
        table.add_row(name, Text(joint.join(map(printable, lines))))
    console.print(table)


def _table(console: Console, table: Table) -> None:
    if not table.rows:
        console.print(Text(f"\n{table.title}", "italic"))
        return
    shown = RichTable(title=table.title, title_justify="left", box=None)
    for head in table.heads:
        is_text, is_long = head in TEXT_HEADS, head in ("examples", "input")
        shown.add_column(
            head,
            justify="left" if is_text else "right",
            no_wrap=not is_text or not head,
            overflow="fold" if is_long else "ellipsis" if head else "crop",
        )
    bars = table.bars
    bar_width = min(_BAR_WIDTH, max(1, (console.width - _NUMBERS_WIDTH) // max(1, len(bars))))
    width = max(_TOKEN_WIDTH, console.width * 3 // 10)
    if "word" in table.heads:
        width = max(8, (console.width - _IDS_WIDTH) // 2)

    def text_of(at: int, cell: Any) -> Text:
        if at in bars:
            return Text("█" * max(1, round(bar_width * cell / bars[at])) if cell else "")
        if not isinstance(cell, list):
            return Text(printable(cell) if isinstance(cell, str) else f"{cell:,}")
        if table.heads[at] != "encoded as":
            return Text("  ".join(token_texts(cell, width)))
        tokens = map(Text, token_texts(cell[:_IDS_SHOWN], width // 2))
        return Text(" │ ", "dim").join(tokens).append(" …" * (len(cell) > _IDS_SHOWN))

    for row in table.rows:
        shown.add_row(*(text_of(at, cell) for at, cell in enumerate(row)))
    if "input" in table.heads and not console.file.isatty():
        console.width = 1 << 16  # each name on one line, for files and pipes
    console.print("", shown, sep="\n")
    if table.more:
        console.print(f"and {table.more:,} more (--json shows all)")
    if table.note:
        console.print(table.note)


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
    console.print()
    _facts(console, text.facts())


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
