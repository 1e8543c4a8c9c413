"""The ladders → tables: `tokenmill ladder`."""

from __future__ import annotations

import argparse
from typing import Any

from tokenmill.cli import ladder_corpus, ladder_encoding, ladder_training


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "ladder",
        help="the same result by one idea more a step, measured side by side",
        examples="""
        tokenmill ladder training --max-mb 1 --vocab-size 500
        tokenmill ladder encoding
        tokenmill ladder corpus --max-mb 1
        """,
    )
    ladders = parser.add_subparsers(dest="ladder", metavar="LADDER", required=True)
    ladder_corpus.add_parser(ladders)
    ladder_encoding.add_parser(ladders)
    ladder_training.add_parser(ladders)
