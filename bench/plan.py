"""Settings → the systems and rounds of each cell.

The goals need cells of tokenmill and gigatoken with three vocabularies. The comparison with other
peers is smaller, so that a sweep takes half an hour: every job with the first vocabulary, arrays of
the mix with the others, fewer rounds, and a few cells for the slow systems.

Invariant: figures that are compared are measured one after the other, so that a busy minute of the
machine affects both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# isort: split
import goals
from corpora import CORPORA, EVERYTHING, REAL_CORPORA
from jobs import BATCH_JOBS, MEASURED_JOBS, MEMORY_JOBS, Cell

# To save time, only some cells of these systems are measured.
SLOW = ("splintr", "tiktoken", "tokenizers-0.23")
SLOW_JOBS = ("array", "list", "latency", "load", "memory")
SLOW_CORPORA = ("en", "mix", EVERYTHING, "")
PEER_ROUNDS_MAX = 2

Work = dict[Cell, dict[str, int]]  # cell → system → rounds


@dataclass(frozen=True)
class Settings:
    systems: list[str]
    vocabularies: list[str]
    jobs: list[str]
    corpora: list[str]
    rounds: int
    peer_rounds: int  # rounds of cells without a goal
    megabytes: float
    memory_megabytes: float
    memory_corpus: str
    cores: int
    goals: bool  # measure the cells of the goals
    comparison: bool  # measure the cells of the tables with all systems
    slow: list[str]  # systems with few cells

    @property
    def middle(self) -> str:
        """Return the corpus of the jobs that use only one."""
        return "mix" if "mix" in self.corpora else self.corpora[0]


def plan(settings: Settings) -> Work:
    work: Work = {}
    if settings.goals:
        for vocabulary in settings.vocabularies:
            for system, cell in goals.needs(vocabulary):
                if system in settings.systems and _is_wanted(settings, cell):
                    work.setdefault(cell, {})[system] = settings.rounds
    for cell in _comparison(settings) if settings.comparison else ():
        for system in settings.systems:
            if system not in settings.slow or _is_for_slow(settings, cell):
                work.setdefault(cell, {}).setdefault(system, settings.peer_rounds)
    return {
        cell: {name: _rounds(cell, work[cell][name]) for name in _ordered(settings, work[cell])}
        for cell in sorted(work, key=lambda cell: _place(settings, cell))
        if cell.job in settings.jobs
    }


def turns(work: Work, number: int) -> Iterator[tuple[str, Cell]]:
    """Yield the measurements of a round; odd rounds reverse the order of the systems."""
    for cell, systems in work.items():
        order = reversed(systems) if number % 2 else iter(systems)
        yield from ((system, cell) for system in order if systems[system] > number)


def _comparison(settings: Settings) -> list[Cell]:
    first, *others = settings.vocabularies
    middle = settings.middle
    thread_counts = sorted({1, settings.cores})
    cells = [Cell(first, "array", corpus, 1) for corpus in settings.corpora if corpus in CORPORA]
    cells += [Cell(first, job, middle, 1) for job in ("list", "count", "latency")]
    cells += [Cell(first, job, middle, n) for job in BATCH_JOBS for n in thread_counts]
    cells += [Cell(v, "array", middle, 1) for v in others]
    cells += [Cell(first, "load", "", 1)]
    cells += [Cell(first, "memory", settings.memory_corpus, 1)]
    return cells


def _is_wanted(settings: Settings, cell: Cell) -> bool:
    """Return whether the filters of the command line accept a cell of the goals."""
    if cell.vocabulary not in goals.VOCABULARIES or cell.threads > settings.cores:
        return False
    corpus = "mix" if cell.corpus == EVERYTHING else cell.corpus
    return corpus in settings.corpora or not corpus


def _is_for_slow(settings: Settings, cell: Cell) -> bool:
    return (
        cell.vocabulary == settings.vocabularies[0]
        and cell.job in SLOW_JOBS
        and cell.corpus in SLOW_CORPORA
    )


def _rounds(cell: Cell, rounds: int) -> int:
    return 1 if cell.job in MEMORY_JOBS else rounds  # these take long and vary little


def _ordered(settings: Settings, systems: dict[str, int]) -> list[str]:
    return [system for system in settings.systems if system in systems]


def _place(settings: Settings, cell: Cell) -> tuple[int, ...]:
    corpora = ["", *CORPORA, *REAL_CORPORA, EVERYTHING]
    return (
        settings.vocabularies.index(cell.vocabulary),
        corpora.index(cell.corpus),
        MEASURED_JOBS.index(cell.job),
        cell.threads,
    )
