"""vocab.json and merges.txt ↔ parts: GPT-2's two files, which do not say how text is split."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.errors import VocabularyError
from tokenmill.formats import models, spelling
from tokenmill.formats.parts import Parts, Pattern, Stage
from tokenmill.formats.places import Place
from tokenmill.formats.reading import read_bytes
from tokenmill.formats.spelling import Names
from tokenmill.formats.steps import BYTE_LEVEL, Cutting
from tokenmill.native import _native

VOCABULARY = "vocab.json"
MERGES = "merges.txt"
DECODER = {
    "type": "ByteLevel",
    "add_prefix_space": True,
    "trim_offsets": True,
    "use_regex": True,
}


def pattern_stage(pattern: str) -> Stage:
    """A pattern as tiktoken has it: what it does not match is left out."""
    return Stage(Pattern(pattern, "tiktoken"), "removed", True)


def read(folder: Path, pattern: str | None, *, is_gpt2: bool = False) -> Parts:
    """The parts of the two files of a folder; `is_gpt2` if they are split as GPT-2's are."""
    place = Place(str(folder / VOCABULARY))
    for name in (VOCABULARY, MERGES):
        if not (folder / name).is_file():
            raise VocabularyError(f"{folder} has no {name}; vocab.json and merges.txt go together")
    if pattern is None and not is_gpt2:
        place.refuse(
            'does not say how text is split before merging; load it with pattern="…", a regular '
            'expression or the name of a scheme ("r50k" for GPT-2 and RoBERTa)'
        )
    files = (read_bytes(folder / VOCABULARY), read_bytes(folder / MERGES))
    try:
        _, data, lengths, ids, merges, unmade = _native.read_vocabulary(
            *files, secrets.randbits(64)
        )
    except VocabularyError as error:
        raise VocabularyError(f"{folder}: {error}") from None
    stage = BYTE_LEVEL if pattern is None else pattern_stage(pattern)
    cutting = Cutting(stages=(stage,), base="bytes")
    options: dict[str, Any] = {"type": "BPE", "vocab": {}, "merges": []}
    names = Names(data, lengths, ids)
    model = models.read(options, names, np.asarray(merges), unmade, cutting, place)
    return Parts(model, stages=cutting.stages, decoder=DECODER)


def write(parts: Parts) -> tuple[bytes, bytes]:
    """vocab.json and merges.txt. How text is split is lost, as always with these files, and which
    tokens are special; what else would be lost is refused."""
    names = spelling.write_all(parts.model)
    pairs = models.write_merges(parts, names)
    lost = None
    if parts.model.base != "bytes":
        lost = "its merges start with characters"
    elif parts.steps or parts.blank or parts.prefix != "never":
        lost = "it normalises text before it is split"
    elif len(parts.stages) != 1 or not isinstance(parts.stages[0].match, Pattern):
        lost = "text is not split by one pattern"
    elif parts.model.dropout or models.ignores_merges(parts.model, names, pairs):
        lost = "it has options of its model"
    if lost is not None:
        raise VocabularyError(
            f"{lost}, and vocab.json with merges.txt cannot say so; save to tokenizer.json or "
            ".tokenmill"
        )
    entries = spelling.entries(parts, names, has_added=True)
    lines = "".join([f"{left} {right}\n" for left, right in pairs])
    return json.dumps(entries, ensure_ascii=False).encode(), f"#version: 0.2\n{lines}".encode()
