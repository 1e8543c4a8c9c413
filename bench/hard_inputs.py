"""Hard inputs → MB/s of `count` on one thread, compared with English.

    hard_inputs.py [BYTES [LONGER_BYTES [NAME…]]]        1 MB and 16 MB, every text

The texts are those of tests/helpers/hard_inputs.py. A figure is the best of three passes with an
empty cache, since the cache would contain the short text and not the long one. The last column is
the time per byte of the longer text relative to the shorter one: 1.0 is exactly linear. Each table
ends with the slowest rate and the steepest growth.
"""

import sys
import time
from pathlib import Path

import tokenmill
from tokenmill import Tokenizer

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS / "helpers"))

import hard_inputs  # noqa: E402

VOCABULARIES = ("r50k_base", "cl100k_base", "o200k_base")


def seconds(tokenizer: Tokenizer, text: bytes) -> float:
    times = []
    limit = tokenmill.cache_limit()
    for _ in range(3):
        tokenmill.cache_limit(0)
        tokenmill.cache_limit(limit)
        start = time.perf_counter()
        tokenizer.count(text, threads=1)
        times.append(time.perf_counter() - start)
    return min(times)


def texts(size: int, names: list[str]) -> dict[str, bytes]:
    english = (TESTS / "data" / "code" / "sqlite3.h").read_bytes()
    files = {"english": (english * (size // len(english) + 1))[:size]}
    for name, data in hard_inputs.files(size):
        files[name.partition(".")[0]] = data.encode() if isinstance(data, str) else data
    return {name: data for name, data in files.items() if data and (not names or name in names)}


def main(size: int = 1_000_000, longer: int = 16_000_000, *names: str) -> None:
    short, long = texts(size, [*names]), texts(longer, [*names])
    for vocabulary in VOCABULARIES:
        tokenizer = Tokenizer.load(vocabulary)
        print(f"{vocabulary:22} {size / 1e6:4g} MB {longer / 1e6:4g} MB  × linear")
        rates, growths = {}, {}
        for name, text in short.items():
            rate = len(text) / seconds(tokenizer, text) / 1e6
            long_rate = len(long[name]) / seconds(tokenizer, long[name]) / 1e6
            rates[name], growths[name] = min(rate, long_rate), rate / long_rate
            print(f"  {name:20} {rate:7.1f} {long_rate:7.1f}  {growths[name]:.2f}")
        slowest, steepest = min(rates, key=rates.__getitem__), max(growths, key=growths.__getitem__)
        print(f"  slowest: {slowest}, {rates[slowest]:.1f} MB/s")
        print(f"  steepest: {steepest}, {growths[steepest]:.2f} × linear", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
