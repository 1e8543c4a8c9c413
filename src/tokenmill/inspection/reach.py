"""Token table → tokens that no text produces, each with the reason.

The text of each token is encoded. How the bytes of a token merge does not depend on the text around
it (docs/how-encoding-works.md), so a token that its own bytes do not merge to is never produced,
except as a whole pretoken. The components before merging do depend on the text around. They are
removed one by one, and the component that makes the difference is the reason:

- A prefix and stripped whitespace affect only the ends of a text, so they do not count.
- Added tokens, then the normalizer, find or change a part of the token.
- The pattern splits the token's text. Such a token is also tried inside thousands of texts, because
  a pattern may split it only at the end of a text.

The texts around a token complete partial characters first. Then other characters are added before
and after it: a pattern splits "\\n//" alone, but not after a semicolon. The texts are a sample of
all possible ones. A token that none of them produces is very likely unreachable, without proof.
"""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, pairwise, product
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments
from tokenmill.corpus.utf8 import first_bad
from tokenmill.errors import VocabularyError
from tokenmill.formats.build import build
from tokenmill.formats.spec import Prepend, Squeeze, Strip
from tokenmill.inspection.merges import MergeRules
from tokenmill.inspection.token_table import TokenTable
from tokenmill.native import _native

Reason: TypeAlias = Literal[
    "normalizer", "added_token", "pattern", "no_merge", "other_merges", "other_token"
]
REASONS: dict[Reason, str] = {
    "no_merge": "no merge produces it",
    "other_merges": "its bytes merge to other tokens",
    "pattern": "the pattern splits it",
    "normalizer": "the normalizer changes it",
    "added_token": "it contains an added token",
    "other_token": "another token has its text",
}
_NO_IDS = np.zeros(0, np.uint32)
# The number of texts around each token: first a few for all tokens, then many for the rest.
_TRIES = (64, 5_000)
_TEXTS_MAX = 200_000


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A token that its own text does not encode to. `ids` are the ids of its text."""

    index: int
    reason: Reason
    ids: list[int]


@dataclass(frozen=True)
class Reach:
    """The unreachable tokens, and the number of tokens that merging makes of two others."""

    unreachable: list[Unreachable]
    merge_count: int


def _make_cores(table: TokenTable) -> dict[str, _native.Core]:
    """Return cores of a tokenizer without some of its components.

    "real" is complete. "inner" does not change the ends of a text. "without_added" also lacks
    added tokens, "split" also the normalizer, and "merge" also the pre-tokenizer.
    """
    # Components are removed below, so the cores are not built from plain ranks.
    real = replace(table.spec, ranks=None, model=replace(table.spec.model, dropout=None))
    steps = tuple(s for s in real.steps if not isinstance(s, Prepend | Strip | Squeeze))
    inner = replace(real, prefix="never", steps=steps)
    without_added = replace(inner, added=())
    split = replace(without_added, steps=())
    merge = replace(split, stages=(), model=replace(real.model, whole=False))
    specs = {"real": real, "inner": inner, "without_added": without_added, "split": split}
    cores: dict[str, _native.Core] = {}
    made: dict[Any, _native.Core] = {}
    for name, spec in (specs | {"merge": merge}).items():
        added = [token for token in spec.added if not token.special]  # special tokens are off
        key = repr((spec.model.whole, spec.prefix, spec.steps, spec.stages, added))
        if key not in made:
            is_whole = name == "real" and not table.spec.model.dropout
            made[key] = table.tokenizer._core if is_whole else build(spec)
        cores[name] = made[key]
    return cores


def find_unreachable(table: TokenTable, rules: MergeRules) -> Reach:
    """Encode the text of every token that a text could produce."""
    cores, spec = _make_cores(table), table.spec
    indexes = [index for index in table.select("token", "byte") if table.tokens[index]]
    merged = _reached(table, cores["merge"], indexes)
    left = _without(indexes, _reached(table, cores["real"], indexes))
    squeezed: set[int] = set()
    if any(isinstance(step, Squeeze) for step in spec.steps):
        squeezed = {index for index in left if b"  " in table.tokens[index]}
    left = _without(left, _reached(table, cores["inner"], left) - squeezed)
    tries = _without(left, squeezed)
    if not spec.model.whole:
        tries = [index for index in tries if index in merged]
    left = _without(left, _reached_inside(table, cores["inner"], tries))
    reasons = _find_reasons(table, cores, rules, left, merged)
    reasons |= dict.fromkeys(squeezed, "normalizer")
    ids, ends = _encode(cores["inner"], [table.tokens[index] for index in left])
    bounds = pairwise([0, *ends.tolist()])
    unreachable = [
        Unreachable(index, reasons[index], ids[start:end].tolist())
        for index, (start, end) in zip(left, bounds, strict=True)
    ]
    has_bytes = spec.model.base == "bytes"
    sizes = table.byte_counts if has_bytes else np.abs(table.character_counts)
    merges = int(np.count_nonzero(sizes[np.fromiter(merged, np.int64, len(merged))] > 1))
    return Reach(unreachable, merges)


def _find_reasons(
    table: TokenTable,
    cores: dict[str, _native.Core],
    rules: MergeRules,
    left: list[int],
    merged: set[int],
) -> dict[int, Reason]:
    reasons: dict[int, Reason] = {}
    not_split = _reached(table, cores["split"], left)
    not_added = _reached(table, cores["without_added"], list(not_split))
    for index in left:
        token, id_ = table.tokens[index], int(table.ids[index])
        if index in not_split:
            reasons[index] = "added_token" if index in not_added else "normalizer"
        elif table.kinds[index] == "byte" or table.mergeable.get(token, id_) != id_:
            reasons[index] = "other_token"
        elif index in merged or table.spec.model.whole:
            reasons[index] = "pattern"
        else:
            reasons[index] = "other_merges" if rules.produce(token) else "no_merge"
    return reasons


def _without(indexes: list[int], others: set[int]) -> list[int]:
    return [index for index in indexes if index not in others]


def _reached(table: TokenTable, core: _native.Core, indexes: list[int]) -> set[int]:
    """Return the tokens whose own text is encoded as this one token."""
    ids, ends = _encode(core, [table.tokens[index] for index in indexes])
    where = np.array(indexes, np.int64)
    is_one = np.diff(ends, prepend=0) == 1
    is_same = ids[ends[is_one] - 1] == table.ids[where[is_one]]
    return set(where[is_one][is_same].tolist())


def _reached_inside(table: TokenTable, core: _native.Core, indexes: list[int]) -> set[int]:
    """Return the tokens that occur in the ids of some text around them."""
    found: set[int] = set()
    for tries in _TRIES:
        texts: list[bytes] = []
        owners: list[int] = []
        for index in _without(indexes, found)[: _TEXTS_MAX // tries]:
            some = list(texts_around(table.tokens[index], tries))
            texts += some
            owners += [index] * len(some)
        ids, ends = _encode(core, texts)
        owner = np.repeat(np.array(owners, np.int64), np.diff(ends, prepend=0))
        found |= set(owner[ids == table.ids[owner]].tolist())
    return found


def _encode(
    core: _native.Core, texts: Sequence[bytes]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the concatenated ids of all texts, and the end offset of each text.

    A text with a byte without a token has no ids.
    """
    if not texts:
        return _NO_IDS, np.zeros(0, np.int64)
    ends = np.cumsum([len(text) for text in texts])
    spans = np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
    threads = arguments.thread_count(None)
    try:
        pair = core.encode_documents(b"".join(texts), spans, None, _NO_IDS, _NO_IDS, False, threads)
    except VocabularyError:
        if len(texts) == 1:
            return _NO_IDS, np.zeros(1, np.int64)
        parts = [_encode(core, [text])[0] for text in texts]
        return np.concatenate(parts), np.cumsum([len(part) for part in parts])
    return np.asarray(pair[0]), np.asarray(pair[1])


