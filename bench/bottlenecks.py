"""The bottlenecks of training → results/bottlenecks.json, and docs/bottlenecks.md.

    bottlenecks.py [--runs 3]      measures and renders: 25 minutes and 6 GB of disk
    bottlenecks.py --only counts   some cases: counts, text, pairs
    bottlenecks.py --render        renders the measured results

The case is the one of the source: 10 million unique pretokens that occur a billion times, and
50,000 tokens. Training reads a file of counts, or a text of 5.6 GB. It runs with and without a
memory limit, and with one thread. The merges must be the same. `pairs` compares the pairs that
appear in a text of 10 MB with those that are frequent enough to be merged.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

# isort: split
import corpora
import machine
import training_memory
from markdown import table, write_block
from memory import resident_bytes
from processes import run

sys.path.insert(0, str(machine.ROOT))

from ladder.runner import duration, measure_rounds, megabytes, spread
from ladder.training.patterns import pattern_for
from ladder.training.step11_arrays import Trainer
from tokenmill.patterns.schemes import pattern_of

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "bottlenecks.json"
LADDER = HERE / "results" / "ladder.json"
PAGE = HERE.parent / "docs" / "bottlenecks.md"
UNIQUE, OCCURRENCES, VOCAB_SIZE = 10_000_000, 1_000_000_000, 50_000
LIMIT = "512MB"
CASES = {  # source and name: memory limit, threads
    "counts": {"all": ("", None), "limit": (LIMIT, None), "one thread": ("", 1)},
    "text": {"all": ("", None), "limit": (LIMIT, None)},
}
NAMES = (
    "all pretokens in memory",
    "a scan per merge",
    "many pairs",
    "a new dictionary per merge",
    "many updates per occurrence",
    "outdated entries in the heap",
    "the file in memory",
    "one thread",
)
SECONDS_MAX = 3600
NAIVE_PRETOKENS = 1_000_000
PAIRS_MB, PAIRS_VOCAB_SIZE = 10, 8_000

Result = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3, help="runs of each case (default: 3)")
    parser.add_argument("--only", choices=[*CASES, "pairs"], help="one of the cases")
    parser.add_argument("--render", action="store_true", help="render the measured results")
    options = parser.parse_args()
    if not options.render:
        measure(options)
    render(json.loads(RESULTS.read_text()), json.loads(LADDER.read_text()))


# ── measurement ──────────────────────────────────────────────────────────────────────────────


def measure(options: argparse.Namespace) -> None:
    results: Result = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results |= {"machine": machine.describe(), "date": time.strftime("%Y-%m-%d")}
    for source in CASES:
        if options.only in (None, source):
            results[source] = measure_case(source, options.runs)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    if options.only in (None, "pairs"):
        results["naive_bytes"] = naive_bytes()  # first, because freed memory would be used again
        results["pairs"] = pairs_of_a_text()
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def measure_case(source: str, runs: int) -> Result:
    """Train in new processes, in interleaved runs. Exit if a run learns other merges."""
    text = OCCURRENCES if source == "text" else 0
    path = training_memory.prepare(argparse.Namespace(unique=UNIQUE, total=OCCURRENCES, text=text))
    found: Result = {"bytes": path.stat().st_size, "runs": {name: [] for name in CASES[source]}}

    def run_once(name: str) -> Result:
        memory, threads = CASES[source][name]
        row = run("training_memory.py", arguments(path, memory, threads), SECONDS_MAX)
        print(source, name, row, file=sys.stderr, flush=True)
        return row

    measure_rounds(found["runs"], run_once, runs)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.jsonl"
        row = run("training_memory.py", [*arguments(path), "--trace", str(trace)], SECONDS_MAX)
        found["check"] = json.loads(trace.open().readline())["exactness_check"]
    digests = {each.get("digest") for rows in found["runs"].values() for each in [*rows, row]}
    if len(digests) != 1 or None in digests:
        sys.exit(f"runs from {source} failed, or learned different merges")
    return found


def arguments(path: Path, memory: str = "", threads: int | None = None) -> list[str]:
    words = ["--one", str(path), "--vocab-size", str(VOCAB_SIZE), "--memory", memory]
    return words if threads is None else [*words, "--threads", str(threads)]


class CountingTrainer(Trainer):
    """The trainer of step 11. It records each pair with its first count, which is its highest."""

    def __init__(self, found: Counter[str]) -> None:
        super().__init__(found)
        self.first_counts = dict(self.counts)

    def maintain(self, key: int) -> None:
        self.first_counts.setdefault(key, self.counts.get(key, 0))
        super().maintain(key)


def pairs_of_a_text() -> Result:
    """Return the number of pairs that appear, and of those that ever reach the last count."""
    corpora.prepare("en-real")
    text = corpora.SEPARATOR.join(corpora.first("en-real", PAIRS_MB))
    pattern = pattern_for(pattern_of("gpt2"), text)
    trainer = CountingTrainer(Counter(match.group() for match in pattern.compiled.finditer(text)))
    last = 0
    for new in range(256, PAIRS_VOCAB_SIZE):
        key = trainer.most_frequent()
        last = trainer.counts[key]
        trainer.merge(key, new)
    frequent = sum(count >= last for count in trainer.first_counts.values())
    return {"pairs": len(trainer.first_counts), "last_count": last, "frequent": frequent}


def naive_bytes() -> float:
    """Return the memory per unique pretoken of a dictionary with tuples of bytes as keys."""
    import training_corpora

    words, lengths, counts = training_corpora.pretoken_counts(NAIVE_PRETOKENS, OCCURRENCES)
    before = resident_bytes()
    kept, start = {}, 0
    for length, count in zip(lengths.tolist(), counts.tolist(), strict=True):
        word = words[start : start + length]
        kept[tuple(word[at : at + 1] for at in range(length))] = count
        start += length
    return (resident_bytes() - before) / len(kept)


# ── the page ─────────────────────────────────────────────────────────────────────────────────


def render(results: Result, ladder: Result) -> None:
    write_block(PAGE, "case", case_table(results))
    write_block(PAGE, "effects", effects_table(results, ladder))
    write_block(PAGE, "bottlenecks-machine", machine_line(results))


def case_table(results: Result) -> str:
    lines = [["input", "memory limit", "threads", "time", "CPU time", "peak memory"]]
    for source, cases in CASES.items():
        size = f"{source}, {megabytes(results[source]['bytes'] / 1e6)}"
        for name, (memory, threads) in cases.items():
            rows = results[source]["runs"][name]
            times = [row["seconds"] for row in rows]
            lines.append([
                size,
                memory or "none",
                str(threads or results["machine"]["cores"]),
                spread(statistics.median(times), min(times), max(times)),
                duration(middle(rows, "cpu_seconds")),
                f"{middle(rows, 'peak_mb'):,.0f} MB",
            ])  # fmt: skip
    return table(lines)


def middle(rows: list[Result], name: str) -> float:
    return statistics.median(row[name] for row in rows)


def effects_table(results: Result, ladder: Result) -> str:
    """Return the measured effect of each idea."""

    def change(before: int, after: int, size: str = "large") -> str:
        steps = {row["step"]: row["cpu_seconds"] for row in ladder[size]["steps"]}
        gain = f"{steps[before] / steps[after]:.1f} ×"
        times = f"{duration(steps[before])} → {duration(steps[after])}"
        return f"step {before} → {after}: {times} ({gain})"

    counts, text, pairs = results["counts"], results["text"], results["pairs"]
    free, limited, alone = (counts["runs"][name] for name in CASES["counts"])
    check, merges = counts["check"], VOCAB_SIZE - 256
    gigabytes = [
        f"{value / 1e3:.2f} GB"
        for rows in (free, limited, text["runs"]["all"], text["runs"]["limit"])
        for value in [middle(rows, "peak_mb")]
    ]
    seconds = [middle(rows, "seconds") for rows in (free, limited, alone)]
    rows = [
        f"{results['naive_bytes'] * UNIQUE / 1e9:.2f} GB for the keys and counts in Python; "
        f"{gigabytes[0]} for all of training in the core, {gigabytes[1]} with a limit of {LIMIT} "
        f"({seconds[1] / seconds[0]:.1f} × the time)",
        f"{UNIQUE * merges / 1e9:,.0f} billion visits of pretokens become "
        f"{check['visits'] / 1e6:,.0f} million; {change(5, 6)}",
        f"in {PAIRS_MB} MB of English with {PAIRS_VOCAB_SIZE:,} tokens, {pairs['pairs']:,} pairs "
        f"appear, and {pairs['frequent']:,} of them reach the last count",
        "not measured alone; with counts that are updated instead of counted again, "
        f"{change(4, 5, 'small')}",
        f"{merges:,} merges in {check['batches']:,} batches; with arrays, {change(13, 14)}; "
        f"sums per word alone, {change(11, 12)}, without a clear gain at other sizes",
        f"not measured alone; a heap instead of a search of all pairs, {change(9, 10)}",
        f"{text['bytes'] / 1e9:.1f} GB of text with {gigabytes[2]} of memory, {gigabytes[3]} with "
        "a limit",
        f"{seconds[2]:.1f} s with one thread, {seconds[0]:.1f} s with "
        f"{results['machine']['cores']} ({seconds[2] / seconds[0]:.1f} ×)",
    ]
    names = [f"{n} {name}" for n, name in enumerate(NAMES, 1)]
    lines = [["bottleneck", "measured effect"], *map(list, zip(names, rows, strict=True))]
    return table(lines, rule="---")


def machine_line(results: Result) -> str:
    where = results["machine"]
    runs = len(results["counts"]["runs"]["all"])
    return (
        f"{where['cpu']}, {where['cores']} CPU cores, {where['system']}, {results['date']}. "
        f"Medians of {runs} runs, in brackets the fastest and the slowest. All runs of an input "
        "learned the same merges. `python bench/bottlenecks.py`; the steps are those of "
        "`make ladder`."
    )


if __name__ == "__main__":
    main()
