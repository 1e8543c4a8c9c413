"""Counts of words → pieces, with their trace and report: training with SentencePiece's rules."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tokenmill.errors import TrainingError
from tokenmill.training.counting import Counted
from tokenmill.training.layout import Learned
from tokenmill.training.merging import Merges
from tokenmill.training.options import note
from tokenmill.training.pieces.encoding import PieceEncoder
from tokenmill.training.pieces.merging import learn
from tokenmill.training.pieces.sentences import find_alphabet
from tokenmill.training.pieces.vocabulary import Joined, PieceOptions, Pieces
from tokenmill.training.progress import Progress, Report
from tokenmill.training.report import write_report
from tokenmill.training.trace import write_trace

Path_: TypeAlias = "str | os.PathLike[str]"


@dataclass(frozen=True)
class Resources:
    """What training may use, and whom it tells."""

    threads: int
    memory: int
    spill: Path | None
    progress: Report


def train_pieces(
    counted: Counted,
    sizes: Sequence[int],
    options: PieceOptions,
    min_frequency: int,
    provenance: Mapping[str, Any],
    resources_for: Callable[[int], Resources],
    trace: Path_ | None,
    report: Path_ | None,
) -> list[Pieces]:
    """The pieces of each size, from one run."""
    counts = counted.take()
    resources = resources_for(len(counts))
    alphabet = find_alphabet(counts, options.coverage)
    least = len(options.front) + len(alphabet.characters)
    if min(sizes) < least:
        raise TrainingError(
            f"vocab_size={min(sizes):_} is too small: there are {len(alphabet.characters)} "
            f"characters and {len(options.front)} specials; give {least:_} or more, or a lower "
            "character_coverage"
        )
    merges_max = max(sizes) - least

    def tell(done: int, count: int) -> None:
        resources.progress(Progress("merging", done, merges_max, 0, count))

    found, certificate = learn(
        alphabet,
        lambda: alphabet.words(counts),
        merges_max,
        min_frequency=min_frequency,
        length_max=options.length_max,
        threads=resources.threads,
        memory=resources.memory,
        spill=resources.spill,
        progress=tell,
    )
    last = (certificate.last_count, certificate.floor)
    resources.progress(Progress("merging", len(found), len(found), 0, *last))
    trained = [
        Pieces(found[: size - least], alphabet.characters, options, provenance) for size in sizes
    ]
    if len(found) < merges_max:
        note(
            f"the text has only {len(found):_} pieces to learn, so the vocabulary has "
            f"{least + len(found):_} entries, not {max(sizes):_}; more text gives more"
        )
    largest = max(trained, key=len)
    if trace is not None or report is not None:
        learned = _learned(largest, found)
        if trace is not None:
            head = {**provenance, "certificate": asdict(certificate)}
            write_trace(Path(trace), learned, _numbered(largest, found), head)
        if report is not None:
            encoder = PieceEncoder(largest)
            write_report(
                Path(report), len(largest), learned, encoder, counted.runs, resources.progress
            )
    return trained


def _learned(pieces: Pieces, merges: Sequence[Joined]) -> Learned:
    """The vocabulary as the trace and the report know it."""
    front = len(pieces.specials)
    tokens = {id_: piece.encode() for id_, piece in enumerate(pieces.pieces) if id_ >= front}
    pairs = [(one.left.encode(), one.right.encode()) for one in merges]
    return Learned(tokens, dict(pieces.specials), pairs, 0, len(pieces))


def _numbered(pieces: Pieces, merges: Sequence[Joined]) -> Merges:
    ids = {piece: id_ for id_, piece in enumerate(pieces.pieces)}
    return Merges(
        np.array([ids[one.left] for one in merges], np.uint32),
        np.array([ids[one.right] for one in merges], np.uint32),
        np.array([ids[one.left + one.right] for one in merges], np.uint32),
        np.array([one.count for one in merges], np.uint64),
    )
