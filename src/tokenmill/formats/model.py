"""SentencePiece's .model → Parts, for models of byte-pair encoding.

A model is a message of protocol buffers: pieces with scores and types, what they were learned with,
and how text is normalised. As SentencePiece 0.2.2 encodes (normalizer.cc, bpe_model.cc):

- The text as a whole is normalised: rules of a compiled map, but not within user-defined symbols;
  blanks at the ends removed and runs of them made one, if the model says so, and at the end "▁",
  too; a blank in front of what is not empty; every blank written as "▁".
- User-defined symbols are found in that, leftmost and longest. They are never merged, and no blank
  is put behind them. They are `Added` with `literal`.
- Control pieces are found in no text. They are `Added` with `special`, for those who ask for them.
  The piece of unknown characters is neither.
- What is left is merged as in `pieces.py`. A character that is no piece becomes the pieces of its
  bytes, or it and its neighbours of that kind become one piece.

Decoding shows an unknown piece as " ⁇ ". SentencePiece shows bytes that are no UTF-8 as one U+FFFD
for each byte that is in no character; Hugging Face's decoders, which `Parts` has, for each byte of
the run. No text encodes to such ids.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill.errors import VocabularyError
from tokenmill.formats import charsmap, protobuf
from tokenmill.formats.parts import Added, Charsmap, Parts, Squeeze, Step
from tokenmill.formats.pieces import (
    CONTROL,
    NORMAL,
    PIECES_MAX,
    SPACE,
    UNKNOWN,
    USER_DEFINED,
    Pieces,
    model_of,
)

BYTES_MAX = 256 << 20
_FLOAT = struct.Struct("<f")
_BPE = 2
_TYPES = {1: "Unigram", 2: "BPE", 3: "word", 4: "character"}
_TWO = 2 * SPACE.encode()
_ALL = 2**31 - 1
_NO_CHARACTERS = range(0xFDD0, 0xFDF0)  # which Unicode leaves to programs, for uses as here
_UNKNOWN_SHOWN = " \u2047 "

# Fields of TrainerSpec and NormalizerSpec that matter, with what they are when they are not there.
_TRAINER: dict[int, tuple[str, Any]] = {
    3: ("model_type", 1),
    24: ("treat_whitespace_as_suffix", 0),
    35: ("byte_fallback", 0),
    44: ("unk_surface", _UNKNOWN_SHOWN.encode()),
    45: ("unk_piece", b"<unk>"),
    46: ("bos_piece", b"<s>"),
    47: ("eos_piece", b"</s>"),
    48: ("pad_piece", b"<pad>"),
}
# Names for which encoding has no use, and SentencePiece has: they are kept to be written again.
EXTRA = "sentencepiece"
NAMES = {number: _TRAINER[number][0] for number in (44, 45, 46, 47, 48)}
# What it was trained with, if not with the usual; only of pieces that were trained here.
COVERAGE, LENGTH_MAX = "character_coverage", "max_sentencepiece_length"
_NORMALIZER: dict[int, tuple[str, Any]] = {
    2: ("precompiled_charsmap", b""),
    3: ("add_dummy_prefix", 1),
    4: ("remove_extra_whitespaces", 1),
    5: ("escape_whitespaces", 1),
}


@dataclass(slots=True)
class _Message:
    """What was found in a model."""

    pieces: Pieces
    settings: dict[str, Any]
    denormalizer: bytes


def read(data: bytes, source: str) -> Parts:
    """The parts of a model; `source` is the name of its file."""
    if len(data) > BYTES_MAX:
        raise VocabularyError(f"{source} has {len(data):,} bytes: too large for a model")
    try:
        message = _message(data)
    except ValueError as error:
        raise VocabularyError(
            f"{source} is damaged, or no model of SentencePiece ({error}); get it again"
        ) from None
    return _parts(message, source)


def of_pieces(pieces: Pieces, source: str) -> Parts:
    """The parts of a model of pieces with the usual settings."""
    return _parts(_Message(pieces, {**_usual(), "model_type": _BPE}, b""), source)


def _parts(message: _Message, source: str) -> Parts:
    settings = message.settings
    _check(message, source)
    blank = bool(settings["escape_whitespaces"])
    model = model_of(message.pieces, source, blank=blank, has_bytes=bool(settings["byte_fallback"]))
    steps = _steps(message, source)
    symbols = message.pieces.names(USER_DEFINED)
    added = [Added(name, id_) for name, id_ in message.pieces.names(CONTROL).items()]
    added += [
        Added(name, id_, special=False, normalized=True, literal=True)
        for name, id_ in symbols.items()
        if not (blank and " " in name)
    ]
    return Parts(
        model,
        added=tuple(sorted(added, key=lambda one: one.id)),
        steps=steps,
        blank=blank,
        prefix="always" if settings["add_dummy_prefix"] else "never",
        decoder=_decoder(message),
        extra=_extra(settings),
    )


def _check(message: _Message, source: str) -> None:
    """Refuses what cannot be done exactly."""
    settings = message.settings
    if settings["model_type"] != _BPE:
        name = _TYPES.get(settings["model_type"], f"unknown ({settings['model_type']})")
        raise VocabularyError(
            f"{source}: its model_type is {name}, and tokenmill reads BPE; use sentencepiece itself"
        )
    if settings["treat_whitespace_as_suffix"]:
        raise VocabularyError(
            f"{source}: treat_whitespace_as_suffix is set, which tokenmill cannot do; use "
            "sentencepiece itself"
        )
    if settings["remove_extra_whitespaces"] and not settings["escape_whitespaces"]:
        raise VocabularyError(
            f"{source}: remove_extra_whitespaces is set, and escape_whitespaces is not, which "
            "tokenmill cannot do together; use sentencepiece itself"
        )
    if message.denormalizer:
        raise VocabularyError(
            f"{source}: it has a denormalizer with rules, which tokenmill cannot apply; use "
            "sentencepiece itself"
        )
    if wrong := sorted(set(message.pieces.types.tolist()) - {*range(NORMAL, 7)}):
        raise VocabularyError(f"{source}: pieces have the unknown type {wrong[0]}; get it again")


def _steps(message: _Message, source: str) -> tuple[Step, ...]:
    settings, steps = message.settings, []
    squeezes = bool(settings["remove_extra_whitespaces"])
    symbols = list(message.pieces.names(USER_DEFINED))
    rules: bytes = settings["precompiled_charsmap"]
    if (rules or squeezes) and (wrong := [name for name in symbols if " " in name]):
        raise VocabularyError(
            f"{source}: the user-defined symbol {wrong[0]!r} has a blank, and text around it is "
            "normalised, which tokenmill cannot do; use sentencepiece itself"
        )
    if rules:
        try:
            if symbols:
                rules = charsmap.keep(rules, symbols)
            _, texts = charsmap.split(rules)
        except ValueError as error:
            raise VocabularyError(
                f"{source}: its precompiled_charsmap is damaged ({error}); get it again"
            ) from None
        if squeezes and b"  " in texts:
            raise VocabularyError(
                f"{source}: a rule of its precompiled_charsmap gives two blanks, which "
                "SentencePiece keeps, and tokenmill cannot; use sentencepiece itself"
            )
        steps.append(Charsmap(rules, by_grapheme=False))
    return (*steps, Squeeze()) if squeezes else tuple(steps)


def _decoder(message: _Message) -> Mapping[str, Any]:
    settings = message.settings
    there = b"".join(message.pieces.texts).decode()
    free = (chr(point) for point in _NO_CHARACTERS if chr(point) not in there)
    unknown, first = next(free), next(free)
    squeezes = bool(settings["remove_extra_whitespaces"])
    # Each piece loses a blank, as long as there is nothing else before it.
    loses = squeezes or bool(settings["add_dummy_prefix"])
    # With pieces of several the first blank of each is another one than those behind it.
    several = squeezes and any(text.startswith(_TWO) for text in message.pieces.texts)
    steps = [_replace(SPACE, " ")]
    if several:
        steps.insert(0, _replace(rf"\A{SPACE}", first, "Regex"))
    if settings["byte_fallback"]:
        steps.append({"type": "ByteFallback"})
    steps.append({"type": "Fuse"})
    if several:
        steps += [_replace(rf"\A{first}+", "", "Regex"), _replace(first, " ")]
    elif loses:
        start = _ALL if squeezes else 1
        steps.append({"type": "Strip", "content": " ", "start": start, "stop": 0})
    if not settings["byte_fallback"]:
        # The blank that an unknown piece is shown with is not one of those.
        name = message.pieces.texts[message.pieces.ids(UNKNOWN)[0]].decode()
        surface = settings["unk_surface"].decode(errors="replace")
        steps = [_replace(name, unknown), *steps, _replace(unknown, surface)]
    return {"type": "Sequence", "decoders": steps}


def _extra(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    found = {
        name: settings[name].decode(errors="replace")
        for number, name in NAMES.items()
        if settings[name] != _TRAINER[number][1]
    }
    return {EXTRA: found} if found else {}


def _replace(text: str, content: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: text}, "content": content}


# ── The message ──────────────────────────────────────────────────────────────────────────────


def _usual() -> dict[str, Any]:
    return dict((*_TRAINER.values(), *_NORMALIZER.values()))


def _message(data: bytes) -> _Message:
    texts: list[bytes] = []
    scores: list[float] = []
    types = bytearray()
    settings = _usual()
    back: dict[str, Any] = dict(_NORMALIZER.values())
    at, end = 0, len(data)
    while at < end:
        at = _usual_pieces(data, texts, scores, types, at)
        if at == end:
            break
        number, value, at = protobuf.field(data, at, end)
        if number == 1:
            _piece(data, _inside(value), texts, scores, types)
        elif number == 2:
            _settings(data, _inside(value), _TRAINER, settings)
        elif number == 3:
            _settings(data, _inside(value), _NORMALIZER, settings)
        elif number == 5:
            _settings(data, _inside(value), _NORMALIZER, back)
        if len(texts) > PIECES_MAX:
            raise ValueError(f"it has more than {PIECES_MAX:,} pieces")
    pieces = Pieces(texts, np.array(scores, np.float32), np.frombuffer(bytes(types), np.uint8))
    return _Message(pieces, settings, back["precompiled_charsmap"])


def _usual_pieces(
    data: bytes, texts: list[bytes], scores: list[float], types: bytearray, at: int
) -> int:
    """Reads pieces as every writer writes them, and says where something else begins.

    With `_piece` for each the 32,000 of Mistral would take 101 ms; this takes 14.
    """
    stop = len(data) - 0x82  # so that nothing is read behind the end
    unpack = _FLOAT.unpack_from
    for _ in range(PIECES_MAX + 1 - len(texts)):
        if at >= stop or data[at] != 0x0A or data[at + 2] != 0x0A:
            break
        size, length = data[at + 1], data[at + 3]
        text_end = at + 4 + length
        rest = size - 2 - length
        if size > 0x7F or not length or rest not in (5, 7) or data[text_end] != 0x15:
            break
        if rest == 7:
            if data[text_end + 5] != 0x18 or data[text_end + 6] > 0x7F:
                break
            types.append(data[text_end + 6])
        else:
            types.append(NORMAL)
        texts.append(data[at + 4 : text_end])
        scores.append(unpack(data, text_end + 1)[0])
        at = text_end + rest
    return at


def _piece(
    data: bytes, span: slice, texts: list[bytes], scores: list[float], types: bytearray
) -> None:
    text, score, type_ = b"", 0.0, NORMAL
    for number, value in protobuf.fields(data, span.start, span.stop):
        if number == 1:
            text = data[_inside(value)]
        elif number == 2 and isinstance(value, float):
            score = value
        elif number == 3 and isinstance(value, int):
            type_ = min(value, 0xFF)
    if not text:
        raise ValueError(f"piece {len(texts)} is empty")
    texts.append(text)
    scores.append(score)
    types.append(type_)


def _settings(
    data: bytes, span: slice, names: Mapping[int, tuple[str, Any]], found: dict[str, Any]
) -> None:
    for number, value in protobuf.fields(data, span.start, span.stop):
        if number in names:
            name, usual = names[number]
            if isinstance(usual, bytes):
                found[name] = data[_inside(value)]
            elif isinstance(value, int):
                found[name] = value


def _inside(value: protobuf.Value) -> slice:
    if not isinstance(value, slice):
        raise ValueError("a field with bytes holds a number")
    return value
