"""A tokenizer file → the same tokenizer in another format: `tokenmill convert`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tokenmill.cli import inputs
from tokenmill.cli.options import PATTERN
from tokenmill.cli.output import add_json, count_of, say, say_json
from tokenmill.formats import save
from tokenmill.tokenizer import Tokenizer

_HELP = """\
FROM is a tokenizer.json, a SentencePiece .model, a tekken.json, a GGUF file, a vocab.json next to a
merges.txt, a tiktoken rank file, a .tokenmill file, a folder that transformers saved, an embedded
name such as gpt2, or org/name in the local Hugging Face cache.

The name of TO selects the format: .json (tokenizer.json), vocab.json (with merges.txt), .model,
.tokenmill, .tiktoken (ranks), or a folder/ (tokenizer.json and tokenizer_config.json). If the
format cannot represent the tokenizer, the command fails and writes no file."""

_EXAMPLES = """
tokenmill convert gpt2 tokenizer.json
tokenmill convert gpt2 folder/
tokenmill convert tokenizer.json mine.tokenmill
tokenmill convert ranks.tiktoken tokenizer.json --pattern cl100k --json
"""


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "convert",
        help="convert a tokenizer to another file format",
        description=_HELP,
        examples=_EXAMPLES,
    )
    parser.add_argument("source", metavar="FROM", help="name, file or folder of the tokenizer")
    parser.add_argument("target", metavar="TO", help="file or folder/ to write")
    parser.add_argument("--pattern", help=PATTERN.help)
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    inputs.check_outputs([Path(options.target)], [options.source])
    save.check_name(options.target)
    tokenizer = Tokenizer.load(options.source, pattern=options.pattern)
    tokenizer.save(options.target)
    size, special_tokens = tokenizer.vocab_size, len(tokenizer.special_tokens)
    if options.json:
        say_json(
            {"path": str(options.target), "vocab_size": size, "special_tokens": special_tokens}
        )
    else:
        say(f"{options.target}: {size:,} tokens, {count_of(special_tokens, 'special token')}")
