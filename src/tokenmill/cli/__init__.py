"""Arguments of the command line → one command."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

import tokenmill
from tokenmill.cli import ending
from tokenmill.cli.parser import Parser, every_parser

# In the order in which they are shown. Each is a module of this package, which is imported when it
# is wanted: who encodes a line does not wait for what trains.
COMMANDS = (
    *("encode", "decode", "train", "count", "tokenize", "verify", "inspect", "convert"),
    *("ladder", "bench", "demo", "completion"),
)

_OVERVIEW = """\
tokenmill {version}: byte-pair encoding, exact and offline.

  tokenmill encode FILE        text → ids          tokenmill decode FILE    ids → text
  tokenmill train INPUT …      learn a vocabulary  tokenmill convert A B    another format
  tokenmill tokenize INPUT …   corpus → shards     tokenmill verify DIR     check them
  tokenmill inspect WHAT       what is in it       tokenmill demo           see it work

  echo 'hello world' | tokenmill encode -

All commands: tokenmill --help. One of them, with examples: tokenmill encode --help
"""

_EXAMPLES = """
echo 'hello world' | tokenmill encode -
tokenmill encode book.txt --count
tokenmill train book.txt --vocab-size 1000 --output mine.json
tokenmill tokenize data/*.jsonl --tokenizer gpt2 --output shards/
eval "$(tokenmill completion bash)"
"""

_ENVIRONMENT = """\
environment:
  NO_COLOR=1          no colours; FORCE_COLOR=1: colours where there is no terminal, too
  TOKENMILL_DEBUG=1   as --debug, which comes before or behind the command
  TOKENMILL_CACHE     a folder for what is worked out once for large tokenizers; 0 for none"""


def main(arguments: Sequence[str] | None = None) -> int:
    _fill_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    # A terminal that cannot show a character shows a question mark.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    debug = "--debug" in words or ending.wants_debug()
    return ending.run(lambda: _main(words), debug=debug)


def _main(words: list[str]) -> int | None:
    if not words:
        sys.stdout.write(_OVERVIEW.format(version=tokenmill.__version__))
        return 0
    command = next((word for word in words if not word.startswith("-")), "")
    parser = make_parser((command,) if command in COMMANDS else COMMANDS)
    options = parser.parse_args(words)
    code: int | None = options.run(options)
    return code


def make_parser(commands: Sequence[str] = COMMANDS) -> Parser:
    """The parser of these commands."""
    codes = "\n".join(f"  {code:<4}{meaning}" for code, meaning in ending.CODES.items())
    parser = Parser(
        prog="tokenmill",
        description="Byte-pair encoding: exact, offline, on any text.",
        usage="tokenmill COMMAND …",
        examples=_EXAMPLES,
        epilog=f"exit codes:\n{codes}\n\n{_ENVIRONMENT}",
    )
    parser.add_argument("--version", action="version", version=f"tokenmill {tokenmill.__version__}")
    added = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, title="commands", prog="tokenmill"
    )
    for name in commands:
        importlib.import_module(f"tokenmill.cli.{name}").add_parser(added)
    for each in every_parser(parser):
        each.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show the traceback of an error",
        )
    return parser


def _fill_streams() -> None:
    """What is said to a stream that the caller has closed is said to nobody, and the work is done.

    The number is taken, too: a file of ours that got it would be written to by others.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
