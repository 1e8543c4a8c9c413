"""A text → its normalized text or its pretokens, by one component of a tokenizer.json.

`normalize_str` and `pre_tokenize_str` use this module. Encoding does not: there the core runs all
components together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from tokenmill.compat.tokenizers.components import refuse
from tokenmill.errors import TokenizersError
from tokenmill.formats.build import pack_steps
from tokenmill.formats.checks import Place
from tokenmill.formats.names import byte_characters
from tokenmill.formats.tokenizer_json import BYTE_LEVEL, read_normalizer, read_stage
from tokenmill.native import _native
from tokenmill.patterns.schemes import Literally, Scheme, Stage, scheme_of_stages

Span: TypeAlias = tuple[int, int]
# Characters, each with its offsets in the text.
Chunk: TypeAlias = list[tuple[str, Span]]


def normalize(normalizer: Mapping[str, Any], text: str) -> str:
    """Return the normalized text."""
    steps, is_byte_level = read_normalizer(normalizer, Place("the normalizer"))
    found, _ = _native.normalize(pack_steps(steps), text)
    return "".join(map(_byte_characters, found)) if is_byte_level else found


def pre_tokenize(pre_tokenizer: Mapping[str, Any], text: str) -> list[tuple[str, Span]]:
    """Return the pretokens of a text with their offsets."""
    steps = _flatten(pre_tokenizer)
    if not steps:
        return [(text, (0, len(text)))]
    chunks: list[Chunk] = [[(char, (i, i + 1)) for i, char in enumerate(text)]]
    for step in steps:
        chunks = [each for chunk in chunks if chunk for each in _run(step, chunk)]
    return [
        ("".join(char for char, _ in chunk), (chunk[0][1][0], chunk[-1][1][1]))
        for chunk in chunks
        if chunk
    ]


def _flatten(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if part["type"] != "Sequence":
        return [part]
    return [step for each in part["pretokenizers"] for step in _flatten(each)]


def _run(step: Mapping[str, Any], chunk: Chunk) -> Iterable[Chunk]:
    kind = step["type"]
    if kind == "ByteLevel":
        if step["add_prefix_space"]:
            chunk = _prefixed(chunk, " ")
        chunks = _split(chunk, BYTE_LEVEL) if step["use_regex"] else [chunk]
        return [
            [(c, span) for char, span in each for c in _byte_characters(char)] for each in chunks
        ]
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
    return _split(chunk, read_stage(kind, dict(step), Place("the pre-tokenizer")))


def _byte_characters(char: str) -> str:
    """Return the characters that represent the bytes of one character."""
    return "".join(byte_characters()[byte] for byte in char.encode())


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
