"""Hard inputs → MB/s of `count` on one thread, beside English.   usage: hard_inputs.py [BYTES]

Every file of tests/hard_inputs.py, the best of three passes; the last column compares a text
that is four times as long: 1.0 is exactly linear.
"""

import sys
import time
from pathlib import Path

from tokenmill import Tokenizer

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS))

import hard_inputs  # noqa: E402


def seconds(tokenizer: Tokenizer, text: bytes) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        tokenizer.count(text)
        times.append(time.perf_counter() - start)
    return min(times)


def texts(size: int) -> dict[str, bytes]:
    english = (TESTS / "data" / "code" / "sqlite3.h").read_bytes()
    files = {"english": (english * (size // len(english) + 1))[:size]}
    for name, data in hard_inputs.files(size):
        files[name.partition(".")[0]] = data.encode() if isinstance(data, str) else data
    return {name: data for name, data in files.items() if data}


def main(size: int) -> None:
    short, long = texts(size), texts(4 * size)
    for vocabulary in ("r50k_base", "cl100k_base", "o200k_base"):
        tokenizer = Tokenizer.load(vocabulary)
        print(f"{vocabulary:24} MB/s  × linear")
        for name, text in short.items():
            rate = len(text) / seconds(tokenizer, text)
            growth = seconds(tokenizer, long[name]) / len(long[name]) * rate
            print(f"  {name:22} {rate / 1e6:5.1f}  {growth:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
