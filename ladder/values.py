"""Words of the command line → numbers, with errors for argparse."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable


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
