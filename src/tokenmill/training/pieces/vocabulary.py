"""Merges of characters → pieces: the vocabulary that SentencePiece would learn, and its files.

ids      <unk> <s> </s>, specials, then the merges, then the characters by falling count
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tokenmill import formats
from tokenmill.errors import VocabularyError
from tokenmill.files import write_whole
from tokenmill.formats import model_writer, sentencepiece, tokenizer_json
from tokenmill.formats.parts import Parts
from tokenmill.formats.sentencepiece import META, PieceOptions
from tokenmill.tokenizer import Tokenizer

__all__ = ["META", "Joined", "PieceOptions", "Pieces", "check_name"]

SUFFIXES = (".model", ".vocab", ".json")
_DELEGATED = {
    *("encode", "encode_array", "encode_batch", "encode_ragged", "encode_files"),
    *("encode_with_offsets", "count", "count_batch", "truncate", "session"),
    *("decode", "decode_bytes", "decode_batch", "stream_decoder", "id_to_bytes", "bytes_to_id"),
}


@dataclass(frozen=True, slots=True)
class Joined:
    """A merge: two pieces that are one from then on, and how often they stood side by side."""

    left: str
    right: str
    count: int


class Pieces:
    """What `train` gives with the ties of SentencePiece: `pieces`, by id.

    Text is encoded and decoded as by a `Tokenizer`, which `tokenizer` is, with SentencePiece's ids:
    all methods of a `Tokenizer` that are about text and ids can be called on it.

    Examples:
        >>> from tokenmill import train
        >>> pieces = train(["the mill mills the meal"] * 9, vocab_size=22, ties="sentencepiece")
        >>> [pieces.pieces[id] for id in pieces.encode("the mill")]
        ['▁the', '▁mill']
    """

    __slots__ = ("_characters", "_made", "_options", "pieces", "provenance")

    def __init__(
        self,
        merges: Sequence[Joined],
        characters: Sequence[str],
        options: PieceOptions,
        provenance: Mapping[str, Any],
    ) -> None:
        self.pieces = (*options.front, *(one.left + one.right for one in merges), *characters)
        self.provenance = provenance
        self._characters = len(characters)
        self._options = options
        self._made: list[Tokenizer] = []

    @property
    def vocab_size(self) -> int:
        """How many pieces there are."""
        return len(self.pieces)

    @property
    def specials(self) -> Mapping[str, int]:
        """The pieces that no text makes: name → id."""
        return MappingProxyType({name: id_ for id_, name in enumerate(self._options.front)})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `.model` or `.vocab` for SentencePiece, or `tokenizer.json` for Hugging Face.

        Any other name is a VocabularyError.
        """
        path = Path(path)
        check_name(path)
        if path.suffix == ".model":
            data = model_writer.write(self._parts())
        elif path.suffix == ".vocab":
            data = sentencepiece.write_vocab(self.pieces, self._options)
        else:
            data = tokenizer_json.write(sentencepiece.hugging_face(self._parts()))
        write_whole(path, data)

    @property
    def tokenizer(self) -> Tokenizer:
        """What encodes with these pieces, as SentencePiece does."""
        if not self._made:
            self._made.append(Tokenizer._from_parts(self._parts(), "pieces"))
        return self._made[0]

    def _parts(self) -> Parts:
        return sentencepiece.parts_of(self.pieces, self._options)

    def __getattr__(self, name: str) -> Any:
        # Those of Tokenizer that are about text and ids.
        if name in _DELEGATED:
            return getattr(self.tokenizer, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __len__(self) -> int:
        return len(self.pieces)

    def __repr__(self) -> str:
        return f"<Pieces: vocab_size {self.vocab_size:,}, {self._characters:,} characters>"

    def __eq__(self, other: object) -> bool:
        return self.pieces == other.pieces if isinstance(other, Pieces) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.pieces)


def check_name(path: Path) -> None:
    """Refuses names of files that pieces cannot be written to."""
    formats.check_name(path)
    if path.suffix not in SUFFIXES or path.name == "vocab.json":
        raise VocabularyError(
            f"{path.name!r} is no name for pieces of SentencePiece; give one that ends in .model "
            "or .vocab, or tokenizer.json"
        )
