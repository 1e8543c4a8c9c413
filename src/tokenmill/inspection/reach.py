"""Entries → those that no text gives, and why: each token's own text is encoded.

What is around a token does not change how its own bytes are merged (docs/architecture.md, Merging),
so a token that merging its bytes alone does not give is given by no text, except where a whole
pretoken that is a token is that token. What is done before merging does depend on what is around,
so it is taken away part by part, and the part that makes the difference is the reason:

- a prefix, and white space that is stripped: those are of the ends of a text, and inside one the
  token is reached;
- added tokens, then the normaliser: they find or change a part of it;
- the pattern: it cuts the token's own text. Such a token is also tried in thousands of texts around
  it (`surroundings.py`), since what is cut at an end of a text need not be cut inside one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments, loading
from tokenmill.errors import MissingByteError
from tokenmill.formats.parts import Parts, Prepend, Squeeze, Step, Strip
from tokenmill.formats.rank_parts import of_ranks
from tokenmill.inspection.entries import Entries
from tokenmill.inspection.rules import Rules
from tokenmill.inspection.surroundings import around
from tokenmill.native import _native

Reason: TypeAlias = Literal[
    "normalizer", "added_token", "pattern", "no_merge", "other_merges", "other_token"
]
REASONS: dict[Reason, str] = {
    "no_merge": "no merge makes it",
    "other_merges": "its bytes merge to others first",
    "pattern": "the pattern cuts it",
    "normalizer": "the normaliser changes it",
    "added_token": "an added token is found in it",
    "other_token": "another token has its text",
}
_NO_IDS = np.zeros(0, np.uint32)
# Texts around a token: a few for all, then many for those that are left.
_TRIES = (64, 5_000)
_TEXTS_MAX = 200_000


@dataclass(frozen=True, slots=True)
class Unreached:
    """A token that its own text does not give; `gives` is what it gives in its place."""

    place: int
    reason: Reason
    gives: list[int]


@dataclass(frozen=True)
class Reach:
    """What encoding the tokens' own texts tells."""

    unreached: list[Unreached]
    merged: int  # tokens that merging makes of two others


class _Cores:
    """A tokenizer's core, and the same with parts taken away; each is made when it is needed."""

    def __init__(self, entries: Entries) -> None:
        self.given = entries.tokenizer.parts
        self.parts: Parts = _ranked(entries) if self.given is None else self.given
        model = self.parts.model
        self._model = replace(model, dropout=None) if model.dropout else model
        self._real = entries.tokenizer._core

    @cached_property
    def real(self) -> _native.Core:
        if not self.parts.model.dropout:
            return self._real
        return loading.core_of_parts(replace(self.parts, model=self._model))

    @property
    def _inner_steps(self) -> tuple[Step, ...]:
        steps = self.parts.steps
        return tuple(step for step in steps if not isinstance(step, Prepend | Strip | Squeeze))

    @cached_property
    def inner(self) -> _native.Core:
        """Without what is done at the ends of a text."""
        return self._made(prefix="never", steps=self._inner_steps)

    @cached_property
    def unadded(self) -> _native.Core:
        """And without added tokens."""
        return self._made(prefix="never", steps=self._inner_steps, added=())

    @cached_property
    def cut(self) -> _native.Core:
        """Only cuts and merges."""
        return self._made(prefix="never", steps=(), added=())

    @cached_property
    def merging(self) -> _native.Core:
        """Only merges."""
        model = replace(self._model, whole=False)
        return self._made(prefix="never", steps=(), added=(), stages=(), model=model)

    def _made(self, **changes: Any) -> _native.Core:
        """A core with other parts; the tokenizer's own where they change nothing."""
        made = replace(self.parts, **({"model": self._model} | changes))
        is_found = any(not token.special for token in self.parts.added)  # others are not looked for
        same = ("prefix", "steps", "stages", *(("added",) if is_found else ()))
        if made.model is self.parts.model and all(
            getattr(made, name) == getattr(self.parts, name) for name in same
        ):
            return self.real
        return loading.core_of_parts(made)


def _ranked(entries: Entries) -> Parts:
    """Parts of a vocabulary whose ids are its ranks."""
    tokenizer = entries.tokenizer
    assert tokenizer.pattern is not None
    return of_ranks(entries.merged, tokenizer.pattern, tokenizer.specials, tokenizer.name)


