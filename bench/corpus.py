"""A corpus → shards, by tokenmill and by others → bench/results/corpus.json and a table.

    corpus.py                     tokenmill on 1 GB: about 5 minutes on two cores
    corpus.py --text 100MB        tokenmill on less text
    corpus.py --render            only renders the measured results

Every measurement is a new process. Processes run one at a time, interleaved in rounds, and are
timed from the plan to the last byte on the disk. tokenmill reads `--text`. The others are slower
and read 10 MB, which tokenmill also converts once, untimed. The numbers of documents and ids are
compared on both texts and in every round before a speed is shown. The ids are not compared.
`encoder` is tokenmill's encoder alone on documents in memory, without loading, reading or writing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# isort: split
import machine
import training_corpora
import vocabularies
from corpus_systems import SYSTEMS
from markdown import number, table, write_block

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "corpus.json"
PAGE = HERE.parent / "docs" / "performance.md"
VOCABULARY = "cl100k_base"
SECONDS_MAX = 1800
OURS = ("encoder", "text", "jsonl", "jsonl.zst")
SMALL = "10MB"
# (ours, theirs, factor): the rate of ours is at least `factor` times that of theirs.
GOALS = (
    ("text", "encoder", 0.8),
    ("jsonl", "encoder", 0.6),
    ("jsonl.zst", "encoder", 0.5),
    ("jsonl", "datatrove, tokenizers", 10.0),
    ("jsonl", "megatron, tokenizers", 10.0),
    ("jsonl", "megatron, gigatoken", 3.0),
)


def main() -> None:
    args = arguments()
    if args.render:
        write_block(PAGE, "corpus", block(json.loads(args.out.read_text())))
        return
    if args.one:
        print(json.dumps(SYSTEMS[args.one](Path(args.input), Path(args.folder), args.threads)))
        return
    names = args.systems.split(";") if args.systems else list(SYSTEMS)
    inputs = prepare(args.text)
    small = prepare(SMALL)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(args.rounds):
        for name in names:
            source = (inputs if name in OURS else small)[SYSTEMS[name].suffix]
            rows[name].append(measure(name, source, args))
            print(f"{name} has run", flush=True)
    # The encoder always runs, since the others are compared with it.
    again = [name for name in OURS if name in names or name == "encoder"]
    check(rows, {name: measure(name, small[SYSTEMS[name].suffix], args) for name in again})
    result = summary(rows, args)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    show(result)
    write_block(PAGE, "corpus", block(result))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures the conversion of a corpus to shards.")
    parser.add_argument("--text", default="1GB", choices=list(training_corpora.SIZES))
    parser.add_argument("--systems", help=f"systems, separated by semicolons: {'; '.join(SYSTEMS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="folder for the shards (default: a temporary one)")
    parser.add_argument("--threads", type=int, default=machine.core_count())
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--render", action="store_true", help="render the measured results")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--input", help=argparse.SUPPRESS)
    return parser.parse_args()


def prepare(name: str) -> dict[str, Path]:
    """Write the documents as text, as JSON lines and as compressed JSON lines."""
    training_corpora.prepare(name)
    vocabularies.prepare(VOCABULARY)
    text = training_corpora.path(name)
    jsonl = text.with_suffix(".jsonl")
    packed = text.with_suffix(".jsonl.zst")
    if not packed.exists():
        import zstandard

        with jsonl.open("w", encoding="utf-8") as file:
            for number, document in enumerate(documents(text)):
                file.write(json.dumps({"id": number, "text": document}) + "\n")
        with jsonl.open("rb") as source, packed.open("wb") as target:
            zstandard.ZstdCompressor().copy_stream(source, target)
    return {"txt": text, "jsonl": jsonl, "jsonl.zst": packed}


def documents(path: Path) -> list[str]:
    return path.read_bytes().decode("utf-8", "replace").split(training_corpora.END)


def measure(name: str, source: Path, args: argparse.Namespace) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(dir=args.folder))
    try:
        command = [sys.executable, __file__, "--one", name, "--input", str(source)]
        command += ["--folder", str(folder / "out"), "--threads", str(args.threads)]
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
        seconds = time.perf_counter() - started
        if done.returncode:
            sys.exit(f"{name}: {done.stderr[-2000:]}")
        row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    row.setdefault("seconds", seconds)
    row["mb_per_second"] = row["bytes"] / row["seconds"] / 1e6
    return row


def check(rows: dict[str, list[dict[str, Any]]], small: dict[str, dict[str, Any]]) -> None:
    """Exit if systems gave different numbers of ids and documents on the same text.

    `small` has the runs of tokenmill on the text of the others.
    """
    ours = {name: found for name, found in rows.items() if name in OURS}
    others = {name: found for name, found in rows.items() if name not in OURS}
    for measured in (ours, others | {name: [row] for name, row in small.items()}):
        counts = {
            name: sorted({(row["tokens"], row["documents"]) for row in found})
            for name, found in measured.items()
        }
        if len({count for found in counts.values() for count in found}) > 1:
            sys.exit(f"the systems gave different numbers of ids and documents: {counts}")


def summary(rows: dict[str, list[dict[str, Any]]], args: argparse.Namespace) -> dict[str, Any]:
    """Return the medians and the goals."""
    systems = {}
    for name, measured in rows.items():
        rates = [row["mb_per_second"] for row in measured]
        systems[name] = {
            "mb_per_second": statistics.median(rates),
            "rates": rates,
            "tokens": measured[0]["tokens"],
            "documents": measured[0]["documents"],
            "bytes": measured[0]["bytes"],
        }
    goals = []
    for ours, theirs, factor in GOALS:
        if ours in systems and theirs in systems:
            ratio = systems[ours]["mb_per_second"] / systems[theirs]["mb_per_second"]
            goals.append({"ours": ours, "theirs": theirs, "goal": factor, "ratio": ratio})
    return {
        "text": args.text,
        "vocabulary": VOCABULARY,
        "rounds": args.rounds,
        "workers": args.threads,
        "machine": machine.describe(),
        "systems": systems,
        "goals": goals,
    }


def block(result: dict[str, Any]) -> str:
    lines = [["", "text", "MB/s", "rounds"]]
    for name, system in result["systems"].items():
        rounds = " / ".join(map(number, system["rates"]))
        size = f"{system['bytes'] / 1e6:,.0f} MB"
        lines.append([name, size, number(system["mb_per_second"]), rounds])
    at = result["machine"]
    return (
        f"{table(lines)}\n\n`{result['vocabulary']}`, {result['workers']} threads, medians of "
        f"{result['rounds']} rounds; {at['cpu']}, {at['cores']} cores, {at['system']}. "
        "`python bench/corpus.py`."
    )


def show(result: dict[str, Any]) -> None:
    for name, system in result["systems"].items():
        print(f"{name:24} {system['mb_per_second']:8.1f} MB/s")
    for goal in result["goals"]:
        mark = "met" if goal["ratio"] >= goal["goal"] else "NOT MET"
        ratio = f"{goal['ratio']:.2f} x {goal['theirs']}"
        print(f"{goal['ours']:10} {ratio:36} goal {goal['goal']:4} {mark}")


if __name__ == "__main__":
    main()
