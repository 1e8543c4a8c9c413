"""Token table → odd tokens: often junk of the training text, and often badly trained.

They are not errors. The kinds occur in vocabularies of many models: long runs of one
character, names from program code that one file repeats ten thousand times (" SolidGoldMagikarp"),
invisible characters, and text that was decoded with the wrong encoding.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from tokenmill.inspection.token_table import MIXED, SPACE, TokenTable, has_invisible, scripts_in

OddKind: TypeAlias = Literal[
    "duplicates", "whitespace", "repeats", "invisible", "replacement", "mixed", "partial", "camel"
]
ODD: dict[OddKind, str] = {
    "duplicates": "same bytes, several ids",
    "whitespace": "runs of whitespace",
    "repeats": "one sequence repeated",
    "invisible": "invisible characters",
    "replacement": "U+FFFD, wrong decoding",
    "mixed": "mixed scripts",
    "partial": "part of a character",
    "camel": "long CamelCase",
}
# Scripts that one language writes together.
_TOGETHER = ({"Han", "Hiragana", "Katakana"}, {"Han", "Hangul"}, {"Han", "Bopomofo"})
_CAMEL_MIN = 14
_REPEAT = re.compile(r" ?(.{1,4}?)\1{3,}", re.DOTALL)
_CAMEL = re.compile(r"[a-z][A-Z]")


def find_odd(table: TokenTable) -> dict[OddKind, list[int]]:
    """Return the indexes of odd tokens by kind, the longest tokens first."""
    texts, scripts = table.texts, table.scripts
    # Special tokens look odd on purpose, and single bytes are the start of merging.
    usual = [
        (index, text)
        for index in table.select("token")
        if (text := texts[index]) and len(table.tokens[index]) > 1
    ]
    invisible = has_invisible(text for _, text in usual).tolist()
    found: dict[OddKind, list[int]] = {
        "duplicates": _duplicates(table),
        "whitespace": [i for i, text in usual if scripts[i] == SPACE and len(text) > 1],
        "repeats": [i for i, text in usual if _is_repeat(text) and scripts[i] != SPACE],
        "invisible": [i for (i, _), is_odd in zip(usual, invisible, strict=True) if is_odd],
        "replacement": [i for i, text in usual if "\ufffd" in text],
        "mixed": [i for i, text in usual if scripts[i] == MIXED and _is_mixed(text)],
        "partial": [i for i in table.select("token") if _is_partial(table, i)],
        "camel": [i for i, text in usual if _is_camel(text)],
    }
    return {
        kind: sorted(indexes, key=lambda index: -len(table.tokens[index]))
        for kind, indexes in found.items()
        if indexes
    }


def _duplicates(table: TokenTable) -> list[int]:
    first: dict[bytes, int] = {}
    found: dict[int, None] = {}
    for index in table.select("token", "added", "special", "decoded"):
        other = first.setdefault(table.tokens[index], index)
        if other != index:
            found |= dict.fromkeys((other, index))
    return list(found)


def _is_repeat(text: str) -> bool:
    # The first test is a fast filter: the last character of a repetition occurs shortly before.
    return text[-1] in text[-5:-1] and _REPEAT.fullmatch(text) is not None


def _is_mixed(text: str) -> bool:
    found = set(scripts_in(text))
    return not any(found <= together for together in _TOGETHER)


def _is_partial(table: TokenTable, index: int) -> bool:
    is_text = table.texts[index] is not None
    return not is_text and bool(table.tokens[index].decode("utf-8", "ignore").strip())


def _is_camel(text: str) -> bool:
    return len(text) >= _CAMEL_MIN and _CAMEL.search(text) is not None and text.strip().isalnum()
