"""Counts of pretokens → merges: one call of the core, with the rules of the trainer one follows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.native import _native

# Which of two pairs with the same count is merged first, as the core calls it.
TIES = {
    "huggingface": "ids",
    "rustbpe": "ids",
    "cs336": "bytes",
    "minbpe": "order",
    "sentencepiece": "pieces",
}

# In the alphabet: a byte that is left out of words. As a length: no limit.
_NONE = 2**32 - 1

# Merges so far and the count of the last one, called now and then.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Merges:
    """What was learned: merge i joins lefts[i] and rights[i] to ids[i], which had counts[i]."""

    lefts: NDArray[np.uint32]
    rights: NDArray[np.uint32]
    ids: NDArray[np.uint32]
    counts: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.ids)

    def __add__(self, other: Merges) -> Merges:
        return Merges(
            np.concatenate([self.lefts, other.lefts]),
            np.concatenate([self.rights, other.rights]),
            np.concatenate([self.ids, other.ids]),
            np.concatenate([self.counts, other.counts]),
        )


def no_merges() -> Merges:
    """What is known at the beginning."""
    none = np.array([], np.uint32)
    return Merges(none, none, none, np.array([], np.uint64))


@dataclass(frozen=True)
class Certificate:
    """Why the merges are exact, and what they took.

    Pairs that never had more than `floor` were not followed; no merge has a count below it.
    """

    floor: int
    last_count: int
    rescans: int
    batches: int
    scans: int
    visits: int
    bytes: int


class Merging:
    """Words → merges.

    `tokens` are all that exist before the first merge, by id; a merge that spells one of them gets
    its id. `alphabet` gives the token of each byte; a byte without one is left out of its words.
    New ids are `first_id` up to before `ids_end`. Tokens from `made_from` on come from merges of
    an earlier run; `revives` says that merges may give tokens that words already have. With
    `memory`, lists of words are made when they fit; with `spill`, a folder, the words themselves
    lie there in files that nobody sees. For the ties of SentencePiece all tokens are characters,
    `scripts` has the script of each, and `max_token_length` counts characters.
    """

    def __init__(
        self,
        *,
        tokens: Mapping[int, bytes],
        alphabet: Mapping[int, int],
        first_id: int,
        ids_end: int,
        ties: str,
        min_frequency: int = 0,
        max_token_length: int | None = None,
        threads: int = 1,
        memory: int = 0,
        made_from: int | None = None,
        revives: bool = False,
        spill: Path | None = None,
        scripts: NDArray[np.uint32] | None = None,
    ) -> None:
        ids_of_bytes = np.full(256, _NONE, np.uint32)
        for byte, id in alphabet.items():
            ids_of_bytes[byte] = id
        self._learner = _native.Learner(
            ids_of_bytes,
            b"".join(tokens.values()),
            np.fromiter(map(len, tokens.values()), np.uint32, len(tokens)),
            np.fromiter(tokens, np.uint32, len(tokens)),
            TIES[ties],
            first_id,
            first_id if made_from is None else made_from,
            max(ids_end, first_id),
            min_frequency,
            _NONE if max_token_length is None else max_token_length,
            threads,
            memory,
            revives,
            np.array([], np.uint32) if scripts is None else scripts,
        )
        self._files: list[IO[bytes]] = []
        if spill is not None:
            for _ in range(threads):
                self._files.append(tempfile.TemporaryFile(dir=spill))  # noqa: SIM115
            self._learner.spill(np.array([file.fileno() for file in self._files], np.uint32))

    def __enter__(self) -> Merging:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def add(self, counts: _native.Inventory | _native.CountsFile) -> None:
        """Adds pretokens by their bytes; for minbpe's ties, in order of first occurrence."""
        self._learner.add(counts)

    def add_ids(
        self, ids: NDArray[np.uint32], lengths: NDArray[np.uint32], counts: NDArray[np.uint64]
    ) -> None:
        """Adds pretokens that are encoded already, end to end."""
        self._learner.add_ids(ids, lengths, counts)

    def run(self, progress: Progress | None = None) -> tuple[Merges, Certificate]:
        """Learns the merges, once; Ctrl-C ends it."""
        self._learner.run(progress)
        merges = self.merges()
        floor, *numbers = self._learner.certificate()
        last_count = int(merges.counts[-1]) if len(merges) else 0
        return merges, Certificate(floor, last_count, *numbers)

    def merges(self, start: int = 0) -> Merges:
        """Those from `start` on that are known by now: all, or inside `progress` those so far."""
        columns: Iterable[Any] = map(np.asarray, self._learner.merges(start))
        return Merges(*columns)
