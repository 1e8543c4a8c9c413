"""The parser → a completion script for a shell: `tokenmill completion`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from tokenmill.cli.app import Parser, every_parser, make_parser
from tokenmill.errors import import_package
from tokenmill.vocabularies import EMBEDDED

SHELLS = ("bash", "zsh", "fish")

_HELP = """
Print a script that completes commands, options, files and tokenizer names.

examples:
  eval "$(tokenmill completion bash)"
  tokenmill completion zsh > _tokenmill
  tokenmill completion fish > tokenmill.fish

bash: put the first line into ~/.bashrc. zsh: write the file into a folder of $fpath, before
compinit. fish: write the file into ~/.config/fish/completions. Completion starts no Python.
"""

# Arguments that are files, by metavar.
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


def add_completion(parser: Parser) -> None:
    parser.explain(_HELP)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    shtab = import_package("shtab", "tokenmill completion")
    parser = make_parser()
    for action in [action for each in every_parser(parser) for action in each._actions]:
        if action.choices is not None or action.nargs == 0:
            continue
        marked: Any = action
        if "--tokenizer" in action.option_strings or action.metavar in ("TOKENIZER", "FROM"):
            marked.complete = _TOKENIZER
        elif action.metavar == "DIR":
            marked.complete = shtab.DIRECTORY
        elif action.metavar in _FILES or action.type is Path:
            marked.complete = shtab.FILE
    sys.stdout.write(shtab.complete(parser, arguments.shell))
