"""Tokens → their script: the Unicode script of their letters, or the class of other characters.

Scripts are those of Unicode 16.0 (Scripts.txt, in `tokenmill.patterns.unicode`). Letters
and marks decide, so " don't" is Latin. A letter that several scripts share, such as a combining
accent, does not decide. A token without letters is digits, else punctuation, else whitespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tokenmill.patterns import unicode

SPACE = "whitespace"
OTHER = "controls and others"
PUNCTUATION = "punctuation and symbols"
SHARED = "letters of no script"
DIGITS = "digits"
MIXED = "several scripts"
PARTIAL = "parts of characters"  # not UTF-8
EMPTY = "empty"
# A class takes precedence over the classes before it. Scripts take precedence over all.
_CLASSES = (SPACE, OTHER, PUNCTUATION, SHARED, DIGITS)
_NONE = 255


def classify(texts: Sequence[str | None]) -> list[str]:
    """Return the script or class of each text. None means `PARTIAL`."""
    names, _ = _table()
    whole = [text for text in texts if text]
    lowest, highest = _extremes(whole)
    found = iter(
        MIXED if low != _NONE and low != high else names[high]
        for low, high in zip(lowest, highest, strict=True)
    )
    return [PARTIAL if text is None else EMPTY if not text else next(found) for text in texts]


def scripts_in(text: str) -> list[str]:
    """Return the scripts of the letters of a text, sorted by name."""
    names, table = _table()
    found = {int(table[ord(character)]) for character in text}
    return sorted(names[code] for code in found if code >= len(_CLASSES))


def has_invisible(texts: Iterable[str]) -> NDArray[np.bool_]:
    """Return whether each text contains an invisible character. No text may be empty."""
    whole = list(texts)
    codes, starts = _codes(whole)
    if not len(starts):
        return np.zeros(0, bool)
    return np.logical_or.reduceat(codes == _CLASSES.index(OTHER), starts)


def are_words(texts: Iterable[str]) -> NDArray[np.bool_]:
    """Return whether each text is letters only, with an optional first space. None is empty."""
    bare = [text.removeprefix(" ") or " " for text in texts]
    codes, starts = _codes(bare)
    if not len(starts):
        return np.zeros(0, bool)
    is_letter = (codes == _CLASSES.index(SHARED)) | (codes >= len(_CLASSES))
    return np.logical_and.reduceat(is_letter, starts)


def _extremes(texts: list[str]) -> tuple[list[int], list[int]]:
    """Return the lowest script code of each text, and the highest code of any kind."""
    codes, starts = _codes(texts)
    if not len(starts):
        return [], []
    scripts = np.where(codes < len(_CLASSES), np.uint8(_NONE), codes)
    return np.minimum.reduceat(scripts, starts).tolist(), np.maximum.reduceat(
        codes, starts
    ).tolist()


def _codes(texts: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the codes of all characters, concatenated, and the start of each text."""
    _, table = _table()
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return table[points], np.cumsum(lengths) - lengths


@cache
def _table() -> tuple[list[str], NDArray[np.uint8]]:
    """Return the names of the codes, and the code of each code point."""
    names = list(_CLASSES)
    table = np.full(unicode.CODE_POINTS, names.index(OTHER), np.uint8)
    letters = _named("l") | _named("m")
    for name, category in ((PUNCTUATION, _named("p") | _named("s")), (DIGITS, _named("n"))):
        _fill(table, category, names.index(name))
    _fill(table, letters, names.index(SHARED))
    is_letter = table == names.index(SHARED)
    scripts = table.copy()
    for script, members in unicode.scripts():
        if script not in ("Common", "Inherited"):
            names.append(script.replace("_", " "))
            _fill(scripts, members, len(names) - 1)
    table = np.where(is_letter, scripts, table)
    # Some scripts need joiners, which are visible in the letters that they join.
    _fill(table, _named("joincontrol"), names.index(SHARED))
    _fill(table, unicode.space(), names.index(SPACE))
    return names, table


def _fill(table: NDArray[np.uint8], members: unicode.CodePoints, code: int) -> None:
    for start, end in members.ranges():
        table[start:end] = code


def _named(name: str) -> unicode.CodePoints:
    found = unicode.named(name)
    assert found is not None
    return found
