"""Words of a command line → options: one kind of parser for every command.

Help keeps the lines of examples as they are written, a mistake is answered in one line with the
nearest name that is right, and a command of commands shows its help when it is given nothing.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from itertools import groupby
from typing import Any, NoReturn

from tokenmill.cli.ending import MISTAKE
from tokenmill.printable import printable

_CHOICES_CHARS_MAX = 16
_NEGATIVE = re.compile(r"-\d")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Text as it is written, and options beside what they do."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **{"max_help_position": 28, **more})

    def _metavar_formatter(self, action: argparse.Action, default_metavar: str) -> Any:
        """Many choices stand with what the option does, where lines are broken."""
        if action.metavar is None and _are_many(action):
            return lambda size: (default_metavar,) * size
        return super()._metavar_formatter(action, default_metavar)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.metavar is not None or action.help is None or not _are_many(action):
            return action.help
        return f"{action.help}: {', '.join(map(str, action.choices or ()))}"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Paragraphs that are too wide for the page are filled anew; what is indented stays."""
        parts = []
        for is_prose, group in groupby(text.splitlines(), lambda line: bool(line[:1].strip())):
            lines = list(group)
            if is_prose and max(map(len, lines)) > width:
                lines = textwrap.wrap(" ".join(lines), width)
            parts += lines
        return "\n".join(parts)


def _are_many(action: argparse.Action) -> bool:
    is_command = isinstance(action, argparse._SubParsersAction)
    return not is_command and len(",".join(map(str, action.choices or ()))) > _CHOICES_CHARS_MAX


class Parser(argparse.ArgumentParser):
    """A parser whose help ends with examples, each of them a line that can be run."""

    def __init__(self, *arguments: Any, examples: str = "", **more: Any) -> None:
        more["formatter_class"] = _Help
        if examples:
            shown = "examples:\n" + textwrap.indent(textwrap.dedent(examples).strip("\n"), "  ")
            more["epilog"] = shown + (f"\n\n{more['epilog']}" if more.get("epilog") else "")
        super().__init__(*arguments, **more)
        self._given: list[str] = []

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        self._given = list(sys.argv[1:] if args is None else args)
        if not self._given and self._subparsers is not None:
            self.print_help()
            self.exit(0)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:  # the parser of the command says so, which knows its options
            self.error(f"nothing is known about {' '.join(map(repr, unknown))}")
        return found, unknown

    def _print_message(self, message: str, file: Any = None) -> None:
        """Writes it; argparse would pass over a reader that has gone."""
        with suppress(OSError) if file is sys.stderr else nullcontext():
            (file or sys.stderr).write(message or "")

    def error(self, message: str) -> NoReturn:
        said = self._unknown_option() or message
        self.exit(MISTAKE, f"tokenmill: {printable(said)}\nSee {self.prog} --help\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        near = _nearest(str(value), known) or f"; there are {', '.join(known)}"
        if isinstance(action, argparse._SubParsersAction):
            self.error(f"there is no command {value!r}{near}")
        raise argparse.ArgumentError(action, f"there is no {value!r}{near}")

    def _unknown_option(self) -> str | None:
        """What to say of the first option that does not exist; None if all do.

        It is said before what is missing, which is often what that option was to be.
        """
        known = list(self._option_string_actions)
        for word in self._given:
            name = word.partition("=")[0]
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                return None
            if not word.startswith("-") or word == "-" or _NEGATIVE.match(word):
                continue
            if not any(option.startswith(name) for option in known):
                return f"there is no option {name}{_nearest(name, known)}"
        return None


def _nearest(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {near[0]}?" if near else ""


def every_parser(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its commands, theirs too."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from every_parser(command)
