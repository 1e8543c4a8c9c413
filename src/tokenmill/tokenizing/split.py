"""Blocks of documents → the same documents in sets, such as train and val.

A hash of the text decides the set of a document. So equal documents are in one set, and the sets
do not depend on names or order of the inputs, on the tokenizer, or on the number of threads. A
document that continues in the next block stays in its set, so only its start is hashed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, compress
from typing import Any

import numpy as np

from tokenmill.corpus.documents import Documents
from tokenmill.native import _native
from tokenmill.options import parse_share

TRAIN = "train"  # the set of all other documents
SET_NAME = re.compile(r"(?!(?:journal|quarantine)$)[a-z][a-z0-9_]*")
# The first block of a document that continues is always longer.
_HASHED_BYTES = 32 << 10


def sets_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the sets of an output, each with a folder. An output that is a set has none."""
    split = options.get("split")
    return () if split is None or "set" in options else (*sorted(split), TRAIN)


def check_split(value: Any) -> dict[str, float]:
    """The share of each set, as a plan contains it."""
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list) or not all(type(pair) is tuple for pair in pairs) or not pairs:
        raise ValueError("names and shares such as {'val': 0.001}")
    found: dict[str, Any] = {}
    for name, part in pairs:
        if not isinstance(name, str) or not SET_NAME.fullmatch(name) or name in (TRAIN, *found):
            raise ValueError(
                "sets with different names of a-z, 0-9 and _, except train, journal and quarantine"
            )
        found[name] = parse_share(part) if isinstance(part, str) else part
    if not all(type(part) is float and part > 0 for part in found.values()):
        raise ValueError("shares above 0 and below 1, such as 0.001 or 0.1%")
    if sum(found.values()) >= 1:
        raise ValueError("shares with a sum below 1, such as 0.05 or 5%")
    return {name: found[name] for name in sorted(found)}


def parse_split(word: str) -> tuple[str, float]:
    """A word of the command line, such as val=0.1%."""
    name, _, part = word.partition("=")
    if not part:
        raise ValueError("NAME=SHARE, such as val=0.1%")
    return name, parse_share(part)


@dataclass(slots=True)
class Splitter:
    """Divides the documents of one task. `split` has the share of each set but `train`."""

    split: Mapping[str, float]
    _open: int | None = None  # the set of a document that continues

    def divide(self, documents: Documents) -> list[Documents]:
        """The documents of each set, without problems. The sets have the order of `sets_of`."""
        spans = documents.spans
        numbers = self._numbers(documents)
        parts = []
        for number in range(len(self.split) + 1):
            chosen = np.flatnonzero(numbers == number)
            goes_on = documents.goes_on and len(spans) > 0 and int(numbers[-1]) == number
            parts.append(_choose(documents, chosen, goes_on))
        if len(spans):
            self._open = int(numbers[-1]) if documents.goes_on else None
        return parts

    def choose(self, documents: Documents, name: str) -> Documents:
        """The documents of one set."""
        return self.divide(documents)[[*sorted(self.split), TRAIN].index(name)]

    def _numbers(self, documents: Documents) -> Any:
        """The number of the set of each document."""
        data = memoryview(documents.data)
        hashes = np.empty(len(documents.spans), np.uint64)
        for index, (start, end) in enumerate(documents.spans.tolist()):
            checksum = _native.Checksum()
            checksum.update(data[start : min(end, start + _HASHED_BYTES)])
            hashes[index] = checksum.value()
        shares = accumulate(self.split[name] for name in sorted(self.split))
        bounds = np.array([int(share * 2**64) for share in shares], np.uint64)
        numbers = np.searchsorted(bounds, hashes, "right")
        if self._open is not None and len(numbers):
            numbers[0] = self._open
        return numbers


def _choose(documents: Documents, chosen: Any, goes_on: bool) -> Documents:
    """Some documents of a block, by their numbers."""
    is_chosen = np.zeros(len(documents.spans), bool)
    is_chosen[chosen] = True
    return replace(
        documents,
        spans=documents.spans[chosen],
        goes_on=goes_on,
        problems=[],
        names=documents.names and list(compress(documents.names, is_chosen)),
        locate=lambda index: documents.locate(int(chosen[index])),
    )
