"""Merges of characters → pieces: the vocabulary that SentencePiece would learn, and its files.

ids      <unk> <s> </s>, specials, then the merges, then the characters by falling count
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from tokenmill.errors import VocabularyError
from tokenmill.files import write_whole
from tokenmill.formats import sentencepiece
from tokenmill.formats.sentencepiece import META, PieceOptions

__all__ = ["META", "Joined", "PieceOptions", "Pieces", "check_name"]

SUFFIXES = (".model", ".vocab", ".json")


@dataclass(frozen=True, slots=True)
class Joined:
    """A merge: two pieces that are one from then on, and how often they stood side by side."""

    left: str
    right: str
    count: int


class Pieces:
    """What `train` gives with the ties of SentencePiece: its pieces by id, to be saved.

    Text is encoded by the libraries that load the files.
    """

    __slots__ = ("_characters", "_options", "pieces", "provenance")

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

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    @property
    def specials(self) -> Mapping[str, int]:
        return MappingProxyType({name: id_ for id_, name in enumerate(self._options.front)})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `.model` or `.vocab` for SentencePiece, or `tokenizer.json` for Hugging Face."""
        path = Path(path)
        check_name(path)
        if path.suffix == ".model":
            data = sentencepiece.write_model(self.pieces, self._options)
        elif path.suffix == ".vocab":
            data = sentencepiece.write_vocab(self.pieces, self._options)
        else:
            data = sentencepiece.write_tokenizer(self.pieces, self._characters, self._options)
        write_whole(path, data)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise VocabularyError(
            "pieces of characters are not encoded or decoded here: save them, and load the .model "
            "with sentencepiece or the tokenizer.json with tokenizers"
        )

    encode = encode_array = encode_batch = encode_ragged = encode_files = count = _refuse
    encode_with_offsets = count_batch = truncate = session = _refuse
    decode = decode_bytes = decode_batch = stream_decoder = _refuse

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
    if path.suffix not in SUFFIXES or path.name == "vocab.json":
        raise VocabularyError(
            f"{path.name!r} is no name for pieces of SentencePiece; give one that ends in .model "
            "or .vocab, or tokenizer.json"
        )
