"""Pre-tokenizers: they split a text into pretokens.

`pre_tokenize_str` runs them here, one after the other. Encoding does not: there the core runs all
components together.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias

from tokenmill.compat.tokenizers.components import (
    BYTE_LEVEL,
    METASPACE,
    PATTERN,
    Component,
    Option,
    Steps,
    check,
    check_character,
    one_of,
    options_of,
    refuse,
    refused_call,
)
from tokenmill.errors import TokenizersError
from tokenmill.formats.checks import Place, flatten
from tokenmill.formats.names import byte_characters, spell
from tokenmill.formats.tokenizer_json import BYTE_LEVEL as BYTE_LEVEL_STAGE
from tokenmill.formats.tokenizer_json import read_stage
from tokenmill.native import _native
from tokenmill.patterns.schemes import Literally, Scheme, Stage, scheme_of_stages

Span: TypeAlias = tuple[int, int]
# Characters, each with its offsets in the text.
Chunk: TypeAlias = list[tuple[str, Span]]


_check_behavior = one_of(
    {
        "removed": "Removed", "isolated": "Isolated", "contiguous": "Contiguous",
        "merged_with_previous": "MergedWithPrevious", "merged_with_next": "MergedWithNext",
    }
)  # fmt: skip


class PreTokenizer(Component):
    """The base class of all pre-tokenizers."""

    def pre_tokenize_str(self, s: str) -> list[tuple[str, Span]]:
        """Return the pretokens of a text, each with its (start, end)."""
        text = check(s, str)
        steps = flatten(self.to_json(), "pretokenizers", Place("the pre-tokenizer"))
        if not steps:
            return [(text, (0, len(text)))]
        chunks: list[Chunk] = [[(char, (i, i + 1)) for i, char in enumerate(text)]]
        for step in steps:
            chunks = [each for chunk in chunks if chunk for each in _run(*step, chunk)]
        return [
            ("".join(char for char, _ in chunk), (chunk[0][1][0], chunk[-1][1][1]))
            for chunk in chunks
            if chunk
        ]

    pre_tokenize = refused_call("PreTokenizedString")
    custom = refused_call("a pre-tokenizer written in Python")


class ByteLevel(PreTokenizer, options=options_of(**BYTE_LEVEL), unknown="ignore"):
    """GPT-2's pattern, then bytes as printable characters."""

    @staticmethod
    def alphabet() -> list[str]:
        """Return the characters that represent the 256 bytes."""
        return list(byte_characters())


class Sequence(PreTokenizer, Steps, options=[Option("pre_tokenizers", list, key="pretokenizers")]):
    """Pre-tokenizers in order, each on the pretokens of the one before."""


Split = PreTokenizer.define(
    "Split",
    "Splits at matches.",
    PATTERN,
    Option("behavior", _check_behavior, read=str.lower),
    *options_of(invert=False),
)
Digits = PreTokenizer.define(
    "Digits", "Splits numbers from other text.", *options_of(individual_digits=False)
)
Punctuation = PreTokenizer.define(
    "Punctuation",
    "Splits at punctuation.",
    Option("behavior", _check_behavior, "isolated", read=str.lower),
)
Metaspace = PreTokenizer.define(
    "Metaspace", "SentencePiece's split, where a space is part of a word.", *METASPACE
)
CharDelimiterSplit = PreTokenizer.define(
    "CharDelimiterSplit",
    "Splits at a character and removes it.",
    Option("delimiter", check_character),
)
FixedLength = PreTokenizer.define(
    "FixedLength", "Chunks of `length` characters.", *options_of(length=5)
)
Whitespace = PreTokenizer.define("Whitespace", r"Splits by `\w+|[^\w\s]+`.")
WhitespaceSplit = PreTokenizer.define("WhitespaceSplit", "Splits at whitespace.")
BertPreTokenizer = PreTokenizer.define("BertPreTokenizer", "BERT's pre-tokenizer; cannot be run.")
UnicodeScripts = PreTokenizer.define("UnicodeScripts", "Splits between scripts; cannot be run.")


# Running


def _run(kind: str, step: dict[str, Any], place: Place, chunk: Chunk) -> Iterable[Chunk]:
    if kind == "ByteLevel":
        if step["add_prefix_space"]:
            chunk = _prefixed(chunk, " ")
        chunks = _split(chunk, BYTE_LEVEL_STAGE) if step["use_regex"] else [chunk]
        return [[(c, span) for char, span in each for c in spell(char.encode())] for each in chunks]
    if kind == "Metaspace":
        mark, scheme = step["replacement"], step["prepend_scheme"]
        chunk = [(mark if char == " " else char, span) for char, span in chunk]
        if scheme == "always" or (scheme == "first" and chunk[0][1][0] == 0):
            chunk = _prefixed(chunk, mark)
        stage = Stage(Literally(mark), "merged_with_next")
        return _split(chunk, stage) if step["split"] else [chunk]
    if kind == "FixedLength":
        length = step["length"]
        if not length:
            raise TokenizersError("length must be at least 1, got 0")
        return [chunk[i : i + length] for i in range(0, len(chunk), length)]
    if kind in ("BertPreTokenizer", "UnicodeScripts"):
        refuse(f"the pre-tokenizer {kind}")
    return _split(chunk, read_stage(kind, step, place))


def _prefixed(chunk: Chunk, mark: str) -> Chunk:
    """Return the chunk with a leading mark, which gets the offsets of the first character."""
    return chunk if chunk[0][0] == mark else [(mark, chunk[0][1]), *chunk]


def _split(chunk: Chunk, stage: Stage) -> list[Chunk]:
    chars = [char for char, _ in chunk]
    starts = {0: 0}  # byte offset → index of the character
    end = 0
    for index, char in enumerate(chars):
        end += len(char.encode())
        starts[end] = index + 1
    spans = _native.split(_scheme(stage), "".join(chars))
    return [chunk[starts[start] : starts[stop]] for start, stop in spans]


@lru_cache(64)
def _scheme(stage: Stage) -> Scheme:
    return scheme_of_stages((stage,), blank=False)
