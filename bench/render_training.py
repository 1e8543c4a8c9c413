"""bench/results/training.json → the tables of the documents, and bench/results/training.md.

docs/performance.md gets one table of times and memory between its two markers, bench/LOG.md the
goals, and training.md everything. A trainer without a figure has the reason instead.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

# isort: split
from markdown import number, table, write_block
from trainers import TRAINERS
from training import VOCAB_SIZES
from training_goals import judge

HERE = Path(__file__).resolve().parent

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description="Renders the results as Markdown.")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "training.json")
    parser.add_argument("--page", type=Path, default=HERE.parent / "docs" / "performance.md")
    parser.add_argument("--log", type=Path, default=HERE / "LOG.md")
    args = parser.parse_args()
    if not args.results.exists():
        sys.exit(f"file not found: {args.results.name}; run bench/training.py first")
    results = json.loads(args.results.read_text("utf-8"))
    out = args.results.with_suffix(".md")
    out.write_text(full(results), "utf-8")
    print(f"wrote {out.name}", file=sys.stderr)
    goals = "\n\n".join([verdict(results), goals_table(results), provenance(results)])
    write_block(args.page, "training", f"{speed_table(results)}\n\n{provenance(results)}")
    write_block(args.log, "training-goals", goals)


def full(results: Row) -> str:
    parts = ["# Training", provenance(results), "## Goals", verdict(results), goals_table(results)]
    parts += ["## Time and memory", speed_table(results), *one_language(results)]
    parts += ["## Texts", texts_table(results), "## How each was called", how_table(results)]
    return "\n\n".join(parts) + "\n"


def verdict(results: Row) -> str:
    outcomes = judge(results["rows"], results["texts"])
    met = sum(outcome["met"] for outcome in outcomes)
    without = sum("value" not in outcome for outcome in outcomes)
    tail = f"; {without} have no figure" if without else ""
    return f"Goals met: {met} of {len(outcomes)}{tail}. They were set before the code was written."


def goals_table(results: Row) -> str:
    lines = [["", "figure", "goal"]]
    for outcome in judge(results["rows"], results["texts"]):
        value = number(outcome["value"]) if "value" in outcome else "not measured"
        sign = "≥" if outcome["at_least"] else "≤"
        mark = "✓" if outcome["met"] else "✗"
        lines.append([outcome["goal"], f"{value} {mark}", f"{sign} {outcome['bar']:g}"])
    return table(lines)


def speed_table(results: Row) -> str:
    """Return a line per trainer: seconds and MB above the text for each size."""
    rows = {(r["system"], r["text"]): r for r in results["rows"]}
    texts = [text for text in VOCAB_SIZES if any(t == text for _, t in rows)]
    heads = [f"{text}, {size_of(rows, text):,} tokens" for text in texts]
    lines = [["", *heads]]
    notes: list[str] = []
    for system in TRAINERS:
        line = [system]
        for text in texts:
            row = rows.get((system, text))
            if row is None:
                line.append("")
            elif row["status"] != "ok":
                note = f"{system}, {text}: {row['status']}"
                notes += [note] if note not in notes else []
                line.append("-")
            else:
                line.append(cell(row))
                if row.get("kept"):
                    line[-1] += "\\*"
                    notes += [f"\\* {system}, {text}: measured on {row['date'][:10]}"]
        if any(line[1:]):
            lines.append(line)
    caption = "Seconds / MB of peak memory above the text; GPT-2's pattern, two threads."
    return "\n\n".join([caption, table(lines), *notes])


def size_of(rows: dict[tuple[str, str], Row], text: str) -> int:
    return int(next(row["vocab_size"] for (_, name), row in rows.items() if name == text))


def cell(row: Row) -> str:
    return " / ".join(number(statistics.median(row[metric])) for metric in ("seconds", "peak_mb"))


def one_language(results: Row) -> list[str]:
    lines = [["", "threads", "seconds", "MB above the text", "unique pretokens"]]
    for row in results["rows"]:
        if row["text"] in VOCAB_SIZES or row["status"] != "ok":
            continue
        unique = results["texts"].get(row["text"], {}).get("unique")
        lines.append(
            [
                row["text"],
                str(row["threads"]),
                *(number(statistics.median(row[m])) for m in ("seconds", "peak_mb")),
                f"{unique:,}" if unique else "",
            ]
        )
    return ["## One language, tokenmill", table(lines)] if len(lines) > 1 else []


def texts_table(results: Row) -> str:
    lines = [["", "source", "documents", "MB"]]
    for name, text in results["texts"].items():
        if "source" in text:
            size = f"{text['bytes'] / 1e6:.1f}"
            lines.append([name, str(text["source"]), str(text["documents"]), size])
    return table(lines, "---")


def how_table(results: Row) -> str:
    lines = [["", "call", "version", "tie-breaking rule"]]
    seen: dict[str, Row] = {r["system"]: r for r in results["rows"] if r["status"] == "ok"}
    for system, row in seen.items():
        ties = TRAINERS[system].ties or "its own"
        lines.append([system, row["how"], row["version"], ties])
    return table(lines, "---")


def provenance(results: Row) -> str:
    machine = results["machine"]
    versions = {r["system"]: r["version"] for r in results["rows"] if r["status"] == "ok"}
    names = ", ".join(f"{name} {version}" for name, version in versions.items())
    ours = max((len(r["seconds"]) for r in results["rows"] if r["status"] == "ok"), default=0)
    stopped = "" if results["complete"] else " The run was stopped early."
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python "
        f"{results['python']}, {results['date'][:10]}. Each measurement runs in a new process with "
        f"the text in memory; tokenmill: medians of {ours} runs, the others: one run. Trainers "
        "with the same tie-breaking rule learned the same merges, or have no figure. "
        f"Versions: {names}. `{results['command']}`.{stopped}"
    )


if __name__ == "__main__":
    main()
