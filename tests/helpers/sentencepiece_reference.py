"""Lines of text → the pieces of SentencePiece's BPE trainer: its reference implementation.

It follows the trainer of sentencepiece 0.2.2. Lines become words that begin with "▁". Rare
characters become one character that is never merged. The most frequent pair is merged. Among equal
counts it is the shorter string, then the smaller one. All neighbours count: "aaa" has (a, a) twice.
Older trainers (0.2.0) count such a run once, and look for the best pair only among the 5 % that
were the most frequent every hundred merges.

If no other pair is left, pairs that no word contains any longer become pieces. Their count is 0.
So do pairs that appear and disappear within one merge, as (ab, a) does when "abab" becomes (ab,
ab).

    ids      <unk> <s> </s>, user-defined symbols, merges, characters by falling count

Text is normalised as the rule `identity` does it: runs of spaces become one, none are at the ends.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import regex

SPACE, UNKNOWN, BOUNDARY = "▁", "▅", "\t"
META = ("<unk>", "<s>", "</s>")

Pair = tuple[str, str]


@dataclass(frozen=True)
class Options:
    character_coverage: float = 0.9995
    max_sentencepiece_length: int = 16
    max_sentence_length: int = 4192  # in bytes; longer lines are left out
    split_by_unicode_script: bool = True
    split_by_number: bool = True
    split_digits: bool = False
    split_by_whitespace: bool = True
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    user_defined_symbols: tuple[str, ...] = ()

    @property
    def front(self) -> tuple[str, ...]:
        return (*META, *self.user_defined_symbols)


def train(
    lines: Iterable[str],
    vocab_size: int,
    options: Options | None = None,
    merge: Callable[[Mapping[str, int], int, Options], list[tuple[str, int]]] | None = None,
) -> list[str]:
    """All pieces in the order of their ids, fewer than `vocab_size` if the text has fewer."""
    options = options or Options()
    sentences = load(lines, options)
    characters = required(sentences, options)
    room = vocab_size - len(options.front) - len(characters)
    if room < 0:
        raise ValueError(f"{vocab_size} entries are fewer than {len(characters)} characters need")
    words: Counter[str] = Counter()
    for sentence in sentences:
        known = "".join(c if c in characters else UNKNOWN for c in sentence)
        words.update(split(known) if options.split_by_whitespace else [known])
    merged = [piece for piece, _ in (merge or merge_fast)(words, room, options)]
    return [*options.front, *merged, *characters]


def load(lines: Iterable[str], options: Options) -> list[str]:
    """The lines that are used, normalised."""
    kept = [
        line
        for line in lines
        if line and len(line.encode()) <= options.max_sentence_length and UNKNOWN not in line
    ]
    if not kept:
        raise ValueError("no lines to learn from")
    return [sentence for line in kept if (sentence := normalised(line, options))]


def normalised(line: str, options: Options) -> str:
    if options.remove_extra_whitespaces:
        line = " ".join(part for part in line.split(" ") if part)
    if line and options.add_dummy_prefix:
        line = " " + line
    text = line.replace(" ", SPACE)
    if options.remove_extra_whitespaces:
        text = text.rstrip(SPACE)  # also one that was not a space
    # The longest of these names at the leftmost place, as one boundary each.
    names = sorted(options.front, key=len, reverse=True)
    return regex.sub("|".join(map(regex.escape, names)), BOUNDARY, text)


def required(sentences: Sequence[str], options: Options) -> list[str]:
    """The characters of the vocabulary: the most frequent ones that cover enough of the text."""
    counts = Counter(c for sentence in sentences for c in sentence if c != "\0")
    total, covered = counts.total(), 0
    found = []
    for character in sorted(counts, key=lambda c: (-counts[c], c)):
        if np.float32(covered / total) >= np.float32(options.character_coverage):
            break
        covered += counts[character]
        if character != BOUNDARY:
            found.append(character)
    return found


def split(sentence: str) -> list[str]:
    """Words, each with the "▁" before it."""
    first, *others = sentence.split(SPACE)
    return [word for word in (first, *(SPACE + other for other in others)) if word]


def merge(words: Mapping[str, int], merges_max: int, options: Options) -> list[tuple[str, int]]:
    """The merged pieces with their counts. All pairs are counted again for each merge."""
    texts = [list(word) for word in words]
    weights = list(words.values())
    # Pairs that were seen once stay candidates, with a count of 0, until they are taken.
    candidates = dict.fromkeys(
        (pair for text in texts for pair in pairwise(text) if is_valid("".join(pair), options)), 0
    )
    taken: set[Pair] = set()
    pieces: dict[str, int] = {}
    while len(pieces) < merges_max and candidates:
        candidates = dict.fromkeys(candidates, 0)
        for text, weight in zip(texts, weights, strict=True):
            for pair in pairwise(text):
                if pair in candidates:
                    candidates[pair] += weight
        best = min(candidates, key=lambda pair: _key(pair, candidates[pair]))
        count = candidates.pop(best)
        taken.add(best)
        if "".join(best) in pieces:
            continue
        pieces["".join(best)] = count
        for text in texts:
            for pair in join(text, best):
                if pair not in taken and is_valid("".join(pair), options):
                    candidates[pair] = 0
    return list(pieces.items())


def merge_fast(
    words: Mapping[str, int], merges_max: int, options: Options
) -> list[tuple[str, int]]:
    """The result of `merge`, from counts that are updated after each merge."""
    texts = [list(word) for word in words]
    weights = list(words.values())
    counts: Counter[Pair] = Counter()
    places: dict[Pair, set[int]] = {}
    pieces: dict[str, int] = {}

    def add(index: int, pairs: Mapping[Pair, int]) -> None:
        for pair, times in pairs.items():
            if pair in places or is_valid("".join(pair), options):
                counts[pair] += times * weights[index]
                places.setdefault(pair, set()).add(index)

    for index, text in enumerate(texts):
        add(index, Counter(pairwise(text)))
    heap = [(_key(pair, count), pair) for pair, count in counts.items()]
    heapq.heapify(heap)
    while len(pieces) < merges_max and heap:
        key, best = heapq.heappop(heap)
        if (now := _key(best, counts[best])) != key:
            heapq.heappush(heap, (now, best))
            continue
        if "".join(best) in pieces:
            continue
        pieces["".join(best)] = counts[best]
        made: dict[Pair, None] = {}
        for index in places[best]:
            before = Counter(pairwise(texts[index]))
            made |= dict.fromkeys(join(texts[index], best))
            after = Counter(pairwise(texts[index]))
            for pair, times in (before - after).items():
                if pair in places:
                    counts[pair] -= times * weights[index]
            add(index, after - before)
        for pair in made:
            if is_valid("".join(pair), options):
                places.setdefault(pair, set())
                heapq.heappush(heap, (_key(pair, counts[pair]), pair))
    return list(pieces.items())


def _key(pair: Pair, count: int) -> tuple[int, int, str]:
    piece = "".join(pair)
    return (-count, len(piece), piece)


def join(text: list[str], best: Pair) -> list[Pair]:
    """Joins each `best` in `text`, from the left, in place; all pairs that this made on the way."""
    made = []
    index = 0
    while index < len(text) - 1:
        if (text[index], text[index + 1]) == best:
            text[index : index + 2] = ["".join(best)]
            if index > 0:
                made.append((text[index - 1], text[index]))
            if index < len(text) - 1:
                made.append((text[index], text[index + 1]))
        index += 1
    return made


def is_valid(piece: str, options: Options) -> bool:
    """Whether a piece may be made: short enough, of one script, "▁" only where words begin."""
    if len(piece) > options.max_sentencepiece_length:
        return False
    before: str | None = None
    for at, character in enumerate(piece):
        if character in (UNKNOWN, BOUNDARY, "\0", " "):
            return False
        if character == SPACE:
            if at > 0 and (options.split_by_whitespace or at == len(piece) - 1):
                return False
            continue
        digit = character in "0123456789０１２３４５６７８９"
        here = script(character)
        if here == "Inherited":
            here = before
        if digit and not options.split_by_number:
            here = None
        if digit and options.split_digits and len(piece) > 1:
            return False
        if options.split_by_unicode_script and None not in (here, before) and here != before:
            return False
        before = here
    return True


# Its table of scripts is that of Unicode 9.0: characters that are newer count as Common. These are
# all that have another script in Unicode 16.0, found by asking the trainer for each.
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
NEWER = [
    range(int(first, 16), int(last or first, 16) + 1)
    for first, _, last in (part.partition("-") for part in _NEWER.split())
]

# The scripts of Unicode 9.0 but Hiragana and Katakana, which are Han here; as ISO 15924 names them.
_SCRIPTS = """
    Adlm Aghb Ahom Arab Armi Armn Avst Bali Bamu Bass Batk Beng Bhks Bopo Brah Brai Bugi
    Buhd Cakm Cans Cari Cham Cher Cprt Cyrl Deva Dsrt Dupl Egyp Elba Ethi Geor Glag Goth
    Gran Grek Gujr Guru Hang Hani Hano Hatr Hebr Hluw Hmng Hung Ital Java Kali Khar Khmr
    Khoj Knda Kthi Lana Laoo Latn Lepc Limb Lina Linb Lisu Lyci Lydi Mahj Mand Mani Marc
    Mend Merc Mero Mlym Modi Mong Mroo Mtei Mult Mymr Narb Nbat Newa Nkoo Ogam Olck Orkh
    Orya Osge Osma Palm Pauc Perm Phag Phli Phlp Phnx Plrd Prti Qaac Rjng Runr Samr Sarb
    Saur Sgnw Shaw Shrd Sidd Sind Sinh Sora Sund Sylo Syrc Tagb Takr Tale Talu Taml Tang
    Tavt Telu Tfng Tglg Thaa Thai Tibt Tirh Ugar Vaii Wara Xpeo Xsux Yiii
"""
HAN = regex.compile(r"[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\u30fc]")
SCRIPTS = regex.compile("|".join(rf"(?P<{s}>\p{{Script={s}}})" for s in _SCRIPTS.split()))


@cache
def script(character: str) -> str:
    """Its script as the trainer sees it; the sign of a long vowel is Han, too."""
    if any(ord(character) in newer for newer in NEWER):
        return "Common"
    if HAN.match(character):
        return "Han"
    if regex.match(r"\p{Script=Inherited}", character):
        return "Inherited"
    found = SCRIPTS.match(character)
    return found.lastgroup if found else "Common"
