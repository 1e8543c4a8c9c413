"""Words of the command line → one command, its errors and its exit code.

An error is one line on stderr, or a traceback with --debug. An unknown command or option is
answered with the nearest known name. Help texts end with examples that can be run.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import io
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn

import tokenmill
from tokenmill.cli import INTERRUPTED
from tokenmill.cli.output import note
from tokenmill.display import printable
from tokenmill.errors import (
    DiskFullError,
    InputWarning,
    OptionError,
    TokenmillError,
    import_package,
)
from tokenmill.vocabularies import EMBEDDED

OS_ERROR = 1
USAGE = 2
REJECTED = 3
DIFFERENT = 4
EMPTY = 5
BUG = 70  # EX_SOFTWARE of sysexits.h
CLOSED_PIPE = 128 + 13
TERMINATED = 128 + 15
# The exit code of an OS error is OS_ERROR, except for names that the user got wrong.
_WRONG_NAMES = (FileNotFoundError, IsADirectoryError, NotADirectoryError)

CODES = {
    0: "success",
    OS_ERROR: "OS error: disk full, permission denied, out of memory",
    USAGE: "wrong command, option or input",
    REJECTED: "finished, but some records were rejected",
    DIFFERENT: "verify: shards differ; bench: ids differ",
    EMPTY: "finished, but no document was found",
    BUG: "bug in tokenmill; --debug shows the traceback",
    INTERRUPTED: "interrupted by Ctrl-C",
    CLOSED_PIPE: "the reader of the output closed the pipe, as head does",
    TERMINATED: "terminated by SIGTERM",
}


def wants_debug() -> bool:
    """Return whether TOKENMILL_DEBUG asks for tracebacks."""
    return os.environ.get("TOKENMILL_DEBUG", "") not in ("", "0")


def run_command(command: Callable[[], int | None], *, debug: bool) -> int:
    """Run a command, flush its output and return its exit code."""
    try:
        try:
            with _handler(signal.SIGTERM, lambda *_: sys.exit(TERMINATED)):
                code = command() or 0
        except SystemExit:  # of the parser, or SIGTERM
            sys.stdout.flush()
            raise
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = CLOSED_PIPE
    except Exception as error:
        code, message = _describe_error(error, debug=debug)
        with suppress(OSError, ValueError):  # a closed stderr leaves only the exit code
            if debug:
                traceback.print_exc()
            sys.stderr.write(f"tokenmill: {printable(message)}\n")
    _flush_or_drop()
    return code


# Messages name an option of a function, and its flag: "with field= (--field)".
_HINT = re.compile(r"\b\w+=? \((--[\w-]+)\)")
_HINT_OF_VALUES = re.compile(r"\b\w+='(\w+)' or '(\w+)' \((--[\w-]+)\)")


def name_flags(message: str) -> str:
    """Return a message that names flags instead of the options of functions."""
    return _HINT.sub(r"\1", _HINT_OF_VALUES.sub(r"\3 \1 or \2", message))


def _describe_error(error: Exception, *, debug: bool) -> tuple[int, str]:
    """Return the exit code and the message of an error."""
    if isinstance(error, TokenmillError):
        return OS_ERROR if isinstance(error, DiskFullError) else USAGE, name_flags(str(error))
    if isinstance(error, OSError):
        message = error.strerror or str(error)
        if isinstance(error, FileNotFoundError) and error.filename is not None:
            return USAGE, f"file not found: {str(error.filename)!r}"
        code = USAGE if isinstance(error, _WRONG_NAMES) else OS_ERROR
        return code, message if error.filename is None else f"{error.filename}: {message}"
    if isinstance(error, MemoryError):
        return OS_ERROR, "out of memory"
    line = str(error).partition("\n")[0]
    hint = "please report the traceback above" if debug else "--debug shows the traceback"
    return BUG, f"unexpected {type(error).__name__}: {line}; this is a bug, {hint}"


def _flush_or_drop() -> None:
    """Flush stdout. If that fails, Python must not report it again at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _handler(number: signal.Signals, handler: Any) -> Iterator[None]:
    """Handle a signal inside of the block. Only the main thread can, and ignored ones stay so."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(number) is signal.SIG_IGN:
        yield
        return
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


_NEGATIVE = re.compile(r"-\d")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help with a narrow column for options, and examples that keep their lines."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        position = min(28, shutil.get_terminal_size().columns // 3)
        super().__init__(*arguments, **{"max_help_position": position, **more})

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any = None) -> None:
        """Show the arguments that are not options, and required options. The others follow."""
        shown = [action for action in actions if action.required or not action.option_strings]
        super().add_usage(usage, shown, (), prefix)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap paragraphs. Indented lines stay as they are."""
        groups = groupby(text.splitlines(), lambda line: bool(line[:1].strip()))
        return "\n".join(
            textwrap.fill(" ".join(lines), width) if is_prose else "\n".join(lines)
            for is_prose, lines in groups
        )


