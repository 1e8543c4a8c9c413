"""Trained pieces → parts, as SentencePiece and as Hugging Face has them, and .vocab.

The score of a piece is its place, negative: of two pairs the one whose piece was learned first is
joined first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tokenmill.formats import model, steps
from tokenmill.formats.parts import Added, Parts
from tokenmill.formats.pieces import CONTROL, NORMAL, SPACE, UNKNOWN, USER_DEFINED, Pieces
from tokenmill.formats.places import Place

META = ("<unk>", "<s>", "</s>")


@dataclass(frozen=True)
class PieceOptions:
    """What pieces are learned with, and what spm_train does unless told otherwise."""

    specials: tuple[str, ...] = ()
    coverage: float = 0.9995
    length_max: int = 16

    @property
    def front(self) -> tuple[str, ...]:
        """The names that have the first ids."""
        return (*META, *self.specials)

    def score(self, id_: int) -> float:
        first = len(self.front)
        return 0.0 if id_ < first else -float(id_ - first)


def parts_of(pieces: Sequence[str], options: PieceOptions) -> Parts:
    """What spm_train's model would be read to, with the options that it notes there."""
    types = np.full(len(pieces), NORMAL, np.uint8)
    types[: len(options.front)] = USER_DEFINED
    types[: len(META)] = CONTROL
    types[0] = UNKNOWN
    scores = np.array([options.score(id_) for id_ in range(len(pieces))], np.float32)
    texts = [piece.encode() for piece in pieces]
    parts = model.of_pieces(Pieces(texts, scores, types), "the pieces")
    usual = PieceOptions()
    noted = {
        name: value
        for name, value, other in (
            (model.COVERAGE, options.coverage, usual.coverage),
            (model.LENGTH_MAX, options.length_max, usual.length_max),
        )
        if value != other
    }
    return replace(parts, extra={**parts.extra, model.EXTRA: noted})


def hugging_face(parts: Parts) -> Parts:
    """The same for a tokenizer.json, whose normaliser does what SentencePiece does by itself, and
    where every name is a special."""
    cutting = steps.read(_NORMALIZER, _PRE_TOKENIZER, Place("the pieces"))
    names = {META[0]: 0, **{one.content: one.id for one in parts.added}}
    return Parts(
        parts.model,
        tuple(Added(name, id_) for name, id_ in names.items()),
        cutting.steps,
        cutting.blank,
        cutting.prefix,
        cutting.stages,
        decoder=_DECODER,
        extra={"normalizer": _NORMALIZER, "pre_tokenizer": _PRE_TOKENIZER},
    )


def write_vocab(pieces: Sequence[str], options: PieceOptions) -> bytes:
    """A line for each piece, with its score."""
    lines = (f"{piece}\t{options.score(id_):.6g}\n" for id_, piece in enumerate(pieces))
    return "".join(lines).encode()


def _replacement(pattern: str, content: str) -> dict[str, object]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


_NORMALIZER = {
    "type": "Sequence",
    "normalizers": [
        _replacement(r"\A +| +\z", ""),
        _replacement(r" +", SPACE),
        {"type": "Prepend", "prepend": SPACE},
        _replacement(rf"{SPACE}+\z", ""),
    ],
}
_PRE_TOKENIZER = {
    "type": "Metaspace",
    "replacement": SPACE,
    "prepend_scheme": "never",
    "split": True,
}
_DECODER = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}
