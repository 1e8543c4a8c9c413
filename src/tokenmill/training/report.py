"""A vocabulary → its trace, a JSON line per merge, and its report, the use of it by each source.

For the report every unique pretoken of a source is encoded once and weighted with its count.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments
from tokenmill.files import write_whole
from tokenmill.native import _native
from tokenmill.progress import Progress
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.checkpoint import Run
from tokenmill.training.counting import Plan, parts
from tokenmill.training.merging import ExactnessCheck
from tokenmill.training.numbering import Vocabulary, encode_counts


def write_reports(
    plan: Plan,
    provenance: Mapping[str, Any],
    vocabulary: Vocabulary,
    check: ExactnessCheck | None,
    runs: Mapping[str, list[Run]],
    make_encoder: Callable[[], Tokenizer],
    space_id: int | None = None,
) -> None:
    """Write the trace and the report of a vocabulary to the files in the options.

    `runs` are the counts of each source. With `space_id`, counted pretokens lack a space at their
    start, and the encoder removes a pretoken that is only the space.
    """
    if (path := plan.options["trace"]) is not None:
        head = {"merges": len(vocabulary.merges), **provenance}
        if check is not None:
            head["exactness_check"] = check._asdict()
        lines = [json.dumps(head, ensure_ascii=False)]
        for left, right, id_, count in vocabulary.merges.tolist():
            row = {"id": id_, "left": left, "right": right, "count": count}
            lines.append(json.dumps(row | _spelling(vocabulary.tokens[id_])))
        write_whole(path, ("\n".join(lines) + "\n").encode())
    if (path := plan.options["report"]) is not None:
        document = _report(plan, vocabulary, runs, make_encoder(), space_id)
        write_whole(path, (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode())


def _spelling(token: bytes) -> dict[str, str]:
    return {"hex": token.hex(), "text": token.decode(errors="replace")}


def _report(
    plan: Plan,
    vocabulary: Vocabulary,
    runs: Mapping[str, list[Run]],
    encoder: Tokenizer,
    space_id: int | None,
) -> dict[str, Any]:
    sources: dict[str, dict[str, Any]] = {}
    used: dict[str, NDArray[np.uint64]] = {}
    threads = arguments.thread_count(None)
    for index, (name, of_source) in enumerate(runs.items()):
        plan.progress(Progress("reporting", index, len(runs)))
        used[name] = np.zeros(vocabulary.size, np.uint64)
        bytes_total = pretokens = 0
        for part in (part for run in of_source for part in parts(_native.CountsFile(run.path))):
            ids, lengths, counts = encode_counts(encoder, part, threads, space_id)
            np.add.at(used[name], ids, np.repeat(counts, lengths))
            sizes = np.asarray(part.arrays()[1]).astype(np.uint64) + np.uint64(space_id is not None)
            bytes_total += int(np.dot(sizes, counts))
            pretokens += int(counts.sum())
        tokens = int(used[name].sum())
        sources[name] = {
            "bytes": bytes_total,
            "pretokens": pretokens,
            "tokens": tokens,
            "bytes_per_token": round(bytes_total / tokens, 4) if tokens else 0.0,
            "weight": of_source[0].weight,
        }
    token_lengths = Counter(map(len, vocabulary.tokens.values()))
    return {
        "vocab_size": vocabulary.size,
        "merges": len(vocabulary.merges),
        "sources": sources,
        "token_lengths": {str(size): count for size, count in sorted(token_lengths.items())},
        "tokens": [
            {
                "id": id_,
                **_spelling(vocabulary.tokens[id_]),
                "used": {name: int(counts[id_]) for name, counts in used.items() if counts[id_]},
            }
            for id_ in vocabulary.merges["id"].tolist()
        ],
    }
