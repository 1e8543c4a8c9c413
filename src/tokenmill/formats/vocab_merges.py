"""vocab.json and merges.txt ↔ TokenizerSpec: GPT-2's two files, which do not say how text is split.

They belong together, and ids are wrong if one of them is of another tokenizer. The first line of a
merges.txt that is written here, which every reader passes over, has the digest of its vocabulary.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.errors import VocabularyError
from tokenmill.formats.checks import Place, is_file, read_bytes
from tokenmill.formats.names import Names, entries_of, names_of
from tokenmill.formats.ranks import DECODER, pattern_stage
from tokenmill.formats.spec import TokenizerSpec
from tokenmill.formats.tokenizer_json import (
    BYTE_LEVEL,
    Cutting,
    ignores_merges,
    read_model,
    write_merges,
)
from tokenmill.native import _native
from tokenmill.patterns.schemes import Pattern

VOCABULARY = "vocab.json"
MERGES = "merges.txt"
_DIGEST = re.compile(rb"#version: 0\.2 - vocab\.json ([0-9a-f]{16})\r?\n")


def read(folder: Path, pattern: str | None, *, is_gpt2: bool = False) -> TokenizerSpec:
    """The spec of the two files of a folder; `is_gpt2` if they are split as GPT-2's are."""
    place = Place(str(folder / VOCABULARY))
    for name in (VOCABULARY, MERGES):
        if not is_file(folder / name):
            raise VocabularyError(f"{folder} has no {name}; vocab.json and merges.txt go together")
    if pattern is None and not is_gpt2:
        place.refuse(
            'does not say how text is split before merging; load it with pattern="…", a regular '
            'expression or the name of a scheme ("r50k" for GPT-2 and RoBERTa)'
        )
    files = (read_bytes(folder / VOCABULARY), read_bytes(folder / MERGES))
    try:
        found = _native.read_vocabulary(*files, secrets.randbits(64))
    except VocabularyError as error:
        raise VocabularyError(f"{folder}: {error}") from None
    stage = BYTE_LEVEL if pattern is None else pattern_stage(pattern)
    cutting = Cutting(stages=(stage,), base="bytes")
    _, data, lengths, ids, merges, unmade = found
    names = Names(data, lengths, ids)
    said = _DIGEST.match(files[1])
    if said is not None and said[1].decode() != _digest(names):
        raise VocabularyError(
            f"{folder}: merges.txt was not written with this vocab.json, so ids would be wrong; "
            "save both again, or if vocab.json was changed on purpose write only '#version: 0.2' "
            "in the first line of merges.txt"
        )
    options: dict[str, Any] = {"type": "BPE", "vocab": {}, "merges": []}
    model = read_model(options, names, np.asarray(merges), unmade, cutting, place)
    return TokenizerSpec(model, stages=cutting.stages, decoder=DECODER)


def write(spec: TokenizerSpec) -> tuple[bytes, bytes]:
    """vocab.json and merges.txt. How text is split is lost, as always with these files, and which
    tokens are special; what else would be lost is refused."""
    names = names_of(spec.model)
    pairs = write_merges(spec, names)
    lost = None
    if spec.model.base != "bytes":
        lost = "its merges start with characters"
    elif spec.steps or spec.blank or spec.prefix != "never":
        lost = "it normalises text before it is split"
    elif len(spec.stages) != 1 or not isinstance(spec.stages[0].match, Pattern):
        lost = "text is not split by one pattern"
    elif spec.model.dropout or ignores_merges(spec.model, names, pairs):
        lost = "it has options of its model"
    if lost is not None:
        raise VocabularyError(
            f"{lost}, and vocab.json with merges.txt cannot say so; save to tokenizer.json or "
            ".tokenmill"
        )
    entries = entries_of(spec, names, has_added=True)
    for left, right in pairs:
        if left.startswith("#version"):
            raise VocabularyError(
                f"{left!r} and {right!r} are merged, and readers of merges.txt pass over a line "
                "that begins like that; save to tokenizer.json or .tokenmill"
            )
    tokens = [name.encode() for name in entries]
    lengths = np.fromiter(map(len, tokens), np.uint32, len(tokens))
    digest = _digest(Names(b"".join(tokens), lengths, np.array([*entries.values()], np.uint32)))
    lines = "".join([f"{left} {right}\n" for left, right in pairs])
    merges = f"#version: 0.2 - vocab.json {digest}\n{lines}"
    return json.dumps(entries, ensure_ascii=False).encode(), merges.encode()


def _digest(names: Names) -> str:
    """What tells vocabularies apart: their tokens and ids, however the file is written."""
    order = np.argsort(names.ids, kind="stable")
    data = names.data
    if np.any(order[1:] < order[:-1]):
        data = b"".join([data[names.starts[at] : names.ends[at]] for at in order.tolist()])
    arrays = [array[order].astype("<u4").tobytes() for array in (names.ids, names.lengths)]
    return hashlib.sha256(b"".join([*arrays, data])).hexdigest()[:16]
