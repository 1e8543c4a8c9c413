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

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, product
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments
from tokenmill.errors import VocabularyError
from tokenmill.formats.build import build
from tokenmill.formats.spec import Prepend, Squeeze, Strip, TokenizerSpec
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


class _Cores:
    """Cores of a tokenizer without some of its components, each built when first used.

    "real" is complete. "inner" does not change the ends of a text. "without_added" also lacks
    added tokens, "split" also the normalizer, and "merge" also the pre-tokenizer.
    """

    def __init__(self, table: TokenTable) -> None:
        # Components are removed below, so the cores are not built from plain ranks.
        self.spec = spec = replace(table.spec, ranks=None)
        self._made: dict[str, _native.Core] = {}
        model = replace(spec.model, dropout=None) if spec.model.dropout else spec.model
        if model is spec.model:
            self._made["real"] = table.tokenizer._core
        steps = tuple(s for s in spec.steps if not isinstance(s, Prepend | Strip | Squeeze))
        real = replace(spec, model=model)
        inner = replace(real, prefix="never", steps=steps)
        without_added = replace(inner, added=())
        split = replace(without_added, steps=())
        merge = replace(split, stages=(), model=replace(model, whole=False))
        self._specs = {
            "real": real,
            "inner": inner,
            "without_added": without_added,
            "split": split,
            "merge": merge,
        }

    def __getitem__(self, name: str) -> _native.Core:
        if name not in self._made:
            is_same = self._behaviour(self._specs[name]) == self._behaviour(self.spec)
            self._made[name] = self["real"] if is_same else build(self._specs[name])
        return self._made[name]

    def _behaviour(self, spec: TokenizerSpec) -> tuple[Any, ...]:
        """Return the components that ids of a text depend on. Special tokens are off."""
        added = [token for token in spec.added if not token.special]
        return id(spec.model), spec.prefix, spec.steps, spec.stages, added


def find_unreachable(table: TokenTable, rules: MergeRules) -> Reach:
    """Encode the text of every token that a text could produce."""
    cores = _Cores(table)
    indexes = [index for index in table.select("token", "byte") if table.tokens[index]]
    merged = _reached(table, cores["merge"], indexes)
    left = _without(indexes, _reached(table, cores["real"], indexes))
    squeezed: set[int] = set()
    if any(isinstance(step, Squeeze) for step in cores.spec.steps):
        squeezed = {index for index in left if b"  " in table.tokens[index]}
    left = _without(left, _reached(table, cores["inner"], left) - squeezed)
    tries = _without(left, squeezed)
    if not cores.spec.model.whole:
        tries = [index for index in tries if index in merged]
    left = _without(left, _reached_inside(table, cores["inner"], tries))
    reasons = _find_reasons(table, cores, rules, left, merged)
    reasons |= dict.fromkeys(squeezed, "normalizer")
    ids = _encode_all(cores["inner"], [table.tokens[index] for index in left])
    unreachable = [Unreachable(i, reasons[i], found) for i, found in zip(left, ids, strict=True)]
    has_bytes = cores.spec.model.base == "bytes"
    sizes = table.byte_counts if has_bytes else np.abs(table.character_counts)
    merges = int(np.count_nonzero(sizes[np.fromiter(merged, np.int64, len(merged))] > 1))
    return Reach(unreachable, merges)


def _find_reasons(
    table: TokenTable, cores: _Cores, rules: MergeRules, left: list[int], merged: set[int]
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
        elif index in merged or cores.spec.model.whole:
            reasons[index] = "pattern"
        else:
            reasons[index] = "other_merges" if rules.produce(token) else "no_merge"
    return reasons


def _without(indexes: list[int], others: set[int]) -> list[int]:
    return [index for index in indexes if index not in others]


def _reached(table: TokenTable, core: _native.Core, indexes: list[int]) -> set[int]:
    """Return the tokens whose own text is encoded as this one token."""
    texts = [table.tokens[index] for index in indexes]
    try:
        ids, ends = _encode_ragged(core, texts)
    except VocabularyError:
        pairs = zip(indexes, _encode_all(core, texts), strict=True)
        return {index for index, found in pairs if found == [int(table.ids[index])]}
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
        ids, ends = _encode_ragged(core, texts)
        owner = np.repeat(np.array(owners, np.int64), np.diff(ends, prepend=0))
        found |= set(owner[ids == table.ids[owner]].tolist())
    return found


def _encode_all(core: _native.Core, texts: Sequence[bytes]) -> list[list[int]]:
    """Return the ids of each text, empty for a text with a byte without a token."""
    try:
        ids, ends = _encode_ragged(core, texts)
    except VocabularyError:
        return [_encode_or_empty(core, text) for text in texts]
    return [part.tolist() for part in np.split(ids, ends[:-1])] if len(ends) else []


def _encode_or_empty(core: _native.Core, text: bytes) -> list[int]:
    try:
        return core.encode(text, None)
    except VocabularyError:
        return []


def _encode_ragged(
    core: _native.Core, texts: Sequence[bytes]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return the concatenated ids of all texts, and the end offset of each text."""
    if not texts:
        return _NO_IDS, np.zeros(0, np.int64)
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    spans = np.ascontiguousarray(np.stack([np.concatenate([[0], ends])[:-1], ends], axis=1))
    threads = arguments.thread_count(None)
    pair = core.encode_documents(b"".join(texts), spans, None, _NO_IDS, _NO_IDS, False, threads)
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
    is_lead = (at for at, byte in enumerate(token) if byte not in _CONTINUATION)
    head = next(is_lead, len(token))
    prefixes = _prefixes(token[:head], count_max)
    suffixes = _suffixes(_open_end(token[head:]), count_max)
    side = max(1, round(count_max**0.5))
    pairs = chain(
        product(prefixes, suffixes[:1]),
        product(prefixes[:1], suffixes),
        product(_sample(prefixes, side), _sample(suffixes, side)),
    )
    for prefix, suffix in pairs:
        if _is_text(text := prefix + token + suffix):
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
    return [prefix for prefix in found if _is_text(prefix + head)]


@cache
def _suffixes(tail: bytes, count_max: int) -> list[bytes]:
    """Return texts after a token that ends with these first bytes of a character."""
    if not tail:
        return _contexts(count_max)
    length = next(n for n, leads in _LEADS.items() if tail[0] in leads)
    found = _sequences(_CONTINUATION, length - len(tail) - 1, count_max)
    return [suffix for suffix in found if _is_text(tail + suffix)]


def _contexts(count_max: int) -> list[bytes]:
    found = _KINDS if count_max < 2 * len(_ASCII) else dict.fromkeys(chain(_KINDS, _ASCII))
    return [text.encode() for text in found]


def _open_end(rest: bytes) -> bytes:
    """Return the bytes of an incomplete character at the end."""
    for back in range(1, min(3, len(rest)) + 1):
        lead = rest[-back]
        if any(lead in leads and length > back for length, leads in _LEADS.items()):
            return rest[len(rest) - back :]
        if lead not in _CONTINUATION:
            break
    return b""


def _sequences(first: range, more: int, count_max: int) -> list[bytes]:
    """Return a first byte and `more` continuation bytes: all, or an even sample of all."""
    shape = (len(first), *[64] * more)
    count = min(math.prod(shape), count_max)
    chosen = np.arange(count) * math.prod(shape) // count
    digits = np.stack(np.unravel_index(chosen, shape), axis=1)
    lowest = np.array([first.start, *[0x80] * more])
    return [bytes(row) for row in (digits + lowest).tolist()]


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
