"""A vocabulary → its trace, a JSON line per merge, and its report, the use of it by each source.

For the report every unique pretoken of a source is encoded once and weighted with its count.
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
from tokenmill.progress import Progress, Report
from tokenmill.training.checkpoint import Run
from tokenmill.training.counting import parts
from tokenmill.training.merging import Merges
from tokenmill.training.numbering import Encoder, Vocabulary


def write_trace(
    path: Path, vocabulary: Vocabulary, merges: Merges, head: Mapping[str, Any]
) -> None:
    """Write a JSON line about the run, then one per merge: ids, count and the token's bytes."""
    count = len(vocabulary.merges) - vocabulary.base
    columns = (merges.ids, merges.lefts, merges.rights, merges.counts)
    rows = zip(*(column[:count].tolist() for column in columns), strict=True)
    lines = [json.dumps({"merges": count, **head}, ensure_ascii=False)]
    for id_, left, right, occurrences in rows:
        token = vocabulary.tokens[id_]
        row = {"id": id_, "left": left, "right": right, "count": occurrences, "hex": token.hex()}
        lines.append(json.dumps({**row, "text": token.decode(errors="replace")}))
    write_whole(path, ("\n".join(lines) + "\n").encode())


def write_report(
    path: Path,
    vocab_size: int,
    vocabulary: Vocabulary,
    encoder: Encoder,
    runs: Mapping[str, list[Run]],
    progress: Report,
) -> None:
    """Write the report as JSON. `runs` are the counts of each source."""
    tokens = vocabulary.tokens
    ids = vocabulary.ids()
    sources: dict[str, dict[str, Any]] = {}
    used: dict[str, NDArray[np.uint64]] = {}
    for index, (name, of_source) in enumerate(runs.items()):
        progress(Progress("reporting", index, len(runs)))
        sources[name], used[name] = _measure(encoder, of_source, vocab_size)
    lengths = Counter(map(len, tokens.values()))
    document = {
        "vocab_size": vocab_size,
        "merges": len(vocabulary.merges) - vocabulary.base,
        "sources": sources,
        "token_lengths": {str(length): lengths[length] for length in sorted(lengths)},
        "tokens": [
            {
                "id": id_,
                "hex": tokens[id_].hex(),
                "text": tokens[id_].decode(errors="replace"),
                "used": {name: int(counts[id_]) for name, counts in used.items() if counts[id_]},
            }
            for id_ in (ids[left + right] for left, right in vocabulary.merges[vocabulary.base :])
        ],
    }
    write_whole(path, (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode())


def _measure(
    encoder: Encoder, runs: list[Run], ids_end: int
) -> tuple[dict[str, Any], NDArray[np.uint64]]:
    """The figures of one source, and its number of uses of each token."""
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
