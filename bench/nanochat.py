"""nanochat's tokenizer: rustbpe and tiktoken, and the drop-ins → results/nanochat.json, and a page.

    nanochat.py [--runs 3] [--megabytes 20] [--vocab-size 65536]     measures and renders: 2 minutes
    nanochat.py --render                                             renders the measured results

Each run is a fresh process. It trains on English documents with nanochat's pattern, then encodes
every document by itself, and all of them as one batch. The ranks and the ids are compared.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ladder.runner import duration, megabytes, number, run_fresh

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results" / "nanochat.json"
PAGE = ROOT / "docs" / "migrate-rustbpe.md"
CORPUS = "en-real"
SYSTEMS = {
    "rustbpe and tiktoken": ("rustbpe", "tiktoken"),
    "the drop-ins of tokenmill": ("tokenmill.compat.rustbpe", "tokenmill.compat.tiktoken"),
}
WORK = {
    "train": "train",
    "rustbpe_encode": "`rustbpe.Tokenizer.encode`, per document",
    "encode_ordinary": "`tiktoken.Encoding.encode_ordinary`, per document",
    "encode_ordinary_batch": "`encode_ordinary_batch`, 2 threads",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--vocab-size", type=int, default=65536)
    parser.add_argument("--render", action="store_true", help="render the measured results")
    options = parser.parse_args()
    if not options.render:
        results = measure(options.runs, options.megabytes, options.vocab_size)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    render(json.loads(RESULTS.read_text()))


def measure(runs: int, size: int, vocab_size: int) -> dict[str, Any]:
    import corpora
    import machine

    corpora.prepare(CORPUS)
    documents = corpora.first(CORPUS, size)
    path = corpora.FOLDER / "nanochat.json"
    path.write_text(json.dumps(documents), encoding="utf-8")
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in SYSTEMS}
    for _ in range(runs):
        for name, modules in SYSTEMS.items():
            row, peak = run_fresh("bench.nanochat", [str(path), str(vocab_size), *modules], name)
            rows[name].append(row | {"peak_mb": peak / 1e6})
    digests = {row["digest"] for found in rows.values() for row in found}
    if len(digests) > 1:
        raise SystemExit("the ranks or the ids differ")
    return {
        "machine": machine.describe(),
        "date": time.strftime("%Y-%m-%d"),
        "bytes": sum(len(document.encode()) for document in documents),
        "documents": len(documents),
        "vocab_size": vocab_size,
        "rows": rows,
    }


def run(path: str, vocab_size: str, trainer: str, encoder: str) -> None:
    """Measure one system in this process."""
    from tokenmill.patterns.schemes import PATTERNS

    documents = json.loads(Path(path).read_text(encoding="utf-8"))
    pattern = PATTERNS["nanochat"][0]
    tokenizer = importlib.import_module(trainer).Tokenizer()
    found: dict[str, Any] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        started, cpu_started = time.perf_counter(), time.process_time()
        result = work()
        found[name] = {
            "cpu": time.process_time() - cpu_started,
            "seconds": time.perf_counter() - started,
        }
        return result

    size = int(vocab_size)
    timed("train", lambda: tokenizer.train_from_iterator(iter(documents), size, pattern=pattern))
    ranks = dict(tokenizer.get_mergeable_ranks())
    encoding = importlib.import_module(encoder).Encoding(
        "nanochat", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}
    )
    encoding.encode_ordinary("a first call")
    ids = [
        timed("rustbpe_encode", lambda: list(map(tokenizer.encode, documents))),
        timed("encode_ordinary", lambda: list(map(encoding.encode_ordinary, documents))),
        timed(
            "encode_ordinary_batch",
            lambda: encoding.encode_ordinary_batch(documents, num_threads=2),
        ),
    ]
    if not ids[0] == ids[1] == ids[2]:
        raise SystemExit("the methods return different ids")
    listed = json.dumps([[(token.hex(), id_) for token, id_ in ranks.items()], ids[0]])
    found["digest"] = hashlib.sha256(listed.encode()).hexdigest()
    found["ids"] = sum(map(len, ids[0]))
    print(json.dumps(found))


def render(results: dict[str, Any]) -> None:
    from markdown import table, write_block

    def median(name: str, work: str, figure: str) -> float:
        return statistics.median(row[work][figure] for row in results["rows"][name])

    lines = [["CPU time", *SYSTEMS, "ratio"]]
    for work, text in WORK.items():
        theirs, ours = (median(name, work, "cpu") for name in SYSTEMS)
        lines.append([text, duration(theirs), duration(ours), f"{number(theirs / ours)} ×"])
    theirs, ours = (
        statistics.median(row["peak_mb"] for row in results["rows"][name]) for name in SYSTEMS
    )
    lines.append(["peak memory", megabytes(theirs), megabytes(ours), f"{number(theirs / ours)} ×"])
    where = results["machine"]
    runs = len(next(iter(results["rows"].values())))
    note = (
        f"{results['bytes'] / 1e6:.0f} MB of English, {results['documents']:,} documents, "
        f"{results['vocab_size']:,} tokens; {where['cpu']}, {where['cores']} cores, "
        f"{where['system']}, {results['date']}. Medians of {runs} runs, each in a fresh process. "
        "All ranks and ids are equal. `python bench/nanochat.py`."
    )
    write_block(PAGE, "nanochat", f"{table(lines)}\n\n{note}")


if __name__ == "__main__":
    if len(sys.argv) == 5 and not sys.argv[1].startswith("-"):
        run(*sys.argv[1:])
    else:
        main()
