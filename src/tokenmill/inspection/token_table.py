"""A tokenizer → a table of its tokens: every id in use, with its bytes and its kind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill.display import token_text
from tokenmill.formats.spec import BYTE, DECODED, TOKEN, TokenizerSpec
from tokenmill.inspection.scripts import classify
from tokenmill.tokenizer import Tokenizer

# "token": made by merging. "byte": a byte of a character without a token. "decoded": only decoding
# uses it. "added" and "special": found in the text before merging.
Kind: TypeAlias = Literal["token", "byte", "decoded", "added", "special"]


@dataclass(frozen=True)
class TokenTable:
    """The tokens of a vocabulary in the order of their ids, with spaces as spaces, not "▁".

    `mergeable` maps the tokens that take part in merging to their ids.
    """

    tokenizer: Tokenizer
    spec: TokenizerSpec
    ids: NDArray[np.int64]
    tokens: list[bytes]
    kinds: list[Kind]
    mergeable: dict[bytes, int]

    @cached_property
    def texts(self) -> list[str | None]:
        """The tokens as text, or None for a token that is not UTF-8."""
        return [_text(token) for token in self.tokens]

    @cached_property
    def index_of(self) -> dict[int, int]:
        """The index of each id."""
        return {id_: index for index, id_ in enumerate(self.ids.tolist())}

    @cached_property
    def scripts(self) -> list[str]:
        """The script of each token, see `scripts.classify`."""
        return classify(self.texts)

    @cached_property
    def byte_counts(self) -> NDArray[np.int64]:
        return np.fromiter(map(len, self.tokens), np.int64, len(self.tokens))

    @cached_property
    def character_counts(self) -> NDArray[np.int64]:
        """The characters of each token, or -1 for a token that is not UTF-8."""
        counts = (-1 if text is None else len(text) for text in self.texts)
        return np.fromiter(counts, np.int64, len(self.texts))

    @cached_property
    def _by_kind(self) -> dict[Kind, NDArray[np.int64]]:
        kinds = np.array(self.kinds)
        return {kind: np.flatnonzero(kinds == kind) for kind in set(self.kinds)}

    def select(self, *kinds: Kind) -> list[int]:
        """Return the indexes of the tokens of these kinds, in order."""
        found = [self._by_kind[kind] for kind in kinds if kind in self._by_kind]
        return np.sort(np.concatenate(found)).tolist() if found else []

    def row(self, index: int) -> dict[str, Any]:
        """Return a token as JSON. A byte token is spelled as in files: <0x0A>."""
        token, id_ = self.tokens[index], int(self.ids[index])
        if self.kinds[index] == "byte":
            return {"id": id_, "token": f"<0x{token[0]:02X}>"}
        row: dict[str, Any] = {"id": id_, "token": token_text(token)}
        if self.texts[index] is None:
            row["hex"] = token.hex()
        return row


def make_table(tokenizer: Tokenizer) -> TokenTable:
    """Return the table of all tokens of a tokenizer."""
    found = tokenizer._tokens()
    spec = tokenizer._spec
    kinds = _kinds(spec)
    mergeable = {found[id_]: id_ for id_ in spec.model.ids[spec.model.kinds == TOKEN].tolist()}
    for text, id_ in tokenizer.special_tokens.items():
        found[id_] = found.get(id_) or text.encode()
        kinds[id_] = "special"
    ids = sorted(found)
    tokens = [found[id_] for id_ in ids]
    all_kinds: list[Kind] = [kinds.get(id_, "token") for id_ in ids]
    return TokenTable(tokenizer, spec, np.array(ids, np.int64), tokens, all_kinds, mergeable)


def _kinds(spec: TokenizerSpec) -> dict[int, Kind]:
    model = spec.model
    kinds: dict[int, Kind] = {}
    for kind, name in ((BYTE, "byte"), (DECODED, "decoded")):
        kinds |= dict.fromkeys(model.ids[model.kinds == kind].tolist(), name)
    if model.missing == "unk" and model.unk is not None:
        kinds[model.unk] = "decoded"  # encodes unknown characters, never made by a merge
    return kinds | {token.id: "special" if token.special else "added" for token in spec.added}


def _text(token: bytes) -> str | None:
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None
