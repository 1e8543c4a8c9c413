"""vocab.json and merges.txt ↔ TokenizerSpec: GPT-2's two files, which contain no pattern.

Ids are wrong if the two are of different tokenizers. The first line of a merges.txt of tokenmill,
which every reader skips, therefore contains the digest of its vocabulary.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from tokenmill.errors import VocabularyError
from tokenmill.formats.checks import Place, cannot_save, is_file, read_bytes
from tokenmill.formats.names import Names, entries_of, names_of
from tokenmill.formats.ranks import DECODER, feature_of, pattern_stage
from tokenmill.formats.spec import TokenizerSpec
from tokenmill.formats.tokenizer_json import (
    BYTE_LEVEL,
    Cutting,
    ignores_merges,
    read_model,
    write_merges,
)
from tokenmill.native import _native

VOCABULARY = "vocab.json"
MERGES = "merges.txt"
_START = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\d')
_DIGEST = re.compile(rb"#version: 0\.2 - vocab\.json ([0-9a-f]{16})\r?\n")


def is_one(path: Path, data: bytes) -> bool:
    """Return whether a file is one of the two."""
    if path.name == VOCABULARY:
        return _START.match(data) is not None
    return path.name == MERGES or data.startswith(b"#version")


def read(
    folder: Path,
    pattern: str | None,
    *,
    is_gpt2: bool = False,
    known: Mapping[str, bytes] = MappingProxyType({}),
) -> TokenizerSpec:
    """Return the specification of a folder. `is_gpt2` selects GPT-2's pattern.

    `known` are files that were read before.
    """
    place = Place(str(folder / VOCABULARY))
    for name in (VOCABULARY, MERGES):
        if not is_file(folder / name):
            raise VocabularyError(
                f"{folder} has no {name}; both vocab.json and merges.txt are required"
            )
    if pattern is None and not is_gpt2:
        place.refuse(
            'has no pattern, which splits text before merging; load it with pattern="…", a regular '
            'expression or the name of a pre-tokenizer ("r50k" for GPT-2 and RoBERTa)'
        )
    vocabulary = known.get(VOCABULARY) or read_bytes(folder / VOCABULARY)
    merges = known.get(MERGES) or read_bytes(folder / MERGES)
    try:
        found = _native.read_vocabulary(vocabulary, merges, secrets.randbits(64))
    except VocabularyError as error:
        raise VocabularyError(f"{folder}: {error}") from None
    stage = BYTE_LEVEL if pattern is None else pattern_stage(pattern)
    cutting = Cutting(stages=(stage,), base="bytes")
    names = Names(found.bytes, found.lengths, found.ids)
    digest = _DIGEST.match(merges)
    if digest is not None and digest[1].decode() != _digest(names):
        raise VocabularyError(
            f"{folder}: merges.txt was not written with this vocab.json, so ids would be wrong; "
            "save both again, or if vocab.json was changed on purpose, write only '#version: 0.2' "
            "in the first line of merges.txt"
        )
    model = read_model({}, names, np.asarray(found.merges), found.unmade, cutting, place)
    return cutting.spec(model, (), decoder=DECODER)


def write(spec: TokenizerSpec) -> tuple[bytes, bytes]:
    """Return vocab.json and merges.txt. The pattern, and which tokens are special, are lost.

    Raise VocabularyError if more would be lost.
    """
    names = names_of(spec.model)
    pairs = write_merges(spec, names)
    feature = feature_of(spec)
    if feature is None and ignores_merges(spec.model, names, pairs):
        feature = "it has ignore_merges"
    if feature is not None:
        raise cannot_save("vocab.json with merges.txt", feature)
    entries = entries_of(spec, names, has_added=True)
    for left, right in pairs:
        if left.startswith("#version"):
            reason = f"readers skip the merge of {left!r} and {right!r}, a line with #version"
            raise cannot_save("merges.txt", reason)
    tokens = [name.encode() for name in entries]
    lengths = np.fromiter(map(len, tokens), np.uint32, len(tokens))
    digest = _digest(Names(b"".join(tokens), lengths, np.array([*entries.values()], np.uint32)))
    lines = "".join([f"{left} {right}\n" for left, right in pairs])
    merges = f"#version: 0.2 - vocab.json {digest}\n{lines}"
    return json.dumps(entries, ensure_ascii=False).encode(), merges.encode()


def _digest(names: Names) -> str:
    """Return a digest of tokens and ids, which does not depend on their order in the file."""
    order = np.argsort(names.ids, kind="stable")
    data = names.data
    if np.any(order[1:] < order[:-1]):
        data = b"".join([data[names.starts[at] : names.ends[at]] for at in order.tolist()])
    arrays = [array[order].astype("<u4").tobytes() for array in (names.ids, names.lengths)]
    return hashlib.sha256(b"".join([*arrays, data])).hexdigest()[:16]
