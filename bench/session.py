"""Sessions of growing length → microseconds of one change at the end.

    session.py [VOCABULARY]        default: o200k_base

The first table appends or replaces the text of about one token, and compares this with encoding the
whole text again. The second table appends ten bytes to one long pretoken. Ids are compared with
those of the whole text before a time is printed.
"""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tokenmill import Tokenizer

HISTORIES = (1_000, 100_000, 10_000_000)
WORDS = (" grain", " mill", "ing", ".", "\n", " the", " 12", ", and", " 谷物")
RUNS = {"spaces": " ", "newlines": "\n", "letters": "a", "dashes": "-", "Han": "谷"}


def microseconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def median(calls: Sequence[Callable[[], object]]) -> float:
    return statistics.median(microseconds(call) for call in calls)


def history(tokenizer: Tokenizer, size: int) -> tuple[float, float, float, float]:
    text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    session = tokenizer.session((text * (size // len(text) + 1))[:size])
    words = WORDS * 200
    append = median([partial(session.append, word) for word in words])
    replace = median([partial(session.replace_from, -20, (word * 20)[:20]) for word in words])
    whole = session.text
    if session.ids != tokenizer.encode(whole):
        sys.exit(f"wrong ids after {size} characters")
    copies = median([session.copy for _ in range(5)])
    return append, replace, copies, median([lambda: tokenizer.encode(whole)] * 5)


def run(tokenizer: Tokenizer, unit: str, size: int) -> float:
    session = tokenizer.session("x" + unit * (size // len(unit.encode())))
    more = unit * (10 // len(unit.encode()))
    append = median([lambda: session.append(more)] * 100)
    if session.ids != tokenizer.encode(session.text):
        sys.exit(f"wrong ids in a run of {unit!r}")
    return append


def main(vocabulary: str = "o200k_base") -> None:
    tokenizer = Tokenizer.load(vocabulary)
    print(
        f"{vocabulary}, µs\n{'history':>12} {'append':>8} {'replace':>8} {'copy':>9} {'encode':>10}"
    )
    for size in HISTORIES:
        append, replace, copies, whole = history(tokenizer, size)
        print(f"{size:12,} {append:8.1f} {replace:8.1f} {copies:9.1f} {whole:10.1f}", flush=True)
    sizes = (10_000, 100_000, 1_000_000)
    print(f"\n{'open run of':>12}" + "".join(f"{size:>10,}" for size in sizes))
    for name, unit in RUNS.items():
        times = "".join(f"{run(tokenizer, unit, size):10.1f}" for size in sizes)
        print(f"{name:>12}{times}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
