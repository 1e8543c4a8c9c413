"""Pieces → .model, .vocab and tokenizer.json: what SentencePiece and Hugging Face load.

A .model is a message of protocol buffers, with the fields that SentencePiece's trainer writes: the
pieces with their scores, what they were learned with, and how text is normalised. The score of a
piece is its place, negative: of two pairs the one whose piece was learned first is joined first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenmill.formats.huggingface import tokenizer_json
from tokenmill.formats.protobuf import write_bytes, write_float, write_number

SPACE = "▁"
META = ("<unk>", "<s>", "</s>")
_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4  # types of pieces
_BPE = 2


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


def write_model(pieces: Sequence[str], options: PieceOptions) -> bytes:
    """The file that spm_train would write, but for the names of its own files."""
    message = bytearray()
    for id_, piece in enumerate(pieces):
        entry = write_bytes(1, piece.encode()) + write_float(2, options.score(id_))
        if id_ < len(META):
            entry += write_number(3, _CONTROL if id_ else _UNKNOWN)
        elif id_ < len(options.front):
            entry += write_number(3, _USER_DEFINED)
        message += write_bytes(1, entry)
    trainer = write_number(3, _BPE) + write_number(4, len(pieces))
    usual = PieceOptions()
    if options.coverage != usual.coverage:
        trainer += write_float(10, options.coverage)
    if options.length_max != usual.length_max:
        trainer += write_number(20, options.length_max)
    trainer += b"".join(write_bytes(31, name.encode()) for name in options.specials)
    return bytes(
        message
        + write_bytes(2, trainer)
        + write_bytes(3, write_bytes(1, b"identity") + write_bytes(2, b""))
    )


def write_vocab(pieces: Sequence[str], options: PieceOptions) -> bytes:
    """A line for each piece, with its score."""
    lines = (f"{piece}\t{options.score(id_):.6g}\n" for id_, piece in enumerate(pieces))
    return "".join(lines).encode()


def write_tokenizer(pieces: Sequence[str], characters: int, options: PieceOptions) -> bytes:
    """The file tokenizer.json. The last pieces are `characters`, and no merge makes them."""
    ids = {piece: id_ for id_, piece in enumerate(pieces)}
    return tokenizer_json(
        {name: id_ for id_, name in enumerate(options.front)},
        normalizer=_NORMALIZER,
        pre_tokenizer={
            "type": "Metaspace",
            "replacement": SPACE,
            "prepend_scheme": "never",
            "split": True,
        },
        decoder=_DECODER,
        unk_token=META[0],
        fuse_unk=True,
        vocab=ids,
        # Any two pieces that spell a third are joined, not only those that were learned.
        merges=[
            [piece[:at], piece[at:]]
            for piece in pieces[len(options.front) : len(pieces) - characters]
            for at in range(1, len(piece))
            if piece[:at] in ids and piece[at:] in ids
        ],
    )


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
_DECODER = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}
