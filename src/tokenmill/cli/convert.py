"""A tokenizer in one format → the same in another: `tokenmill convert`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tokenmill import formats
from tokenmill.cli import inputs
from tokenmill.cli.output import add_json, count_of, say, say_json
from tokenmill.tokenizer import Tokenizer

_HELP = """\
FROM is what Tokenizer.load takes: a tokenizer.json, a .model of SentencePiece, tekken.json, a GGUF
file, vocab.json beside merges.txt, a rank file of tiktoken, a .tokenmill file, a folder that
transformers saved, the name of an embedded vocabulary, or org/name in the local cache of the hub.

TO says by its name what is written: tokenizer.json (or another .json), vocab.json (and merges.txt
beside it), .model, .tokenmill, or a rank file under any other name. What a format cannot hold is
an error, and nothing is written then; so are names of formats that are only read, as x.gguf."""

_EXAMPLES = """
tokenmill convert gpt2 tokenizer.json
tokenmill convert tokenizer.json mine.tokenmill
tokenmill convert ranks.tiktoken tokenizer.json --pattern cl100k --json
"""


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "convert",
        help="write a tokenizer in another format",
        description=_HELP,
        examples=_EXAMPLES,
    )
    parser.add_argument("source", metavar="FROM", help="what is there")
    parser.add_argument("target", metavar="TO", type=Path, help="what is written")
    parser.add_argument(
        "--pattern",
        help="how text is cut, for formats that do not say: a regular expression, or a name such "
        "as cl100k",
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    inputs.check_outputs([options.target], [options.source])
    formats.check_name(options.target)
    tokenizer = Tokenizer.load(options.source, pattern=options.pattern)
    tokenizer.save(options.target)
    size, specials = tokenizer.vocab_size, len(tokenizer.specials)
    if options.json:
        say_json({"path": str(options.target), "vocab_size": size, "specials": specials})
    else:
        say(f"{options.target}: {size:,} ids, {count_of(specials, 'special')}")
