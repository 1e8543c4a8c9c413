"""Option tables → checked values, Python signatures, command-line flags, and documentation.

An option is a key of a `TypedDict`. Its annotation has the type and an `Option`, which has the
default, the help text and the check. Functions take `**options: Unpack[TheTable]`, which gives type
checkers the names and types. `resolve` checks the values. `describe` gives the function a signature
and a docstring with all options. `cli/options.py` makes the flags.

Examples:
    >>> class Options(TypedDict, total=False):
    ...     threads: Annotated[int | None, number(None, "number of threads")]
    >>> resolve(Options, {"threads": 2})
    {'threads': 2}
    >>> resolve(Options, {"threads": 0})
    Traceback (most recent call last):
    tokenmill.errors.OptionError: threads must be a whole number of at least 1, got 0
"""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict, TypeVar, get_type_hints

from tokenmill.errors import OptionError, TokenmillError

Check = Callable[[Any], Any]
F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {
    "": 1, "b": 1,
    "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9,
    "t": 10**12, "tb": 10**12,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}  # fmt: skip
_SHARE = "a share above 0 and at most 1, such as 0.05 or 5%"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its default, its help text, and how a value is checked and parsed.

    `check` returns the value to use. `parse` turns a word of the command line into a value; None
    makes the option a switch. Both raise a ValueError that ends the sentence "NAME must be".
    `repeats` lets the flag be given several times; the values become a list.
    `shapes_output` is False for options that change only how the work is done. The plan of a run
    contains the others.
    """

    default: Any
    help: str
    check: Check
    parse: Callable[[str], Any] | None = str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    flag: str | None = None
    group: str = ""
    repeats: bool = False
    shapes_output: bool = True

    def value(self, name: str, given: Any, error: type[TokenmillError] = OptionError) -> Any:
        """The checked value. None means the default."""
        if given is None:
            return self.default
        try:
            return self.check(given)
        except ValueError as wrong:
            raise error(f"{name} must be {wrong}, got {given!r}") from None


@functools.cache
def table(kind: type) -> dict[str, Option]:
    """Return the options of a table by name, in the order of their definition."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def resolve(
    kind: type,
    given: Mapping[str, Any],
    error: type[TokenmillError] = OptionError,
    **defaults: Any,
) -> dict[str, Any]:
    """All options of a table: the given values, checked, and defaults for the others.

    `defaults` replace those of the table.
    """
    options = table(kind)
    for name in given:
        if name not in options:
            words = set(name.split("_"))
            parts = [known for known in options if words.issuperset(known.split("_"))]
            near = parts or difflib.get_close_matches(name, options, 1)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(options)}"
            raise TypeError(f"unknown option {name!r}; {hint}")
    return {
        name: defaults.get(name, option.default)
        if given.get(name) is None
        else option.value(name, given[name], error)
        for name, option in options.items()
    }


