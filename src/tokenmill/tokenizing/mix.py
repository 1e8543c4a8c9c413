"""Pieces of all units → one shard of a shuffled run, and a row for the manifest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.shards.spec import Rows
from tokenmill.tokenizing.journal import UnitRows
from tokenmill.tokenizing.series import Series
from tokenmill.tokenizing.shuffle import Pieces, Places, digest, gather, places
from tokenmill.tokenizing.unit import Job, commit_shards

_NO_BOUND = 1 << 62


def run_mix(job: Job, rows: UnitRows, shard: int, shards: int) -> dict[str, Any]:
    """Writes one shard of many; which documents are in it, and how, the seed alone decides."""
    options = job.options
    assert options.shuffle is not None
    counts = rows.documents()
    found = places(options.shuffle, counts, shard, shards)
    pieces = Pieces(job.folder, options.dtype)
    spec = options.spec(job.tokenizer)
    series = Series(job.temporary, shard, options.layout, spec, _NO_BOUND, options.pad)
    sources = {unit: _sources(rows[unit]) for unit in np.unique(found.units).tolist()}
    try:
        for part, encoded in gather(pieces, found):
            chosen = Places(found.units[part], found.numbers[part])
            has_names = options.id_field is not None
            series.add(encoded, _rows(chosen, pieces if has_names else None, sources))
        written = series.finish()
        commit_shards(job, written)
    except BaseException:
        series.discard()
        raise
    row = {"mix": shard, "of": shards, "units": digest(counts)}
    return row | {"shards": [shard.to_json() for shard in written]}


def _sources(row: dict[str, Any]) -> tuple[NDArray[np.int64], list[str]]:
    """Where the documents of each segment of a unit end, and the names of their sources."""
    counts = [segment["documents"] for segment in row["segments"]]
    return np.cumsum(counts, dtype=np.int64), [segment["source"] for segment in row["segments"]]


def _rows(
    chosen: Places,
    pieces: Pieces | None,
    sources: dict[int, tuple[NDArray[np.int64], list[str]]],
) -> Rows:
    pairs = list(zip(chosen.units.tolist(), chosen.numbers.tolist(), strict=True))
    named = []
    for unit, number in pairs:
        ends, names = sources[unit]
        named.append(names[int(np.searchsorted(ends, number, side="right"))])
    documents = None if pieces is None else [pieces[unit].name(number) for unit, number in pairs]
    return Rows(names=documents, sources=named)