# Texts around a token

_CONTINUATION = range(0x80, 0xC0)
# The first bytes of characters, by their number of bytes.
_LEADS = {2: range(0xC2, 0xE0), 3: range(0xE0, 0xF0), 4: range(0xF0, 0xF5)}
# Characters that patterns distinguish: letters of either case, digits, whitespace, punctuation,
# and endings of English words. Then all of ASCII.
_KINDS = ("", *"aʣAꟶ1٣ \n.;⍼'", "'s", "'ll", "世", "ll", "\u0301")
_ASCII = ("", *map(chr, range(0x20, 0x7F)), "\n", "\r\n", "\t")


def texts_around(token: bytes, count_max: int) -> Iterator[bytes]:
    """Yield texts of whole characters that contain a token.

    Up to `count_max` texts differ before the token, as many after it, and as many on both sides.
    """
    rest = token.lstrip(bytes(_CONTINUATION))
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")
    decoder.decode(rest)
    prefixes = _prefixes(token[: len(token) - len(rest)], count_max)
    suffixes = _suffixes(decoder.getstate()[0], count_max)
    side = max(1, round(count_max**0.5))
    pairs = chain(
        product(prefixes, suffixes[:1]),
        product(prefixes[:1], suffixes),
        product(_sample(prefixes, side), _sample(suffixes, side)),
    )
    for prefix, suffix in pairs:
        if first_bad(text := prefix + token + suffix) < 0:
            yield text


def _sample(items: list[bytes], count: int) -> list[bytes]:
    return items[:: max(1, len(items) // count)]


@cache
def _prefixes(head: bytes, count_max: int) -> list[bytes]:
    """Return texts before a token that starts with these continuation bytes."""
    if not head:
        return _contexts(count_max)
    found: list[bytes] = []
    for length, leads in _LEADS.items():
        missing = length - 1 - len(head)
        if missing >= 0:
            found += _sequences(leads, missing, count_max // 2)
    return [prefix for prefix in found if first_bad(prefix + head) < 0]


@cache
def _suffixes(tail: bytes, count_max: int) -> list[bytes]:
    """Return texts after a token that ends with these first bytes of a character."""
    if not tail:
        return _contexts(count_max)
    length = next(n for n, leads in _LEADS.items() if tail[0] in leads)
    found = _sequences(_CONTINUATION, length - len(tail) - 1, count_max)
    return [suffix for suffix in found if first_bad(tail + suffix) < 0]


def _contexts(count_max: int) -> list[bytes]:
    found = _KINDS if count_max < 2 * len(_ASCII) else dict.fromkeys(chain(_KINDS, _ASCII))
    return [text.encode() for text in found]


def _sequences(first: range, more: int, count_max: int) -> list[bytes]:
    """Return a first byte and `more` continuation bytes: all, or an even sample of all."""
    shape = (len(first), *[64] * more)
    count = min(math.prod(shape), count_max)
    chosen = np.arange(count) * math.prod(shape) // count
    digits = np.stack(np.unravel_index(chosen, shape), axis=1)
    lowest = np.array([first.start, *[0x80] * more])
    return [bytes(row) for row in (digits + lowest).tolist()]
