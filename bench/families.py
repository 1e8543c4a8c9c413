"""Tokenizer files → their load time and speed: `python bench/families.py FILE… --text TEXT`.

A row has the milliseconds to load a file (best of five). For each text it has the speed of
`encode_array` on one thread relative to cl100k_base, and the time with offsets relative to ids
alone. Caches are warm. Times are CPU times, the best of `--rounds`, interleaved.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from pathlib import Path

from tokenmill import Tokenizer

# Passes that fill the caches.
_PASSES = 3


def load_time(path: str) -> float:
    """Return the milliseconds to load a file."""
    return min(_seconds(lambda: Tokenizer.load(path)) for _ in range(5)) * 1e3


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _cpu_seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def speeds(tokenizers: list[Tokenizer], text: str, rounds: int) -> list[tuple[float, float]]:
    """Return MB/s of each, and the time with offsets divided by the time without."""
    plain = [float("inf")] * len(tokenizers)
    with_offsets = [float("inf")] * len(tokenizers)
    for _ in range(rounds + 1):
        for index, one in enumerate(tokenizers):
            for _ in range(_PASSES):  # all tokenizers share one cache limit
                one.encode_array(text, threads=1)
            spent = _cpu_seconds(lambda one=one: one.encode_array(text, threads=1))
            plain[index] = min(plain[index], spent)
            call = functools.partial(one.encode_array, text, threads=1, offsets=True)
            with_offsets[index] = min(with_offsets[index], _cpu_seconds(call))
    size = len(text.encode()) / 1e6
    return [(size / p, o / p) for p, o in zip(plain, with_offsets, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--text", action="append", required=True, help="a file of UTF-8")
    parser.add_argument("--bytes", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows = {path: [f"{load_time(path):.0f}"] for path in options.files}
    tokenizers = [Tokenizer.load("cl100k_base"), *map(Tokenizer.load, options.files)]
    for name in options.text:
        text = Path(name).read_bytes()[: options.bytes].decode(errors="replace")
        found = speeds(tokenizers, text, options.rounds)
        for path, (speed, offsets) in zip(options.files, found[1:], strict=True):
            rows[path].append(f"{speed / found[0][0]:.2f} ({speed:.0f} MB/s), {offsets:.2f}")
    texts = [f"{Path(name).stem}: share of cl100k_base, offsets" for name in options.text]
    print("| file | load, ms | " + " | ".join(texts) + " |")
    print("|---|" + "---:|" * (1 + len(texts)))
    for path, cells in rows.items():
        print(f"| {Path(path).name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
