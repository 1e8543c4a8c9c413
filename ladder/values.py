"""Words of the command line → values, with errors for argparse."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

from tokenmill.ray_cluster import ENGINES, LOCAL

_UNITS = {
    "": 1, "b": 1,
    "k": 10**3, "kb": 10**3, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9,
    "t": 10**12, "tb": 10**12,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}  # fmt: skip
_MEMORY_MIN = 64 << 20


def whole_number(least: int) -> Callable[[str], int]:
    """A type for argparse: an int that is not too small."""

    def number(text: str) -> int:
        digits = text.replace("_", "").replace(",", "")
        if not digits.isascii() or not digits.isdigit() or int(digits) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
        return int(digits)

    return number


def megabytes(text: str) -> int:
    """Bytes, given as millions of them, such as 1 or 0.5."""
    try:
        found = int(float(text.replace("_", "").replace(",", "")) * 1_000_000)
    except (ValueError, OverflowError):
        found = 0
    if found < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of megabytes such as 1 or 0.5")
    return found


def sizes(text: str) -> list[int]:
    """One vocabulary size, or several with commas between them."""
    number = whole_number(1)
    return [number(part) for part in text.split(",")]


def numbers(least: int, most: int) -> Callable[[str], list[int]]:
    """A type for argparse: numbers and ranges of them, such as 1-3,5, in order and once each."""

    def listed(text: str) -> list[int]:
        found: set[int] = set()
        for part in text.split(","):
            match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", part.strip())
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if not least <= first <= last <= most:
                raise argparse.ArgumentTypeError(
                    f"{text!r} is not made of numbers from {least} to {most}, such as "
                    f"{least}-{most}"
                )
            found.update(range(first, last + 1))
        return sorted(found)

    return listed


def amount(text: str) -> int:
    """Bytes, such as 512MB, 2GB or 1.5GiB."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", text.strip())
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount such as 512MB or 2GB")
    return int(float(match[1]) * unit)


def memory(text: str) -> int:
    """An amount of memory with which something can be done."""
    found = amount(text)
    if found < _MEMORY_MIN:
        raise argparse.ArgumentTypeError(f"{text} is too little; 64MiB or more are needed")
    return found


def percentage(text: str) -> float:
    """5% or 0.05, up to 100%."""
    number, is_percent = text.removesuffix("%"), text.endswith("%")
    try:
        value = float(number) / (100 if is_percent else 1)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share such as 5% or 0.05")
    return value


def escaped(text: str) -> str:
    r"""A text in which \n, \t, \r, \0 and \\ are what they stand for."""
    known = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}

    def one(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise argparse.ArgumentTypeError(f"{match[0]!r} is not one of \\n, \\t, \\r, \\0, \\\\")
        return known[match[1]]

    return re.sub(r"\\(.?)", one, text)


def add_engine(parser: Any) -> None:
    """The options of commands that a cluster can do."""
    parser.add_argument(
        "--engine", choices=ENGINES, default=LOCAL, help="who does the work (this machine)"
    )
    parser.add_argument("--ray-address", metavar="auto", help="of a Ray cluster that runs")
