"""Real documents → new documents that resemble them, and figures of the resemblance.

A random walk through the real text makes each document. Before each step the walk jumps to a random
position with the same last characters, and the step adds the next character of that position. For a
context with few continuations it falls back to a shorter one, with the probability of Witten and
Bell (1991, method C): continuations / (continuations + positions). Words, runs and punctuation are
those of the real text, but the text does not repeat, so a cache does not contain it.

Invariant: the same documents, size and seed give the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[Any]]

WALKS = 256  # in parallel; with fewer, the overhead of numpy calls dominates
END = "\0"  # the end of a document; an ordinary character for the model
LETTERS = re.compile(r"[^\W\d_]+")


class Context:
    """Map each position of the text to the positions with the same last characters."""

    def __init__(self, keys: Numbers) -> None:
        self.places = np.argsort(keys, kind="stable")
        ordered = keys[self.places]
        is_first = np.append(True, ordered[1:] != ordered[:-1])
        self.keys = ordered[is_first]
        self.starts = np.flatnonzero(is_first)
        self.counts = np.diff(np.append(self.starts, len(keys)))
        self.of = np.empty(len(keys), np.int64)  # position → number of its context
        self.of[self.places] = np.cumsum(is_first) - 1
        self.fallback = np.zeros(len(self.keys))

    def jump(self, contexts: Numbers, random: Numbers) -> Numbers:
        chosen = self.starts[contexts] + (random * self.counts[contexts]).astype(int)
        places: Numbers = self.places[chosen]
        return places


class Model:
    """The text as a ring of characters, with its contexts from the longest to the shortest."""

    def __init__(self, documents: list[str], order: int) -> None:
        text = "".join(document.replace(END, "") + END for document in documents)
        self.characters = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        contexts = [Context(self.characters.astype(np.int64))]
        letters = contexts[0].of
        base = len(contexts[0].keys)
        for _ in range(order):
            last = contexts[-1]
            longer = Context(np.roll(last.of, 1) * base + letters)
            continuations = np.bincount(longer.keys // base, minlength=len(last.keys))
            last.fallback = continuations / (continuations + last.counts)
            contexts.append(longer)
        contexts[0].fallback[:] = 0.0  # the shortest context
        self.contexts = contexts[order - 1 :: -1]

    def documents(self, bytes_wanted: float, seed: int = 0) -> Iterator[str]:
        """Yield documents of about `bytes_wanted` bytes; the last ones of the walks are cut off."""
        size = len(self.characters.tobytes().decode("utf-32-le").encode())
        steps = int(bytes_wanted / size * len(self.characters) / WALKS) + 1
        random = np.random.default_rng(seed)
        ends = np.flatnonzero(self.characters == ord(END))
        at = random.choice(ends, WALKS)
        walked = np.empty((WALKS, steps), np.uint32)
        for step in range(steps):
            at = self.step(at, random)
            walked[:, step] = self.characters[at]
        for walk in walked:
            yield from filter(None, walk.tobytes().decode("utf-32-le").split(END))

    def step(self, at: Numbers, random: np.random.Generator) -> Numbers:
        chance = random.random((len(self.contexts) + 1, len(at)))
        left = np.arange(len(at))
        jumped = at.copy()
        for context, fall in zip(self.contexts, chance, strict=False):
            contexts = context.of[at[left]]
            stays = fall[left] >= context.fallback[contexts]
            here = left[stays]
            jumped[here] = context.jump(contexts[stays], chance[-1][here])
            left = left[~stays]
        return (jumped + 1) % len(self.characters)


def figures(documents: list[str], encode: Any) -> dict[str, float]:
    """Return statistics of a text; compare only texts of the same size."""
    text = "\n\n".join(documents)
    runs = LETTERS.findall(text)
    return {
        "tokens per byte": len(encode(text)) / len(text.encode()),
        "bytes per character": len(text.encode()) / len(text),
        "letters in a run": sum(map(len, runs)) / len(runs),
        "distinct of them": len(set(runs)) / len(runs),
    }
