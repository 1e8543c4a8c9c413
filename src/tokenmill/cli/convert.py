"""A tokenizer file → the same tokenizer in another format: `tokenmill convert`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tokenmill.cli.app import Parser
from tokenmill.cli.options import PATTERN, TOKENIZER
from tokenmill.cli.output import add_json, check_outputs, report, save_tokenizer, saved_line
from tokenmill.formats import save
from tokenmill.tokenizer import Tokenizer

_HELP = """
FROM is a tokenizer.json, a SentencePiece .model, a tekken.json, a GGUF file, a vocab.json next to a
merges.txt, a tiktoken rank file, a .tokenmill file, a folder that transformers saved, an embedded
name such as gpt2, or org/name in the local Hugging Face cache.

The name of TO selects the format: .json (tokenizer.json), vocab.json (with merges.txt), .model,
.tokenmill, .tiktoken (ranks), or a folder/ (tokenizer.json and tokenizer_config.json). If the
format cannot represent the tokenizer, the command fails and writes no file.

examples:
  tokenmill convert gpt2 tokenizer.json
  tokenmill convert gpt2 folder/
  tokenmill convert tokenizer.json mine.tokenmill
  tokenmill convert ranks.tiktoken a.json --pattern cl100k
"""


def add_convert(parser: Parser) -> None:
    parser.explain(_HELP)
    parser.add_argument("source", metavar="FROM", help=TOKENIZER)
    parser.add_argument("target", metavar="TO", help="file or folder/ to write")
    parser.add_argument("--pattern", help=PATTERN.help)
    add_json(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    check_outputs([Path(arguments.target)], [arguments.source])
    save.check_name(arguments.target)
    tokenizer = Tokenizer.load(arguments.source, pattern=arguments.pattern)
    figures = save_tokenizer(tokenizer, arguments.target)
    report(arguments, figures, saved_line(figures))
