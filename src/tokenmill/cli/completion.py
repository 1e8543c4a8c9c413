"""The parser → a completion script for a shell: `tokenmill completion`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tokenmill.cli.app import every_parser, make_parser
from tokenmill.errors import MissingExtraError
from tokenmill.vocabularies import EMBEDDED

SHELLS = ("bash", "zsh", "fish")

_EXAMPLES = """
eval "$(tokenmill completion bash)"
tokenmill completion zsh > _tokenmill
tokenmill completion fish > tokenmill.fish
"""
_EPILOG = """\
bash: put the first line into ~/.bashrc. zsh: write the file into a folder of $fpath, before
compinit. fish: write the file into ~/.config/fish/completions. Completion starts no Python."""

# Kinds of arguments by metavar.
_FOLDERS = ("DIR",)
_FILES = ("INPUT", "FILE", "FROM", "TO", "FILE.jsonl", "counts.tmc", "tokenizer.json", "FILE=2.5")

# The embedded names, and files.
_NAMES = " ".join(EMBEDDED)
_TOKENIZER = {
    "bash": "_tokenmill_tokenizers",
    "zsh": "_tokenmill_tokenizers",
    "fish": "(_tokenmill_tokenizers)",
    "preamble": {
        "bash": f"""_tokenmill_tokenizers() {{
  compgen -W '{_NAMES}' -- "$1"
  compgen -f -- "$1"
}}""",
        "zsh": f"""_tokenmill_tokenizers() {{
  compadd {_NAMES}
  _files
}}""",
        "fish": f"""function _tokenmill_tokenizers
  string split ' ' '{_NAMES}'
  __fish_complete_path (commandline -ct)
end""",
    },
}


def add_parser(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "completion",
        help="print a completion script for bash, zsh or fish",
        description="Prints a script that completes commands, options, files and tokenizer names.",
        examples=_EXAMPLES,
        epilog=_EPILOG,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    try:
        import shtab
    except ImportError:
        raise MissingExtraError(
            'shtab is not installed; pip install "tokenmill[completion]"'
        ) from None
    parser = make_parser()
    for each in every_parser(parser):
        for action in each._actions:
            _mark(action, shtab)
    sys.stdout.write(shtab.complete(parser, options.shell))


def _mark(action: argparse.Action, shtab: Any) -> None:
    """Mark an argument that is a file, a folder or a tokenizer."""
    if action.choices is not None or action.nargs == 0:
        return
    kind = None
    if "--tokenizer" in action.option_strings or action.metavar in ("TOKENIZER", "FROM"):
        kind = _TOKENIZER
    elif action.metavar in _FOLDERS:
        kind = shtab.DIRECTORY
    elif action.metavar in _FILES or action.type is Path:
        kind = shtab.FILE
    if kind is not None:
        action.complete = kind  # type: ignore[attr-defined]
