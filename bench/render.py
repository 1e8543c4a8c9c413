"""Results of sweep.py → the tables of the documents, bench/results/encode.md and docs/speed.svg.

Generated text replaces the blocks between two markers. headline.json, training.json and corpus.json
give README.md three figures, losses of tokenmill, and a chart. encode.json gives
docs/performance.md three tables, bench/LOG.md the goals, and encode.md every result. A system that
failed its check has the reason instead of a number.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# isort: split
import chart
import goal_tables
from corpora import CORPORA
from goals import OURS, REAL_GOALS, RIVAL, judge
from jobs import TIMED_JOBS
from markdown import number, table, write_block

HERE = Path(__file__).resolve().parent
BASELINE = "read_only"
LOSSES_PAGE = "docs/performance.md#where-tokenmill-is-slower"
README_TRAINERS = ("tokenmill", "gigatoken", "rustbpe", "tokenizers")
TEXTS = {"en": "English", "code": "code", "zh": "Chinese", "ja": "Japanese", "th": "Thai"}

Row = dict[str, Any]
OUR_CORPUS_RUNS = ("encoder", "text", "jsonl", "jsonl.zst")
Key = tuple[str, str, str, int]  # vocabulary, job, corpus, threads
Rows = dict[Key, dict[str, Row]]
Column = tuple[str, Key]  # with its label
Section = tuple[str, str, list[Column], tuple[str, ...]]  # title, caption, columns, metrics

ARRAY_METRICS = ("cold_mb_s", "unseen_mb_s", "warm_mb_s")
SPEED_METRICS = ("cold_mb_s", "warm_mb_s")
CALL_METRICS = ("ns_20", "ns_200", "array_ns_20", "array_ns_200")
LOAD_METRICS = ("load_ms", "first_ids_ms", "resident_mb", "first_batch_ms")
SHORT_METRICS = (*CALL_METRICS, "first_ids_ms", "peak_mb")  # one cell shows those that it has
TABLED = ("array", "batch_list", "count")
WORDS = {
    "cold_mb_s": "cold",
    "unseen_mb_s": "warm, new text",
    "warm_mb_s": "warm, same text",
    "ns_20": "20 characters",
    "ns_200": "200 characters",
    "array_ns_20": "20 characters to an array",
    "array_ns_200": "200 characters to an array",
    "load_ms": "time",
    "first_ids_ms": "time to first ids",
    "first_batch_ms": "time of the first batch",
    "resident_mb": "memory",
    "peak_mb": "peak memory",
    "grown_mb": "memory growth",
}
# The losses that README.md names, in its order.
LOSS_PHRASES = {
    "array_ns_20": "a text of 20 characters to an array",
    "array_ns_200": "a text of 200 characters to an array",
    "first_batch_ms": "the first batch after a load",
    "peak_mb": "peak memory of 90 MB of text",
    "grown_mb": "memory that is kept after it",
}
UNITS = {"_mb_s": "MB/s", "ns_": "ns", "_ms": "ms", "_mb": "MB"}
MEMORY_SLACK_MB = 2.0  # smaller differences are noise of the allocator


def main() -> None:
    parser = argparse.ArgumentParser(description="Renders the results as Markdown.")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "encode.json")
    parser.add_argument("--headline", type=Path, default=HERE / "results" / "headline.json")
    parser.add_argument("--chart", type=Path, default=HERE.parent / "docs" / "speed.svg")
    parser.add_argument("--readme", type=Path, default=HERE.parent / "README.md")
    parser.add_argument("--page", type=Path, default=HERE.parent / "docs" / "performance.md")
    parser.add_argument("--log", type=Path, default=HERE / "LOG.md")
    parser.add_argument("--out", type=Path, help="full tables (default: RESULTS with .md)")
    args = parser.parse_args()
    results, first = read(args.results), read(args.headline)
    rows = index(results)
    out = args.out or args.results.with_suffix(".md")
    out.write_text(full(results, rows), "utf-8")
    print(f"wrote {out.name}", file=sys.stderr)
    outcomes, real = judge(results["rows"]), judge(results["rows"], REAL_GOALS)
    goals = f"{goal_tables.short(outcomes, real)}\n\n{provenance(results)}"
    for document, name, block in (
        (args.readme, "bench", headline(first, index(first), rows)),
        (args.page, "encode", f"{first_table(results, rows)}\n\n{provenance(results)}"),
        (args.page, "calls", short_table(results, rows)),
        (args.page, "losses", losses_text(rows)),
        (args.log, "goals", goals),
    ):
        write_block(document, name, block)
    args.chart.write_text(speed_chart(first, index(first)), "utf-8")


def read(path: Path) -> Row:
    if not path.exists():
        sys.exit(f"file not found: {path.name}; run bench/sweep.py first")
    results: Row = json.loads(path.read_text("utf-8"))
    return results


def index(results: Row) -> Rows:
    rows: Rows = {}
    for row in results["rows"]:
        key = (row["vocabulary"], row["job"], row["corpus"], row["threads"])
        rows.setdefault(key, {})[row["system"]] = row
    return rows


def headline(results: Row, rows: Rows, all_rows: Rows) -> str:
    lines = [encoding_line(results, rows)]
    for name, line in (("training", training_line), ("corpus", corpus_line)):
        path = HERE / "results" / f"{name}.json"
        lines += [line(json.loads(path.read_text("utf-8")))] if path.exists() else []
    memory = {key: peers for key, peers in all_rows.items() if key[1] == "memory"}
    worst = {loss.metric: loss for loss in losses(memory) + losses(rows) if loss.metric}
    if worst:
        shown = "; ".join(worst[metric].short() for metric in LOSS_PHRASES if metric in worst)
        lines.append(f"- **Slower or larger**: {shown}. [All of them]({LOSSES_PAGE}).")
    return "\n".join(lines)


def encoding_line(results: Row, rows: Rows) -> str:
    """Return the warm speeds of new text in the first corpus."""
    vocabulary = results["settings"]["vocabularies"][0]
    name, key = corpus_columns(results, rows, vocabulary)[0]
    speeds = {
        system: row["metrics"]["unseen_mb_s"]["median"]
        for system, row in rows[key].items()
        if system != BASELINE and row["status"] == "ok"
    }
    versions = (f"{system} {version}" for system, version in results["versions"].items()
                if system in speeds and system != OURS)  # fmt: skip
    most = rows[key][OURS]["bytes"] / 1e6
    less = [f"{system} {row['bytes'] / 1e6:.0f} MB" for system, row in rows[key].items()
            if row["status"] == "ok" and has_less_text(rows[key], row)]  # fmt: skip
    return (
        f"- **Encode** {TEXTS.get(name, name)} text with `{vocabulary}` on one core, warm, new "
        f"text: {ranking(speeds, 'MB/s')} ({machine_text(results)}, "
        f"{results['machine']['cores']} cores; {'; '.join([f'{most:.0f} MB', *less])}; "
        f"{', '.join(versions)}; medians of {results['settings']['rounds']} rounds; "
        f"`{results['command']}`)."
    )


def training_line(results: Row) -> str:
    """Return the times of the trainers on 100 MB."""
    rows = [r for r in results["rows"] if r["text"] == "100MB" and r["status"] == "ok"]
    seconds = {r["system"]: statistics.median(r["seconds"]) for r in rows}
    shown = {name: seconds[name] for name in README_TRAINERS if name in seconds}
    ours = next(r for r in rows if r["system"] == OURS)
    return (
        f"- **Train** {ours['vocab_size']:,} tokens on 100 MB with two threads: "
        f"{ranking(shown, 's')} ({results['machine']['cpu']}, {results['machine']['cores']} cores, "
        f"Python {results['python']}; tokenmill: median of {len(ours['seconds'])} runs, others: "
        f"one run; `{results['command']}`)."
    )


def corpus_line(results: Row) -> str:
    """Return the speeds of programs that convert JSON lines to ids on the disk."""
    megabytes = results["bytes"] / 1e6
    names = [name for name in results["systems"] if name not in OUR_CORPUS_RUNS]
    speeds = {OURS: megabytes / results["systems"]["jsonl"]["seconds"]}
    speeds |= {name: megabytes / results["systems"][name]["seconds"] for name in names}
    once = [name for name in names if len(results["systems"][name]["runs"]) == 1]
    runs = f"medians of {len(results['systems']['jsonl']['runs'])} runs"
    runs += f", {' and '.join(once).replace(', ', ' with ')} one run" if once else ""
    return (
        f"- **Tokenize** {megabytes:,.0f} MB of text in JSON lines to shards with "
        f"{results['workers']} threads: {ranking(speeds, 'MB/s')} ({results['machine']['cpu']}, "
        f"{results['machine']['cores']} cores; {runs}; `make bench-corpus`)."
    )


def ranking(figures: dict[str, float], unit: str) -> str:
    """Return our figure with its unit, and those of the peers."""
    ours = f"**{number(figures[OURS])} {unit}**" if OURS in figures else "not measured"
    peers = (f"{name.replace(', ', ' with ')} {number(value)}" for name, value in figures.items()
             if name != OURS)  # fmt: skip
    return f"{ours}; {', '.join(peers)}"


def speed_chart(results: Row, rows: Rows) -> str:
    """Draw the warm speeds of new text, one group per text."""
    vocabulary = results["settings"]["vocabularies"][0]
    speeds = {
        TEXTS.get(name, name): {
            system: peers["metrics"]["unseen_mb_s"]["median"]
            for system, peers in rows[key].items()
            if system != BASELINE and peers["status"] == "ok"
        }
        for name, key in corpus_columns(results, rows, vocabulary)
    }
    title = "Encoding speed on one CPU core, MB/s"
    return chart.draw(title, f"{vocabulary}, {machine_text(results)}", speeds, OURS)


def machine_text(results: Row) -> str:
    machine = results["machine"]
    return f"{machine['cpu']}, {machine['system']}, Python {results['python']}"


def first_table(results: Row, rows: Rows) -> str:
    """Text to array with the first vocabulary."""
    first = results["settings"]["vocabularies"][0]
    columns = [x for x in corpus_columns(results, rows, first) if x[0] in CORPORA]
    caption = (
        f"MB/s with `{first}`, one thread, text to array: cold (the first pass of a new process) / "
        "warm, new text / warm, same text."
    )
    return f"{caption}\n\n{speed_table(results, rows, columns, ARRAY_METRICS)}"


def short_table(results: Row, rows: Rows) -> str:
    """Short calls, load time and memory with the first vocabulary."""
    first = results["settings"]["vocabularies"][0]
    memory = f"peak memory, {memory_text(results, rows)} of text, MB"
    labels = {"latency": "one call, ns", "load": "load and first ids, ms", "memory": memory}
    keys = {key[1]: key for key in rows if key[0] == first}
    columns = [(label, keys[job]) for job, label in labels.items() if job in keys]
    caption = (
        f"`{first}`, one thread. One call: `str` to list, 20 / 200 characters; "
        "`str` to array, 20 / 200 characters. Load: gigatoken, fastokens and tiktoken read a rank "
        "file, tokenizers a `tokenizer.json`. tokenmill reads its embedded vocabulary. quicktok, "
        "toktok and splintr get its name."
    )
    return f"{caption}\n\n{speed_table(results, rows, columns, SHORT_METRICS)}"


def full(results: Row, rows: Rows) -> str:
    parts = ["# Encoding", provenance(results), *goals_section(results)]
    parts += ["## Cells in which a peer is ahead", losses_text(rows)]
    for title, caption, columns, metrics in sections(results, rows):
        if columns:
            shown = speed_table(results, rows, columns, metrics)
            parts += [f"## {title}", caption[0].upper() + caption[1:] + ".", shown]
    parts += ["## Texts", texts_table(results), "## How each was called", how_table(results, rows)]
    parts += ["## Checks", checks_table(results)]
    return "\n\n".join(parts) + "\n"


def goals_section(results: Row) -> list[str]:
    rival = f"{RIVAL} {results['versions'].get(RIVAL, '(not measured)')}"
    return [
        "## Goals",
        f"A figure is tokenmill's result divided by that of {rival} in the same cell, the median "
        "over the rounds. A line with `our` divides by another result of tokenmill. Load times are "
        "milliseconds. One call returns a list and is compared with an `encode` that returns an "
        "array. [hard_inputs.py](../hard_inputs.py) measures hard inputs. A cold pass to lists "
        "includes the set-up of a system's first batch (see Load), which weighs more on a short "
        "text.",
        goal_tables.full(judge(results["rows"]), judge(results["rows"], REAL_GOALS)),
    ]


def sections(results: Row, rows: Rows) -> Iterator[Section]:
    vocabularies = results["settings"]["vocabularies"]
    passes = "cold / warm, same text"
    for v in vocabularies:
        text = f"`{v}`, one thread, MB/s: "
        three = text + "cold / warm, new text / warm, same text"
        yield (f"Text to array, {v}", three, corpus_columns(results, rows, v), ARRAY_METRICS)
        for title, job in (("Texts to lists", "batch_list"), ("Count", "count")):
            columns = corpus_columns(results, rows, v, job)
            yield (f"{title}, {v}", text + passes, columns, SPEED_METRICS)
    for v in vocabularies:
        columns = job_columns(results, rows, v)
        yield (f"Other jobs, {v}", f"`{v}`, mix, MB/s: {passes}", columns, SPEED_METRICS)
    calls = "str to list: 20 / 200 characters; str to array: 20 / 200 characters; ns"
    yield ("One call", calls, vocabulary_columns(rows, "latency"), CALL_METRICS)
    load = "in a new process after the imports: ms to load / ms to first ids / MB"
    load += " / ms of the next call, a batch of one short text"
    yield ("Load", load, vocabulary_columns(rows, "load"), LOAD_METRICS)
    peak = f"MB for {memory_text(results, rows)} of text, peak above the state before the load"
    dropped = f"documents encoded one by one, results dropped: {peak} / growth since the load"
    columns = vocabulary_columns(rows, "memory")
    yield ("Memory", dropped, columns, ("peak_mb", "grown_mb"))
    batch = f"all documents in one call, with the result: {peak}"
    yield ("Memory of a batch", batch, vocabulary_columns(rows, "memory_batch"), ("peak_mb",))


def corpus_columns(results: Row, rows: Rows, vocabulary: str, job: str = "array") -> list[Column]:
    keys = [(vocabulary, job, corpus, 1) for corpus in results["settings"]["corpora"]]
    found = [(key[2], key) for key in keys if key in rows]
    return found if job == "array" or len(found) > 1 else []


def job_columns(results: Row, rows: Rows, vocabulary: str) -> list[Column]:
    """Return the jobs of the mix that have no table by corpus."""
    corpora = results["settings"]["corpora"]
    middle = "mix" if "mix" in corpora else corpora[0]
    shown = {key for job in TABLED for _, key in corpus_columns(results, rows, vocabulary, job)}
    return [
        (key[1] if key[3] == 1 else f"{key[1]}, {key[3]} threads", key)
        for key in rows
        if key[0] == vocabulary and key[2] == middle and key[1] in TIMED_JOBS and key not in shown
    ]


def vocabulary_columns(rows: Rows, job: str) -> list[Column]:
    return [(key[0], key) for key in rows if key[1] == job]


def memory_text(results: Row, rows: Rows) -> str:
    settings = results["settings"]
    texts = results["corpora"].get(settings["memory_corpus"], {"bytes": 0})
    return f"{min(settings['memory_megabytes'], texts['bytes'] / 1e6):.0f} MB"


def speed_table(results: Row, rows: Rows, columns: list[Column], metrics: tuple[str, ...]) -> str:
    """Return one line per system; the best of several rounds is bold, * marks less text."""
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
        if any(line[1:]):
            lines.append(line)
    notes = [f"\\* {', '.join(shares)}: measured on less text to save time"] if shares else []
    notes += [f"\\- {text}" for text in reasons]
    return table(lines) + "".join(f"\n\n{note}" for note in notes)


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
        rivals = [s for s in peers if s != BASELINE and name in peers[s]["metrics"]]
        is_repeated = len(row["metrics"][name]["samples"]) > 1
        is_best = is_repeated and len(rivals) > 1 and best_peer(peers, name, rivals) is row
        shown.append(f"**{text}**" if is_best else text)
    return " / ".join(shown)


def best_peer(peers: dict[str, Row], metric: str, systems: Iterable[str]) -> Row | None:
    having = [peers[s] for s in systems if metric in peers[s]["metrics"]]
    if not having:
        return None
    value: Callable[[Row], float] = lambda r: r["metrics"][metric]["median"]  # noqa: E731
    return max(having, key=value) if metric.endswith("_mb_s") else min(having, key=value)


@dataclass(frozen=True)
class Loss:
    """A metric in which a peer is ahead by a factor; without a metric, a cell without a figure."""

    factor: float
    where: str
    metric: str = ""
    mine: float = 0.0
    theirs: float = 0.0
    peer: str = ""
    is_apart: bool = True

    def figures(self) -> str:
        mine, theirs = number(self.mine), number(self.theirs)
        return f"{mine} {unit(self.metric)}, {self.peer} {theirs}"

    def long(self) -> str:
        if not self.metric:
            return self.where
        times = loss(self.metric, self.mine, self.theirs)
        tail = "" if self.is_apart else ", within the spread"
        return f"{self.where}, {WORDS[self.metric]}: {self.figures()} ({times}){tail}"

    def short(self) -> str:
        return f"{LOSS_PHRASES[self.metric]} ({self.figures()})"


def losses(rows: Rows) -> list[Loss]:
    """Return the losses, the largest first."""
    found: list[Loss] = []
    for (vocabulary, job, corpus, threads), peers in rows.items():
        ours = peers.get(OURS)
        if ours is None:
            continue
        where = " ".join(x for x in (f"`{vocabulary}`", job, corpus) if x)
        where += f", {threads} threads" if threads > 1 else ""
        others = [s for s in peers if s not in (OURS, BASELINE)]
        if ours["status"] != "ok":
            if any(peers[s]["status"] == "ok" for s in others):
                found.append(Loss(float("inf"), f"{where}: no number, {ours['status']}"))
            continue
        for metric, mine in ours["metrics"].items():
            best = best_peer(peers, metric, others)
            if best is None:
                continue
            theirs = best["metrics"][metric]
            values = (mine["median"], theirs["median"])
            factor = worse(metric, *values)
            if factor > 1.0:
                apart = mine["max"] < theirs["min"] or theirs["max"] < mine["min"]
                found.append(Loss(factor, where, metric, *values, best["system"], apart))
    return sorted(found, key=lambda each: (each.factor, each.long()), reverse=True)


def worse(metric: str, mine: float, theirs: float) -> float:
    """Return the factor by which ours is worse; at most 1 if it is not."""
    if metric.endswith("_mb_s"):
        return theirs / mine
    if metric.endswith("_mb") and mine - theirs < MEMORY_SLACK_MB:
        return 0.0
    return mine / theirs if theirs > 0 else float("inf")


def loss(metric: str, mine: float, theirs: float) -> str:
    """Describe by how much ours is worse: memory as a difference, other figures as a factor."""
    if metric.endswith("_mb"):
        return f"{number(mine - theirs)} MB more"
    return f"{worse(metric, mine, theirs):.2f} times"


def losses_text(rows: Rows) -> str:
    if not any(OURS in peers and peers[OURS]["status"] == "ok" for peers in rows.values()):
        return "tokenmill itself was not measured in this sweep."
    compared = (s for p in rows.values() for s in p if p[s]["status"] == "ok")
    if not set(compared) - {OURS, BASELINE}:
        return "No peer was measured in this sweep."
    found = [each.long() for each in losses(rows)]
    if not found:
        return "tokenmill is first in every cell of this sweep."
    head = "tokenmill is slower or larger than the best peer here:"
    return "\n".join([head, "", *(f"- {text}" for text in found)])


def provenance(results: Row) -> str:
    machine = results["machine"]
    versions = ", ".join(f"{name} {v}" for name, v in results["versions"].items())
    rounds = results["settings"]["rounds"]
    fewer = results["settings"].get("peer_rounds", rounds)
    less = f" ({fewer} for cells without a goal)" if fewer < rounds else ""
    repeated = f"medians of {rounds} interleaved rounds{less}"
    once = "one round: every cell was measured once, so its spread is unknown"
    spread = spread_text(results["rows"]) if rounds > 1 else ""
    stopped = "" if results["complete"] else " The sweep was stopped early."
    return (
        f"{machine_text(results)}, {machine['cores']} cores, {results['date'][:10]}; "
        f"{repeated if rounds > 1 else once}. "
        "Each measurement runs in a new process, after the ids were compared with tiktoken."
        f"{spread} Versions: {versions}. `{results['command']}`.{stopped}"
    )


def spread_text(rows: list[Row]) -> str:
    """Describe the spread of the rounds: (largest - smallest) / median of each speed."""
    found = sorted(
        (m["max"] - m["min"]) / m["median"]
        for row in rows
        for name, m in row["metrics"].items()
        if name.endswith("_mb_s") and row["system"] != BASELINE
    )
    if not found:
        return ""
    middle, most = found[len(found) // 2], found[-1]
    return f" Spread of the rounds: median {middle:.0%}, largest {most:.0%}."


def texts_table(results: Row) -> str:
    lines = [["", "source", "documents", "MB"]]
    for name, text in results["corpora"].items():
        size = f"{text['bytes'] / 1e6:.1f}"
        lines.append([name, str(text["source"]), str(text["documents"]), size])
    return table(lines, "---")


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
    return table(lines, "---")


def checks_table(results: Row) -> str:
    lines = [["", "vocabulary", "ids"]]
    lines += [[c["system"], c["vocabulary"], c["verdict"]] for c in results["checks"]]
    return table(lines, "---")


def unit(metric: str) -> str:
    return next(text for part, text in UNITS.items() if part in metric)


if __name__ == "__main__":
    main()