def reach_of(entries: Entries, rules: Rules) -> Reach:
    """Encodes every token that a text could give."""
    cores = _Cores(entries)
    places = [place for place in entries.places_of("token", "byte") if entries.tokens[place]]
    merges = set(_given(entries, cores.merging, places))
    left = _missed(entries, cores.real, places)
    squeezed: set[int] = set()
    if left and cores.given is not None:
        if any(isinstance(step, Squeeze) for step in cores.parts.steps):
            squeezed = {place for place in left if b"  " in entries.tokens[place]}
        missed = set(_missed(entries, cores.inner, left)) | squeezed
        left = [place for place in left if place in missed]
    is_whole = cores.parts.model.whole
    tried = [place for place in left if (place in merges or is_whole) and place not in squeezed]
    found = _surrounded(entries, cores.inner, tried)
    left = [place for place in left if place not in found]
    reasons = _reasons(entries, cores, rules, left, merges)
    reasons |= dict.fromkeys(squeezed, "normalizer")
    gives = _encode(cores.inner, [entries.tokens[place] for place in left])
    unreached = [Unreached(p, reasons[p], ids) for p, ids in zip(left, gives, strict=True)]
    return Reach(unreached, _composed_count(entries, merges, cores.parts.model.base == "bytes"))


def _composed_count(entries: Entries, merges: set[int], has_bytes: bool) -> int:
    """How many are more than what merging begins with."""
    places = np.fromiter(merges, np.int64, len(merges))
    counts = entries.byte_counts if has_bytes else np.abs(entries.character_counts)
    return int(np.count_nonzero(counts[places] > 1))


def _reasons(
    entries: Entries, cores: _Cores, rules: Rules, left: list[int], merges: set[int]
) -> dict[int, Reason]:
    found: dict[int, Reason] = {}
    uncut = set(_given(entries, cores.cut, left))
    free = set(_given(entries, cores.unadded, list(uncut)))
    for place in left:
        token, id_ = entries.tokens[place], int(entries.ids[place])
        if place in uncut:
            found[place] = "added_token" if place in free else "normalizer"
        elif entries.kinds[place] == "byte" or entries.merged.get(token, id_) != id_:
            found[place] = "other_token"
        elif place in merges or cores.parts.model.whole:
            found[place] = "pattern"
        else:
            found[place] = "other_merges" if rules.makes(token) else "no_merge"
    return found


def _surrounded(entries: Entries, core: _native.Core, places: list[int]) -> set[int]:
    """Those that some text around them gives."""
    found: set[int] = set()
    for tries in _TRIES:
        texts: list[bytes] = []
        owners: list[int] = []
        left = [place for place in places if place not in found]
        for place in left[: _TEXTS_MAX // tries]:
            some = list(around(entries.tokens[place], tries))
            texts += some
            owners += [place] * len(some)
        ids, ends = _ragged(core, texts)
        owner = np.repeat(np.array(owners, np.int64), np.diff(ends, prepend=0))
        found |= set(owner[ids == entries.ids[owner]].tolist())
    return found


def _missed(entries: Entries, core: _native.Core, places: list[int]) -> list[int]:
    given = set(_given(entries, core, places))
    return [place for place in places if place not in given]


def _given(entries: Entries, core: _native.Core, places: list[int]) -> list[int]:
    """Those places whose tokens encoding gives as a whole."""
    try:
        ids, ends = _ragged(core, [entries.tokens[place] for place in places])
    except MissingByteError:
        texts = _encode(core, [entries.tokens[place] for place in places])
        wanted = zip(places, texts, strict=True)
        return [place for place, ids in wanted if ids == [int(entries.ids[place])]]
    where = np.array(places, np.int64)
    is_one = np.diff(ends, prepend=0) == 1
    is_same = ids[ends[is_one] - 1] == entries.ids[where[is_one]]
    kept: list[int] = where[is_one][is_same].tolist()
    return kept


def _encode(core: _native.Core, texts: Sequence[bytes]) -> list[list[int]]:
    """The ids of many texts; of one that holds a byte without a token, none."""
    try:
        ids, ends = _ragged(core, texts)
    except MissingByteError:
        return [_try(core, text) for text in texts]
    return [part.tolist() for part in np.split(ids, ends[:-1])] if len(ends) else []


def _try(core: _native.Core, text: bytes) -> list[int]:
    try:
        return core.encode(text, None)
    except MissingByteError:
        return []


def _ragged(
    core: _native.Core, texts: Iterable[bytes]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Ids end to end, and where those of each text end."""
    listed = list(texts)
    if not listed:
        return _NO_IDS, np.zeros(0, np.int64)
    ends = np.cumsum(np.fromiter(map(len, listed), np.int64, len(listed)))
    spans = np.ascontiguousarray(np.stack([np.concatenate([[0], ends])[:-1], ends], axis=1))
    threads = arguments.thread_count(None)
    joined = b"".join(listed)
    pair = core.encode_documents(joined, spans, None, _NO_IDS, _NO_IDS, False, threads)
    return np.asarray(pair[0]), np.asarray(pair[1])
