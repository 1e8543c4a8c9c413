"""A text → its normal text, and its pieces, by one component of a tokenizer.json.

This is what `normalize_str` and `pre_tokenize_str` show. Encoding does not come here: there all
parts are run together by the core.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from tokenmill.compat.tokenizers import values
from tokenmill.errors import TokenizersError
from tokenmill.formats.byte_characters import byte_characters
from tokenmill.formats.packing import pack_steps
from tokenmill.formats.parts import Literally, Pattern, Stage
from tokenmill.formats.places import Place
from tokenmill.formats.steps import BYTE_LEVEL, WORDS, read_normalizer
from tokenmill.native import _native
from tokenmill.schemes import Scheme, scheme_of_stages

Behaviour: TypeAlias = Literal[
    "isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"
]
Span: TypeAlias = tuple[int, int]
# Characters, each with its place in the text.
Piece: TypeAlias = list[tuple[str, Span]]

_BEHAVIOURS: dict[str, Behaviour] = {
    "Isolated": "isolated", "Removed": "removed", "MergedWithPrevious": "merged_with_previous",
    "MergedWithNext": "merged_with_next", "Contiguous": "contiguous",
}  # fmt: skip


def normalize(normalizer: Mapping[str, Any], text: str) -> str:
    """What a normalizer makes of a text."""
    steps, is_spelled = read_normalizer(normalizer, Place("the normalizer"))
    found, _ = _native.normalize(pack_steps(steps), text)
    return "".join(map(_spell, found)) if is_spelled else found


def pre_tokenize(pre_tokenizer: Mapping[str, Any], text: str) -> list[tuple[str, Span]]:
    """The pieces of a text as a pre-tokenizer shows them, with their places."""
    steps = _steps(pre_tokenizer)
    if not steps:
        return [(text, (0, len(text)))]
    pieces: list[Piece] = [[(char, (i, i + 1)) for i, char in enumerate(text)]]
    for step in steps:
        pieces = [each for piece in pieces if piece for each in _run(step, piece)]
    return [
        ("".join(char for char, _ in piece), (piece[0][1][0], piece[-1][1][1]))
        for piece in pieces
        if piece
    ]


def words(pre_tokenizer: Mapping[str, Any], text: str) -> list[str]:
    """The pieces of a text without their places, which takes less."""
    pieces = [(text, True)] if text else []  # and whether the text begins with it
    for step in _steps(pre_tokenizer):
        pieces = [each for piece, first in pieces for each in _words(step, piece, first)]
    return [piece for piece, _ in pieces]


def _words(step: Mapping[str, Any], text: str, first: bool) -> list[tuple[str, bool]]:
    kind = step["type"]
    if kind == "ByteLevel":
        if step["add_prefix_space"] and not text.startswith(" "):
            text = " " + text
        cut = _cut_text(text, first, BYTE_LEVEL) if step["use_regex"] else [(text, first)]
        return [("".join(map(_spell, piece)), start) for piece, start in cut]
    if kind == "Metaspace":
        mark, scheme = step["replacement"], step["prepend_scheme"]
        text = text.replace(" ", mark)
        if (scheme == "always" or (scheme == "first" and first)) and not text.startswith(mark):
            text = mark + text
        stage = Stage(Literally(mark), "merged_with_next")
        return _cut_text(text, first, stage) if step["split"] else [(text, first)]
    if kind == "FixedLength":
        pieces = _run(step, [(char, (i, i)) for i, char in enumerate(text)])
        return [
            ("".join(char for char, _ in piece), first and not piece[0][1][0]) for piece in pieces
        ]
    return _cut_text(text, first, _stage(step))


def _cut_text(text: str, first: bool, stage: Stage) -> list[tuple[str, bool]]:
    data = text.encode()
    spans = _native.split(_scheme(stage), text)
    return [(data[a:b].decode(), first and a == 0) for a, b in spans if a < b]


def _steps(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if part["type"] != "Sequence":
        return [part]
    return [step for each in part["pretokenizers"] for step in _steps(each)]


def _run(step: Mapping[str, Any], piece: Piece) -> Iterable[Piece]:
    kind = step["type"]
    if kind == "ByteLevel":
        if step["add_prefix_space"]:
            piece = _prefixed(piece, " ")
        pieces = _cut(piece, BYTE_LEVEL) if step["use_regex"] else [piece]
        return [[(c, place) for char, place in each for c in _spell(char)] for each in pieces]
    if kind == "Metaspace":
        mark, scheme = step["replacement"], step["prepend_scheme"]
        piece = [(mark if char == " " else char, place) for char, place in piece]
        if scheme == "always" or (scheme == "first" and piece[0][1][0] == 0):
            piece = _prefixed(piece, mark)
        return _cut(piece, Stage(Literally(mark), "merged_with_next")) if step["split"] else [piece]
    if kind == "FixedLength":
        length = step["length"]
        if not length:
            raise TokenizersError("chunk size must be non-zero")
        return [piece[i : i + length] for i in range(0, len(piece), length)]
    return _cut(piece, _stage(step))


def _stage(step: Mapping[str, Any]) -> Stage:
    match step["type"]:
        case "Split":
            ((kind, text),) = step["pattern"].items()
            match = Pattern(text) if kind == "Regex" else Literally(text)
            return Stage(match, _BEHAVIOURS[step["behavior"]], step["invert"])
        case "Digits":
            return Stage("digits", "isolated" if step["individual_digits"] else "contiguous")
        case "Punctuation":
            return Stage("punctuation", _BEHAVIOURS[step["behavior"]])
        case "Whitespace":
            return WORDS
        case "WhitespaceSplit":
            return Stage("space", "removed")
        case "CharDelimiterSplit":
            return Stage(Literally(step["delimiter"]), "removed")
        case kind:
            return values.not_there(f"the pre-tokenizer {kind}")


def _spell(char: str) -> str:
    """The characters that stand for the bytes of one."""
    return "".join(byte_characters()[byte] for byte in char.encode())


def _prefixed(piece: Piece, mark: str) -> Piece:
    """With a mark in front, at the place of the first character, unless there is one."""
    return piece if piece[0][0] == mark else [(mark, piece[0][1]), *piece]


def _cut(piece: Piece, stage: Stage) -> list[Piece]:
    chars = [char for char, _ in piece]
    starts = {0: 0}  # of characters, by byte
    end = 0
    for index, char in enumerate(chars):
        end += len(char.encode())
        starts[end] = index + 1
    spans = _native.split(_scheme(stage), "".join(chars))
    return [piece[starts[start] : starts[stop]] for start, stop in spans]


@lru_cache(64)
def _scheme(stage: Stage) -> Scheme:
    return scheme_of_stages((stage,), blank=False)
