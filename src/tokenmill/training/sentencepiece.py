"""Documents → tokenizers that SentencePiece's BPE trainer would learn.

Every line is a sentence. Runs of spaces count as one, spaces at the ends are removed, and each word
begins with "▁". The counter counts the text between spaces. The "▁" is added to the counted words
here. Lines that contain "▁" are rare and rewritten first: each additional "▁" is a separate word.
Words end at rare characters and where the script changes, because no piece crosses these positions.

The ids are `<unk> <s> </s>`, special tokens, merges, then the characters by falling count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import TrainingError
from tokenmill.formats.sentencepiece import META, PieceOptions, parts_of
from tokenmill.formats.tokenizer_json import SPACE
from tokenmill.patterns.unicode import CODE_POINTS, scripts
from tokenmill.progress import Progress
from tokenmill.tokenizer import Tokenizer
from tokenmill.training import merging
from tokenmill.training.counting import Counted, Counts, Plan, parts
from tokenmill.training.merging import NO_MERGES, ExactnessCheck, Merges, Merging, limits, merges_of
from tokenmill.training.numbering import Vocabulary, Words
from tokenmill.training.options import note
from tokenmill.training.report import write_reports

PATTERN = r"▁|[^ \n▁]+"

# Longer lines are skipped, and lines with the character that SentencePiece reserves.
SENTENCE_BYTES_MAX = 4192
_RESERVED = "▅".encode()
_SPACE = SPACE.encode()
_BOUNDARY = b"\t"  # replaces the texts of special tokens
_ESCAPED = re.compile("[\udc80-\udcff]")

_CHUNK_BYTES = 1 << 20  # several per thread
_SLICE_ENTRIES = 1 << 17
_NO_ID = 2**32 - 1

Pair = tuple[int, int]


def piece_options(options: Mapping[str, Any], special_tokens: tuple[str, ...]) -> PieceOptions:
    """The options of SentencePiece's trainer."""
    for name in special_tokens:
        if name in META or any(sign in name for sign in " \t\n▁▅"):
            raise TrainingError(
                f"special token {name!r} cannot be a SentencePiece symbol: {', '.join(META)} exist "
                "already, and spaces, tabs, newlines, ▁ and ▅ are not allowed; rename it"
            )
    usual = PieceOptions()
    return PieceOptions(
        special_tokens,
        options["character_coverage"] or usual.coverage,
        options["max_token_length"] or usual.length_max,
    )


# ── Documents → lines for the counter ────────────────────────────────────────────────────────


def sentences(texts: Iterable[Any], names: tuple[str, ...]) -> list[bytes]:
    """The lines of all documents in a few texts for PATTERN, cut at the special tokens `names`.

    Texts are bytes-like.
    """
    data = b"\n".join(texts)
    lines = data.split(b"\n")
    if max(map(len, lines)) > SENTENCE_BYTES_MAX or _RESERVED in data:
        used = [n for n in lines if len(n) <= SENTENCE_BYTES_MAX and _RESERVED not in n]
        data = b"\n".join(used)
    data = _valid(data)
    data = _names(names).sub(_BOUNDARY, data)
    if _SPACE in data:
        data = b"\n".join(_rewrite(n) if _SPACE in n else n for n in data.split(b"\n"))
    return list(_chunks(data))


@cache
def _names(names: tuple[str, ...]) -> re.Pattern[bytes]:
    """A pattern that matches the longest of the names at a position."""
    ordered = sorted((name.encode() for name in names), key=len, reverse=True)
    return re.compile(b"|".join(map(re.escape, ordered)))


def _valid(data: bytes) -> bytes:
    """The text with U+FFFD for each byte that is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return _ESCAPED.sub("\ufffd", data.decode("utf-8", "surrogateescape")).encode()
    return data


def _rewrite(line: bytes) -> bytes:
    """A line with "▁" as words with spaces between them. A single "▁" is a word."""
    words = [word for word in line.decode().split(" ") if word]
    text = (SPACE + SPACE.join(words)).rstrip(SPACE)
    return " ".join(word or SPACE for word in text.split(SPACE)[1:]).encode()


def _chunks(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + _CHUNK_BYTES)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end


# ── Characters → scripts ─────────────────────────────────────────────────────────────────────

_HAN_NAMES = ("Han", "Hiragana", "Katakana")
_LONG_VOWEL = 0x30FC

# SentencePiece uses the table of Unicode 9.0 and treats newer characters as Common. These are the
# characters with a script in Unicode 16.0 only, found by a query of the trainer for each.
_NEWER = """
    560 588-589 5ef 61c-61d 7fd-7ff 860-89f 8b5 8be-8d3 953-954 9fc-9fe a76 afa-aff b55 c04
    c3c c5d c77 c84 cdd cf3-d00 d04 d3b-d3c d81 e86 e89 e8c e8e-e93 e98 ea0 ea8-ea9 eac eba
    ece 170d 1715-171f 180f 1878 1abf-1ace 1b4c-1b4f 1b7d-1b7f 1c89-1cbf 1df6-1dfa 2c2f 2c5f
    312e-312f 31bb-31bf 4db6-4dbf 9fd6-9fff a7af a7b8-a7f6 a82c a8fe-a8ff ab66-ab69 fbc2
    fd40-fd4f fdcf fdfe-fdff 1032d-1032f 10570-105f3 10780-107ba 10a34-10a35 10a48
    10d00-10d8f 10e80-10ff6 11070-11075 110c2-110cd 11144-11147 111ce-111cf 1123f-11241
    1133b 11380-113e2 1145a 1145e-11461 116b8-116b9 116d0-116e3 1171a 11740-1183b
    11900-11abf 11b00-11bf9 11d00-11fff 12f90-12ff2 1342f-143fa 16100-16139 16a70-16ac9
    16d40-16e9a 16f45-16f4f 16f7f-16f87 16fe1-16ff1 187ed-187f7 18af3-1affe 1b002-1b2fb
    1cf00-1cf46 1df00-1df2a 1e030-1e7fe 1e94b 2a6d7-2a6df 2b735-2b739 2ceb0-2ee5d
    30000-323af
