"""A tokenizer → its rules of merging in plain Python: which pairs merge, and which first.

The core has the same as tables that cannot be asked. This is for one word, or for a few tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from itertools import pairwise

from tokenmill.formats.parts import Model
from tokenmill.inspection.entries import Entries

# The rank of two neighbours, the lowest of which is merged first; None: they stay apart.
Rank = Callable[[bytes, bytes], "int | None"]


class Rules:
    """What a tokenizer's pairs become, and in which order."""

    def __init__(self, entries: Entries) -> None:
        parts = entries.tokenizer.parts
        self._tokens = entries.merged
        self.listed = None
        self.rank: Rank
        if parts is not None and parts.model.merges is not None:
            listed = self.listed = _listed(parts.model, entries)
            self.rank = lambda left, right: listed.get((left, right))
        else:
            order = self._tokens if parts is None else _orders(parts.model, entries)
            self.rank = lambda left, right: order.get(left + right)

    @cached_property
    def results(self) -> Collection[bytes]:
        """The tokens that pairs of a list of merges become, in its order."""
        return {left + right: None for left, right in self.listed or ()}.keys()

    def makes(self, token: bytes) -> bool:
        """Whether some pair becomes a token."""
        if self.listed is not None:
            return token in self.results
        tokens = self._tokens
        return any(token[:at] in tokens and token[at:] in tokens for at in range(1, len(token)))


def _listed(model: Model, entries: Entries) -> dict[tuple[bytes, bytes], int]:
    """The pairs of a list of merges → their places in it; of equal ones the last counts."""
    assert model.merges is not None
    texts = [entries.tokens[entries.places[id_]] for id_ in model.ids.tolist()]
    return {
        (texts[left], texts[right]): rank
        for rank, (left, right) in enumerate(model.merges.tolist())
    }


def _orders(model: Model, entries: Entries) -> dict[bytes, int]:
    """Tokens → what they are ordered by, of a model without a list of merges."""
    if model.order is None:
        return entries.merged
    order = dict(zip(model.ids.tolist(), model.order.tolist(), strict=True))
    return {token: order[id_] for token, id_ in entries.merged.items()}


def merge(pieces: Sequence[bytes], rank: Rank) -> list[tuple[int, int]]:
    """The merges of a pretoken in their order: the rank, and the place of the left one of the pair
    among the pieces that are left then."""
    left_over = list(pieces)
    steps: list[tuple[int, int]] = []
    while True:
        found = [
            (order, place)
            for place, (left, right) in enumerate(pairwise(left_over))
            if (order := rank(left, right)) is not None
        ]
        if not found:
            return steps
        order, place = min(found)
        left_over[place : place + 2] = [left_over[place] + left_over[place + 1]]
        steps.append((order, place))
