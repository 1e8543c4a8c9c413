"""Settings → who measures which cell, and in how many rounds.

The goals say which cells they need of tokenmill and gigatoken, with three vocabularies. The
comparison with the other peers is narrower, so that a sweep stays within half an hour: every job
with the first vocabulary, arrays of the mix with the others, fewer rounds, and a few cells only
for the slow systems.

Invariant: what belongs together is measured one after the other, ours beside theirs, one thread
beside two, so that a busy minute of the machine hits both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# isort: split
import goals
from corpora import CORPORA, EVERYTHING, REAL_CORPORA
from jobs import BATCH_JOBS, MEASURED_JOBS, MEMORY_JOBS, Cell

# None of them was the best in any cell while all were measured in all; they would add only time.
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
    peer_rounds: int  # of what no goal needs
    megabytes: float
    memory_megabytes: float
    memory_corpus: str
    cores: int
    goals: bool  # the cells of the goals
    comparison: bool  # the cells of the tables with all systems
    slow: list[str]  # systems that get a few cells only

    @property
    def middle(self) -> str:
        """The corpus of the jobs that are not measured on every one."""
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
    """What round `number` measures; every second one goes through the systems backwards."""
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
    """A cell of the goals, under the filters of the command line."""
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
    return 1 if cell.job in MEMORY_JOBS else rounds  # long, and the same each time


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
