"""A text → its pieces with their ids, and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tokenmill import arguments
from tokenmill.shown import spelled
from tokenmill.tokenizer import SpecialsChoice, Tokenizer


@dataclass(frozen=True, slots=True)
class Pieces:
    """A text as tokens. `tokens` are what the ids stand for, after any normaliser."""

    text: str | bytes
    ids: list[int]
    tokens: list[bytes]
    pretokens: int

    def figures(self) -> dict[str, Any]:
        """How many of what, and how well the text is packed."""
        if isinstance(self.text, str):
            size, characters = len(self.text.encode("utf-8", "surrogatepass")), len(self.text)
        else:
            size, characters = len(self.text), len(self.text.decode("utf-8", "replace"))
        count = len(self.ids)
        return {
            "bytes": size,
            "characters": characters,
            "tokens": count,
            "distinct_tokens": len(set(self.ids)),
            "pretokens": self.pretokens,
            "bytes_per_token": round(size / count, 4) if count else 0.0,
            "characters_per_token": round(characters / count, 4) if count else 0.0,
        }

    def as_json(self) -> dict[str, Any]:
        return self.figures() | {
            "ids": self.ids,
            "pieces": [spelled(token) for token in self.tokens],
        }


def pieces_of(tokenizer: Tokenizer, text: str | bytes, specials: SpecialsChoice = False) -> Pieces:
    """The pieces of a text."""
    allowed = tokenizer._allowed(specials)
    ids, _, numbers = arguments.read(tokenizer._core.encode_words, text, allowed)
    tokens = {id_: tokenizer.id_to_bytes(id_) for id_ in set(ids)}
    return Pieces(text, ids, [tokens[id_] for id_ in ids], len(set(numbers)))
