"""Arguments → values, or the exceptions that Hugging Face's binding raises for them.

The real library is compiled, and its checks are those of the language it is written in: what they
say is part of its interface, since callers catch it and print it.
"""

from __future__ import annotations

import array
import operator
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


def unsigned(value: object, bits: int = 64) -> int:
    """A number that fits: sizes have 64 bits, ids 32."""
    number = operator.index(value)  # type: ignore[arg-type]  # which says what is wrong
    if number < 0:
        said = "number too small to fit in target type"
        raise OverflowError(said if bits < 64 else "can't convert negative int to unsigned")
    if number >> bits:
        said = "number too large to fit in target type"
        raise OverflowError(said if bits < 64 else "int too big to convert")
    return number


def instance(value: object, kind: type[T]) -> T:
    """`value`, which must be an instance of `kind`."""
    if isinstance(value, kind):
        return value
    shown = "'None'" if value is None else f"'{type(value).__name__}' object"
    raise TypeError(f"{shown} is not an instance of '{kind.__name__}'")


def text(value: object) -> str:
    return instance(value, str)


def flag(value: object) -> bool:
    return instance(value, bool)


def character(value: object) -> str:
    if len(text(value)) != 1:
        raise ValueError("expected a string of length 1")
    return text(value)


def sequence(value: object) -> Sequence[Any]:
    """A sequence that is no str."""
    if isinstance(value, str):
        raise TypeError("Can't extract `str` to `Vec`")
    if isinstance(value, Sequence) or hasattr(type(value), "__array__"):
        return value  # type: ignore[return-value]
    raise TypeError(f"'{type(value).__name__}' object is not an instance of 'Sequence'")


def ids(value: object) -> list[int]:
    """A list of ids, checked one by one."""
    found = sequence(value)
    try:
        array.array("I", found)  # all at once, where nothing is wrong
    except (TypeError, OverflowError, ValueError):
        return [unsigned(id_, 32) for id_ in found]
    return found if isinstance(found, list) else [operator.index(id_) for id_ in found]


def choice(value: object, name: str, choices: Sequence[str], end: str = "") -> str:
    """One of the choices of an option."""
    found = text(value)
    if found not in choices:
        quoted = [f"`{each}`" for each in choices]
        listed = " or ".join(quoted)
        if len(quoted) > 2:
            listed = ", ".join(quoted[:-1]) + f", or {quoted[-1]}"
        raise ValueError(f"Unknown `{name}`: `{found}`. Use one of {listed}{end}")
    return found


def ignore(kwargs: Mapping[str, object], known: Iterable[str] = (), word: str = "kwarg") -> None:
    """Says which options are not known, as the real library does: on the standard error."""
    for name in kwargs:
        if name not in known:
            say(f"Ignored unknown {word} option {name}")


def say(line: str) -> None:
    sys.stderr.write(line + "\n")


def not_there(what: str) -> NoReturn:
    """For what only the real library can do."""
    raise NotImplementedError(
        f"{what} is not part of tokenmill's compat layer; use Hugging Face's `tokenizers` for it"
    )
