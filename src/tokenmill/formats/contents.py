"""What a saved tokenizer holds, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

Merge = tuple[bytes, bytes]


@dataclass(frozen=True)
class Contents:
    """Tokens by id, the pattern (`scheme` is its name if it has a scanner), specials by name.

    `learned` are the merges of a trained vocabulary, in order; of another they are found.
    """

    tokens: dict[int, bytes]
    pattern: str
    scheme: str | None
    specials: dict[str, int]
    learned: list[Merge] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def merges(self) -> list[Merge]:
        """The merges that make the tokens, in the order of their ranks."""
        return find_merges(self.tokens) if self.learned is None else self.learned

    @property
    def is_reached(self) -> bool:
        """Whether merges alone make every token; some vocabularies hold others."""
        made = {left + right for left, right in self.merges}
        return all(len(token) < 2 or token in made for token in self.tokens.values())


def find_merges(tokens: Mapping[int, bytes]) -> list[Merge]:
    """The pair that becomes each token, in the order of the ids.

    It is the last step of merging the token's bytes with lower ids alone; a token which that does
    not reach has none.
    """
    ranks = {token: id_ for id_, token in tokens.items()}
    merges = []
    for id_ in sorted(tokens):
        token = tokens[id_]
        if len(token) == 2:
            merges.append((token[:1], token[1:]))
        elif len(token) > 2:
            parts = _merge_below(token, ranks, id_)
            if len(parts) == 2:
                merges.append((parts[0], parts[1]))
    return merges


def _merge_below(token: bytes, ranks: Mapping[bytes, int], limit: int) -> list[bytes]:
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        best, at = min(
            (ranks.get(left + right, limit), index)
            for index, (left, right) in enumerate(pairwise(parts))
        )
        if best >= limit:
            break
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts
