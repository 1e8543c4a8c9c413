"""A folder of shards → a report: sizes, lengths, use of the vocabulary, each source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.display import token_text
from tokenmill.errors import TokenizeError
from tokenmill.inspection.page import PAGE_ROWS, Cell, Table, page
from tokenmill.progress import Progress, Report, silent
from tokenmill.shards import open as open_shards
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import journal, plan
from tokenmill.tokenizing.executors import load_tokenizer
from tokenmill.tokenizing.output import open_output

_CHUNK = 1 << 22
_TOKENS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ShardReport:
    """A report of shards. `uses` is the number of occurrences of each id."""

    folder: Path | str  # a URL is a str
    manifest: dict[str, Any]
    tokenizer: Tokenizer
    uses: NDArray[np.int64]
    lengths: NDArray[np.int64]  # documents by the power of two of their tokens
    longest: int
    shortest: int

    def as_json(self) -> dict[str, Any]:
        """Return all figures as JSON values."""
        totals = self.manifest["totals"]
        used = int(np.count_nonzero(self.uses))
        size = self.tokenizer.vocab_size
        return {
            **totals,
            "output": str(self.folder),
            "format": self.manifest["shard_format"],
            **{
                name: self.manifest[name]
                for name in ("dtype", "sequence_length", "eos", "tokenizer")
            },
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
            "sources": [
                source | {"bytes_per_token": _ratio(source["bytes"], source["tokens"])}
                for source in self.manifest["sources"]
            ],
        }

    def html(self) -> str:
        """Return the report as an HTML page without external files."""
        return page(str(self.folder), self.facts(), self.tables(PAGE_ROWS))

    def facts(self) -> list[tuple[str, list[str]]]:
        """Return the totals as names and lines of text."""
        figures = self.as_json()
        vocabulary = figures["vocabulary"]
        rows = {
            "documents": f"{figures['documents']:,}",
            "tokens": f"{figures['tokens']:,} ({figures['dtype']}, {figures['format']})",
            "shards": f"{figures['shards']:,}",
            "bytes of text": f"{figures['bytes']:,}",
            "bytes per token": f"{figures['bytes_per_token']:.2f}",
            "tokens per document": f"{figures['tokens_per_document']:,.1f} "
            f"({self.shortest:,} to {self.longest:,})",
            "quarantined": f"{figures['quarantined']:,}",
            "vocabulary": f"{figures['tokenizer']['name']}, {vocabulary['size']:,} ids, "
            f"{vocabulary['unused']:,} unused ({vocabulary['unused_share']:.1%})",
        }
        return [(name, [row]) for name, row in rows.items()]

    def tables(self, rows_max: int) -> Iterator[Table]:
        """Yield tables of at most `rows_max` tokens and twice as many inputs, bad ones first."""
        figures = self.as_json()
        rows: list[list[Cell]] = [
            [row["from"], max(row["from"], row["to"] - 1), row["documents"], row["documents"]]
            for row in figures["lengths"]
        ]
        if rows:
            yield Table("tokens per document", ("from", "to", "documents", ""), rows)
        pairs = zip(figures["most_used"], figures["least_used"], strict=True)
        rows = [
            [cell for row in pair for cell in ([row], row["count"])]
            for pair in islice(pairs, rows_max)
        ]
        yield Table("most and least used tokens", ("token", "count") * 2, rows)
        rows = []
        worst_first = sorted(
            figures["sources"], key=lambda row: (not row.get("error"), -row["quarantined"])
        )
        for source in worst_first[: 2 * rows_max]:
            path = source["path"] + (f": {source['error']}" if source.get("error") else "")
            rate = f"{source['bytes_per_token']:.2f}"
            rows.append([source["documents"], source["tokens"], rate, source["quarantined"], path])
        heads = ("documents", "tokens", "bytes/token", "rejected", "input")
        yield Table("inputs", heads, rows, len(figures["sources"]))

    def length_rows(self) -> list[dict[str, int]]:
        """Return the number of documents per length, grouped by powers of two."""
        return [
            {"from": 0 if power == 0 else 1 << (power - 1), "to": 1 << power, "documents": count}
            for power, count in enumerate(self.lengths.tolist())
            if count
        ]

    def token_rows(self, *, most: bool) -> list[dict[str, Any]]:
        """Return the tokens that occur most often, or least often of those that occur."""
        found = np.flatnonzero(self.uses)
        order = np.argsort(self.uses[found], kind="stable")
        chosen = found[order[::-1][:_TOKENS_SHOWN] if most else order[:_TOKENS_SHOWN]]
        total = max(1, int(self.uses.sum()))
        rows = []
        for id_ in chosen.tolist():
            token, count = self.tokenizer.decode_bytes([id_]), int(self.uses[id_])
            share = count / total
            rows.append({"id": id_, "token": token_text(token), "count": count, "share": share})
        return rows


def inspect_shards(folder: str | os.PathLike[str], progress: Report = silent) -> ShardReport:
    """Return a report of shards. Every id is read once. See `tokenmill.inspect`."""
    output = open_output(folder)
    with output.copy() as path:
        return replace(_inspect(path, progress), folder=output.location)


def _inspect(path: Path, progress: Report) -> ShardReport:
    content = journal.require_manifest(open_output(path))
    tokenizer = load_tokenizer(open_output(path), plan.require(open_output(path)))
    uses = np.zeros(tokenizer.vocab_size, np.int64)
    lengths = np.zeros(64, np.int64)
    longest, shortest = 0, None
    done, total = 0, content["totals"]["tokens"]
    with open_shards(path) as shards:
        for index in range(len(shards.shards)):
            ends = shards.document_ends(index)
            ids = shards.ids(index)[: int(ends[-1]) if len(ends) else 0]  # without padding
            for start in range(0, len(ids), _CHUNK):
                part = ids[start : start + _CHUNK]
                if int(part.max()) >= len(uses):
                    raise TokenizeError(
                        f"{str(path)!r} contains the id {int(part.max()):,}, but {tokenizer.name} "
                        f"has {len(uses):,} ids; run tokenmill verify to find the damaged file"
                    )
                uses += np.bincount(part, minlength=len(uses))
                done += len(part)
                progress(Progress("reading shards", done, total))
            if len(ends):
                sizes = np.diff(ends, prepend=0)
                powers = np.ceil(np.log2(sizes + 1)).astype(np.int64)
                lengths += np.bincount(powers, minlength=len(lengths))
                longest = max(longest, int(sizes.max()))
                least = int(sizes.min())
                shortest = least if shortest is None else min(shortest, least)
    return ShardReport(path, content, tokenizer, uses, lengths, longest, shortest or 0)


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 4) if whole else 0.0