def describe(kind: type, **defaults: Any) -> Callable[[F], F]:
    """Return a decorator that puts the options of a table into a signature and a docstring.

    The function's last parameter is `**options`. A docstring with the line `Options:` gets the list
    of options there. Others get it at the end.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        positional = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        types = get_type_hints(kind)
        keywords = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name, option.default),
                annotation=types[name],
            )
            for name, option in table(kind).items()
        ]
        shown = signature.replace(parameters=[*positional, *keywords])
        setattr(function, "__signature__", shown)  # noqa: B010
        lines = [f"    {name}: {option.help}." for name, option in table(kind).items()]
        before, head, after = inspect.cleandoc(function.__doc__ or "").partition("\nOptions:")
        listed = "\n".join(["Options:", *lines])
        function.__doc__ = f"{before}\n{listed}{after}" if head else f"{before}\n\n{listed}"
        return function

    return decorate


# Kinds of options. Each returns an Option; `more` has its other fields.


def _checked(is_valid: Callable[[Any], bool], expected: str) -> Check:
    def check(value: Any) -> Any:
        if not is_valid(value):
            raise ValueError(expected)
        return value

    return check


def text(default: str | None, help: str, **more: Any) -> Option:
    """A text that is not empty."""
    check = _checked(lambda value: isinstance(value, str) and value != "", "a non-empty str")
    return Option(default, help, check, **more)


def one_of(choices: tuple[str, ...], default: str | None, help: str, **more: Any) -> Option:
    """One of some names."""
    check = _checked(choices.__contains__, f"one of {', '.join(choices)}")
    return Option(default, help, check, choices=choices, **more)


def switch(help: str, **more: Any) -> Option:
    """True or False. The default is False."""
    check = _checked(lambda value: isinstance(value, bool), "True or False")
    return Option(False, help, check, parse=None, **more)


def number(
    default: int | None, help: str, least: int = 1, most: int = 1 << 62,
    noun: str = "a whole number", **more: Any,
) -> Option:  # fmt: skip
    """A whole number, also one of numpy."""
    bound = f"of at least {least:,}" if most == 1 << 62 else f"from {least:,} to {most:,}"

    def check(value: Any) -> int:
        is_number = hasattr(value, "__index__") and not isinstance(value, bool)
        if not is_number or not least <= operator.index(value) <= most:
            raise ValueError(f"{noun} {bound}")
        return operator.index(value)

    return Option(default, help, check, **{"parse": parse_number, "metavar": "N", **more})


def limit(default: int | None, help: str, **more: Any) -> Option:
    """A whole number, or a share such as 1%."""
    count, part = number(default, help, least=0), share(None, help)

    def check(value: Any) -> int | float:
        is_share = isinstance(value, str) or (isinstance(value, float) and value < 1)
        found: int | float = (part if is_share else count).check(value)
        return found

    def parse(word: str) -> int | float:
        return parse_share(word) if word.endswith("%") else parse_number(word)

    return Option(default, help, check, **{"parse": parse, "metavar": "N", **more})


def amount(
    default: int | None, help: str, least: int = 1, most: int = 1 << 62, **more: Any
) -> Option:
    """A number of bytes: an int, or a text such as 512MB."""
    inner = number(default, help, least, most, "a number of bytes").check

    def check(value: Any) -> Any:
        return inner(parse_amount(value) if isinstance(value, str) else value)

    return Option(default, help, check, **{"parse": parse_amount, "metavar": "BYTES", **more})


def share(default: float | None, help: str, **more: Any) -> Option:
    """A number above 0 and at most 1, or a percentage such as 5%."""

    def check(value: Any) -> float:
        found = parse_share(value) if isinstance(value, str) else value
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found <= 1:
            raise ValueError(_SHARE)
        return float(found)

    return Option(default, help, check, **{"parse": parse_share, "metavar": "SHARE", **more})


def anything(default: Any, help: str, **more: Any) -> Option:
    """A value that the function checks itself."""
    return Option(default, help, lambda value: value, **more)


# Words of a command line → values. A ValueError ends the sentence "NAME must be".


def parse_number(word: str) -> int:
    """A whole number. Commas and underscores may separate digits."""
    digits = word.replace("_", "").replace(",", "")
    if not re.fullmatch(r"-?[0-9]{1,40}", digits):
        raise ValueError("a whole number")
    return int(digits)


def parse_amount(word: str) -> int:
    """Bytes, such as 512MB, 2GB or 1.5GiB."""
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]+)?)\s*([A-Za-z]*)", word.strip())
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError("a number of bytes such as 512MB or 2GB")
    return int(float(match[1]) * unit)


def parse_share(word: str) -> float:
    """0.05 or 5%."""
    try:
        return float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)
    except ValueError:
        raise ValueError(_SHARE) from None


def parse_escaped(word: str) -> str:
    r"""A text in which \n, \t, \r, \0 and \\ are escapes."""

    try:
        return re.sub(r"\\(.?)", lambda match: _ESCAPES[match[1]], word)
    except KeyError:
        raise ValueError("a text whose escapes are \\n, \\t, \\r, \\0 or \\\\") from None


__all__ = ["Annotated", "Option", "TypedDict", "describe", "resolve", "table"]
