"""10 million unique pretokens → whether training respects a memory limit, and the cost of it.

    training_memory.py [--unique 10000000] [--total 1000000000] [--memory 512MB] [--text TOKENS]

The counts are those of training_corpora.pretoken_counts, with a billion occurrences. They do not
fit in 512 MB together with the index of their pairs. Training reads a file of counts, or with
--text a text with that many occurrences. It runs without a limit and with a limit, each in a new
process. The merges must be the same, the peak of the process at most 600 MB, and the time at most
four times as long.

    results/training_memory.json      {"limited": {…}, "unlimited": {…}, "same": true, …}
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

# isort: split
import machine
from memory import peak_bytes, reset_peak
from processes import run

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "training_memory.json"
SECONDS_MAX = 3600

Result = dict[str, Any]


def main() -> None:
    args = arguments()
    if args.one:
        print(json.dumps(measure(args)), flush=True)
        return
    path = prepare(args)
    outcome: Result = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "unique": args.unique,
        "occurrences": args.text or args.total,
        "from": "text" if args.text else "counts",
        "vocab_size": args.vocab_size,
        "memory": args.memory,
    }
    for name, memory in (("unlimited", ""), ("limited", args.memory)):
        words = ["--one", str(path), "--vocab-size", str(args.vocab_size), "--memory", memory]
        outcome[name] = run("training_memory.py", words, SECONDS_MAX)
        print(f"{name}: {outcome[name]}", file=sys.stderr, flush=True)
    same = {outcome[name].get("digest", name) for name in ("limited", "unlimited")}
    outcome["same"] = len(same) == 1
    if not outcome["same"]:  # a wrong result has no figures
        del outcome["limited"]
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(outcome, indent=1) + "\n", "utf-8")
    sys.exit(0 if outcome["same"] else "the limit changed the merges, or a run failed")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains with and without a memory limit.")
    parser.add_argument("--unique", type=int, default=10_000_000)
    parser.add_argument("--total", type=int, default=1_000_000_000)
    parser.add_argument(
        "--text",
        type=int,
        default=0,
        help="occurrences in a text; 0 trains from counts (default: 0)",
    )
    parser.add_argument("--vocab-size", type=int, default=50_000)
    parser.add_argument("--memory", default="512MB")
    parser.add_argument("--threads", type=int, help="number of threads (default: all CPU cores)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--trace", type=Path, help="file for the merges of a single training")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def prepare(args: argparse.Namespace) -> Path:
    """Return the file of counts or the text, written once."""
    import training_corpora

    folder = training_corpora.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    kind = f"{args.text}.txt" if args.text else f"{args.total}.tmc"
    path: Path = folder / f"zipf-{args.unique}-{kind}"
    if path.exists():
        return path
    partial = path.with_suffix(f".part{path.suffix}")
    if args.text:
        with partial.open("wb") as out:
            out.writelines(training_corpora.zipf_text(args.unique, args.text))
    else:
        from tokenmill import _native
        from tokenmill.patterns.schemes import pattern_of
        from tokenmill.training.counting import metadata

        words, lengths, counts = training_corpora.pretoken_counts(args.unique, args.total)
        inventory = _native.Inventory(words, lengths, counts)
        inventory.write(str(partial), metadata(pattern_of("gpt2"), ()))
    partial.replace(path)
    return path


def measure(args: argparse.Namespace) -> Result:
    """Train once in this process; the peak includes the interpreter."""
    import tokenmill

    reset_peak()
    started, cpu_started = time.perf_counter(), time.process_time()
    tokenizer = tokenmill.train(
        args.one,
        vocab_size=args.vocab_size,
        pattern="gpt2",
        memory=args.memory or None,
        threads=args.threads,
        trace=args.trace,
    )
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    peak = peak_bytes()
    tokens = b"\n".join(tokenizer.id_to_token(id) for id in range(tokenizer.vocab_size))
    return {
        "status": "ok",
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "peak_mb": round(peak / 1e6, 1),
        "tokens": tokenizer.vocab_size,
        "digest": hashlib.blake2b(tokens, digest_size=8).hexdigest(),
    }


if __name__ == "__main__":
    main()
