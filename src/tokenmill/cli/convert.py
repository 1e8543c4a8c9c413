"""A tokenizer in one format → the same in another: `tokenmill convert`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tokenmill import formats
from tokenmill.cli import inputs
from tokenmill.tokenizer import Tokenizer

_HELP = """\
FROM is what Tokenizer.load takes: a tokenizer.json, a .model of SentencePiece, tekken.json, a GGUF
file, vocab.json beside merges.txt, a rank file of tiktoken, a .tokenmill file, a folder that
transformers saved, the name of an embedded vocabulary, or org/name in the local cache of the hub.

TO says by its name what is written: tokenizer.json (or another .json), vocab.json (and merges.txt
beside it), .model, .tokenmill, or a rank file under any other name. What a format cannot hold is
an error, and nothing is written then; so are names of formats that are only read, as x.gguf."""


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "convert",
        help="write a tokenizer in another format",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="FROM")
    parser.add_argument("target", metavar="TO", type=Path)
    parser.add_argument(
        "--pattern",
        help="how text is cut, for formats that do not say: a regular expression, or a name such "
        "as cl100k",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    inputs.check_outputs([options.target], [options.source])
    formats.check_name(options.target)
    tokenizer = Tokenizer.load(options.source, pattern=options.pattern)
    tokenizer.save(options.target)
    sys.stdout.write(
        f"{options.target}: {tokenizer.vocab_size:,} ids, {len(tokenizer.specials):,} specials\n"
    )
