"""Option tables → flags of a command, and parsed flags → options of a function."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from typing import Any

from tokenmill.options import Option, table, text

PATTERN = text(
    None,
    "pre-tokenizer of a file that has none, such as a rank file: a regular expression or a name "
    "such as cl100k",
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
        default = defaults.get(name, option.default)
        _add(groups[option.group], name, option, default)


def options_of(
    arguments: argparse.Namespace, kind: type, skip: Collection[str] = ()
) -> dict[str, Any]:
    """Return the options of the command line. The others keep their defaults."""
    found = {name: getattr(arguments, name, None) for name in table(kind) if name not in skip}
    return {name: value for name, value in found.items() if value not in (None, [])}


def _add(group: Any, name: str, option: Option, default: Any) -> None:
    flag = option.flag or "--" + name.replace("_", "-")
    shown = option.help if _shown(default) == "" else f"{option.help} (default: {_shown(default)})"
    shown = (shown + "; may be repeated" * option.repeats).replace("%", "%%")
    if option.parse is None:
        group.add_argument(flag, dest=name, action="store_true", default=None, help=shown)
        return
    more: dict[str, Any] = {"action": "append"} if option.repeats else {}
    if option.choices:
        more["choices"] = option.choices
    else:
        more |= {"type": _reader(option), "metavar": option.metavar or name.upper()}
    group.add_argument(flag, dest=name, default=None, help=shown, **more)


def _reader(option: Option) -> Callable[[str], Any]:
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
