"""Conversations in a prefix store → milliseconds of one turn, and memory per conversation.

    prefix_store.py [TEXT] [--vocabulary o200k_base]

TEXT is a text file or .jsonl, also with .xz. Without it, the texts are words of bench/README.md in
random order. The first part is one conversation of an agent, which begins with about 200,000
tokens. Each of its 200 turns rewrites the end of the last prompt, 8 characters in the median, and
adds 1,000 of them. All ids are compared with those of the whole text. The second part stores 10,000
other conversations and asks for each again with a longer text.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

# isort: split
import serving

from tokenmill import PrefixStore, Tokenizer

TURNS = 200
TOKENS = 200_000
CONVERSATIONS = 10_000
CONVERSATION_CHARACTERS = 20_000
MEMORY = 1_000_000_000
ENDS = ("<think>\n",) * 6 + ("<think>\n" + "a thought about rye. " * 20,) * 2 + ("\n",) * 2


Prose = Callable[[int], str]  # a number of characters → the next text of that length


def words_of(path: Path, rng: random.Random) -> Prose:
    words = sorted(set(path.read_text(encoding="utf-8").split()))
    return lambda size: " ".join(rng.choices(words, k=size // 6))[:size]


def text_of(path: Path) -> Prose:
    """Return parts of a text, one after the other; it begins again at its end."""
    text, place = serving.text_of(path), 0

    def read(size: int) -> str:
        nonlocal place
        if len(text) < place + size:
            place = 0
        place += size
        return text[place - size : place]

    return read


def agent(tokenizer: Tokenizer, prose: Prose) -> None:
    rng, store = random.Random(1), PrefixStore(tokenizer)
    text = prose(3 * TOKENS)
    text += prose(3 * max(0, TOKENS - tokenizer.count(text)))
    times, shares = [], []
    for turn in range(TURNS):
        prompt = text + rng.choice(ENDS)
        start = time.perf_counter()
        ids, kept = store.encode(prompt)
        times.append((time.perf_counter() - start) * 1e3)
        if not np.array_equal(ids, tokenizer.encode_array(prompt)):
            sys.exit(f"wrong ids in turn {turn}")
        shares.append(kept / len(ids))
        text += prose(1000)
    whole = []
    for _ in range(5):
        start = time.perf_counter()
        tokenizer.encode_array(prompt, threads=1)
        whole.append((time.perf_counter() - start) * 1e3)
    later = times[1:]
    print(
        f"agent: {TURNS} turns, the last of {len(ids):,} tokens\n"
        f"  first turn {times[0]:.1f} ms, then median {statistics.median(later):.2f} ms, "
        f"95th percentile {statistics.quantiles(later, n=20)[-1]:.2f} ms, "
        f"slowest {max(later):.2f} ms; whole text on one thread {min(whole):.1f} ms\n"
        f"  ids kept: median {statistics.median(shares[1:]):.1%}; "
        f"memory {store.memory / 1e6:.1f} MB"
    )


def many(tokenizer: Tokenizer, prose: Prose) -> None:
    store = PrefixStore(tokenizer, memory=MEMORY)
    system = prose(8_000)
    texts = []
    for number in range(CONVERSATIONS):
        texts.append(f"{system} {number} {prose(CONVERSATION_CHARACTERS - 8_000)}")
        store.encode(texts[-1] + "<think>\n")
    times, found = [], 0
    for text in texts:
        start = time.perf_counter()
        ids, kept = store.encode(text + " And then?")
        times.append((time.perf_counter() - start) * 1e3)
        found += kept > len(ids) - 20
    print(
        f"many: {CONVERSATIONS:,} conversations of {len(ids):,} tokens "
        f"in {store.memory / 1e6:.0f} MB, limit {MEMORY / 1e6:.0f} MB\n"
        f"  {found:,} found again, median {statistics.median(times):.2f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("text", nargs="?", type=Path)
    parser.add_argument("--vocabulary", default="o200k_base")
    given = parser.parse_args()
    tokenizer = Tokenizer.load(given.vocabulary)
    if given.text is None:
        prose = words_of(Path(__file__).parent / "README.md", random.Random(1))
    else:
        prose = text_of(given.text)
    agent(tokenizer, prose)
    many(tokenizer, prose)


if __name__ == "__main__":
    main()
