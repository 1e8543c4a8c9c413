"""A word → the tree of its merges: which pieces met, in which order, by which rank.

A tree is a list of nodes, children before their parents, so that a long chain needs no recursion.
Merging is done again here, in plain Python, and has to give the ids that the core gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tokenmill import arguments
from tokenmill.errors import InspectError
from tokenmill.inspection.entries import Entries
from tokenmill.inspection.rules import Rules, merge
from tokenmill.shown import spelled

# Merging in Python looks at all pairs for each merge.
_WORD_BYTES_MAX = 1000


@dataclass(frozen=True, slots=True)
class Node:
    """A piece. What merging begins with has no children, rank and step."""

    token: bytes
    id: int | None
    children: tuple[int, int] | None = None
    rank: int | None = None
    step: int | None = None

    def as_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"token": spelled(self.token), "id": self.id}
        if self.children is not None:
            row |= {"children": list(self.children), "rank": self.rank, "step": self.step}
        return row


@dataclass(frozen=True, slots=True)
class Pretoken:
    """A stretch that is merged alone. `roots` are the places of its tokens among the nodes.

    `is_whole`: it is a token as it stands, and merging, which the nodes show, is not asked.
    """

    ids: list[int]
    nodes: list[Node]
    roots: list[int]
    is_whole: bool

    def as_json(self) -> dict[str, Any]:
        return {
            "ids": self.ids,
            "whole": self.is_whole,
            "roots": self.roots,
            "nodes": [node.as_json() for node in self.nodes],
        }


@dataclass(frozen=True, slots=True)
class Word:
    """A word and its pretokens."""

    word: str
    pretokens: list[Pretoken]

    @property
    def ids(self) -> list[int]:
        return [id_ for pretoken in self.pretokens for id_ in pretoken.ids]

    def as_json(self) -> dict[str, Any]:
        return {
            "word": self.word,
            "ids": self.ids,
            "pretokens": [pretoken.as_json() for pretoken in self.pretokens],
        }


def word_of(entries: Entries, rules: Rules, word: str) -> Word:
    """The trees of a word."""
    size = len(word.encode("utf-8", "replace"))
    if size > _WORD_BYTES_MAX:
        raise InspectError(
            f"a word of {size:,} bytes is too long for a tree of its merges; up to "
            f"{_WORD_BYTES_MAX:,} can be shown, and text of any length with text="
        )
    ids, _, numbers = arguments.read(entries.tokenizer._core.encode_words, word, None)
    grouped = groupby(zip(numbers, ids, strict=True), key=lambda pair: pair[0])
    groups = [[id_ for _, id_ in group] for _, group in grouped]
    return Word(word, [_pretoken(entries, rules, group) for group in groups])


def _pretoken(entries: Entries, rules: Rules, ids: list[int]) -> Pretoken:
    pieces, labels = _units(entries, ids)
    nodes = [
        Node(piece, entries.merged.get(piece) if label is None else label)
        for piece, label in zip(pieces, labels, strict=True)
    ]
    # Pieces that merging does not see are unlike any: they merge with nothing.
    open_ = [piece if label is None else b"" for piece, label in zip(pieces, labels, strict=True)]
    roots = list(range(len(nodes)))

    def rank(left: bytes, right: bytes) -> int | None:
        return rules.rank(left, right) if left and right else None

    for step, (order, place) in enumerate(merge(open_, rank), 1):
        left, right = roots[place : place + 2]
        token = nodes[left].token + nodes[right].token
        nodes.append(Node(token, entries.merged.get(token), (left, right), order, step))
        roots[place : place + 2] = [len(nodes) - 1]
    merged = [nodes[root].id for root in roots]
    is_whole = merged != ids and len(ids) == 1
    return Pretoken(ids, nodes, roots, is_whole)


def _units(entries: Entries, ids: list[int]) -> tuple[list[bytes], list[int | None]]:
    """What merging begins with, and the id of each piece that it does not see."""
    parts = entries.tokenizer.parts
    has_characters = parts is not None and parts.model.base == "characters"
    pieces: list[bytes] = []
    labels: list[int | None] = []
    for id_ in ids:
        place = entries.places[id_]
        token = entries.tokens[place]
        if entries.kinds[place] != "token":
            pieces.append(token)
            labels.append(id_)
            continue
        units = (
            [character.encode() for character in token.decode()]
            if has_characters
            else [token[at : at + 1] for at in range(len(token))]
        )
        pieces += units
        labels += [None] * len(units)
    return pieces, labels
