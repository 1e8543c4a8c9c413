"""One trainer, one text → one JSON line.   usage: measure_training.py TRAINER TEXT SIZE THREADS

The text is in memory before the clock starts, in the type that the trainer takes. A file is in the
page cache. Memory is the peak of the process above its memory before the training, so the text
counts only if the trainer copies it.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

# isort: split
from measure import limit_threads, version
from memory import peak_bytes, reset_peak, resident_bytes


def main(name: str, text: str, vocab_size: str, threads: str, tokens: str = "") -> None:
    limit_threads(int(threads))
    from trainers import TRAINERS

    result: dict[str, Any] = {"load_average": os.getloadavg()[0]}
    try:
        result |= run(TRAINERS[name](), text, int(vocab_size), int(threads), tokens)
    except ImportError as error:
        result["status"] = f"unsupported: not installed ({str(error)[:100]})"
    except Exception as error:  # a failing peer does not stop the benchmark
        result["status"] = f"failed: {type(error).__name__}: {str(error)[:200]}"
    print(json.dumps(result), flush=True)


def run(trainer: Any, text: str, vocab_size: int, threads: int, tokens: str) -> dict[str, Any]:
    trainer.open()
    if trainer.package == "tokenmill" and not hasattr(trainer.lib, "train"):
        return {"status": "unsupported: this version does not train"}
    data = read(text, trainer.takes)
    gc.collect()
    before = resident_bytes()
    reset_peak()
    started = time.perf_counter()
    learned = trainer.train(data, vocab_size, threads)
    seconds = time.perf_counter() - started
    peak = peak_bytes()
    found = list(trainer.tokens(learned))
    if tokens:
        Path(tokens).write_text("\n".join(token.hex() for token in found))
    return {
        "status": "ok",
        "version": version(trainer.package),
        "how": trainer.how,
        "seconds": round(seconds, 3),
        "peak_mb": round((peak - before) / 1e6, 1),
        "tokens": len(found),
        "digest": hashlib.blake2b(b"\n".join(found), digest_size=8).hexdigest(),
    }


def read(text: str, takes: str) -> Any:
    import corpora
    import training_corpora

    if takes == "file":
        return training_corpora.path(text)
    whole = text.endswith(training_corpora.WHOLE)
    if text in training_corpora.SIZES:
        if takes == "bytes":
            return training_corpora.path(text).read_bytes()
        documents = training_corpora.read(text)
    else:
        documents = list(corpora.stream(text.removesuffix(training_corpora.WHOLE)))
    if takes == "lines":
        return [line for document in documents for line in document.splitlines()]
    return ["\n\n".join(documents)] if whole else documents


if __name__ == "__main__":
    main(*sys.argv[1:])
