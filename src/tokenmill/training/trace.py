"""A vocabulary and its merges → a trace: a line of JSON for each of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenmill.files import write_whole
from tokenmill.training.layout import Learned
from tokenmill.training.merging import Merges


def write_trace(path: Path, learned: Learned, merges: Merges, head: Mapping[str, Any]) -> None:
    """A line of JSON about the run, then one for each merge: ids, count and the token's bytes."""
    count = len(learned.merges) - learned.base
    columns = (merges.ids, merges.lefts, merges.rights, merges.counts)
    rows = zip(*(column[:count].tolist() for column in columns), strict=True)
    lines = [json.dumps({"merges": count, **head}, ensure_ascii=False)]
    for id_, left, right, occurrences in rows:
        token = learned.tokens[id_]
        row = {"id": id_, "left": left, "right": right, "count": occurrences, "hex": token.hex()}
        lines.append(json.dumps({**row, "text": token.decode(errors="replace")}))
    write_whole(path, ("\n".join(lines) + "\n").encode())
