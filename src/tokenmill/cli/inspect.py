"""A tokenizer, or a folder of shards → what is in it: `tokenmill inspect`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from tokenmill import inspection
from tokenmill.cli import inspect_shards, inspect_tokenizer, values
from tokenmill.cli.inputs import check_outputs
from tokenmill.cli.output import console, say, say_json
from tokenmill.corpus import remote
from tokenmill.errors import CommandError, InspectError
from tokenmill.files import write_whole
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import manifest
from tokenmill.tokenizing import report as shards_report
from tokenmill.tokenizing.inspect import inspect

_HELP = """\
Of a tokenizer: sizes, lengths and scripts of its tokens, the longest, those that no text gives, odd
ones; the tree of merges of a word, and a text in its pieces. WHAT is then anything that
Tokenizer.load takes: a name such as o200k_base, a file, a folder that transformers saved.

Of a folder of shards: documents, lengths, use of the vocabulary, sources."""
_EXAMPLES = """
tokenmill inspect o200k_base
tokenmill inspect tokenizer.json --word " tokenization" --word naïve
tokenmill inspect cl100k_base --text "Hello, world" --html report.html
cat book.txt | tokenmill inspect model/ --text-file - --json
tokenmill inspect shards/ --html report.html
"""


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "inspect",
        help="show what is in a tokenizer, or in shards",
        description=_HELP,
        examples=_EXAMPLES,
    )
    parser.add_argument("what", metavar="WHAT", help="a tokenizer, or a folder tokenize wrote")
    parser.add_argument("--json", action="store_true", help="all figures as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="a page with plots")
    group = parser.add_argument_group("of a tokenizer")
    group.add_argument(
        "--word", action="append", metavar="WORD", help="show its merges as a tree; may be repeated"
    )
    text = group.add_mutually_exclusive_group()
    text.add_argument("--text", help="show the pieces of a text, with their ids")
    text.add_argument(
        "--text-file", metavar="FILE", help="the same for a file; - is standard input"
    )
    group.add_argument(
        "--specials", action="store_true", help="find specials in the text; they are text otherwise"
    )
    group.add_argument("--rows", type=values.whole_number(1), help="rows of each table (10)")
    group.add_argument(
        "--pattern",
        help="how text is cut, for formats that do not say: a regular expression, or a name such "
        "as cl100k",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    show: Callable[[Console], None]
    if options.html is not None:
        check_outputs([options.html], [options.what, options.text_file or ""])
    if remote.is_address(options.what) or manifest.is_folder(Path(options.what)):
        _refuse_options(options)
        with manifest.reading(Path(options.what)):
            figures = inspect(options.what).as_json()
        page = "" if options.html is None else shards_report.html(figures)
        show = partial(inspect_shards.show, figures)
    else:
        report = _report(options)
        figures = report.as_json() if options.json else {}
        page = "" if options.html is None else report.html()
        show = partial(inspect_tokenizer.show, report, rows=options.rows)
    if options.html is not None:
        write_whole(options.html, page.encode("utf-8"))
    if options.json:
        say_json(figures)
        return
    show(console())
    if options.html is not None:
        say(f"{options.html}: the same with plots")


def _report(options: argparse.Namespace) -> inspection.Report:
    text = options.text
    if options.specials and text is None and options.text_file is None:
        raise CommandError("--specials is about a text: give one with --text or --text-file")
    if options.text_file is not None:
        text = _read(options.text_file)
    tokenizer = Tokenizer.load(options.what, pattern=options.pattern)
    words = options.word or ()
    return inspection.inspect(tokenizer, words=words, text=text, specials=options.specials)


def _read(name: str) -> str | bytes:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _refuse_options(options: argparse.Namespace) -> None:
    """Options of a tokenizer say nothing about shards."""
    for name in ("word", "text", "text_file", "specials", "rows", "pattern"):
        if getattr(options, name):
            option = "--" + name.replace("_", "-")
            own = Path(options.what) / manifest.TOKENIZER
            content = manifest.load(Path(options.what)) or {"tokenizer": {"name": "?"}}
            used = str(own) if own.exists() else content["tokenizer"]["name"]
            raise InspectError(
                f"{options.what!r} is a folder of shards, and {option} is for tokenizers; the one "
                f"of these shards is {used!r}"
            )