"""

_NO_SCRIPT, _COMMON, _HAN = range(3)


@cache
def script_table() -> NDArray[np.uint8]:
    """The number of each code point's script. 0 is for characters that occur in every script.

    Hiragana, Katakana and the sign of a long vowel belong to Han.
    """
    table = np.full(CODE_POINTS, _COMMON, np.uint8)
    number = _HAN
    for name, code_points in scripts():
        if name == "Common":
            continue
        number += name not in (*_HAN_NAMES, "Inherited")
        value = number
        if name in _HAN_NAMES:
            value = _HAN
        elif name == "Inherited":
            value = _NO_SCRIPT
        for low, high in code_points.ranges():
            table[low:high] = value
    for part in _NEWER.split():
        first, _, last = part.partition("-")
        table[int(first, 16) : int(last or first, 16) + 1] = _COMMON
    table[_LONG_VOWEL] = _HAN
    table[ord(SPACE)] = _NO_SCRIPT
    return table


def _has_one_script(piece: str) -> bool:
    table = script_table()
    return len({int(table[ord(character)]) for character in piece} - {_NO_SCRIPT}) <= 1


# ── Counts → characters and words ────────────────────────────────────────────────────────────


def words_of(counts: Counts, alphabet: Sequence[str]) -> Iterator[Words]:
    """The counted words in parts. The id of a character is its index in the alphabet."""
    ids = np.full(CODE_POINTS, _NO_ID, np.uint32)
    ids[list(map(ord, alphabet))] = np.arange(len(alphabet), dtype=np.uint32)
    space = ids[ord(SPACE)]
    ids[ord(SPACE)] = _NO_ID  # a single "▁" merges with no other character
    for code_points, lengths, amounts in _entries(counts):
        yield _split_words(code_points, lengths, amounts, ids, space)


def find_alphabet(counts: Counts, coverage: float) -> list[str]:
    """The most frequent characters that cover enough of the text, by falling count."""
    sums = np.zeros(CODE_POINTS, np.uint64)
    for code_points, lengths, amounts in _entries(counts):
        np.add.at(sums, code_points, np.repeat(amounts, lengths))
        is_space = (lengths == 1) & (code_points[np.cumsum(lengths) - lengths] == ord(SPACE))
        sums[ord(SPACE)] += amounts[~is_space].sum()
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
    return found


def _entries(counts: Counts) -> Iterator[Words]:
    """Code points of the counted texts end to end, the length of each, and its count, in parts."""
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


def _split_words(
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
    scripts_ = np.insert(script_table()[code_points], starts, _NO_SCRIPT)
    begins = np.zeros(len(tokens), bool)
    begins[starts + np.arange(len(starts))] = True
    has_script = scripts_ != _NO_SCRIPT
    changes = (scripts_[1:] != scripts_[:-1]) & has_script[1:] & has_script[:-1]
    begins[1:] |= changes | (tokens[:-1] == _NO_ID)
    known = tokens != _NO_ID
    numbers = np.cumsum(begins)[known]
    firsts = np.flatnonzero(np.diff(numbers, prepend=0))
    texts = np.repeat(np.arange(len(lengths)), lengths + 1)[known]
    word_lengths = np.diff(firsts, append=len(numbers)).astype(np.uint32)
    return tokens[known], word_lengths, counts[texts[firsts]]


# ── Words → merges ───────────────────────────────────────────────────────────────────────────


def learn(
    alphabet: Sequence[str],
    words: Callable[[], Iterable[Words]],
    merges_max: int,
    *,
    min_frequency: int,
    length_max: int,
    progress: merging.Progress | None = None,
    **limits: Any,
) -> tuple[list[str], Merges, ExactnessCheck]:
    """The characters and the merged pieces by id here, and the merges.

    `words` is called once or twice. `limits` are those of `Merging`.
    """
    texts = list(alphabet)
    with Merging(
        tokens={id_: character.encode() for id_, character in enumerate(texts)},
        first_id=len(texts),
        ids_end=len(texts) + merges_max,
        trainer="sentencepiece",
        min_frequency=min_frequency,
        max_token_length=length_max + 1,
        scripts=script_table()[list(map(ord, alphabet))].astype(np.uint32),
        **limits,
    ) as learner:
        for part in words():
            learner.add_ids(*part)
        merges, check = learner.run(progress)
    for left, right, _, _ in merges.tolist():
        texts.append(texts[left] + texts[right])
    if min_frequency == 0 and len(merges) < merges_max:
        lost = lost_pairs(texts, words(), merges, length_max)[: merges_max - len(merges)]
        lefts, rights = np.array(lost, np.uint32).reshape(-1, 2).T
        ids = len(texts) + np.arange(len(lost))
        merges = np.concatenate([merges, merges_of(lefts, rights, ids, 0)])
        texts += [texts[left] + texts[right] for left, right in lost]
    return texts, merges, check


def lost_pairs(
    texts: Sequence[str], words: Iterable[Words], merges: Merges, length_max: int
) -> list[Pair]:
    """Pairs that were in a word before a merge and are in no word after the last one.

    SentencePiece adds them with a count of 0 if the vocabulary is not full: the shortest first,
    then in lexical order. The core does not track them, so all merges are repeated word by word.
    """
    merged = {(left, right): id_ for left, right, id_, _ in merges.tolist()}
    seen: dict[str, Pair] = {}
    done = set()
    for ids, lengths, _ in words:
        for word in np.split(ids, np.cumsum(lengths)[:-1]):
            text = word.tobytes()
            if text in done:
                continue
            done.add(text)
            for pair in _pairs_seen(word.tolist(), merged):
                piece = texts[pair[0]] + texts[pair[1]]
                other = seen.setdefault(piece, pair)
                if texts[pair[0]] < texts[other[0]]:
                    seen[piece] = pair
    for piece in texts:
        seen.pop(piece, None)
    rest = [piece for piece in seen if len(piece) <= length_max and _has_one_script(piece)]
    return [seen[piece] for piece in sorted(rest, key=lambda piece: (len(piece), piece))]


def _pairs_seen(word: list[int], merged: Mapping[Pair, int]) -> Iterator[Pair]:
    """All pairs of a word while it is merged, including those within one merge."""
    yield from pairwise(word)
    while True:
        found = [merged[pair] for pair in pairwise(word) if pair in merged]
        if not found:
            return
        best, at = min(found), 0
        while at < len(word) - 1:
            if merged.get((word[at], word[at + 1])) == best:
                word[at : at + 2] = [best]
                if at > 0:
                    yield word[at - 1], word[at]
                if at < len(word) - 1:
                    yield word[at], word[at + 1]
            at += 1


# ── Counts → tokenizers ──────────────────────────────────────────────────────────────────────


def train_pieces(
    counted: Counted, sizes: Sequence[int], plan: Plan, provenance: Mapping[str, Any]
) -> list[Tokenizer]:
    """The tokenizers of all sizes from one run, with its trace and report."""
    chosen = piece_options(plan.options, plan.options["special_tokens"])
    own = {"max_token_length": chosen.length_max, "character_coverage": chosen.coverage}
    counts = counted.take()
    characters, front = find_alphabet(counts, chosen.coverage), chosen.front
    least = len(front) + len(characters)
    if min(sizes) < least:
        raise TrainingError(
            f"vocab_size={min(sizes):_} is too small: there are {len(characters)} characters and "
            f"{len(front)} special tokens; pass {least:_} or more, or a lower character_coverage"
        )
    merges_max = max(sizes) - least
    texts, merges, check = learn(
        characters,
        lambda: words_of(counts, characters),
        merges_max,
        min_frequency=plan.options["min_frequency"],
        length_max=chosen.length_max,
        progress=lambda done, count: plan.progress(Progress("merging", done, merges_max, 0, count)),
        **limits(plan.options, plan.folder, len(counts)),
    )
    last = (check.last_count, check.min_tracked_count)
    plan.progress(Progress("merging", len(merges), len(merges), 0, *last))
    if len(merges) < merges_max:
        note(
            f"the text contains only {len(merges):_} pieces to learn: the vocabulary has "
            f"{least + len(merges):_} tokens instead of {max(sizes):_}; add more text"
        )
    learned = texts[len(characters) :]
    made = [
        Tokenizer._of_trained(parts_of((*front, *learned[: size - least], *characters), chosen))
        for size in sizes
    ]
    # In the tokenizer the merges come first, then the characters.
    ids = len(front) + np.roll(np.arange(len(texts)), -len(merges))
    left, right, id_ = (ids[merges[name]] for name in ("left", "right", "id"))
    vocabulary = Vocabulary(
        {id_: text.encode() for id_, text in zip(ids.tolist(), texts, strict=True)},
        {name: id_ for id_, name in enumerate(front)},
        merges_of(left, right, id_, merges["count"]),
        len(front) + len(texts),
        NO_MERGES,
    )
    space_id = int(ids[texts.index(SPACE)]) if SPACE in texts else 0
    write_reports(
        plan,
        {**provenance, **own},
        vocabulary,
        check,
        counted.runs,
        lambda: max(made, key=len),
        space_id,
    )
    return made
