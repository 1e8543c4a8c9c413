"""text → ids, ids → bytes, documents → vocabulary: all of byte-pair encoding in plain Python.

This file is the lesson and the oracle: it is read to learn the method and run to check the fast
core, so it prefers the shortest clear form to speed. Encoding cuts a document into pretokens with
a regular expression, then joins neighbours inside each pretoken, best rank first, until no two
neighbours form a token. Training finds the ranks: it counts the pairs of neighbours in all
pretokens, makes a token of the most frequent pair, and repeats. The work is done on bytes, so
every text has ids, in any language, and even bytes that are not text do.

    >>> ranks = train(["the mill mills the meal"], GPT2_PATTERN, 262)
    >>> [token.decode() for token, rank in ranks.items() if rank >= 256]
    [' m', 'he', 'il', 'the', ' mil', ' mill']
    >>> encode("the mills", ranks, GPT2_PATTERN)
    [259, 261, 115]
    >>> decode([259, 261, 115], ranks)
    b'the mills'

Invariant: decode(encode(text)) gives the bytes of the text, if the pattern leaves nothing out.
Invariant: a pretoken's ids depend on that pretoken alone, never on its neighbours.
Source: Sennrich, Haddow, Birch: Neural Machine Translation of Rare Words with Subword Units,
ACL 2016, section 3.2; on bytes: Radford et al.: Language Models are Unsupervised Multitask
Learners, 2019, section 2.2.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from tokenmill.errors import MissingExtraError

# A contraction; letters, digits or other signs, each with one space before it; white space, of
# which the last character is left for the word that follows.
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


# ── encode: text ▶ pretokens ▶ ids ───────────────────────────────────────────────────────────


def encode(
    text: str | bytes,
    ranks: Mapping[bytes, int],
    pattern: str,
    specials: Mapping[str, int] | None = None,
) -> list[int]:
    """The ids of `text`; where the name of one of `specials` stands, that special's id."""
    ids = []
    parts = [to_bytes(text)]
    if specials:
        # The leftmost special wins, then the longest. The group makes split() keep what it cuts
        # at, so `parts` is document, special, document, …: odd places hold the specials.
        names = sorted(specials, key=len, reverse=True)
        parts = re.split(("(" + "|".join(map(re.escape, names)) + ")").encode(), parts[0])
    for index, part in enumerate(parts):
        if specials and index % 2 == 1:
            ids.append(specials[part.decode()])
        else:
            for pretoken in pretokens(part, pattern):
                ids += merge(pretoken, ranks)
    return ids


def to_bytes(text: str | bytes) -> bytes:
    """The bytes of `text`. Half a surrogate pair has none in UTF-8 and becomes U+FFFD."""
    if not isinstance(text, str):
        return bytes(text)
    try:
        return text.encode()
    except UnicodeEncodeError:  # two halves that stand together still make their character
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def pretokens(document: bytes, pattern: str) -> Iterator[bytes]:
    """The matches of `pattern`, one after the other. What lies between two matches is dropped."""
    pieces = characters(document)
    # The pattern reads characters, so it sees U+FFFD where the bytes are none. The bytes
    # themselves stay in `pieces`, at the same index.
    seen = "".join(piece.decode(errors="replace") for piece in pieces)
    regex = _regex()
    for match in regex.finditer(pattern, seen, regex.V1):  # V1 reads [\p{L}&&[^\p{Lu}]] as a set
        if match.group():
            yield b"".join(pieces[match.start() : match.end()])


def characters(document: bytes) -> list[bytes]:
    """`document` cut between its characters. An invalid sequence, as long as it can be the
    beginning of a character, is one piece: bytes.decode(errors="replace") has the same rule."""
    pieces = []
    while document:
        try:
            valid, invalid = document, b""
            text = document.decode()
        except UnicodeDecodeError as error:
            valid, invalid = document[: error.start], document[error.start : error.end]
            text = valid.decode()
        pieces += [character.encode() for character in text]
        if invalid:
            pieces.append(invalid)
        document = document[len(valid) + len(invalid) :]
    return pieces


def merge(pretoken: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """The ids of one pretoken: of all neighbours that form a token, join those of the lowest
    rank, the leftmost first; look again."""
    if pretoken in ranks:  # not the same as merging: some vocabularies hold tokens no merge reaches
        return [ranks[pretoken]]
    parts = [pretoken[i : i + 1] for i in range(len(pretoken))]
    while True:
        joins = [
            (ranks[left + right], index)
            for index, (left, right) in enumerate(pairwise(parts))
            if left + right in ranks
        ]
        if not joins:
            return [ranks[part] for part in parts]
        _, index = min(joins)
        parts[index : index + 2] = [parts[index] + parts[index + 1]]


# ── decode: ids ▶ bytes ──────────────────────────────────────────────────────────────────────


def decode(
    ids: Iterable[int], ranks: Mapping[bytes, int], specials: Mapping[str, int] | None = None
) -> bytes:
    """The bytes of `ids`. Not text: one id may hold the first half of a character only."""
    tokens = {id: token for token, id in ranks.items()}
    tokens |= {id: name.encode() for name, id in (specials or {}).items()}
    return b"".join(tokens[id] for id in ids)


# ── train: documents ▶ pretokens ▶ counts ▶ merges ▶ vocabulary ──────────────────────────────


def train(documents: Iterable[str | bytes], pattern: str, vocab_size: int) -> dict[bytes, int]:
    """The ranks of at most `vocab_size` tokens: the 256 bytes, then one token a merge.

    The most frequent pair is merged first, of equals the pair with the smaller ids. Neighbours
    are simply counted: "aaa" holds the pair (a, a) twice, though only one of the two can merge.
    """
    counts: Counter[bytes] = Counter()
    for document in documents:
        counts.update(pretokens(to_bytes(document), pattern))
    words = {pretoken: list(pretoken) for pretoken in counts}  # ids; so far, each is one byte
    tokens = [bytes([byte]) for byte in range(256)]
    while len(tokens) < vocab_size:
        pair_counts: Counter[tuple[int, int]] = Counter()
        for pretoken, word in words.items():
            for pair in pairwise(word):
                pair_counts[pair] += counts[pretoken]
        if not pair_counts:
            break  # every pretoken is one token: there is nothing left to merge
        left, right = min(pair_counts, key=lambda pair: (-pair_counts[pair], pair))
        for word in words.values():
            replace(word, left, right, len(tokens))
        tokens.append(tokens[left] + tokens[right])
    return {token: id for id, token in enumerate(tokens)}


def replace(word: list[int], left: int, right: int, new: int) -> None:
    """Put `new` for each `left, right` in `word`, from the left, in place."""
    index = 0
    while index < len(word) - 1:
        if word[index] == left and word[index + 1] == right:
            word[index : index + 2] = [new]
        index += 1


def _regex() -> Any:
    """The module `regex`. The standard `re` knows neither \\p{L} nor the other Unicode classes."""
    try:
        return importlib.import_module("regex")
    except ImportError as error:
        raise MissingExtraError(
            'tokenmill.reference splits text with the module "regex", which is not installed. '
            'It comes with the dev extra: pip install "tokenmill[dev]"'
        ) from error
