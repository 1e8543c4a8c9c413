"""Real and generated documents → the texts that trainers learn from.

    10MB     the first documents of the packed mix
    100MB    every packed corpus, sources and documents of installed packages, then generated text
    200MB    the text of 100MB, then as much generated text
    1GB      the text of 100MB, then nine times as much generated text: its lines in a new order,
             and one word in a few dozen replaced by a new one
    zipf     pretoken counts without a text: 10 million unique pretokens, a billion occurrences

A gigabyte is hard to train on because of its new words, since repeated words only add to a count.
In real text the number of unique pretokens grows with the length to the power 0.74: about 850,000
in 100 MB and 4.6 million in 1 GB. Generated text has new words at this rate. A new word is the
beginning of one word and the end of another. It is repeated as in Simon's model (1955), with a
probability proportional to its count, so most new words are rare.

Files are written to bench/.cache/training once. Documents are separated by <|endoftext|>.

    training_corpora.py [NAME…]       writes the texts and prints their contents

Invariant: the same name, size and seed give the same bytes, with the same packages installed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

# isort: split
import corpora
from documents import PROSE, SOURCES, installed, packed, unpack

FOLDER = corpora.CACHE / "training"
END = "<|endoftext|>"
SIZES = {"10MB": 10**7, "100MB": 10**8, "200MB": 2 * 10**8, "1GB": 10**9}
WHOLE = "-whole"  # a corpus as one document, without a break
RECIPE = 1  # increase it when the files would change

NEW_SHARE = 0.067  # of the words of generated lines: 4.6 million unique pretokens in 1 GB
FRESH_SHARE = 0.75  # of the replaced words; the others are repeated
BLOCK_BYTES = 16_000_000

Numbers = np.ndarray[Any, np.dtype[Any]]


def path(name: str) -> Path:
    return FOLDER / f"{name}.txt"


def prepare(name: str) -> dict[str, object]:
    """Write the file of a text, once, and return its description."""
    info_path = FOLDER / f"{name}.info.json"
    known: dict[str, object] = json.loads(info_path.read_text()) if info_path.exists() else {}
    recipe = [RECIPE, SIZES[name], NEW_SHARE, FRESH_SHARE]
    if known.get("recipe") == recipe and path(name).exists():
        return known
    FOLDER.mkdir(parents=True, exist_ok=True)
    source, blocks = _blocks(name)
    size, digest = 0, hashlib.blake2b(digest_size=8)
    with path(name).open("wb") as out:
        for block in blocks:
            out.write(block)
            digest.update(block)
            size += len(block)
    info: dict[str, object] = {
        "source": source,
        "bytes": size,
        "documents": sum(data.count(END.encode()) for data in _pieces(path(name))) + 1,
        "digest": digest.hexdigest(),
        "recipe": recipe,
    }
    info_path.write_text(json.dumps(info))
    return info


def read(name: str) -> list[str]:
    """Return the documents of a prepared text."""
    return path(name).read_bytes().decode().split(END)


def unique(name: str, pattern: str) -> int:
    """Return the number of unique pretokens of a corpus in one language, counted once."""
    import regex

    info = corpora.prepare(name)
    count_path = FOLDER / f"{name}.{info['digest']}.unique"
    if not count_path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        seen: set[str] = set()
        for document in corpora.stream(name):
            seen.update(regex.findall(pattern, document))
        count_path.write_text(str(len(seen)))
    return int(count_path.read_text())


def _pieces(file: Path) -> Iterator[bytes]:
    # A separator across the edge is counted in the next piece.
    tail = b""
    with file.open("rb") as data:
        while piece := data.read(BLOCK_BYTES):
            yield tail + piece
            tail = piece[-len(END) + 1 :]


def _blocks(name: str) -> tuple[str, Iterable[bytes]]:
    size = SIZES[name]
    if name == "10MB":
        info = corpora.prepare("mix")
        return str(info["source"]), _joined(corpora.stream("mix"), size)
    if name == "100MB":
        return _mixed(size)
    prepare("100MB")
    data = path("100MB").read_bytes()
    rest = generated(data, size - len(data) - len(END))
    return "the text of 100MB, then generated", itertools.chain([data, END.encode()], rest)


def _mixed(size: int) -> tuple[str, Iterable[bytes]]:
    real = list(itertools.chain.from_iterable(map(unpack, packed().values())))
    real_bytes = sum(len(text.encode()) for text in real)
    more = corpora._take(itertools.chain(installed(SOURCES), installed(PROSE)), size - real_bytes)
    text = list(_joined([*real, *more], size))
    missing = size - sum(map(len, text))
    if missing > len(END):
        text += [END.encode(), *generated(b"".join(text), missing - len(END))]
    rest = f"sources and documents of installed packages {(size - real_bytes) / 1e6:.0f} MB"
    source = f"shared data {real_bytes / 1e6:.0f} MB, {rest}" if real else rest
    return source, text


def _joined(documents: Iterable[str], size: int) -> Iterator[bytes]:
    """Join documents by separators, up to `size` bytes, cut at a character."""
    left = size
    separator = b""
    for document in documents:
        if left <= 0:
            return
        data = separator + document.replace(END, "").encode()
        if len(data) > left:
            data = data[:left].decode(errors="ignore").encode()
            left = len(data)
        yield data
        left -= len(data)
        separator = END.encode()


# ── generated text ───────────────────────────────────────────────────────────────────────────


def generated(data: bytes, size: int, seed: int = 0) -> Iterator[bytes]:
    """Yield about `size` bytes: lines of `data` in a new order, with some words replaced."""
    letters = np.frombuffer(data, np.uint8)
    words = Words(letters)
    random = np.random.default_rng(seed)
    lines = words.lines()
    new = NewWords(words, random)
    left = size
    while left > 0:
        order = random.integers(0, len(lines) - 1, 1 + int(BLOCK_BYTES / len(data) * len(lines)))
        tokens = _ranges(lines[order], lines[order + 1] - lines[order])
        block = new.write(tokens)
        if len(block) > left:
            block = block[:left].decode(errors="ignore").encode()
            left = len(block)
        left -= len(block)
        yield block


class Words:
    """A text as runs: words, which are letters or bytes above ASCII after a space, and gaps."""

    def __init__(self, letters: Numbers) -> None:
        self.letters = letters
        lower = letters | 0x20
        is_letter = (letters >= 0x80) | ((lower >= ord("a")) & (lower <= ord("z")))
        starts = np.flatnonzero(is_letter[1:] != is_letter[:-1]) + 1
        starts = np.concatenate([[0], starts])
        # The last byte of a gap goes with the word if it is a space.
        opens = is_letter[starts] & (starts > 0)
        opens[1:] &= letters[starts[1:] - 1] == ord(" ")
        starts = starts - opens
        self.starts = np.unique(starts)
        ends = np.append(self.starts[1:], len(letters))
        self.lengths = ends - self.starts
        self.is_word = is_letter[ends - 1]

    def lines(self) -> Numbers:
        """Return the positions between runs at which a line ends."""
        newline = np.flatnonzero(self.letters == ord("\n"))
        after = np.searchsorted(self.starts, newline, "right")
        return np.concatenate([[0], np.unique(after), [len(self.starts)]])


class NewWords:
    """Replaces words of a text with new words, or with words that it made before."""

    def __init__(self, words: Words, random: np.random.Generator) -> None:
        self.words = words
        self.random = random
        ascii_only = np.maximum.reduceat(words.letters, words.starts) < 0x80
        self.halves = np.flatnonzero(words.is_word & ascii_only & (words.lengths >= 5))
        self.made = np.empty((0, 2), np.int64)  # the two source words of each new word

    def write(self, tokens: Numbers) -> bytes:
        """Return the bytes of these runs, with some words replaced."""
        words = self.words
        chosen = words.is_word[tokens] & (self.random.random(len(tokens)) < NEW_SHARE)
        pairs = self.draw(int(chosen.sum()))
        starts = words.starts[tokens]
        lengths = words.lengths[tokens].copy()
        # A new word has two slices, other runs have one slice and an empty one.
        more_starts, more_lengths = np.zeros_like(starts), np.zeros_like(lengths)
        first, second = pairs.T
        cut = words.lengths[second] // 2
        starts[chosen] = words.starts[first]
        lengths[chosen] = (words.lengths[first] + 1) // 2
        more_starts[chosen] = words.starts[second] + cut
        more_lengths[chosen] = words.lengths[second] - cut
        both = np.stack([starts, more_starts], 1).ravel(), np.stack([lengths, more_lengths], 1)
        data: Numbers = words.letters[_ranges(both[0], both[1].ravel())]
        return data.tobytes()

    def draw(self, count: int) -> Numbers:
        """Return pairs of words: fresh ones, or earlier ones with equal probability."""
        before = len(self.made)
        own = np.arange(before, before + count)
        fresh = self.random.random(count) < FRESH_SHARE
        back = (self.random.random(count) * own).astype(np.int64)
        source = np.where(fresh, own, back)
        while len(later := np.flatnonzero((source >= before) & (source != own))):
            ahead = source[source[later] - before]
            if (ahead == source[later]).all():
                break
            source[later] = ahead
        pairs = self.random.choice(self.halves, (count, 2))
        self.made = np.concatenate([self.made, pairs])
        self.made[before:] = self.made[source]
        found: Numbers = self.made[before:]
        return found


def _ranges(starts: Numbers, lengths: Numbers) -> Numbers:
    """Return start, start + 1, … for each start, as many as its length."""
    offsets = np.cumsum(lengths) - lengths
    positions: Numbers = np.arange(lengths.sum()) + np.repeat(starts - offsets, lengths)
    return positions


# ── pretoken counts without a text ───────────────────────────────────────────────────────────

CONSONANTS, VOWELS = b"tnsrhldcmfpgbvwkjxzq", b"eaoiuy"


def pretoken_counts(unique: int, total: int) -> tuple[bytes, Numbers, Numbers]:
    """Return the bytes of all words, their lengths, and counts after Zipf and Mandelbrot.

    A word is a space and the digits of its rank, each a syllable of two letters. All words differ,
    frequent words are short, and letters have different frequencies.
    """
    ranks = np.arange(unique, dtype=np.int64)
    weights = 1 / (ranks + 2.7)
    counts = np.maximum(weights * (total / weights.sum()), 1).astype(np.uint64)
    counts[0] += np.uint64(max(total - int(counts.sum()), 0))
    text, lengths = spelled(ranks)
    return text, lengths.astype(np.uint32), counts


def spelled(ranks: Numbers) -> tuple[bytes, Numbers]:
    """Return the joined words of these ranks, and their lengths."""
    base = len(CONSONANTS) * len(VOWELS)
    digits = 1 + np.searchsorted(np.cumsum(base ** np.arange(1, 8)), ranks, "right")
    numbers = ranks - np.concatenate([[0], np.cumsum(base ** np.arange(1, 8))])[digits - 1]
    lengths = 1 + 2 * digits
    ends = np.cumsum(lengths)
    letters = np.full(int(lengths.sum()), ord(" "), np.uint8)
    consonants = np.frombuffer(CONSONANTS, np.uint8)
    vowels = np.frombuffer(VOWELS, np.uint8)
    for place in range(int(digits.max(initial=0))):
        has = digits > place
        digit = numbers[has] // base**place % base
        at = ends[has] - 2 * place - 2
        letters[at] = consonants[digit // len(VOWELS)]
        letters[at + 1] = vowels[digit % len(VOWELS)]
    return letters.tobytes(), lengths


def zipf_text(unique: int, tokens: int, seed: int = 0) -> Iterator[bytes]:
    """Yield a text of these words, each at least once and then in proportion to its count."""
    random = np.random.default_rng(seed)
    weights = np.cumsum(1 / (np.arange(unique) + 2.7))
    shuffled = random.permutation(unique)
    block = 2_000_000
    blocks = max(-(-tokens // block), 1)
    for number in range(blocks):
        own = shuffled[number * unique // blocks : (number + 1) * unique // blocks]
        drawn = random.random(max(tokens // blocks - len(own), 0)) * weights[-1]
        ranks = random.permutation(np.concatenate([own, np.searchsorted(weights, drawn)]))
        yield spelled(ranks)[0]


def main(*names: str) -> None:
    for name in names or ("10MB", "100MB"):
        info = prepare(name)
        print(f"{name}: {info['bytes']} bytes, {info['documents']} documents: {info['source']}")


if __name__ == "__main__":
    main(*sys.argv[1:])
