"""Corpora of extreme documents → peak memory and time of `tokenmill tokenize --memory 512MB`.

    corpus_memory.py                      one document of 4 GB, and 10 million of a few bytes each
    corpus_memory.py --gigabytes 1        a smaller document; also --documents and --folder

The peak is the `ru_maxrss` of the largest process. The goal is 600 MB. The run needs 10 GB on the
disk of --folder.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# isort: split
import machine
import training_corpora

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "corpus_memory.json"
MEMORY = "512MB"
PEAK_MAX = 600_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the memory of tokenize.")
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--folder")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    rows = {}
    makers: dict[str, Callable[[Path], None]] = {
        "one.txt": lambda path: one_document(path, int(args.gigabytes * 1e9)),
        "one.jsonl": lambda path: one_line(path, int(args.gigabytes * 1e9)),
        "tiny.jsonl": lambda path: tiny(path, args.documents),
    }
    for name, make in makers.items():
        folder = Path(tempfile.mkdtemp(dir=args.folder))
        try:
            make(folder / name)
            rows[name] = run(folder / name, folder / "shards")
        finally:
            shutil.rmtree(folder)
        row = rows[name]
        mark = "" if row["peak_bytes"] <= PEAK_MAX else "  ABOVE THE GOAL"
        print(
            f"{name:12} {row['bytes'] / 1e9:.2f} GB, {row['documents']:,} documents: "
            f"{row['peak_bytes'] / 1e6:.0f} MB, {row['seconds']:.1f} s{mark}",
            flush=True,
        )
    result = {"memory": MEMORY, "machine": machine.describe(), "runs": rows}
    args.out.write_text(json.dumps(result, indent=1) + "\n")


def one_document(path: Path, size: int) -> None:
    data = _text()
    with path.open("wb") as file:
        while file.tell() < size:
            file.write(data)


def one_line(path: Path, size: int) -> None:
    spelled = json.dumps(_text().decode("utf-8", "replace")).encode()[1:-1]
    with path.open("wb") as file:
        file.write(b'{"id": 1, "text": "')
        while file.tell() < size:
            file.write(spelled)
        file.write(b'"}\n')


def _text() -> bytes:
    training_corpora.prepare("10MB")
    data = training_corpora.path("10MB").read_bytes()
    return data.replace(training_corpora.END.encode(), b"\n\n")


def tiny(path: Path, count: int) -> None:
    with path.open("w") as file:
        for start in range(0, count, 10_000):
            numbers = range(start, min(count, start + 10_000))
            file.write("".join(f'{{"text": "{number} mills"}}\n' for number in numbers))


def run(given: Path, output: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tokenmill", "tokenize", str(given), "--tokenizer", "gpt2"]
    command += ["--output", str(output), "--memory", MEMORY, "--progress", "none", "--json"]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    summary = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    if status:
        sys.exit(f"tokenize ended with {os.waitstatus_to_exitcode(status)}: {summary}")
    totals = json.loads(summary)
    return {
        "seconds": seconds,
        "peak_bytes": usage.ru_maxrss * 1024,
        "documents": totals["documents"],
        "tokens": totals["tokens"],
        "bytes": totals["bytes"],
    }


if __name__ == "__main__":
    main()
