"""Trainers and texts → bench/results/training.json, with the goals for training.

    training.py                   10 MB, 100 MB, 1 GB: about 15 minutes on two cores
    training.py --texts 10MB      only one text; also --trainers, --rounds and --size
    training.py --slow            also trainers that take many minutes for 1 GB

Each measurement is a new process, and processes run one at a time. A round goes through all
trainers. Trainers with the same tie-breaking rule must learn the same merges, else they get no
speed. A figure that is not measured again is kept with its date, if text and version are unchanged.

Invariant: the file is complete JSON after each measurement; Ctrl-C keeps its results.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
from pathlib import Path
from typing import Any

# isort: split
import corpora
import machine
import training_corpora
import training_goals
from processes import run
from sweep import bare
from trainers import PATTERN, TRAINERS
from training_corpora import SIZES, WHOLE

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "training.json"
MEMORY_RESULTS = HERE / "results" / "training_memory.json"

VOCAB_SIZES = {"10MB": 8_000, "100MB": 32_000, "1GB": 50_000}
SCRIPT_SIZE = 32_000  # the vocabulary size for one language
OURS = ("tokenmill, file", "tokenmill")
# The trainers of 1 GB without --slow. The others take from three minutes to hours.
QUICK_ON_1GB = (*OURS, "gigatoken")
SECONDS_MAX = {"10MB": 120, "100MB": 600, "1GB": 900}
SECONDS_MAX_SLOW = 3 * 3600
# For each rule, the trainers whose merges are the reference; the first measured one is used.
REFERENCES = {"tokenizers": ("tokenizers", "gigatoken"), "rustbpe": ("rustbpe", "ffbpe")}

Row = dict[str, Any]


def main() -> None:
    args = arguments()
    sweep = Sweep(args)
    try:
        sweep.run()
    except KeyboardInterrupt:
        sys.exit(f"\nstopped; results are in {sweep.path.name}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measures every trainer, interleaved.")
    parser.add_argument("--texts", help=f"texts, separated by commas: {', '.join(SIZES)}, scripts")
    parser.add_argument(
        "--trainers", help=f"trainers, separated by semicolons: {'; '.join(TRAINERS)}"
    )
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds of tokenmill; peers get one (default: 3)"
    )
    parser.add_argument("--size", type=int, help="vocabulary size for all texts")
    parser.add_argument("--slow", action="store_true", help="measure every trainer on 1 GB")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


class Sweep:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.path: Path = args.out
        self.cores = machine.core_count()
        self.texts: Row = {}
        self.rows: dict[tuple[str, str, int], Row] = {}
        self.complete = False

    def run(self) -> None:
        known = [*SIZES, "scripts"]
        names = known if self.args.texts is None else self.args.texts.split(",")
        if unknown := [name for name in names if name not in known]:
            sys.exit(f"unknown: {', '.join(unknown)}; expected some of {', '.join(known)}")
        for name in names:
            if name != "scripts":
                say(f"preparing {name}")
                self.texts[name] = training_corpora.prepare(name)
        if "scripts" in names:
            self.prepare_scripts()
        self.keep()
        for round in range(self.args.rounds):
            for trainer, text, threads in self.turns(names, round):
                self.measure(trainer, text, threads)
                self.write()
        self.complete = True
        self.write()

    def prepare_scripts(self) -> None:
        """Prepare texts in one language, for the time per unique pretoken."""
        for name in ("en", *training_goals.SCRIPTS):
            info = corpora.prepare(name)
            if info["documents"]:
                self.texts[name] = info | {"unique": training_corpora.unique(name, PATTERN)}

    def turns(self, names: list[str], round: int) -> list[tuple[str, str, int]]:
        wanted = self.args.trainers.split(";") if self.args.trainers else list(TRAINERS)
        found = [
            (trainer, text, self.cores)
            for text in SIZES
            if text in names
            for trainer in wanted
            if (round == 0 or trainer in OURS) and self.is_planned(trainer, text)
        ]
        if OURS[1] in wanted and "scripts" in names:
            found += [
                (OURS[1], text, 2) for text in ("en", *training_goals.SCRIPTS) if text in self.texts
            ]
            found += [(OURS[1], f"zh{WHOLE}", n) for n in (1, 2) if "zh" in self.texts]
        return found

    def is_planned(self, trainer: str, text: str) -> bool:
        return text != "1GB" or self.args.slow or trainer in QUICK_ON_1GB

    def keep(self) -> None:
        """Keep the earlier results on the same texts."""
        if not self.path.exists():
            return
        before = json.loads(self.path.read_text("utf-8"))
        for row in before["rows"]:
            text = before["texts"].get(row["text"], {})
            now = self.texts.get(row["text"], text)
            if text.get("digest") == now.get("digest") and row["status"] == "ok":
                self.rows[row["system"], row["text"], row["threads"]] = row | {"kept": True}
                self.texts.setdefault(row["text"], text)

    def measure(self, trainer: str, text: str, threads: int) -> None:
        size = self.args.size or VOCAB_SIZES.get(text, SCRIPT_SIZE)
        tokens = training_corpora.FOLDER / f"{trainer}-{text}-{size}.tokens"
        slow = self.args.slow and text == "1GB"
        limit = SECONDS_MAX_SLOW if slow else SECONDS_MAX.get(text, 300)
        words = [trainer, text, str(size), str(threads), str(tokens)]
        result = run("measure_training.py", words, limit)
        key = (trainer, text, threads)
        row = self.rows.get(key, {})
        if row.get("kept") or not row:
            row = {"system": trainer, "text": text, "threads": threads, "vocab_size": size}
            row |= {"status": "ok", "seconds": [], "peak_mb": [], "date": today()}
        if result["status"] == "ok":
            for metric in ("seconds", "peak_mb"):
                row[metric] = [*row[metric], result.pop(metric)]
        self.rows[key] = row | result
        self.compare(self.rows[key])
        shown = [self.rows[key][m][-1:] for m in ("seconds", "peak_mb")]
        say(f"{trainer}, {text}, {size} tokens: {self.rows[key]['status']}, {shown} s, MB")

    def compare(self, row: Row) -> None:
        """Remove the speed of a trainer that differs from the reference of its rule."""
        rule = TRAINERS[row["system"]].ties
        if row["status"] != "ok" or rule is None:
            return
        same = [
            other
            for other in self.rows.values()
            if (other["text"], other["vocab_size"]) == (row["text"], row["vocab_size"])
            and other["status"] == "ok"
        ]
        by_name = {other["system"]: other for other in same}
        reference = next((by_name[n] for n in REFERENCES[rule] if n in by_name), None)
        if reference is None:
            return
        if reference["system"] == row["system"]:  # earlier trainers are compared now
            for other in same:
                if TRAINERS[other["system"]].ties == rule and other is not row:
                    self.compare(other)
        elif row["digest"] != reference["digest"]:
            row["status"] = f"merges differ from {reference['system']}"

    def write(self) -> None:
        order = list(TRAINERS)
        rows = sorted(
            self.rows.values(), key=lambda r: (order.index(r["system"]), r["threads"], r["text"])
        )
        texts = dict(self.texts)
        if MEMORY_RESULTS.exists():
            texts["zipf"] = json.loads(MEMORY_RESULTS.read_text("utf-8"))
        whole = {
            "date": today(),
            "command": " ".join(["python bench/training.py", *map(bare, sys.argv[1:])]),
            "machine": machine.describe(),
            "python": platform.python_version(),
            "complete": self.complete,
            "texts": texts,
            "goals": training_goals.judge(rows, texts),
            "rows": rows,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_suffix(".part")
        partial.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", "utf-8")
        partial.replace(self.path)


def today() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
