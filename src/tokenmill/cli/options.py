"""Option tables → flags of a command, and parsed flags → options of a function."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tokenmill.corpus.documents import STDIN, DocumentOptions
from tokenmill.errors import OptionError
from tokenmill.options import Option, switch, table, text

INPUTS = (
    "file, folder, glob or URL; .jsonl, .json, .parquet, .arrow, .csv, .tsv and .wet files have "
    "records, others are text; also compressed; - is standard input"
)
TOKENIZER = "tokenizer: a name such as gpt2, a file or a folder"
PATTERN = text(
    None,
    "regular expression that splits texts into pretokens, or its name, such as cl100k; for files "
    "without one, such as rank files",
)
ALLOW_SPECIAL = switch(
    "recognize special tokens such as <|endoftext|> in the text; without it, they are ordinary text"
)


def add_options(
    parser: argparse._ActionsContainer, kind: type, skip: Collection[str] = (), **defaults: Any
) -> None:
    """Add a flag for each option of the table `kind`, in the groups that the options name.

    Help texts end with the default. `defaults` replace those of the table.
    """
    groups: dict[str, Any] = {"": parser}
    for name, option in table(kind).items():
        if name in skip:
            continue
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        help = option.help + _notes(option, defaults.get(name, option.default))
        more: dict[str, Any] = {"action": "append"} if option.repeats else {}
        if option.parse is None:
            more = {"action": "store_true"}
        else:
            more["metavar"] = option.metavar or name.rpartition("_")[2].upper()
            more |= {"choices": option.choices} if option.choices else {"type": reader(option)}
        flag = option.flag or "--" + name.replace("_", "-")
        groups[option.group].add_argument(
            flag, dest=name, default=None, help=help.replace("%", "%%"), **more
        )


def _notes(option: Option, default: Any) -> str:
    """The choices that the help does not explain, and the default."""
    notes = ["repeatable"] if option.repeats else []
    if default := _shown(default):
        notes.insert(0, f"default: {default}")
    if not all(choice in option.help for choice in option.choices):
        notes.insert(0, f"one of {', '.join(option.choices)}")
    return f" ({'; '.join(notes)})" if notes else ""


def options_of(
    arguments: argparse.Namespace, kind: type, skip: Collection[str] = ()
) -> dict[str, Any]:
    """Return the options of the command line. The others keep their defaults."""
    found = {name: getattr(arguments, name, None) for name in table(kind) if name not in skip}
    return {name: value for name, value in found.items() if value not in (None, [])}


def reading_of(options: Mapping[str, Any]) -> DocumentOptions:
    """Return the options of the reader of documents."""
    separator = options["separator"]
    separator = None if separator is None else separator.encode()
    return DocumentOptions(field=options["field"], separator=separator, utf8=options["utf8"])


def reader(option: Option) -> Callable[[str], Any]:
    """Return a function that parses and checks a word, with errors that argparse shows."""

    def read(word: str) -> Any:
        assert option.parse is not None
        try:
            found = option.parse(word)
            option.check([found] if option.repeats else found)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"must be {error}, got {word!r}") from None
        return found

    return read


def _shown(default: Any) -> str:
    """A default as help shows it. Defaults that mean "none" are left to the help text."""
    if default is None or default is False or default in ("", (), []):
        return ""
    if isinstance(default, int) and default >= 1 << 20 and default % (1 << 20) == 0:
        return f"{default >> 20}MiB" if default % (1 << 30) else f"{default >> 30}GiB"
    return f"{default:,}" if isinstance(default, int) else str(default)


def check_stdin(names: Sequence[str]) -> None:
    """Raise an error if standard input is an input and cannot be read."""
    if STDIN in names and sys.__stdin__ is None:
        raise OptionError("standard input is closed; pass a file or open it")
