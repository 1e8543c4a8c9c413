"""bench/results/encode.json → the tables in README.md and bench/results/encode.md.

README.md gets one table, between its two markers, and the cells in which tokenmill is not the
best; encode.md gets all tables. A system that failed its check has the reason instead of a number.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
START, END = "<!-- bench:start -->", "<!-- bench:end -->"
OURS, BASELINE = "tokenmill", "read_only"

Row = dict[str, Any]
Rows = dict[tuple[str, str, str, int], dict[str, Row]]  # (vocabulary, job, corpus, threads)

ARRAY_METRICS = ("cold_mb_s", "unseen_mb_s", "warm_mb_s")
SPEED_METRICS = ("cold_mb_s", "warm_mb_s")
WORDS = {
    "cold_mb_s": "first pass",
    "unseen_mb_s": "new text",
    "warm_mb_s": "same text again",
    "ns_20": "20 characters",
    "ns_200": "200 characters",
    "load_ms": "time",
    "first_ids_ms": "time to first ids",
    "resident_mb": "memory",
    "peak_mb": "peak memory",
    "grown_mb": "memory growth",
}
UNITS = {"_mb_s": "MB/s", "ns_": "ns", "_ms": "ms", "_mb": "MB"}
MEMORY_SLACK_MB = 2.0  # less than this is the allocator's noise


def main() -> None:
    parser = argparse.ArgumentParser(description="Results → Markdown.")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "encode.json")
    parser.add_argument("--readme", type=Path, default=HERE.parent / "README.md")
    parser.add_argument("--out", type=Path, help="default: beside the results, .md")
    args = parser.parse_args()
    if not args.results.exists():
        sys.exit(f"no {args.results.name}: run bench/sweep.py first")
    results = json.loads(args.results.read_text("utf-8"))
    rows = index(results)
    out = args.out or args.results.with_suffix(".md")
    out.write_text(full(results, rows), "utf-8")
    print(f"wrote {out.name}", file=sys.stderr)
    if not replace_block(args.readme, headline(results, rows)):
        print(f"{args.readme.name} has no {START} … {END}: left alone", file=sys.stderr)


def index(results: Row) -> Rows:
    rows: Rows = {}
    for row in results["rows"]:
        key = (row["vocabulary"], row["job"], row["corpus"], row["threads"])
        rows.setdefault(key, {})[row["system"]] = row
    return rows


def replace_block(readme: Path, block: str) -> bool:
    text = readme.read_text("utf-8") if readme.exists() else ""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        return False
    readme.write_text(f"{before}{START}\n{block}\n{END}{after}", "utf-8")
    return True


def headline(results: Row, rows: Rows) -> str:
    first = results["settings"]["vocabularies"][0]
    return "\n\n".join(
        [
            f"`{first}`, one thread, text to array, MB/s: first pass in a fresh process / "
            "new text after that / the same text again.",
            speed_table(results, rows, array_columns(results, rows, first), ARRAY_METRICS),
            provenance(results),
            losses_text(rows, limit=12),
        ]
    )


def full(results: Row, rows: Rows) -> str:
    vocabularies = results["settings"]["vocabularies"]
    first = vocabularies[0]
    arrays = array_columns(results, rows, first)
    jobs = [
        (job if n == 1 else f"{job}, {n} threads", key)
        for job in ("list", "count", "batch_list", "batch_array")
        for key in rows
        for n in [key[3]]
        if key[0] == first and key[1] == job
    ]
    others = [(key[0], key) for key in rows if key[0] != first and key[1] == "array"]
    parts = ["# Encoding", provenance(results), losses_text(rows, limit=None)]
    passes = "first pass / new text / the same text again"
    sections: list[tuple[str, str, list[Any], tuple[str, ...]]] = [
        ("Text to array", f"`{first}`, one thread, MB/s: {passes}", arrays, ARRAY_METRICS),
        (
            "Other jobs",
            f"`{first}`, mix, MB/s: first pass / the same text again",
            jobs,
            SPEED_METRICS,
        ),
        (
            "Other vocabularies",
            f"text to array, mix, one thread, MB/s: {passes}",
            others,
            ARRAY_METRICS,
        ),
        (
            "One call",
            f"`{first}`, str to list, median ns: 20 / 200 characters",
            [("ns", key) for key in rows if key[1] == "latency"],
            ("ns_20", "ns_200"),
        ),
        (
            "Load",
            "in a fresh process after the imports: ms to loaded / ms to first ids / MB",
            [(key[0], key) for key in rows if key[1] == "load"],
            ("load_ms", "first_ids_ms", "resident_mb"),
        ),
        (
            "Memory",
            f"`{first}`, documents encoded one by one and dropped, MB: "
            "peak since before the load / growth since after it",
            [(memory_text(results, key), key) for key in rows if key[1] == "memory"],
            ("peak_mb", "grown_mb"),
        ),
    ]
    for title, caption, columns, metrics in sections:
        if columns:
            table = speed_table(results, rows, columns, metrics)
            parts += [f"## {title}", caption[0].upper() + caption[1:] + ".", table]
    parts += ["## Texts", texts_table(results), "## How each was called", how_table(results, rows)]
    parts += ["## Checks", checks_table(results)]
    return "\n\n".join(parts) + "\n"


def array_columns(results: Row, rows: Rows, vocabulary: str) -> list[Any]:
    keys = [(vocabulary, "array", corpus, 1) for corpus in results["settings"]["corpora"]]
    return [(key[2], key) for key in keys if key in rows]


def memory_text(results: Row, key: tuple[str, str, str, int]) -> str:
    there = results["corpora"][key[2]]["bytes"] / 1e6
    return f"{min(results['settings']['memory_megabytes'], there):.0f} MB"


def speed_table(results: Row, rows: Rows, columns: list[Any], metrics: tuple[str, ...]) -> str:
    """One line a system; the best of each metric in bold; * where it got less text."""
    lines = [["", *(label for label, _ in columns)]]
    reasons: list[str] = []
    shares: list[str] = []
    for system in results["settings"]["systems"]:
        line = [system]
        for _, key in columns:
            row = rows[key].get(system)
            if row is None:
                line.append("")
            elif row["status"] != "ok":
                reason = f"{system}: {row['status']}"
                reasons += [reason] if reason not in reasons else []
                line.append("-")
            else:
                less = has_less_text(rows[key], row)
                shares += [system] if less and system not in shares else []
                line.append(figures(rows[key], row, metrics) + ("\\*" if less else ""))
        lines.append(line)
    notes = [f"\\* {', '.join(shares)}: on less text, being slow"] if shares else []
    notes += [f"\\- {text}" for text in reasons]
    return markdown(lines) + "".join(f"\n\n{note}" for note in notes)


def has_less_text(peers: dict[str, Row], row: Row) -> bool:
    most: int = max(r.get("bytes", 0) for r in peers.values())
    return bool(row.get("bytes", 0) < 0.9 * most)


def figures(peers: dict[str, Row], row: Row, metrics: tuple[str, ...]) -> str:
    shown = []
    for name in metrics:
        if name not in row["metrics"]:
            continue
        value = row["metrics"][name]["median"]
        text = number(value)
        best = best_peer(peers, name, [s for s in peers if s != BASELINE])
        shown.append(f"**{text}**" if best is row else text)
    return " / ".join(shown)


def best_peer(peers: dict[str, Row], metric: str, systems: Iterable[str]) -> Row | None:
    having = [peers[s] for s in systems if metric in peers[s]["metrics"]]
    if not having:
        return None
    value: Callable[[Row], float] = lambda r: r["metrics"][metric]["median"]  # noqa: E731
    return max(having, key=value) if metric.endswith("_mb_s") else min(having, key=value)


def losses(rows: Rows) -> list[tuple[float, str]]:
    """(how many times worse, where) for each metric in which a peer is ahead of tokenmill."""
    found: list[tuple[float, str]] = []
    for (vocabulary, job, corpus, threads), peers in rows.items():
        ours = peers.get(OURS)
        if ours is None:
            continue
        where = " ".join(x for x in (f"`{vocabulary}`", job, corpus) if x)
        where += f", {threads} threads" if threads > 1 else ""
        others = [s for s in peers if s not in (OURS, BASELINE)]
        if ours["status"] != "ok":
            if any(peers[s]["status"] == "ok" for s in others):
                found.append((float("inf"), f"{where}: no number, {ours['status']}"))
            continue
        for metric, mine in ours["metrics"].items():
            best = best_peer(peers, metric, others)
            if best is None:
                continue
            theirs = best["metrics"][metric]
            times = worse(metric, mine["median"], theirs["median"])
            if times > 1.0:
                apart = mine["max"] < theirs["min"] or theirs["max"] < mine["min"]
                found.append(
                    (
                        times,
                        f"{where}, {WORDS[metric]}: {number(mine['median'])} {unit(metric)}, "
                        f"{best['system']} {number(theirs['median'])} ({times:.2f} times)"
                        + ("" if apart else ", within the spread"),
                    )
                )
    return sorted(found, reverse=True)


def worse(metric: str, mine: float, theirs: float) -> float:
    """How many times worse ours is; 1 or less: not worse."""
    if metric.endswith("_mb_s"):
        return theirs / mine
    if metric.endswith("_mb") and mine - theirs < MEMORY_SLACK_MB:
        return 0.0
    return mine / max(theirs, 0.1)


def losses_text(rows: Rows, limit: int | None) -> str:
    if not any(OURS in peers and peers[OURS]["status"] == "ok" for peers in rows.values()):
        return "tokenmill itself was not measured in this sweep."
    compared = (s for p in rows.values() for s in p if p[s]["status"] == "ok")
    if not set(compared) - {OURS, BASELINE}:
        return "No peer was measured in this sweep."
    found = [text for _, text in losses(rows)]
    if not found:
        return "In this sweep tokenmill loses nowhere."
    shown = found[:limit]
    more = len(found) - len(shown)
    tail = [f"- and {more} more in `bench/results/encode.md`"] if more else []
    return "\n".join(["Where tokenmill loses:", "", *(f"- {text}" for text in shown), *tail])


def provenance(results: Row) -> str:
    machine = results["machine"]
    versions = ", ".join(f"{name} {v}" for name, v in results["versions"].items())
    rounds = results["settings"]["rounds"]
    spread = spread_text(results["rows"]) if rounds > 1 else ""
    stopped = "" if results["complete"] else " The sweep was stopped early."
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}, Python "
        f"{results['python']}, {results['date'][:10]}; interleaved rounds: {rounds}, of which the "
        f"median is shown, a fresh process each; ids checked against tiktoken first.{spread} "
        f"Versions: {versions}. `{results['command']}`.{stopped}"
    )


def spread_text(rows: list[Row]) -> str:
    """How far apart the rounds were: (largest - smallest) / median of each speed."""
    found = sorted(
        (m["max"] - m["min"]) / m["median"]
        for row in rows
        for name, m in row["metrics"].items()
        if name.endswith("_mb_s") and row["system"] != BASELINE
    )
    if not found:
        return ""
    middle, most = found[len(found) // 2], found[-1]
    return f" Spread of the rounds: {middle:.0%} in the middle, {most:.0%} at most."


def texts_table(results: Row) -> str:
    lines = [["", "source", "documents", "MB there"]]
    for name, text in results["corpora"].items():
        size = f"{text['bytes'] / 1e6:.1f}"
        lines.append([name, str(text["source"]), str(text["documents"]), size])
    return markdown(lines, "---")


def how_table(results: Row, rows: Rows) -> str:
    jobs = ["load", "array", "list", "batch_list", "batch_array", "count"]
    lines = [["", *jobs]]
    for system in results["settings"]["systems"]:
        calls = {
            key[1]: peers[system].get("how", "")
            for key, peers in rows.items()
            if system in peers and peers[system]["status"] == "ok"
        }
        lines.append([system, *(calls.get(job, "") for job in jobs)])
    return markdown(lines, "---")


def checks_table(results: Row) -> str:
    lines = [["", "vocabulary", "ids"]]
    lines += [[c["system"], c["vocabulary"], c["verdict"]] for c in results["checks"]]
    return markdown(lines, "---")


def markdown(lines: list[list[str]], rule: str = "---:") -> str:
    head, *body = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    under = ["---", *(rule for _ in head[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, under, *body])


def number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"


def unit(metric: str) -> str:
    return next(text for part, text in UNITS.items() if part in metric)


if __name__ == "__main__":
    main()
