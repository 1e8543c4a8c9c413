"""Prompts of 200,000 tokens in a server of asyncio → the longest stall of its event loop.

    event_loop.py [--prompts 40] [--check]

A task of the event loop sleeps for 1 ms at a time. The longest time by which it wakes late during
a call is the stall of the call. Each call gets a new prompt, and the ways to encode take turns.
`idle` is the stall of the machine without a call. `--check` fails if the median stall of a way with
threads is longer than that of `idle` and the budget together.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tokenmill import Tokenizer

TOKENS = 200_000
# The interpreter lets threads take turns of 5 ms.
BUDGET_MS = 10.0


async def longest_stall(call: Callable[[str], object], text: str, in_thread: bool) -> float:
    """Return the longest stall in milliseconds during a call."""
    stalls, is_done = [0.0], False

    async def watch() -> None:
        while not is_done:
            start = time.perf_counter()
            await asyncio.sleep(0.001)
            stalls.append((time.perf_counter() - start - 0.001) * 1e3)

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0.003)
    if in_thread:
        await asyncio.to_thread(call, text)
    else:
        call(text)
    is_done = True
    await watcher
    return max(stalls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--prompts", type=int, default=40)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    tokenizer, rng = Tokenizer.load("o200k_base"), random.Random(1)
    words = sorted(set((Path(__file__).parent / "README.md").read_text(encoding="utf-8").split()))

    def prompt() -> str:
        made = [f"{word} {rng.randrange(10**6)}" for word in rng.choices(words, k=TOKENS // 5)]
        return " ".join(made)

    print(f"{tokenizer.count(prompt()):,} tokens each, {given.prompts} prompts")
    ways: dict[str, tuple[Callable[[str], object], bool]] = {
        "idle": (lambda text: time.sleep(0.005), True),
        "encode in the event loop": (tokenizer.encode, False),
        "encode in a thread": (tokenizer.encode, True),
        "encode_array in a thread": (lambda text: tokenizer.encode_array(text, threads=1), True),
        "count in a thread": (lambda text: tokenizer.count(text, threads=1), True),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(given.prompts):
        for name, (call, in_thread) in ways.items():
            text = prompt()
            found[name].append(asyncio.run(longest_stall(call, text, in_thread)))
    budget = statistics.median(found["idle"]) + BUDGET_MS
    too_long = []
    for name, stalls in found.items():
        typical = statistics.median(stalls)
        print(f"{name}: median {typical:.1f} ms, longest {max(stalls):.1f} ms")
        if ways[name][1] and typical > budget:
            too_long.append(name)
    if given.check and too_long:
        sys.exit(f"longer than {budget:.1f} ms: {', '.join(too_long)}")


if __name__ == "__main__":
    main()
