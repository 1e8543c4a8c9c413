"""Words of characters → the pieces that SentencePiece's trainer learns.

The core joins pairs while words hold them. Then come pairs that once stood in a word and do not any
longer, with a count of 0: the shortest first, of those the smallest. They are wanted only where a
text has fewer pairs than the vocabulary has room for, so nobody keeps them in mind: all merges are
done again, word by word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from tokenmill.training.merging import Certificate, Merging, Progress
from tokenmill.training.pieces.scripts import NONE, script_table
from tokenmill.training.pieces.sentences import Alphabet, Words
from tokenmill.training.pieces.vocabulary import Joined

Pair = tuple[str, str]


def learn(
    alphabet: Alphabet,
    words: Callable[[], Iterable[Words]],
    merges_max: int,
    *,
    min_frequency: int,
    length_max: int,
    threads: int,
    memory: int,
    spill: Path | None,
    progress: Progress | None = None,
) -> tuple[list[Joined], Certificate]:
    """The merges in order, and the certificate that they are exact. Words are asked for twice."""
    characters = alphabet.characters
    with Merging(
        tokens={id_: character.encode() for id_, character in enumerate(characters)},
        alphabet={},
        first_id=len(characters),
        ids_end=len(characters) + merges_max,
        ties="sentencepiece",
        min_frequency=min_frequency,
        max_token_length=length_max + 1,
        threads=threads,
        memory=memory,
        spill=spill,
        scripts=alphabet.scripts(),
    ) as merging:
        for part in words():
            merging.add_ids(*part)
        merges, certificate = merging.run(progress)
    texts = list(characters)
    found = []
    columns = (merges.lefts, merges.rights, merges.counts)
    for left, right, count in zip(*(column.tolist() for column in columns), strict=True):
        found.append(Joined(texts[left], texts[right], count))
        texts.append(texts[left] + texts[right])
    if min_frequency == 0 and len(found) < merges_max:
        known = _each_word(characters, words())
        found += lost_pairs(known, found, length_max)[: merges_max - len(found)]
    return found, certificate


def _each_word(characters: Sequence[str], words: Iterable[Words]) -> Iterator[list[str]]:
    for ids, lengths, _ in words:
        tokens = [characters[id_] for id_ in ids.tolist()]
        start = 0
        for length in lengths.tolist():
            yield tokens[start : start + length]
            start += length


def lost_pairs(
    words: Iterable[list[str]], merges: Sequence[Joined], length_max: int
) -> list[Joined]:
    """The pieces that no word holds when all merges are done, and once could have been."""
    ranks: dict[Pair, int] = {}
    for rank, one in enumerate(merges):
        ranks[one.left, one.right] = rank
    seen: dict[str, Pair] = {}
    done = set()
    for word in words:
        text = "".join(word)
        if text in done:
            continue
        done.add(text)
        for pair in _pairs_seen(word, ranks):
            piece = pair[0] + pair[1]
            seen[piece] = min(pair, seen.get(piece, pair))
    for one in merges:
        seen.pop(one.left + one.right, None)
    left_over = [piece for piece in seen if len(piece) <= length_max and _has_one_script(piece)]
    return [Joined(*seen[p], 0) for p in sorted(left_over, key=lambda p: (len(p), p))]


def _pairs_seen(word: list[str], ranks: Mapping[Pair, int]) -> Iterator[Pair]:
    """All pairs that a word has while it is merged, also those within one merge."""
    yield from pairwise(word)
    while True:
        best = min(pairwise(word), key=lambda pair: ranks.get(pair, len(ranks)), default=None)
        if best is None or best not in ranks:
            return
        at = 0
        while at < len(word) - 1:
            if (word[at], word[at + 1]) == best:
                word[at : at + 2] = [best[0] + best[1]]
                if at > 0:
                    yield word[at - 1], word[at]
                if at < len(word) - 1:
                    yield word[at], word[at + 1]
            at += 1


def _has_one_script(piece: str) -> bool:
    table = script_table()
    return len({int(table[ord(character)]) for character in piece} - {NONE}) <= 1
