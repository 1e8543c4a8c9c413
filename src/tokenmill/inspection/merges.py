"""A word → the trees of its merges.

`MergeRules` has the ranks of pairs in plain Python, because the core's tables cannot be queried. It
serves single words and a few tokens. A tree is a list of nodes, children before parents, so a long
chain needs no recursion. The roots have the ids that the core returns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenmill import arguments
from tokenmill.display import token_text
from tokenmill.errors import OptionError
from tokenmill.inspection.token_table import TokenTable
from tokenmill.reference import merge_symbols

# Merging in Python searches all pairs for each merge.
_WORD_BYTES_MAX = 1000


class MergeRules:
    """The rank of each pair. `rank` returns None for a pair that does not merge."""

    rank: Callable[[bytes, bytes], int | None]

    def __init__(self, table: TokenTable) -> None:
        model = table.spec.model
        self._tokens = table.mergeable
        self.pairs: dict[tuple[bytes, bytes], int] | None = None
        if model.merges is not None:
            texts = [table.tokens[table.index_of[id_]] for id_ in model.ids.tolist()]
            # The last of equal pairs counts.
            pairs = self.pairs = {
                (texts[left], texts[right]): rank
                for rank, (left, right) in enumerate(model.merges.tolist())
            }
            self.rank = lambda left, right: pairs.get((left, right))
            return
        ranks = table.mergeable
        if model.order is not None:
            order = dict(zip(model.ids.tolist(), model.order.tolist(), strict=True))
            ranks = {token: order[id_] for token, id_ in table.mergeable.items()}
        self.rank = lambda left, right: ranks.get(left + right) if left and right else None

    @cached_property
    def results(self) -> Collection[bytes]:
        """The tokens that the listed merges produce, in the order of the list."""
        return {left + right: None for left, right in self.pairs or ()}.keys()

    def produce(self, token: bytes) -> bool:
        """Return whether some pair merges to `token`."""
        if self.pairs is not None:
            return token in self.results
        tokens = self._tokens
        return any(token[:at] in tokens and token[at:] in tokens for at in range(1, len(token)))


@dataclass(frozen=True, slots=True)
class Node:
    """A token or symbol of a tree. A leaf has no children, rank and step."""

    token: bytes
    id: int | None
    children: tuple[int, int] | None = None
    rank: int | None = None
    step: int | None = None

    def as_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {"token": token_text(self.token), "id": self.id}
        if self.children is not None:
            row |= {"children": list(self.children), "rank": self.rank, "step": self.step}
        return row


@dataclass(frozen=True, slots=True)
class Pretoken:
    """The trees of one pretoken. `roots` are the indexes of its tokens in `nodes`.

    If `is_whole`, the pretoken itself is a token, and the nodes show merges that encoding skips.
    """

    ids: list[int]
    nodes: list[Node]
    roots: list[int]
    is_whole: bool

    def as_json(self) -> dict[str, Any]:
        row = {"ids": self.ids, "whole": self.is_whole, "roots": self.roots}
        return row | {"nodes": [node.as_json() for node in self.nodes]}


@dataclass(frozen=True, slots=True)
class Word:
    """A word and its pretokens."""

    word: str
    pretokens: list[Pretoken]

    @property
    def ids(self) -> list[int]:
        return [id_ for pretoken in self.pretokens for id_ in pretoken.ids]

    def as_json(self) -> dict[str, Any]:
        row = {"word": self.word, "ids": self.ids}
        return row | {"pretokens": [pretoken.as_json() for pretoken in self.pretokens]}


def merge_word(table: TokenTable, rules: MergeRules, word: str) -> Word:
    """Return the trees of a word."""
    size = len(word.encode("utf-8", "replace"))
    if size > _WORD_BYTES_MAX:
        raise OptionError(
            f"a word of {size:,} bytes is too long for a tree of merges (limit: "
            f"{_WORD_BYTES_MAX:,} bytes); pass it as text= to see its tokens"
        )
    ids, _, numbers = arguments.read(table.tokenizer._core.encode_words, word, None)
    pretokens: dict[int, list[int]] = {}
    for number, id_ in zip(numbers, ids, strict=True):
        pretokens.setdefault(number, []).append(id_)
    return Word(word, [_merge_pretoken(table, rules, each) for each in pretokens.values()])


def _merge_pretoken(table: TokenTable, rules: MergeRules, ids: list[int]) -> Pretoken:
    nodes, symbols = _start(table, ids)
    roots = list(range(len(nodes)))
    for step, (order, index) in enumerate(merge_symbols(symbols, rules.rank), 1):
        left, right = roots[index : index + 2]
        token = nodes[left].token + nodes[right].token
        nodes.append(Node(token, table.mergeable.get(token), (left, right), order, step))
        roots[index : index + 2] = [len(nodes) - 1]
    is_whole = [nodes[root].id for root in roots] != ids and len(ids) == 1
    return Pretoken(ids, nodes, roots, is_whole)


def _start(table: TokenTable, ids: list[int]) -> tuple[list[Node], list[bytes]]:
    """Return the leaves of the trees and their symbols, b"" for tokens that never merge."""
    has_characters = table.spec.model.base == "characters"
    leaves: list[Node] = []
    symbols: list[bytes] = []
    for id_ in ids:
        index = table.index_of[id_]
        token = table.tokens[index]
        if table.kinds[index] != "token":
            leaves.append(Node(token, id_))
            symbols.append(b"")
            continue
        split = [token[at : at + 1] for at in range(len(token))]
        if has_characters:
            split = [character.encode() for character in token.decode()]
        leaves += [Node(symbol, table.mergeable.get(symbol)) for symbol in split]
        symbols += split
    return leaves, symbols
