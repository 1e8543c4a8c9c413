"""A folder of shards → figures: sizes, lengths, how the vocabulary is used, each source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import TokenizeError
from tokenmill.shards import Shards
from tokenmill.shards import open as open_shards
from tokenmill.shown import spelled
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import desk, manifest, plan
from tokenmill.tokenizing.worker import load_tokenizer

_CHUNK = 1 << 22
_TOKENS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Inspection:
    """Figures of a folder. `uses` is how often each id stands in it."""

    folder: Path | str  # an address is a str
    manifest: dict[str, Any]
    tokenizer: Tokenizer
    uses: NDArray[np.int64]
    lengths: NDArray[np.int64]  # documents by the power of two of their tokens
    longest: int
    shortest: int

    def as_json(self) -> dict[str, Any]:
        """All figures, for programs."""
        totals = self.manifest["totals"]
        used = int(np.count_nonzero(self.uses))
        size = self.tokenizer.vocab_size
        return {
            **totals,
            "output": str(self.folder),
            "layout": self.manifest["layout"],
            "dtype": self.manifest["dtype"],
            "sequence": self.manifest["sequence"],
            "eos": self.manifest["eos"],
            "tokenizer": self.manifest["tokenizer"],
            "bytes_per_token": _ratio(totals["bytes"], totals["tokens"]),
            "tokens_per_document": _ratio(totals["tokens"], totals["documents"]),
            "longest_document": self.longest,
            "shortest_document": self.shortest,
            "lengths": self.length_rows(),
            "vocabulary": {
                "size": size,
                "used": used,
                "unused": size - used,
                "unused_share": _ratio(size - used, size),
            },
            "most_used": self.token_rows(most=True),
            "least_used": self.token_rows(most=False),
            "sources": [_source(source) for source in self.manifest["sources"]],
        }

    def length_rows(self) -> list[dict[str, int]]:
        """How many documents have a length from one power of two to the next."""
        return [
            {"from": 0 if power == 0 else 1 << (power - 1), "to": 1 << power, "documents": count}
            for power, count in enumerate(self.lengths.tolist())
            if count
        ]

    def token_rows(self, *, most: bool) -> list[dict[str, Any]]:
        """The tokens that occur most, or least of those that occur."""
        found = np.flatnonzero(self.uses)
        order = np.argsort(self.uses[found], kind="stable")
        chosen = found[order[::-1][:_TOKENS_SHOWN] if most else order[:_TOKENS_SHOWN]]
        total = max(1, int(self.uses.sum()))
        return [
            {
                "id": int(id_),
                "token": spelled(self.tokenizer.decode_bytes([int(id_)])),
                "count": int(self.uses[id_]),
                "share": int(self.uses[id_]) / total,
            }
            for id_ in chosen
        ]


def inspect(folder: str | Path) -> Inspection:
    """Looks at every id of a folder once."""
    where = desk.place(folder)
    with desk.fetched(where) as path:
        return replace(_inspect(path), folder=where)


def _inspect(path: Path) -> Inspection:
    content = manifest.load(path)
    if content is None:
        raise TokenizeError(
            f"{str(path)!r} holds no {manifest.NAME}: it is no folder of shards, or its run is not "
            "over; the same tokenize command goes on"
        )
    tokenizer = load_tokenizer(path, plan.load(path))
    uses = np.zeros(tokenizer.vocab_size, np.int64)
    lengths = np.zeros(64, np.int64)
    longest, shortest = 0, None
    with open_shards(path) as shards:
        for ids, ends in _all(shards):
            for start in range(0, len(ids), _CHUNK):
                part = ids[start : start + _CHUNK]
                if int(part.max()) >= len(uses):
                    raise TokenizeError(
                        f"{str(path)!r} holds the id {int(part.max()):,}, and {tokenizer.name} has "
                        f"{len(uses):,}; tokenmill verify says which file is not as it was written"
                    )
                uses += np.bincount(part, minlength=len(uses))
            if len(ends):
                sizes = np.diff(ends, prepend=0)
                powers = np.ceil(np.log2(sizes + 1)).astype(np.int64)
                lengths += np.bincount(powers, minlength=len(lengths))
                longest = max(longest, int(sizes.max()))
                least = int(sizes.min())
                shortest = least if shortest is None else min(shortest, least)
    return Inspection(path, content, tokenizer, uses, lengths, longest, shortest or 0)


def _all(shards: Shards) -> Any:
    """Ids and ends of documents, shard by shard, without what packing filled up."""
    for index in range(len(shards.shards)):
        ends = shards.document_ends(index)
        yield shards.ids(index)[: int(ends[-1]) if len(ends) else 0], ends


def _source(source: dict[str, Any]) -> dict[str, Any]:
    return source | {"bytes_per_token": _ratio(source["bytes"], source["tokens"])}


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0
