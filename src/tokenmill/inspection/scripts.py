"""Tokens → what they are written in: the Unicode script of their letters, or else what they are.

Scripts are Unicode 16.0's (Scripts.txt, in the data of `tokenmill.patterns.unicode`). Letters and
marks decide, so that " don't" is Latin; a letter that many scripts share, such as a combining
accent, decides nothing. A token without letters is digits, else punctuation, else white space if
there is nothing else in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tokenmill.patterns import unicode

SPACE = "white space"
OTHER = "controls and others"
PUNCTUATION = "punctuation and symbols"
SHARED = "letters of no script"
DIGITS = "digits"
MIXED = "several scripts"
PARTIAL = "parts of characters"  # not UTF-8
EMPTY = "empty"
# In this order a character decides for those before it; scripts are the last.
_CLASSES = (SPACE, OTHER, PUNCTUATION, SHARED, DIGITS)
_NONE = 255


def classify(texts: Sequence[str | None]) -> list[str]:
    """The name of each text's script, or of one of the classes above; None is `PARTIAL`."""
    names, _ = _table()
    whole = [text for text in texts if text]
    lowest, highest = _extremes(whole)
    found = iter(
        MIXED if low != _NONE and low != high else names[high]
        for low, high in zip(lowest, highest, strict=True)
    )
    return [PARTIAL if text is None else EMPTY if not text else next(found) for text in texts]


def scripts_in(text: str) -> list[str]:
    """The scripts of a text's letters, in the order of their names."""
    names, table = _table()
    found = {int(table[ord(character)]) for character in text}
    return sorted(names[code] for code in found if code >= len(_CLASSES))


def has_other(texts: Iterable[str]) -> NDArray[np.bool_]:
    """Whether each text, none of them empty, holds a character that is not to be seen."""
    whole = list(texts)
    codes, starts = _codes(whole)
    if not len(starts):
        return np.zeros(0, bool)
    return np.logical_or.reduceat(codes == _CLASSES.index(OTHER), starts)


def are_words(texts: Iterable[str]) -> NDArray[np.bool_]:
    """Whether each text, none of them empty, is letters alone, behind a blank or not."""
    bare = [text.removeprefix(" ") or " " for text in texts]
    codes, starts = _codes(bare)
    if not len(starts):
        return np.zeros(0, bool)
    is_letter = (codes == _CLASSES.index(SHARED)) | (codes >= len(_CLASSES))
    return np.logical_and.reduceat(is_letter, starts)


def _extremes(texts: list[str]) -> tuple[list[int], list[int]]:
    """The lowest code of a script in each text, and the highest code at all."""
    codes, starts = _codes(texts)
    if not len(starts):
        return [], []
    scripts = np.where(codes < len(_CLASSES), np.uint8(_NONE), codes)
    return np.minimum.reduceat(scripts, starts).tolist(), np.maximum.reduceat(
        codes, starts
    ).tolist()


def _codes(texts: list[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The codes of all characters end to end, and where each text starts."""
    _, table = _table()
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return table[points], np.cumsum(lengths) - lengths


@cache
def _table() -> tuple[list[str], NDArray[np.uint8]]:
    """Names of codes, and the code of each code point."""
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
    # Some scripts are written with joiners, which are seen in what they join.
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
