"""Goals with their figures → tables, for a document and for a terminal, and a list of the unmet.

Both kinds of tables hold the same cells: a figure with ✓ or ✗, or – where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

# isort: split
from corpora import CORPORA
from goals import GOALS, RIVAL, VOCABULARIES, Outcome
from markdown import table

Lines = list[list[str]]
Groups = dict[str, list[Outcome]]

MET, UNMET, ABSENT = "✓", "✗", "–"
COLUMNS_MIN = 110  # of a terminal: a table that wraps its titles is hard to read
PER_CORPUS = {goal.title for goal in GOALS if len(goal.bars) > 1}


def full(outcomes: list[Outcome]) -> str:
    """What bench/results/encode.md shows: every figure, then what is not met."""
    tables = [table(lines, "---") for lines in (corpus_lines(outcomes), other_lines(outcomes))]
    return "\n\n".join([verdict(outcomes), *tables, unmet_text(outcomes)])


def short(outcomes: list[Outcome]) -> str:
    """What other documents show: the worst of the vocabularies for each goal."""
    lines = [["", *CORPORA]]
    others: list[str] = []
    for title, found in grouped(outcomes, "goal").items():
        cells = [f"{cell(worst(x))} ({bar(x[0])})" for x in grouped(found, "corpus").values()]
        if title in PER_CORPUS:
            lines.append([title, *cells])
        else:
            others.append(f"{title} {cells[0]}")
    worst_of = f"the worst of {', '.join(f'`{v}`' for v in VOCABULARIES)}, one thread"
    caption = f"{verdict(outcomes)} Ratios to {RIVAL}, {worst_of} (and the goal):"
    return "\n\n".join([caption, table(lines, "---"), f"Also: {'; '.join(others)}."])


def print_measured(outcomes: list[Outcome]) -> None:
    """The goals for which something was measured, on the terminal."""
    from rich.console import Console
    from rich.table import Table

    tried = [o for o in outcomes if o.get("why") != "not measured"]
    console = Console(highlight=False, width=max(Console().width, COLUMNS_MIN))
    for head, *body in (corpus_lines(tried), other_lines(tried)):
        shown = Table(*head)
        for line in body:
            shown.add_row(*map(coloured, line))
        if body:
            console.print(shown)
    console.print(verdict(tried))
    for why, found in grouped((o for o in tried if "why" in o), "why").items():
        console.print(f"{ABSENT} {'; '.join(grouped(found, 'goal'))}: {why}", markup=False)


def corpus_lines(outcomes: list[Outcome]) -> Lines:
    """The goals with a bar for each corpus: the bars, and below them a line a vocabulary."""
    lines = [["goal", "", *CORPORA]]
    for title, found in grouped(outcomes, "goal").items():
        if title in PER_CORPUS:
            bars = {o["corpus"]: bar(o) for o in found}
            lines.append([title, "", *(bars.get(corpus, "") for corpus in CORPORA)])
            for vocabulary, some in grouped(found, "vocabulary").items():
                cells = {o["corpus"]: cell(o) for o in some}
                lines.append(["", vocabulary, *(cells.get(corpus, "") for corpus in CORPORA)])
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
    return f"Goals met: {met} of {len(outcomes)}{tail}."


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
