"""A tokenizer → its entries: every id that stands for something, with its bytes and its kind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill import arguments
from tokenmill.formats.parts import BYTE, DECODED, TOKEN, Parts
from tokenmill.inspection.scripts import classify
from tokenmill.shown import spelled
from tokenmill.tokenizer import Tokenizer

# A token that merging makes; one that stands for a byte of characters that are no token; one that
# only decoding knows; an added token, and a special, which are looked for in the text.
Kind: TypeAlias = Literal["token", "byte", "decoded", "added", "special"]


@dataclass(frozen=True)
class Entries:
    """Entries in the order of their ids. Blanks are blanks, also where a file writes "▁"."""

    tokenizer: Tokenizer
    ids: NDArray[np.int64]
    tokens: list[bytes]
    kinds: list[Kind]
    merged: dict[bytes, int]  # tokens that merging makes, or begins with, and their ids

    @cached_property
    def texts(self) -> list[str | None]:
        """The tokens as text; None for one that is not UTF-8."""
        return [_text(token) for token in self.tokens]

    @cached_property
    def places(self) -> dict[int, int]:
        """Id → place in these lists."""
        return {id_: place for place, id_ in enumerate(self.ids.tolist())}

    @cached_property
    def scripts(self) -> list[str]:
        """What each is written in, as `scripts.classify` says."""
        return classify(self.texts)

    @cached_property
    def byte_counts(self) -> NDArray[np.int64]:
        return np.fromiter(map(len, self.tokens), np.int64, len(self.tokens))

    @cached_property
    def character_counts(self) -> NDArray[np.int64]:
        """How long each is as text; -1 for one that is not UTF-8."""
        counts = (-1 if text is None else len(text) for text in self.texts)
        return np.fromiter(counts, np.int64, len(self.texts))

    @cached_property
    def _by_kind(self) -> dict[Kind, NDArray[np.int64]]:
        kinds = np.array(self.kinds)
        return {kind: np.flatnonzero(kinds == kind) for kind in set(self.kinds)}

    def places_of(self, *kinds: Kind) -> list[int]:
        """Where entries of these kinds are, in order."""
        found = [self._by_kind[kind] for kind in kinds if kind in self._by_kind]
        return np.sort(np.concatenate(found)).tolist() if found else []

    def row(self, place: int) -> dict[str, Any]:
        """An entry, for JSON. One for a byte is spelled as files do it: <0x0A>."""
        token, id_ = self.tokens[place], int(self.ids[place])
        if self.kinds[place] == "byte":
            return {"id": id_, "token": f"<0x{token[0]:02X}>"}
        row: dict[str, Any] = {"id": id_, "token": spelled(token)}
        if self.texts[place] is None:
            row["hex"] = token.hex()
        return row


def entries_of(tokenizer: Tokenizer) -> Entries:
    """All entries of a tokenizer."""
    found = arguments.tokens_of(tokenizer._core)
    parts = tokenizer.parts
    kinds: dict[int, Kind] = {}
    if parts is None:
        merged = {token: id_ for id_, token in found.items()}
    else:
        kinds = _kinds(parts)
        ids_ = parts.model.ids[parts.model.kinds == TOKEN].tolist()
        merged = {found[id_]: id_ for id_ in ids_}
    for name, id_ in tokenizer.specials.items():
        found[id_] = found.get(id_) or name.encode()
        kinds[id_] = "special"
    ids = sorted(found)
    tokens = [found[id_] for id_ in ids]
    usual: list[Kind] = [kinds.get(id_, "token") for id_ in ids]
    return Entries(tokenizer, np.array(ids, np.int64), tokens, usual, merged)


def _kinds(parts: Parts) -> dict[int, Kind]:
    model = parts.model
    kinds: dict[int, Kind] = {}
    for kind, name in ((BYTE, "byte"), (DECODED, "decoded")):
        kinds |= dict.fromkeys(model.ids[model.kinds == kind].tolist(), name)
    if model.missing == "unk" and model.unk is not None:
        kinds[model.unk] = "decoded"  # what is unknown gives it, and no merge
    return kinds | {token.id: "special" if token.special else "added" for token in parts.added}


def _text(token: bytes) -> str | None:
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None
