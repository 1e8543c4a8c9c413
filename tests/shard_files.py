"""Documents → shards of any layout, in random pieces; and a folder of them as a run seals it."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.shards import File, Rows, Shard, Spec, layout

NARROW = Spec("uint16", eos=0, vocab_size=1000, tokenizer="small")
WIDE = Spec("uint32", eos=0, vocab_size=100_000, tokenizer="large")

Documents = Sequence[Sequence[int]]


def spec_of(name: str, wide: bool) -> Spec:
    """The wide spec where the layout takes it."""
    return WIDE if wide and layout(name).refuse(WIDE) is None else NARROW


def joined(documents: Documents, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Ids end to end, and the end of each document."""
    ids = np.array([id for document in documents for id in document], dtype)
    return ids, np.cumsum([len(document) for document in documents], dtype=np.int64)


def rows_of(numbers: Sequence[int], several: bool = False) -> Rows:
    """Names, sources and lines of documents with these numbers."""
    return Rows(
        [f'name, "{number}"' for number in numbers],
        [f"source {number % 3}" for number in numbers] if several else "source",
        np.array(numbers, np.int64) + 1,
    )


def write_whole(stem: Path, name: str, spec: Spec, documents: Documents, rows: bool) -> list[File]:
    """All documents at once."""
    writer = layout(name).Writer(stem, spec)
    numbers = range(len(documents))
    writer.add(*joined(documents, spec.dtype), rows_of(numbers) if rows else None)
    assert (writer.documents, writer.tokens) == (len(documents), sum(map(len, documents)))
    return writer.finish()


def write_in_pieces(
    stem: Path, name: str, spec: Spec, documents: Documents, rows: bool, seed: int
) -> list[File]:
    """A few at a time, some opened in pieces, and bad ones between that are withdrawn."""
    chance = random.Random(seed)
    writer = layout(name).Writer(stem, spec)
    at = 0
    while at < len(documents):
        if chance.random() < 0.2:
            open_in_pieces(writer, [7] * chance.randrange(50), spec, chance)
            writer.withdraw()
        if chance.random() < 0.4:
            open_in_pieces(writer, documents[at], spec, chance)
            writer.close_open(rows_of([at]) if rows else None)
            at += 1
        else:
            end = min(len(documents), at + chance.randrange(4))
            some = rows_of(range(at, end)) if rows else None
            writer.add(*joined(documents[at:end], spec.dtype), some)
            at = end
    return writer.finish()


def open_in_pieces(writer: Any, ids: Sequence[int], spec: Spec, chance: random.Random) -> None:
    cut = chance.randrange(len(ids) + 1)
    for part in (ids[:cut], ids[cut:]):
        writer.open(np.array(part, spec.dtype))


def seal(folder: Path, name: str, spec: Spec, shards: Sequence[Shard]) -> Path:
    """The manifest that a run writes last, and what the layout wants beside the shards."""
    module = layout(name)
    if hasattr(module, "finish_folder"):
        module.finish_folder(folder, shards, spec)
    manifest = {
        "format": "tokenmill.shards",
        "version": 1,
        "layout": name,
        "dtype": spec.dtype,
        "sequence": spec.sequence,
        "eos": spec.eos,
        "bos": spec.bos,
        "tokenizer": {"name": spec.tokenizer, "sha256": "", "vocab_size": spec.vocab_size},
        "options": {},
        "totals": {
            "documents": sum(shard.documents for shard in shards),
            "tokens": sum(shard.tokens for shard in shards),
            "bytes": 0,
            "quarantined": 0,
            "shards": len(shards),
        },
        "sources": [],
        "units": [{"unit": 0, "shards": [shard.to_json() for shard in shards]}],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def write_folder(
    folder: Path, name: str, spec: Spec, parts: Sequence[Documents], rows: bool = False
) -> Path:
    """A sealed folder with a shard for each part."""
    shards = []
    for number, documents in enumerate(parts):
        stem = f"{number:05d}-000"
        files = write_whole(folder / stem, name, spec, documents, rows)
        tokens = sum(map(len, documents))
        shards.append(Shard(stem, len(documents), tokens, tuple(files)))
    return seal(folder, name, spec, shards)
