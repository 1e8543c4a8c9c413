"""Counts of pretokens → merges: one call of the core with the rules of a trainer."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments
from tokenmill.errors import TrainingError
from tokenmill.native import _native

# In the alphabet: a byte that is removed from words. As a length: no limit.
_NONE = 2**32 - 1

# About the memory of a unique pretoken while it is merged. The rest of the memory is for pairs.
_WORD_BYTES = 56
_WORDS_SHARE = 0.5
_PYTHON_BYTES = 64 << 20  # the interpreter, numpy and other imports
# Threads synchronize at each merge. One thread merges fewer pretokens than this in less than 0.1 s.
# Two threads on busy cores took two to ten times as long.
_FEW_WORDS = 100_000

# Merges so far and the count of the last one, called from time to time.
Progress = Callable[[int, int], object]


class Trainer(NamedTuple):
    """The rules of a library.

    `ties` is the core's rule between two pairs with the same count. The ids of special tokens are
    before those of the bytes with `special_tokens_first`, else after the merges. `needs_order` is
    for a rule that depends on the order of the documents.
    """

    ties: str
    special_tokens_first: bool = False
    cuts_at_special_tokens: bool = False
    needs_order: bool = False


# A trainer with a known tie-breaking rule is a row of this table. A new rule is a value of `Ties`
# in core/train/queue.zig.
TRAINERS = {
    "tokenizers": Trainer("ids", special_tokens_first=True),
    "rustbpe": Trainer("ids"),
    "cs336": Trainer("bytes", cuts_at_special_tokens=True),
    "minbpe": Trainer("order", needs_order=True),
    # Its tokens are characters, not bytes: training/sentencepiece.py assigns the ids.
    "sentencepiece": Trainer("pieces"),
}


# Merge i joins the ids `left` and `right` to `id`. The pair had `count`.
MERGE = np.dtype([("left", "u4"), ("right", "u4"), ("id", "u4"), ("count", "u8")])
Merges: TypeAlias = NDArray[np.void]


def merges_of(left: Any, right: Any, id: Any, count: Any) -> Merges:
    """Merges from their columns."""
    merges = np.empty(len(left), MERGE)
    merges["left"], merges["right"], merges["id"], merges["count"] = left, right, id, count
    return merges


NO_MERGES = merges_of([], [], [], [])


class ExactnessCheck(NamedTuple):
    """The reason why the merges are exact, and the work that they took.

    Pairs whose count was never above `min_tracked_count` were not tracked. No merge has a lower
    count.
    """

    min_tracked_count: int
    last_count: int
    rescans: int
    batches: int
    scans: int
    visits: int
    bytes: int


def limits(options: Mapping[str, Any], folder: Path, count: int) -> dict[str, Any]:
    """The `threads`, `memory` and `spill` of `Merging` for a number of unique pretokens."""
    threads, memory = options["threads"], options["memory"]
    if threads is None and count < _FEW_WORDS:
        threads = 1
    threads = arguments.thread_count(threads)
    if memory is None:
        return {"threads": threads}
    limit = max(memory - _PYTHON_BYTES, memory // 4)
    is_large = count * _WORD_BYTES > limit * _WORDS_SHARE
    if is_large and sys.platform != "linux":
        least = int(count * _WORD_BYTES / _WORDS_SHARE) + _PYTHON_BYTES
        raise TrainingError(
            f"memory={memory:_} is too small for {count:_} unique pretokens: on {sys.platform} "
            f"they cannot be moved to disk; pass {least:_} or more"
        )
    return {"threads": threads, "memory": limit, "spill": folder if is_large else None}


class Merging:
    """Words → merges.

    `tokens` are the tokens before the first merge, by id. A merge with the bytes of one of them
    gets its id. Bytes that are not tokens are removed from their words. New ids are in
    `range(first_id, ids_end)`. Tokens from `made_from` on are merges of an earlier run. `revives`
    allows merges whose tokens occur in the words already. `memory` limits the lists of words if it
    is above 0. With a folder `spill`, the words are in unnamed files there. With trainer
    "sentencepiece" all tokens are characters, `scripts` has the script of each, and
    `max_token_length` counts characters.
    """

    def __init__(
        self,
        *,
        tokens: Mapping[int, bytes],
        first_id: int,
        ids_end: int,
        trainer: str,
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
        for id_, token in tokens.items():
            if len(token) == 1:
                ids_of_bytes[token[0]] = id_
        self._learner = _native.Learner(
            alphabet=ids_of_bytes,
            tokens=b"".join(tokens.values()),
            token_lengths=np.fromiter(map(len, tokens.values()), np.uint32, len(tokens)),
            token_ids=np.fromiter(tokens, np.uint32, len(tokens)),
            ties=TRAINERS[trainer].ties,
            first_id=first_id,
            made_from=first_id if made_from is None else made_from,
            ids_end=max(ids_end, first_id),
            count_min=min_frequency,
            len_end=_NONE if max_token_length is None else max_token_length,
            threads=threads,
            memory=memory,
            revives=revives,
            scripts=np.array([], np.uint32) if scripts is None else scripts,
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
        """Add pretokens by their bytes. For minbpe, in the order of their first occurrence."""
        self._learner.add(counts)

    def add_ids(
        self, ids: NDArray[np.uint32], lengths: NDArray[np.uint32], counts: NDArray[np.uint64]
    ) -> None:
        """Add encoded pretokens, end to end."""
        self._learner.add_ids(ids, lengths, counts)

    def run(self, progress: Progress | None = None) -> tuple[Merges, ExactnessCheck]:
        """Learn the merges, once. Ctrl-C interrupts it."""
        self._learner.run(progress)
        merges = self.merges()
        min_tracked_count, *numbers = self._learner.certificate()
        last_count = int(merges["count"][-1]) if len(merges) else 0
        return merges, ExactnessCheck(min_tracked_count, last_count, *numbers)

    def merges(self) -> Merges:
        """All merges, or inside `progress` those so far."""
        return merges_of(*self._learner.merges(0))
