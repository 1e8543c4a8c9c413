"""Pieces with scores and types → a model: what .model and GGUF of Llama have in common.

Any two neighbours that spell a piece are merged, the best score first, of equal ones the leftmost
(SentencePiece's bpe_model.cc). What merging starts with are characters, in SentencePiece whether
they are pieces or not; here they must be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import VocabularyError
from tokenmill.formats.parts import BYTE, DECODED, TOKEN, Model

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTES = range(1, 7)  # types of pieces

PIECES_MAX = 1 << 20
_PIECE_BYTES_MAX = 1 << 16
_UNUSED_MAX = 256  # characters; each is looked at twice as often in one twice as long
_BYTE_NAMES = {b"<0x%02X>" % byte: bytes([byte]) for byte in range(256)}


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces by id, as UTF-8."""

    texts: list[bytes]
    scores: NDArray[np.float32]
    types: NDArray[np.uint8]

    def ids(self, type_: int) -> list[int]:
        found: list[int] = np.flatnonzero(self.types == type_).tolist()
        return found

    def names(self, type_: int) -> dict[str, int]:
        return {self.texts[id_].decode(): id_ for id_ in self.ids(type_)}


def model_of(pieces: Pieces, source: str, *, blank: bool, has_bytes: bool) -> Model:
    """The model; `has_bytes`: characters that are no pieces become their bytes' ones."""
    _check(pieces, source)
    texts = list(pieces.texts)
    for id_ in pieces.ids(BYTES):
        if texts[id_] not in _BYTE_NAMES:
            raise VocabularyError(
                f"{source}: piece {id_} is {texts[id_].decode()!r}, and its type says that it "
                "stands for a byte, as '<0x41>' does; convert the model again"
            )
        texts[id_] = _BYTE_NAMES[texts[id_]]
    unknown = pieces.ids(UNKNOWN)
    if len(unknown) != 1:
        raise VocabularyError(
            f"{source}: {len(unknown)} pieces have the type of unknown characters, and a model "
            "has one; convert it again"
        )
    count = len(pieces.ids(BYTES))
    if count != (256 if has_bytes else 0):
        raise VocabularyError(
            f"{source}: {count} pieces stand for bytes, and byte_fallback is {has_bytes}; "
            "SentencePiece needs 256 with it, and none without; convert the model again"
        )
    kinds = _kinds(pieces, source, blank)
    # Zero and minus zero are equal, and so are scores that only differ in more than a float has.
    _, order = np.unique(-pieces.scores, return_inverse=True)
    return Model(
        b"".join(texts),
        np.fromiter(map(len, texts), np.uint32, len(texts)),
        np.arange(len(texts), dtype=np.uint32),
        kinds,
        merges=None,
        order=order.astype(np.uint32).reshape(-1),
        base="characters",
        missing="bytes" if has_bytes else "unk",
        unk=unknown[0],
        fuse_unk=True,
    )


def _check(pieces: Pieces, source: str) -> None:
    """That pieces are texts, and no two the same."""
    texts = pieces.texts
    if not 0 < len(texts) <= PIECES_MAX:
        raise VocabularyError(
            f"{source} has {len(texts):,} pieces; a vocabulary has 1 to {PIECES_MAX:,}"
        )
    long = max(texts, key=len)
    if len(long) > _PIECE_BYTES_MAX:
        raise VocabularyError(
            f"{source}: piece {texts.index(long)} has {len(long):,} bytes, and "
            f"{_PIECE_BYTES_MAX:,} are the most; convert the model again without it"
        )
    try:
        b"\n".join(texts).decode()
    except UnicodeDecodeError:
        wrong = next(id_ for id_, text in enumerate(texts) if not _is_text(text))
        raise VocabularyError(
            f"{source}: piece {wrong} is {texts[wrong][:60]!r}, which is not UTF-8; convert the "
            "model again"
        ) from None
    if len(set(texts)) != len(texts):
        first: dict[bytes, int] = {}
        for id_, text in enumerate(texts):
            if first.setdefault(text, id_) != id_:
                raise VocabularyError(
                    f"{source}: pieces {first[text]} and {id_} are both {text.decode()!r}; "
                    "SentencePiece refuses that, too: convert the model again"
                )
    if bool(np.isnan(pieces.scores).any()):
        wrong = int(np.flatnonzero(np.isnan(pieces.scores))[0])
        raise VocabularyError(
            f"{source}: the score of piece {wrong}, {texts[wrong].decode()!r}, is not a number; "
            "convert the model again"
        )


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _kinds(pieces: Pieces, source: str, blank: bool) -> NDArray[np.uint8]:
    """Which pieces merging finds. Of the others some are added tokens, which are found before."""
    kinds = np.full(len(pieces.texts), DECODED, np.uint8)
    kinds[pieces.types == NORMAL] = TOKEN
    kinds[pieces.types == BYTES] = BYTE
    for id_ in pieces.ids(UNUSED):  # one that merging does not make is found as any other
        if len(pieces.texts[id_].decode()) == 1:
            kinds[id_] = TOKEN
    if blank:  # there are no blanks in a text then, only "▁"
        for id_ in np.flatnonzero(kinds == TOKEN).tolist():
            if b" " in pieces.texts[id_]:
                kinds[id_] = DECODED
    _check_characters(pieces, kinds, source)
    for name, id_ in pieces.names(CONTROL).items():
        if len(name) == 1:
            raise VocabularyError(
                f"{source}: control piece {id_} is the one character {name!r}, which SentencePiece "
                "finds in texts, unlike all others; give it a longer name"
            )
    if pieces.ids(UNUSED):
        _check_unused(pieces, source)
    return kinds


def _check_characters(pieces: Pieces, kinds: NDArray[np.uint8], source: str) -> None:
    """Characters of pieces must be pieces; a piece with another one must be out of reach."""
    ids: list[int] = np.flatnonzero(kinds == TOKEN).tolist()
    texts = [pieces.texts[id_].decode() for id_ in ids]
    known = {text for text in texts if len(text) == 1}
    if not set("".join(texts)) - known:
        return
    cut_out = pieces.names(USER_DEFINED).keys()
    for id_, text in zip(ids, texts, strict=True):
        if missing := set(text) - known:
            if not missing & cut_out:
                raise VocabularyError(
                    f"{source}: piece {id_}, {text!r}, has the character {min(missing)!r}, which "
                    "is no piece; tokenmill merges only pieces: add it to the model, or take the "
                    "longer one out"
                )
            kinds[id_] = DECODED


def _check_unused(pieces: Pieces, source: str) -> None:
    """Merging goes through unused pieces and takes them apart again, which is not done here."""
    there = {text.decode() for text in pieces.texts}
    for name, id_ in pieces.names(UNUSED).items():
        halves = ((name[:at], name[at:]) for at in range(1, len(name)))
        if len(name) > _UNUSED_MAX or any(
            (len(left) == 1 or left in there) and (len(right) == 1 or right in there)
            for left, right in halves
        ):
            raise VocabularyError(
                f"{source}: piece {id_}, {name[:60]!r}, is marked as unused, and merging would "
                "reach it; SentencePiece takes such pieces apart again, and tokenmill cannot: load "
                "the model's tokenizer.json instead"
            )
