"""A tokenizer → a table of its tokens: every id in use, with its bytes and its kind.

Odd tokens of a table are often junk of the training text, and often badly trained. They are not
errors. The kinds occur in vocabularies of many models: long runs of one character, names from
program code that one file repeats ten thousand times (" SolidGoldMagikarp"), invisible characters,
and text that was decoded with the wrong encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill.display import token_text
from tokenmill.formats.spec import BYTE, DECODED, TOKEN, TokenizerSpec
from tokenmill.patterns import unicode
from tokenmill.tokenizer import Tokenizer

# "token": made by merging. "byte": a byte of a character without a token. "decoded": only decoding
# uses it. "added" and "special": found in the text before merging.
Kind: TypeAlias = Literal["token", "byte", "decoded", "added", "special"]
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


@dataclass(frozen=True)
class TokenTable:
    """The tokens of a vocabulary in the order of their ids, with spaces as spaces, not "▁".

    `mergeable` maps the tokens that take part in merging to their ids.
    """

    tokenizer: Tokenizer
    spec: TokenizerSpec
    ids: NDArray[np.int64]
    tokens: list[bytes]
    kinds: list[Kind]
    mergeable: dict[bytes, int]

    @cached_property
    def texts(self) -> list[str | None]:
        """The tokens as text, or None for a token that is not UTF-8."""
        return [_text(token) for token in self.tokens]

    @cached_property
    def index_of(self) -> dict[int, int]:
        """The index of each id."""
        return {id_: index for index, id_ in enumerate(self.ids.tolist())}

    @cached_property
    def scripts(self) -> list[str]:
        """The script of each token, see `classify`."""
        return classify(self.texts)

    @cached_property
    def byte_counts(self) -> NDArray[np.int64]:
        return np.fromiter(map(len, self.tokens), np.int64, len(self.tokens))

    @cached_property
    def character_counts(self) -> NDArray[np.int64]:
        """The characters of each token, or -1 for a token that is not UTF-8."""
        counts = (-1 if text is None else len(text) for text in self.texts)
        return np.fromiter(counts, np.int64, len(self.texts))

    def select(self, *kinds: Kind) -> list[int]:
        """Return the indexes of the tokens of these kinds, in order."""
        return [index for index, kind in enumerate(self.kinds) if kind in kinds]

    def row(self, index: int) -> dict[str, Any]:
        """Return a token as JSON. A byte token is spelled as in files: <0x0A>."""
        token, id_ = self.tokens[index], int(self.ids[index])
        if self.kinds[index] == "byte":
            return {"id": id_, "token": f"<0x{token[0]:02X}>"}
        row: dict[str, Any] = {"id": id_, "token": token_text(token)}
        if self.texts[index] is None:
            row["hex"] = token.hex()
        return row


def make_table(tokenizer: Tokenizer) -> TokenTable:
    """Return the table of all tokens of a tokenizer."""
    found = tokenizer._tokens()
    spec = tokenizer._spec
    kinds = _kinds(spec)
    mergeable = {found[id_]: id_ for id_ in spec.model.ids[spec.model.kinds == TOKEN].tolist()}
    for text, id_ in tokenizer.special_tokens.items():
        found[id_] = found.get(id_) or text.encode()
        kinds[id_] = "special"
    ids = sorted(found)
    tokens = [found[id_] for id_ in ids]
    all_kinds: list[Kind] = [kinds.get(id_, "token") for id_ in ids]
    return TokenTable(tokenizer, spec, np.array(ids, np.int64), tokens, all_kinds, mergeable)


def _kinds(spec: TokenizerSpec) -> dict[int, Kind]:
    model = spec.model
    kinds: dict[int, Kind] = {}
    for kind, name in ((BYTE, "byte"), (DECODED, "decoded")):
        kinds |= dict.fromkeys(model.ids[model.kinds == kind].tolist(), name)
    if model.missing == "unk" and model.unk is not None:
        kinds[model.unk] = "decoded"  # encodes unknown characters, never made by a merge
    return kinds | {token.id: "special" if token.special else "added" for token in spec.added}


def _text(token: bytes) -> str | None:
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None


# The script of a token: the Unicode script of its letters, or the class of its other characters.
# Scripts are those of Unicode 16.0 (Scripts.txt, in `tokenmill.patterns.unicode`). Letters and
# marks decide, so " don't" is Latin. A letter that several scripts share, such as a combining
# accent, does not decide. A token without letters is digits, else punctuation, else whitespace.

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
    codes, starts = _codes([text for text in texts if text])
    scripts = np.where(codes < len(_CLASSES), np.uint8(_NONE), codes)
    lowest, highest = _reduce(np.minimum, scripts, starts), _reduce(np.maximum, codes, starts)
    found = iter(
        MIXED if low != _NONE and low != high else names[high]
        for low, high in zip(lowest.tolist(), highest.tolist(), strict=True)
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
    return _reduce(np.logical_or, codes == _CLASSES.index(OTHER), starts)


def are_words(texts: Iterable[str]) -> NDArray[np.bool_]:
    """Return whether each text is letters only, with an optional first space. None is empty."""
    bare = [text.removeprefix(" ") or " " for text in texts]
    codes, starts = _codes(bare)
    is_letter = (codes == _CLASSES.index(SHARED)) | (codes >= len(_CLASSES))
    return _reduce(np.logical_and, is_letter, starts)


def _reduce(function: np.ufunc, values: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
    """Reduce the values of each text to one."""
    return function.reduceat(values, starts) if len(starts) else values


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
    for name, categories in ((PUNCTUATION, "ps"), (DIGITS, "n"), (SHARED, "lm")):
        for category in categories:
            _fill(table, unicode.known(category), names.index(name))
    is_letter = table == names.index(SHARED)
    scripts = table.copy()
    for script, members in unicode.scripts():
        if script not in ("Common", "Inherited"):
            names.append(script.replace("_", " "))
            _fill(scripts, members, len(names) - 1)
    table = np.where(is_letter, scripts, table)
    # Some scripts need joiners, which are visible in the letters that they join.
    _fill(table, unicode.known("joincontrol"), names.index(SHARED))
    _fill(table, unicode.known("space"), names.index(SPACE))
    return names, table


def _fill(table: NDArray[np.uint8], members: unicode.CodePoints, code: int) -> None:
    for start, end in members.ranges():
        table[start:end] = code


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
