"""A text → its normal text, and its pieces, by one component of a tokenizer.json.

This is what `normalize_str` and `pre_tokenize_str` show. Encoding does not come here: there all
parts are run together by the core.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from tokenmill.compat.tokenizers import values
from tokenmill.formats.huggingface import byte_characters
from tokenmill.formats.packing import pack_steps
from tokenmill.formats.places import Place
from tokenmill.formats.steps import read_normalizer
from tokenmill.native import _native
from tokenmill.patterns import compile_pattern
from tokenmill.schemes import PATTERNS

Span: TypeAlias = tuple[int, int]
# Characters, each with its place in the text.
Piece: TypeAlias = list[tuple[str, Span]]
# A pattern, what becomes of its matches, and whether those are what is between them.
Cut: TypeAlias = tuple[str, str, bool]

# Its words are those of Rust's regular expressions: they hold the joiners, too.
_WORDS = r"[\w\x{200c}\x{200d}]+|[^\w\s\x{200c}\x{200d}]+"
_PUNCTUATION = r"[!-/:-@\[-`{-~\p{P}]"


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


def _steps(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if part["type"] != "Sequence":
        return [part]
    return [step for each in part["pretokenizers"] for step in _steps(each)]


def _run(step: Mapping[str, Any], piece: Piece) -> Iterable[Piece]:
    kind = step["type"]
    if kind == "ByteLevel":
        if step["add_prefix_space"]:
            piece = _prefixed(piece, " ")
        cut = (PATTERNS["r50k"][1], "Isolated", False)
        pieces = _cut(piece, cut) if step["use_regex"] else [piece]
        return [[(c, place) for char, place in each for c in _spell(char)] for each in pieces]
    if kind == "Metaspace":
        mark, scheme = step["replacement"], step["prepend_scheme"]
        piece = [(mark if char == " " else char, place) for char, place in piece]
        if scheme == "always" or (scheme == "first" and piece[0][1][0] == 0):
            piece = _prefixed(piece, mark)
        cut = (_literally(mark), "MergedWithNext", False)
        return _cut(piece, cut) if step["split"] else [piece]
    return _cut(piece, _pattern_of(step))


def _pattern_of(step: Mapping[str, Any]) -> Cut:
    match step["type"]:
        case "Split":
            ((kind, text),) = step["pattern"].items()
            pattern = text if kind == "Regex" else _literally(text)
            return pattern, step["behavior"], step["invert"]
        case "Digits":
            return r"\p{N}", "Isolated" if step["individual_digits"] else "Contiguous", False
        case "Punctuation":
            return _PUNCTUATION, step["behavior"], False
        case "Whitespace":
            return _WORDS, "Removed", True
        case "WhitespaceSplit":
            return r"\s", "Removed", False
        case "CharDelimiterSplit":
            return _literally(step["delimiter"]), "Removed", False
        case kind:
            return values.not_there(f"the pre-tokenizer {kind}")


def _literally(text: str) -> str:
    return "".join(rf"\x{{{ord(char):x}}}" for char in text)


def _spell(char: str) -> str:
    """The characters that stand for the bytes of one."""
    return "".join(byte_characters()[byte] for byte in char.encode())


def _prefixed(piece: Piece, mark: str) -> Piece:
    """With a mark in front, at the place of the first character, unless there is one."""
    return piece if piece[0][0] == mark else [(mark, piece[0][1]), *piece]


def _cut(piece: Piece, cut: Cut) -> list[Piece]:
    pattern, behavior, invert = cut
    chars = [char for char, _ in piece]
    starts = {0: 0}  # of characters, by byte
    end = 0
    for index, char in enumerate(chars):
        end += len(char.encode())
        starts[end] = index + 1
    found, last = [], 0
    for start, stop in _native.split(_program(pattern), "".join(chars)):
        found += [(last, starts[start], invert), (starts[start], starts[stop], not invert)]
        last = starts[stop]
    found.append((last, len(piece), invert))
    spans = fold([each for each in found if each[0] < each[1]], behavior)
    return [piece[start:stop] for start, stop in spans]


@lru_cache(64)
def _program(pattern: str) -> bytes:
    return compile_pattern(pattern, "oniguruma")


def fold(spans: list[tuple[int, int, bool]], behavior: str) -> list[Span]:
    """What becomes of spans of which some are matches."""
    if behavior == "Isolated":
        return [(start, stop) for start, stop, _ in spans]
    if behavior == "Removed":
        return [(start, stop) for start, stop, is_match in spans if not is_match]
    made: list[Span] = []
    is_reversed = behavior == "MergedWithNext"
    before = False
    for start, stop, is_match in spans[::-1] if is_reversed else spans:
        joins = is_match == before if behavior == "Contiguous" else is_match and not before
        if joins and made:
            (first, last) = made[-1]
            made[-1] = (start, last) if is_reversed else (first, stop)
        else:
            made.append((start, stop))
        before = is_match
    return made[::-1] if is_reversed else made
