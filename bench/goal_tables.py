"""Goals with their figures → tables, for a document and for a terminal, and a list of the unmet.

Both kinds of tables hold the same cells: a figure with ✓ or ✗, or – where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

# isort: split
from corpora import CORPORA, REAL_CORPORA
from goals import GOALS, RIVAL, VOCABULARIES, Outcome
from markdown import table

Lines = list[list[str]]
Groups = dict[str, list[Outcome]]

MET, UNMET, ABSENT = "✓", "✗", "–"
COLUMNS_MIN = 110  # of a terminal: a table that wraps its titles is hard to read
REAL_CAPTION = (
    "On the real documents alone, without generated ones: shorter texts, so that what a first pass "
    "sets up weighs more, and every cache holds them in later passes."
)
PER_CORPUS = {goal.title for goal in GOALS if len(goal.bars) > 1}


def full(outcomes: list[Outcome], real: list[Outcome]) -> str:
    """What bench/results/encode.md shows: every figure, then what is not met."""
    tables = [table(lines, "---") for lines in (corpus_lines(outcomes), other_lines(outcomes))]
    return "\n\n".join(
        [
            verdict(outcomes),
            *tables,
            *real_part(real, corpus_lines(real, REAL_CORPORA)),
            unmet_text(outcomes),
        ]
    )


def short(outcomes: list[Outcome], real: list[Outcome]) -> str:
    """What other documents show: the worst of the vocabularies for each goal."""
    lines = [["", *CORPORA], *worst_lines(outcomes)]
    others = [
        f"{title} {judged_cell(found)}"
        for title, found in grouped(outcomes, "goal").items()
        if title not in PER_CORPUS
    ]
    worst_of = f"the worst of {', '.join(f'`{v}`' for v in VOCABULARIES)}, one thread"
    caption = f"{verdict(outcomes)} Ratios to {RIVAL}, {worst_of} (and the goal):"
    also = f"Also: {'; '.join(others)}."
    extra = real_part(real, [["", *REAL_CORPORA], *worst_lines(real)])
    return "\n\n".join([caption, table(lines, "---"), also, *extra])


def worst_lines(outcomes: list[Outcome]) -> Lines:
    """A line for each goal with a bar for each corpus."""
    return [
        [title, *(judged_cell(x) for x in grouped(found, "corpus").values())]
        for title, found in grouped(outcomes, "goal").items()
        if title in PER_CORPUS
    ]


def real_part(real: list[Outcome], lines: Lines) -> list[str]:
    """The table of the real documents alone, where they were measured."""
    if not any("value" in outcome for outcome in real):
        return []
    return [f"{REAL_CAPTION} Beside the same bars, not counted:", table(lines, "---")]


def print_measured(outcomes: list[Outcome], real: list[Outcome]) -> None:
    """The goals for which something was measured, on the terminal."""
    from rich.console import Console
    from rich.table import Table

    tried = [o for o in outcomes if o.get("why") != "not measured"]
    console = Console(highlight=False, width=max(Console().width, COLUMNS_MIN))
    tried_real = [o for o in real if o.get("why") != "not measured"]
    for head, *body in (
        corpus_lines(tried),
        other_lines(tried),
        corpus_lines(tried_real, REAL_CORPORA),
    ):
        shown = Table(*head)
        for line in body:
            shown.add_row(*map(coloured, line))
        if body:
            console.print(shown)
    console.print(verdict(tried))
    for why, found in grouped((o for o in tried if "why" in o), "why").items():
        console.print(f"{ABSENT} {'; '.join(grouped(found, 'goal'))}: {why}", markup=False)


def corpus_lines(outcomes: list[Outcome], names: Iterable[str] = CORPORA) -> Lines:
    """The goals with a bar for each corpus: the bars, and below them a line a vocabulary."""
    lines = [["goal", "", *names]]
    for title, found in grouped(outcomes, "goal").items():
        if title in PER_CORPUS:
            bars = {o["corpus"]: bar(o) for o in found}
            lines.append([title, "", *(bars.get(corpus, "") for corpus in names)])
            for vocabulary, some in grouped(found, "vocabulary").items():
                cells = {o["corpus"]: cell(o) for o in some}
                lines.append(["", vocabulary, *(cells.get(corpus, "") for corpus in names)])
    return lines


def other_lines(outcomes: list[Outcome]) -> Lines:
    """The goals with one figure for each vocabulary."""
    lines = [["goal", "", *VOCABULARIES]]
    for title, found in grouped(outcomes, "goal").items():
        if title not in PER_CORPUS:
            cells = {o["vocabulary"]: cell(o) for o in found}
            lines.append([title, bar(found[0]), *(cells.get(v, "") for v in VOCABULARIES)])
    return lines


def verdict(outcomes: list[Outcome]) -> str:
    met = sum(o["met"] for o in outcomes)
    absent = sum("value" not in o for o in outcomes)
    tail = f"; {absent} have no figure" if absent else ""
    return f"Goals met, of those set before it was written: {met} of {len(outcomes)}{tail}."


def unmet_text(outcomes: list[Outcome]) -> str:
    """Every goal that is not met, the farthest first, and those without a figure by reason."""
    unmet = sorted((o for o in outcomes if not o["met"] and "value" in o), key=nearness)
    lines = [
        f"- {o['goal']}, {where(o)}: {figure(o['value'])}, to be {bar(o)} "
        f"({figure(o['low'])} to {figure(o['high'])} in the rounds)"
        for o in unmet
    ]
    for why, found in grouped((o for o in outcomes if "why" in o), "why").items():
        titles = "; ".join(grouped(found, "goal"))
        lines.append(f"- no figure ({len(found)} of {len(outcomes)}): {titles}: {why}")
    return "\n".join(["Not met:", "", *lines]) if lines else "All goals are met."


def nearness(outcome: Outcome) -> float:
    """1 at the bar, less below it."""
    if "value" not in outcome:
        return -math.inf
    value, aim = max(outcome["value"], 1e-3), outcome["bar"]
    return float(value / aim if outcome["at_least"] else aim / value)


def worst(outcomes: list[Outcome]) -> Outcome:
    return min(outcomes, key=nearness)


def cell(outcome: Outcome) -> str:
    if "value" not in outcome:
        return ABSENT
    return f"{figure(outcome['value'])} {MET if outcome['met'] else UNMET}"


def judged_cell(outcomes: list[Outcome]) -> str:
    return f"{cell(worst(outcomes))} ({bar(outcomes[0])})"


def bar(outcome: Outcome) -> str:
    return f"{'≥' if outcome['at_least'] else '≤'} {outcome['bar']:.3g}"


def figure(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def where(outcome: Outcome) -> str:
    return f"`{outcome['vocabulary']}` {outcome['corpus']}".strip()


def coloured(text: str) -> str:
    style = "green" if text.endswith(MET) else "red" if text.endswith(UNMET) else "dim"
    return f"[{style}]{text}[/]" if text[-1:] in (MET, UNMET, ABSENT) else text


def grouped(outcomes: Iterable[Outcome], key: str) -> Groups:
    groups: Groups = {}
    for outcome in outcomes:
        groups.setdefault(outcome[key], []).append(outcome)
    return groups
