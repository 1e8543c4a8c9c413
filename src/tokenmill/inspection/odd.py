"""Entries → those that look odd: often junk of the training text, and seldom well trained.

None of it is an error. The kinds are what is found again and again in vocabularies of real models:
long runs of one character, names of program code that one file had ten thousand times (" Solid
GoldMagikarp"), characters that nobody sees, text that was decoded wrongly.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from tokenmill.inspection.entries import Entries
from tokenmill.inspection.scripts import MIXED, SPACE, has_other, scripts_in

OddKind: TypeAlias = Literal[
    "duplicates", "white_space", "repeats", "invisible", "replacement", "mixed", "partial", "camel"
]
ODD: dict[OddKind, str] = {
    "duplicates": "same bytes, several ids",
    "white_space": "runs of white space",
    "repeats": "one stretch repeated",
    "invisible": "invisible characters",
    "replacement": "U+FFFD, decoded wrongly",
    "mixed": "scripts mixed",
    "partial": "a character cut open",
    "camel": "long CamelCase",
}
# Scripts that one language writes together.
_TOGETHER = (
    {"Han", "Hiragana", "Katakana"},
    {"Han", "Hangul"},
    {"Han", "Bopomofo"},
)
_CAMEL_MIN = 14
_REPEATED = re.compile(r" ?(.{1,4}?)\1{3,}", re.DOTALL)
_CAMEL = re.compile(r"[a-z][A-Z]")


def find_odd(entries: Entries) -> dict[OddKind, list[int]]:
    """Kind → places, the longest tokens first."""
    texts, scripts = entries.texts, entries.scripts
    # Specials are made to look odd, and a byte is what merging begins with.
    usual = [
        (place, text)
        for place in entries.places_of("token")
        if (text := texts[place]) and len(entries.tokens[place]) > 1
    ]
    hidden = has_other(text for _, text in usual).tolist()
    found: dict[OddKind, list[int]] = {
        "duplicates": _duplicates(entries),
        "white_space": [p for p, text in usual if scripts[p] == SPACE and len(text) > 1],
        "repeats": [p for p, text in usual if _is_repeated(text) and scripts[p] != SPACE],
        "invisible": [p for (p, _), is_odd in zip(usual, hidden, strict=True) if is_odd],
        "replacement": [p for p, text in usual if "\ufffd" in text],
        "mixed": [p for p, text in usual if scripts[p] == MIXED and _is_mixed(text)],
        "partial": [p for p in entries.places_of("token") if _is_partial(entries, p)],
        "camel": [p for p, text in usual if _is_camel(text)],
    }
    return {
        kind: sorted(places, key=lambda place: -len(entries.tokens[place]))
        for kind, places in found.items()
        if places
    }


def _duplicates(entries: Entries) -> list[int]:
    first: dict[bytes, int] = {}
    found: dict[int, None] = {}
    for place in entries.places_of("token", "added", "special", "decoded"):
        token = entries.tokens[place]
        other = first.setdefault(token, place)
        if other != place:
            found |= dict.fromkeys((other, place))
    return list(found)


def _is_repeated(text: str) -> bool:
    # Most do not even end as such a text does.
    return text[-1] in text[-5:-1] and _REPEATED.fullmatch(text) is not None


def _is_mixed(text: str) -> bool:
    found = set(scripts_in(text))
    return not any(found <= together for together in _TOGETHER)


def _is_partial(entries: Entries, place: int) -> bool:
    if entries.texts[place] is not None:
        return False
    return bool(entries.tokens[place].decode("utf-8", "ignore").strip())


def _is_camel(text: str) -> bool:
    return len(text) >= _CAMEL_MIN and _CAMEL.search(text) is not None and text.strip().isalnum()
