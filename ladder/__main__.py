"""A command line → one of the ladders: `python -m ladder`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ladder.corpus import batches
from ladder.corpus import command as corpus
from ladder.encoding import command as encoding
from ladder.training import command as training
from tokenmill.cli.app import Parser, run_command, wants_debug

_EPILOG = """\
examples:
  python -m ladder training --max-mb 1 --vocab-size 500
  python -m ladder encoding
  python -m ladder corpus --max-mb 1
  python -m ladder batches --num-docs 100"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one ladder and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)

    def run() -> int | None:
        options = make_parser().parse_args(words)
        code: int | None = options.run(options)
        return code

    return run_command(run, debug=wants_debug())


def make_parser() -> Parser:
    """Return the parser of all ladders."""
    parser = Parser(
        prog="python -m ladder",
        description="Step-by-step ladders: each step adds one idea and gives the same result.",
        epilog=_EPILOG,
    )
    ladders = parser.add_subparsers(dest="ladder", metavar="LADDER", required=True)
    for command in (training, encoding, corpus, batches):
        command.add_parser(ladders)
    return parser


if __name__ == "__main__":
    sys.exit(main())
