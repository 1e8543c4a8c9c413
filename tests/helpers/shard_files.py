"""Documents → shards of any format, in random pieces; and a folder of them as a run seals it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.shards import File, Rows, Shard, Spec, get_format
from tokenmill.shards.files import add_digest
from tokenmill.tokenizing.plan import dump_lines

NARROW = Spec("uint16", eos=0, vocab_size=1000, tokenizer="small")
WIDE = Spec("uint32", eos=0, vocab_size=100_000, tokenizer="large")

Documents = Sequence[Sequence[int]]


def spec_of(name: str, wide: bool) -> Spec:
    """The wide spec if the shard format supports it."""
    return WIDE if wide and get_format(name).refuse(WIDE) is None else NARROW


def joined(documents: Documents, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Ids end to end, and the end of each document."""
    ids = np.array([id for document in documents for id in document], dtype)
    return ids, np.cumsum([len(document) for document in documents], dtype=np.int64)


def rows_of(numbers: Sequence[int], several: bool = False) -> Rows:
    """Names and sources of documents with these numbers."""
    return Rows(
        [f'name, "{number}"' for number in numbers],
        [f"source {number % 3}" for number in numbers] if several else "source",
    )


def write_whole(stem: Path, name: str, spec: Spec, documents: Documents, rows: bool) -> list[File]:
    """All documents at once."""
    writer = get_format(name).Writer(stem, spec)
    numbers = range(len(documents))
    writer.append(*joined(documents, spec.dtype), rows_of(numbers) if rows else None)
    assert (writer.documents, writer.tokens) == (len(documents), sum(map(len, documents)))
    return writer.finish()


def write_in_pieces(
    stem: Path, name: str, spec: Spec, documents: Documents, rows: bool, seed: int
) -> list[File]:
    """A few documents at a time, and some of them in parts."""
    chance = random.Random(seed)
    writer = get_format(name).Writer(stem, spec)
    at = 0
    while at < len(documents):
        end = min(len(documents), at + chance.randrange(4))
        ids, ends = joined(documents[at:end], spec.dtype)
        rows_here = rows_of(range(at, end)) if rows and end > at else None
        if chance.random() < 0.5:
            writer.append(ids, ends, rows_here)
            at = end
            continue
        # The first part of the next document comes with these, and the rest with others.
        document = documents[end] if end < len(documents) else []
        cut = chance.randrange(len(document) + 1)
        begun, rest = (np.array(part, spec.dtype) for part in (document[:cut], document[cut:]))
        writer.append(np.concatenate([ids, begun]), ends, rows_here)
        at = end
        if end < len(documents):
            middle = chance.randrange(len(rest) + 1)
            writer.append(rest[:middle], ends[:0])
            after = np.array([len(rest) - middle], np.int64)
            writer.append(rest[middle:], after, rows_of([end]) if rows else None)
            at = end + 1
    return writer.finish()


def write_digested(path: Path, content: Mapping[str, Any]) -> None:
    """Write a manifest, a plan or a journal entry with a valid digest."""
    path.write_bytes(dump_lines({key: content[key] for key in content if key != "digest"}))


def replace_digested(path: Path, data: bytes, old: bytes, new: bytes) -> None:
    """Write such a document with other text and a valid digest."""
    assert old in data
    start = data[: data.rindex(b',\n "digest"')]
    path.write_bytes(add_digest(start.replace(old, new) + b"\n}\n"))


def seal(folder: Path, name: str, spec: Spec, shards: Sequence[Shard]) -> Path:
    """Write the manifest of a complete run, and the index of all shards if the format has one."""
    index = get_format(name).make_index(shards, spec)
    if index is not None:
        (folder / index[0]).write_bytes(index[1])
    manifest = {
        "format": "tokenmill.shards",
        "version": 1,
        "shard_format": name,
        "dtype": spec.dtype,
        "sequence_length": spec.sequence_length,
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
        "tasks": [{"task": 0, "shards": [shard.to_json() for shard in shards]}],
    }
    write_digested(folder / "manifest.json", manifest)
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