class Parser(argparse.ArgumentParser):
    """A parser whose errors name the nearest known word."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **{**more, "formatter_class": _Help})
        self._words: list[str] = []

    def explain(self, text: str) -> None:
        """Set the help before and after the options. The part after them begins with examples."""
        description, heading, rest = text.strip().partition("examples:\n")
        self.description, self.epilog = description.strip(), heading + rest

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        self._words = list(sys.argv[1:] if args is None else args)
        if not self._words and self._subparsers is not None:
            self.print_help()
            self.exit(0)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:  # reported here, where the options of the command are known
            self.error(f"unexpected argument {' '.join(map(repr, unknown))}")
        return found, unknown

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write a message. argparse would ignore a closed pipe."""
        with suppress(OSError) if file is sys.stderr else nullcontext():
            (file or sys.stderr).write(message or "")

    def error(self, message: str) -> NoReturn:
        text = self._unknown_option() or re.sub("^argument (.+?): must", r"\1 must", message)
        self.exit(USAGE, f"tokenmill: {printable(text)}\nSee {self.prog} --help\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        hint = _nearest(str(value), known) or f"; expected one of {', '.join(known)}"
        if isinstance(action, argparse._SubParsersAction):
            self.error(f"unknown command {value!r}{hint}")
        raise argparse.ArgumentError(action, f"unknown value {value!r}{hint}")

    def _unknown_option(self) -> str | None:
        """Return the message for the first unknown option, or None.

        It comes before a message about a missing option, which is often the misspelled one.
        """
        known = list(self._option_string_actions)
        for word in self._words:
            name = word.partition("=")[0]
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                return None
            if not word.startswith("-") or word == "-" or _NEGATIVE.match(word):
                continue
            if not any(option.startswith(name) for option in known):
                return f"unknown option {name}{_nearest(name, known)}"
        return None


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def every_parser(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and the parsers of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


# Commands in the order of the help: the module with the function `add_COMMAND`, and a summary. Only
# the module of the command that runs is imported.
COMMANDS = {
    "encode": ("encode", "convert text to token ids"),
    "decode": ("encode", "convert token ids to text"),
    "count": ("encode", "count the tokens of files"),
    "train": ("train", "train a tokenizer on files"),
    "count-pretokens": ("train", "count pretokens into a file for train"),
    "tokenize": ("tokenize", "convert files to shards of token ids"),
    "finalize": ("tokenize", "complete the output of tokenize --rank"),
    "merge": ("tokenize", "write shards in another size"),
    "verify": ("tokenize", "compare shards with their sources"),
    "repair": ("tokenize", "make damaged files of shards again"),
    "inspect": ("inspect", "print a tokenizer or shards as tables"),
    "convert": ("train", "convert a tokenizer to another format"),
    "bench": ("bench", "compare ids and speed with libraries"),
    "completion": ("app", "print a completion script for a shell"),
}

_HELP = """
Fast byte-pair encoding: train tokenizers, encode text, write token shards.

examples:
  echo 'hello world' | tokenmill encode -
  tokenmill count book.txt data/
  tokenmill train book.txt --vocab-size 999 --output a.json
  tokenmill tokenize data/ --tokenizer gpt2 --output shards/
  eval "$(tokenmill completion bash)"

exit codes:
{codes}

environment:
  NO_COLOR=1          no colours
  FORCE_COLOR=1       colours also in files and pipes
  TOKENMILL_DEBUG=1   traceback of every error, as --debug
"""


def main(arguments: Sequence[str] | None = None) -> int:
    is_closed = sys.stdout is None
    _fill_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    # Characters that the encoding of the terminal lacks become question marks.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    debug = "--debug" in words or wants_debug()
    return run_command(lambda: _main(words, is_closed=is_closed), debug=debug)


def _main(words: list[str], *, is_closed: bool) -> int | None:
    if is_closed:  # every command prints a result, some after hours of work
        raise OptionError("standard output is closed; redirect it to a file or to /dev/null")
    if not words:
        shown = [(name, text) for name, (module, text) in COMMANDS.items() if module != "app"]
        commands = "".join(f"  {name:<17}{text}\n" for name, text in shown)
        title = f"tokenmill {tokenmill.__version__}: fast byte-pair encoding (BPE)"
        hints = "Try: echo hi | tokenmill encode -; more: tokenmill --help"
        sys.stdout.write(f"{title}\n{commands}{hints}\n")
        return 0
    command = next((word for word in words if not word.startswith("-")), "")
    options = make_parser([command]).parse_args(words)
    options.skipped = []

    def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        note(str(message))
        if isinstance(message, InputWarning):
            options.skipped = [file._asdict() for file in message.skipped]

    with _handler(signal.SIGINT, signal.default_int_handler), warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        warnings.showwarning = show_warning
        code: int | None = options.run(options)
    return code


def make_parser(complete: Iterable[str] = COMMANDS) -> Parser:
    """Return a parser that lists all commands. Those in `complete` have their options."""
    parser = Parser(prog="tokenmill", usage="tokenmill COMMAND ...")
    codes = "\n".join(f"  {code:<4}{meaning}" for code, meaning in CODES.items())
    parser.explain(_HELP.format(codes=codes))
    parser.add_argument("--version", action="version", version=f"tokenmill {tokenmill.__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, title="commands", prog="tokenmill"
    )
    for name, (module, summary) in COMMANDS.items():
        command = commands.add_parser(name, help=summary)
        if name in complete:
            add = f"add_{name.replace('-', '_')}"
            getattr(importlib.import_module(f"tokenmill.cli.{module}"), add)(command)
    for each in every_parser(parser):
        each.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help="traceback of an error"
        )
    return parser


def _fill_streams() -> None:
    """Replace closed streams by /dev/null.

    The file descriptors are replaced as well. Otherwise the next file that is opened would get the
    number of a closed stream, and messages to that stream would be written into the file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


SHELLS = ("bash", "zsh", "fish")

_COMPLETION_HELP = """
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
_TOKENIZERS = " ".join(EMBEDDED)
_COMPLETER = {
    "bash": "_tokenmill_tokenizers",
    "zsh": "_tokenmill_tokenizers",
    "fish": "(_tokenmill_tokenizers)",
    "preamble": {
        "bash": f"""_tokenmill_tokenizers() {{
  compgen -W '{_TOKENIZERS}' -- "$1"
  compgen -f -- "$1"
}}""",
        "zsh": f"""_tokenmill_tokenizers() {{
  compadd {_TOKENIZERS}
  _files
}}""",
        "fish": f"""function _tokenmill_tokenizers
  string split ' ' '{_TOKENIZERS}'
  __fish_complete_path (commandline -ct)
end""",
    },
}


def add_completion(parser: Parser) -> None:
    parser.explain(_COMPLETION_HELP)
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(run=print_completion)


def print_completion(arguments: argparse.Namespace) -> None:
    shtab = import_package("shtab", "tokenmill completion")
    parser = make_parser()
    for action in [action for each in every_parser(parser) for action in each._actions]:
        if action.choices is not None or action.nargs == 0:
            continue
        marked: Any = action
        if "--tokenizer" in action.option_strings or action.metavar in ("TOKENIZER", "FROM"):
            marked.complete = _COMPLETER
        elif action.metavar == "DIR":
            marked.complete = shtab.DIRECTORY
        elif action.metavar in _FILES or action.type is Path:
            marked.complete = shtab.FILE
    sys.stdout.write(shtab.complete(parser, arguments.shell))
