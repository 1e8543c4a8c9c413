"""text → ids, ids → bytes, documents → vocabulary: all of byte-pair encoding in plain Python.

Read this file to learn the method. The tests run it to check the fast core. It prefers the shortest
clear form to speed. Encoding splits a document into pretokens with a regular expression. Inside
each pretoken it then merges the adjacent pair with the lowest rank, until no pair forms a token.
Training finds the ranks: it counts the adjacent pairs of all pretokens, makes a token of the most
frequent pair, and repeats. Both work on bytes, so every text in any language has ids, and even
bytes that are not text.

    >>> ranks = train(["the mill mills the meal"], GPT2_PATTERN, 262)
    >>> [token.decode() for token, rank in ranks.items() if rank >= 256]
    [' m', 'he', 'il', 'the', ' mil', ' mill']
    >>> encode("the mills", ranks, GPT2_PATTERN)
    [259, 261, 115]
    >>> decode([259, 261, 115], ranks)
    b'the mills'

Invariant: decode(encode(text)) returns the bytes of the text, if the pattern matches all of it.
Invariant: a pretoken's ids depend on that pretoken alone, never on its neighbours.
Source: Sennrich, Haddow, Birch: Neural Machine Translation of Rare Words with Subword Units,
ACL 2016, section 3.2; on bytes: Radford et al.: Language Models are Unsupervised Multitask
Learners, 2019, section 2.2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

from tokenmill.errors import import_package

# A contraction, or letters, digits or other signs with at most one space before them, or
# whitespace. The last whitespace character belongs to the word after it.
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


# ── encode: text ▶ pretokens ▶ ids ───────────────────────────────────────────────────────────


def encode(
    text: str | bytes,
    ranks: Mapping[bytes, int],
    pattern: str,
    special_tokens: Mapping[str, int] | None = None,
) -> list[int]:
    """Return the ids of `text`. Each of `special_tokens` in the text becomes its id."""
    ids = []
    parts = [to_bytes(text)]
    if special_tokens:
        # The leftmost special token wins, then the longest. The group makes split() keep the
        # separators, so `parts` alternates: odd indexes are special tokens.
        names = sorted(special_tokens, key=len, reverse=True)
        parts = re.split(("(" + "|".join(map(re.escape, names)) + ")").encode(), parts[0])
    for index, part in enumerate(parts):
        if special_tokens and index % 2 == 1:
            ids.append(special_tokens[part.decode()])
        else:
            for pretoken in pretokens(part, pattern):
                ids += merge(pretoken, ranks)
    return ids


def to_bytes(text: str | bytes) -> bytes:
    """Return the bytes of `text`. A lone surrogate becomes U+FFFD."""
    if not isinstance(text, str):
        return bytes(text)
    try:
        return text.encode()
    except UnicodeEncodeError:  # adjacent halves of a surrogate pair become one character
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def pretokens(document: bytes, pattern: str) -> Iterator[bytes]:
    """Yield the matches of `pattern` in order. The text between two matches is dropped."""
    chars = characters(document)
    # The pattern reads text, with U+FFFD for invalid bytes. `chars` has their bytes.
    text = "".join(char.decode(errors="replace") for char in chars)
    # The standard `re` does not support \p{L} and other Unicode classes.
    regex = import_package("regex", "tokenmill.reference")
    for match in regex.finditer(pattern, text, regex.V1):  # V1 reads [\p{L}&&[^\p{Lu}]] as a set
        if match.group():
            yield b"".join(chars[match.start() : match.end()])


def characters(document: bytes) -> list[bytes]:
    """Split `document` into characters. The longest invalid prefix of a character counts as one,
    as in bytes.decode(errors="replace")."""
    chars = []
    while document:
        try:
            valid, invalid = document, b""
            text = document.decode()
        except UnicodeDecodeError as error:
            valid, invalid = document[: error.start], document[error.start : error.end]
            text = valid.decode()
        chars += [character.encode() for character in text]
        if invalid:
            chars.append(invalid)
        document = document[len(valid) + len(invalid) :]
    return chars


def merge(pretoken: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """Return the ids of one pretoken: of all adjacent pairs that form a token, merge the pair with
    the lowest rank, the leftmost first, and repeat."""
    if pretoken in ranks:  # some vocabularies contain tokens that merging does not reach
        return [ranks[pretoken]]
    symbols = [pretoken[i : i + 1] for i in range(len(pretoken))]
    for _ in merge_symbols(symbols, lambda left, right: ranks.get(left + right)):
        pass
    return [ranks[symbol] for symbol in symbols]


def merge_symbols(
    symbols: list[bytes], rank: Callable[[bytes, bytes], int | None]
) -> Iterator[tuple[int, int]]:
    """Merge `symbols` in place, and yield the rank and the index of each merged pair."""
    while True:
        pairs = [
            (order, index)
            for index, (left, right) in enumerate(pairwise(symbols))
            if (order := rank(left, right)) is not None
        ]
        if not pairs:
            return
        order, index = min(pairs)
        symbols[index : index + 2] = [symbols[index] + symbols[index + 1]]
        yield order, index


# ── decode: ids ▶ bytes ──────────────────────────────────────────────────────────────────────


def decode(
    ids: Iterable[int], ranks: Mapping[bytes, int], special_tokens: Mapping[str, int] | None = None
) -> bytes:
    """Return the bytes of `ids`, not text: a token may end inside a character."""
    tokens = {id: token for token, id in ranks.items()}
    tokens |= {id: name.encode() for name, id in (special_tokens or {}).items()}
    return b"".join(tokens[id] for id in ids)


# ── train: documents ▶ pretokens ▶ counts ▶ merges ▶ vocabulary ──────────────────────────────


def train(documents: Iterable[str | bytes], pattern: str, vocab_size: int) -> dict[bytes, int]:
    """Return the ranks of at most `vocab_size` tokens: the 256 bytes, then one token per merge.

    The most frequent pair is merged first. Among equal counts the pair with the smaller ids wins.
    Overlapping pairs count: "aaa" contains (a, a) twice, although only one of the two can merge.
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
            break  # every pretoken is one token
        left, right = min(pair_counts, key=lambda pair: (-pair_counts[pair], pair))
        for word in words.values():
            replace(word, left, right, len(tokens))
        tokens.append(tokens[left] + tokens[right])
    return {token: id for id, token in enumerate(tokens)}


def replace(word: list[int], left: int, right: int, new: int) -> None:
    """Replace each `left, right` in `word` by `new`, from the left, in place."""
    index = 0
    while index < len(word) - 1:
        if word[index] == left and word[index + 1] == right:
            word[index : index + 2] = [new]
        index += 1
