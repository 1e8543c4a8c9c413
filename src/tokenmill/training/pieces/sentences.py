"""Documents → lines → words of characters, as SentencePiece's trainer reads them.

Every line is a sentence. Runs of spaces are one, none is at the ends, and each word begins with
"▁". So what is counted is the text between spaces, and the "▁" is put before it here. Lines that
hold "▁" themselves are rare, and spelled out: each one too many is a word of its own.

Rare characters belong to no piece: words end at them. They also end where the script changes, since
no piece goes on there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments
from tokenmill.formats.pieces import SPACE
from tokenmill.patterns.unicode import CODE_POINTS
from tokenmill.training.counting import Counts, parts
from tokenmill.training.pieces.scripts import NONE, script_table

PATTERN = r"▁|[^ \n▁]+"

# Lines of more bytes are left out; so are those with the sign that stands for rare characters.
SENTENCE_BYTES_MAX = 4192
_RESERVED = "▅".encode()
_SPACE = SPACE.encode()
_BOUNDARY = b"\t"  # stands for the names of specials
_ESCAPED = re.compile("[\udc80-\udcff]")

_CHUNK_BYTES = 1 << 20  # several for each thread
_SLICE_ENTRIES = 1 << 17
_NO_ID = 2**32 - 1

Words = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint64]]


# ── Documents → what is counted ──────────────────────────────────────────────────────────────


def sentences(texts: list[Any], names: tuple[str, ...]) -> list[bytes]:
    """The lines of all documents that are used, in a few texts for PATTERN; at each of the names of
    specials they are cut."""
    data = b"\n".join(map(_bytes_of, texts))
    lines = data.split(b"\n")
    if max(map(len, lines)) > SENTENCE_BYTES_MAX or _RESERVED in data:
        kept = [n for n in lines if len(n) <= SENTENCE_BYTES_MAX and _RESERVED not in n]
        data = b"\n".join(kept)
    data = _valid(data)
    data = _names(names).sub(_BOUNDARY, data)
    if _SPACE in data:
        data = b"\n".join(_spelled(n) if _SPACE in n else n for n in data.split(b"\n"))
    return list(_chunks(data))


@cache
def _names(names: tuple[str, ...]) -> re.Pattern[bytes]:
    """Any of the names, the longest of those that begin at a place."""
    ordered = sorted((name.encode() for name in names), key=len, reverse=True)
    return re.compile(b"|".join(map(re.escape, ordered)))


def _bytes_of(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        return arguments.repair(text, error).encode()


def _valid(data: bytes) -> bytes:
    """The text with U+FFFD for each byte that is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return _ESCAPED.sub("\ufffd", data.decode("utf-8", "surrogateescape")).encode()
    return data


def _spelled(line: bytes) -> bytes:
    """A line with "▁" as words with spaces between them; what is "▁" alone is a word, too."""
    parts_ = [part for part in line.decode().split(" ") if part]
    text = (SPACE + SPACE.join(parts_)).rstrip(SPACE)
    return " ".join(word or SPACE for word in text.split(SPACE)[1:]).encode()


def _chunks(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + _CHUNK_BYTES)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end


# ── Counts → characters and words ────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Alphabet:
    """The characters of the vocabulary, by falling count; the place of each is its id."""

    characters: list[str]

    def scripts(self) -> NDArray[np.uint32]:
        """The script of each character."""
        return script_table()[self._code_points()].astype(np.uint32)

    def words(self, counts: Counts) -> Iterator[Words]:
        """The ids of words end to end, how many each has, and their counts, in parts."""
        ids = np.full(CODE_POINTS, _NO_ID, np.uint32)
        ids[self._code_points()] = np.arange(len(self.characters), dtype=np.uint32)
        space = ids[ord(SPACE)]
        ids[ord(SPACE)] = _NO_ID  # alone, it is no part of a word
        for code_points, lengths, amounts in _entries(counts):
            yield _cut(code_points, lengths, amounts, ids, space)

    def _code_points(self) -> NDArray[np.uint32]:
        return np.array([ord(character) for character in self.characters], np.uint32)


def find_alphabet(counts: Counts, coverage: float) -> Alphabet:
    """The most frequent characters that cover enough of the text."""
    sums = np.zeros(CODE_POINTS, np.uint64)
    for code_points, lengths, amounts in _entries(counts):
        np.add.at(sums, code_points, np.repeat(amounts, lengths))
        bare = (lengths == 1) & (code_points[np.cumsum(lengths) - lengths] == ord(SPACE))
        sums[ord(SPACE)] += amounts[~bare].sum()
    sums[0] = 0
    total, covered = int(sums.sum()), 0
    seen = np.flatnonzero(sums)
    found = []
    for code_point in seen[np.argsort(-sums[seen].astype(np.int64), kind="stable")].tolist():
        if np.float32(covered / total) >= np.float32(coverage):
            break
        covered += int(sums[code_point])
        if code_point != _BOUNDARY[0]:
            found.append(chr(code_point))
    return Alphabet(found)


def _entries(counts: Counts) -> Iterator[Words]:
    """Code points of the counted texts end to end, how many each has, and its count, in parts."""
    for part in parts(counts):
        data, sizes, amounts = (np.asarray(buffer) for buffer in part.arrays())
        ends = np.cumsum(sizes, dtype=np.int64)
        for first, last in pairwise([*range(0, len(sizes), _SLICE_ENTRIES), len(sizes)]):
            begin = int(ends[first - 1]) if first else 0
            raw = data[begin : int(ends[last - 1])]
            starts = ends[first:last] - sizes[first:last] - begin
            lengths = np.add.reduceat((raw & 0xC0) != 0x80, starts, dtype=np.uint32)
            text = raw.tobytes().decode().encode("utf-32-le")
            yield np.frombuffer(text, np.uint32), lengths, amounts[first:last]


def _cut(
    code_points: NDArray[np.uint32],
    lengths: NDArray[np.uint32],
    counts: NDArray[np.uint64],
    ids: NDArray[np.uint32],
    space: int,
) -> Words:
    """Texts as words: "▁" before each, cut at rare characters and where the script changes."""
    ends = np.cumsum(lengths, dtype=np.int64)
    starts = ends - lengths
    tokens = np.insert(ids[code_points], starts, np.uint32(space))
    scripts = np.insert(script_table()[code_points], starts, NONE)
    begins = np.zeros(len(tokens), bool)
    begins[starts + np.arange(len(starts))] = True
    changes = (scripts[1:] != scripts[:-1]) & (scripts[1:] != NONE) & (scripts[:-1] != NONE)
    begins[1:] |= changes | (tokens[:-1] == _NO_ID)
    known = tokens != _NO_ID
    numbers = np.cumsum(begins)[known]
    firsts = np.flatnonzero(np.diff(numbers, prepend=0))
    texts = np.repeat(np.arange(len(lengths)), lengths + 1)[known]
    word_lengths = np.diff(firsts, append=len(numbers)).astype(np.uint32)
    return tokens[known], word_lengths, counts[texts[firsts]]
