"""A vocabulary and the counts of each source → a report: what it compresses, and what it learned.

Every pretoken of a source is encoded once, with its count as weight.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments
from tokenmill.files import write_whole
from tokenmill.native import _native
from tokenmill.training.counting import parts
from tokenmill.training.encoding import Encoder
from tokenmill.training.journal import Run
from tokenmill.training.layout import Learned
from tokenmill.training.pieces.encoding import PieceEncoder
from tokenmill.training.progress import Progress, Report


def write_report(
    path: Path,
    vocab_size: int,
    learned: Learned,
    encoder: Encoder | PieceEncoder,
    runs: Mapping[str, list[Run]],
    progress: Report,
) -> dict[str, Any]:
    """Writes the report as JSON, and gives it back."""
    ids = {token: id_ for id_, token in learned.tokens.items()}
    sources: dict[str, dict[str, Any]] = {}
    used: dict[str, NDArray[np.uint64]] = {}
    for index, (name, of_source) in enumerate(runs.items()):
        progress(Progress("reporting", index, len(runs)))
        sources[name], used[name] = _measure(encoder, of_source, vocab_size)
    document = {
        "vocab_size": vocab_size,
        "merges": len(learned.merges) - learned.base,
        "sources": sources,
        "token_lengths": _lengths(learned),
        "tokens": [
            {
                "id": id_,
                "hex": learned.tokens[id_].hex(),
                "text": learned.tokens[id_].decode(errors="replace"),
                "used": {name: int(counts[id_]) for name, counts in used.items() if counts[id_]},
            }
            for id_ in (ids[left + right] for left, right in learned.merges[learned.base :])
        ],
    }
    write_whole(path, (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode())
    return document


def _lengths(learned: Learned) -> dict[str, int]:
    counter = Counter(map(len, learned.tokens.values()))
    return {str(length): counter[length] for length in sorted(counter)}


def _measure(
    encoder: Encoder | PieceEncoder, runs: list[Run], ids_end: int
) -> tuple[dict[str, Any], NDArray[np.uint64]]:
    """The figures of one source, and how often it uses each token."""
    used = np.zeros(ids_end, np.uint64)
    bytes_total = pretokens = 0
    for run in runs:
        for part in parts(_native.CountsFile(run.path)):
            ids, lengths, counts = encoder.encode(part, arguments.thread_count(None))
            np.add.at(used, ids, np.repeat(counts, lengths))
            sizes = np.asarray(part.arrays()[1]).astype(np.uint64) + np.uint64(encoder.space_bytes)
            bytes_total += int(np.dot(sizes, counts))
            pretokens += int(counts.sum())
    tokens = int(used.sum())
    figures = {
        "bytes": bytes_total,
        "pretokens": pretokens,
        "tokens": tokens,
        "bytes_per_token": round(bytes_total / tokens, 4) if tokens else 0.0,
        "weight": runs[0].weight,
    }
    return figures, used
