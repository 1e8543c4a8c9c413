"""Goals with their figures → tables for a document and a terminal, and a list of unmet goals.

A cell is a figure with ✓ or ✗, or – without a figure.
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
COLUMNS_MIN = 110  # width of the terminal; narrower tables wrap their titles
REAL_CAPTION = (
    "The same goals on the real documents alone, not counted. These texts are shorter: the set-up "
    "of a cold pass weighs more, and the whole text fits the caches when it is warm."
)
PER_CORPUS = {goal.title for goal in GOALS if len(goal.bars) > 1}


def full(outcomes: list[Outcome], real: list[Outcome]) -> str:
    """Return the section of bench/results/encode.md: every figure, then the unmet goals."""
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
    """Return the block of bench/LOG.md: the worst of the vocabularies for each goal."""
    lines = [["", *CORPORA], *worst_lines(outcomes)]
    others = [
        f"{title} {judged_cell(found)}"
        for title, found in grouped(outcomes, "goal").items()
        if title not in PER_CORPUS
    ]
    worst_of = f"the worst of {', '.join(f'`{v}`' for v in VOCABULARIES)}, one thread"
    caption = f"{verdict(outcomes)} Ratios to {RIVAL}, {worst_of}; the goal is in parentheses:"
    also = f"Other goals: {'; '.join(others)}."
    extra = real_part(real, [["", *REAL_CORPORA], *worst_lines(real)])
    return "\n\n".join([caption, table(lines, "---"), also, *extra])


def worst_lines(outcomes: list[Outcome]) -> Lines:
    """Return a line for each goal with a bar for each corpus."""
    return [
        [title, *(judged_cell(x) for x in grouped(found, "corpus").values())]
        for title, found in grouped(outcomes, "goal").items()
        if title in PER_CORPUS
    ]


def real_part(real: list[Outcome], lines: Lines) -> list[str]:
    """Return the table of the real documents alone, if they were measured."""
    if not any("value" in outcome for outcome in real):
        return []
    return [REAL_CAPTION, table(lines, "---")]


def print_measured(outcomes: list[Outcome], real: list[Outcome]) -> None:
    """Print the goals that were measured."""
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
    """Return the goals with a bar for each corpus, then a line per vocabulary."""
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
    """Return the goals with one figure for each vocabulary."""
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
    return f"Goals met: {met} of {len(outcomes)}{tail}. They were set before the code was written."


def unmet_text(outcomes: list[Outcome]) -> str:
    """List the unmet goals, the farthest first, then those without a figure by reason."""
    unmet = sorted((o for o in outcomes if not o["met"] and "value" in o), key=nearness)
    lines = [
        f"- {o['goal']}, {where(o)}: {figure(o['value'])}, goal {bar(o)}{spread(o)}" for o in unmet
    ]
    for why, found in grouped((o for o in outcomes if "why" in o), "why").items():
        titles = "; ".join(grouped(found, "goal"))
        lines.append(f"- no figure ({len(found)} of {len(outcomes)}): {titles}: {why}")
    return "\n".join(["Not met:", "", *lines]) if lines else "All goals are met."


def spread(outcome: Outcome) -> str:
    low, high = outcome["low"], outcome["high"]
    return f" ({figure(low)} to {figure(high)} in the rounds)" if low < high else ""


def nearness(outcome: Outcome) -> float:
    """Return 1 at the bar and less below it."""
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
