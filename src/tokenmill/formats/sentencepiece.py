"""SentencePiece's .model → TokenizerSpec, for models of byte-pair encoding.

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
for each byte that is in no character; Hugging Face's decoders, which `TokenizerSpec` has, for
each byte of the run. No text encodes to such ids.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill.errors import VocabularyError
from tokenmill.formats.checks import Place
from tokenmill.formats.spec import (
    BYTE,
    DECODED,
    TOKEN,
    Added,
    Charsmap,
    Model,
    Squeeze,
    Step,
    TokenizerSpec,
)
from tokenmill.formats.tokenizer_json import read_cutting

# A number, a float, or where bytes stand in the message.
Value: TypeAlias = int | float | slice

_VARINT_BYTES_MAX = 10
_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5


def read_fields(message: bytes, start: int, end: int) -> Iterator[tuple[int, Value]]:
    """The fields of `message[start:end]`. `ValueError` says what is wrong with a message."""
    at = start
    while at < end:
        number, value, at = read_field(message, at, end)
        yield number, value


def read_field(message: bytes, at: int, end: int) -> tuple[int, Value, int]:
    """The number of the field at `at`, its value, and where it ends."""
    tag, at = read_varint(message, at, end)
    number, kind = tag >> 3, tag & 7
    if number == 0:
        raise ValueError(f"a field has number 0, before byte {at}")
    size = {_FIXED32: 4, _FIXED64: 8}.get(kind, 0)
    if kind == _VARINT:
        value, at = read_varint(message, at, end)
        return number, value, at
    if kind == _SIZED:
        size, at = read_varint(message, at, end)
    elif not size:
        raise ValueError(f"field {number} has kind {kind}, before byte {at}")
    if size > end - at:
        raise ValueError(f"field {number} has {size:,} bytes at byte {at}, {end - at:,} left")
    if kind == _FIXED32:
        return number, struct.unpack_from("<f", message, at)[0], at + size
    return number, slice(at, at + size), at + size


def read_varint(message: bytes, at: int, end: int) -> tuple[int, int]:
    """A number of 64 bits and where it ends."""
    number = 0
    for place in range(_VARINT_BYTES_MAX):
        if at >= end:
            raise ValueError(f"a number is cut off at byte {at}")
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, at
    raise ValueError(f"a number has more than {_VARINT_BYTES_MAX} bytes, before byte {at}")


def write_number(field: int, value: int) -> bytes:
    return _write_varint(field << 3 | _VARINT) + _write_varint(value)


def write_float(field: int, value: float) -> bytes:
    return _write_varint(field << 3 | _FIXED32) + struct.pack("<f", value)


def write_bytes(field: int, value: bytes) -> bytes:
    return _write_varint(field << 3 | _SIZED) + _write_varint(len(value)) + value


def _write_varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


CHARSMAP_BYTES_MAX = 16 << 20
_BLOCK = 256
_LEAF = 1 << 31  # of a unit that holds a value; also of one that is not used
_HAS_LEAF = 1 << 8
_DISTANCE_MAX = 1 << 21
_LABELS = np.arange(1, _BLOCK, dtype=np.uint32)

_Units: TypeAlias = NDArray[np.uint32]


def split_charsmap(data: bytes) -> tuple[_Units, bytes]:
    """The array and the texts of a map. `ValueError` says what is wrong with it."""
    if len(data) > CHARSMAP_BYTES_MAX:
        raise ValueError(f"it has {len(data):,} bytes, and {CHARSMAP_BYTES_MAX:,} are the most")
    size = struct.unpack_from("<I", data)[0] if len(data) >= 4 else 0
    if size < 4 * _BLOCK or size % (4 * _BLOCK) or size >= len(data) - 4:
        raise ValueError(f"it says that its array has {size:,} bytes, of {len(data):,}")
    if data[-1] != 0:
        raise ValueError("its last text does not end")
    return np.frombuffer(data, "<u4", size // 4, 4), data[4 + size :]


def keep_texts(data: bytes, texts: Iterable[str]) -> bytes:
    """The map with a rule for each of `texts` that leaves it as it is.

    Only the nodes on the way to these texts are written anew, behind the array; the others stay.
    """
    units, replacements = split_charsmap(data)
    found = bytearray(replacements)
    wanted: _Node = {}
    for text in texts:
        node = wanted
        for byte in text.encode():
            node = node.setdefault(byte, {})  # type: ignore[assignment]
        node[-1] = len(found)
        found += text.encode() + b"\0"
    array = _Array(units)
    array.enter(wanted)
    written = array.done().tobytes()
    return struct.pack("<I", len(written)) + written + bytes(found)


# Bytes and what follows them; under -1 the place of the text that ends here.
_Node: TypeAlias = "dict[int, _Node | int]"


class _Array:
    def __init__(self, units: _Units) -> None:
        self._old = units
        self._new = units.tolist()
        # Places of a block that nodes with one child share, and the bases of all such nodes.
        self._free: list[int] = []
        self._bases: set[int] = set()

    def enter(self, wanted: _Node) -> None:
        """Writes the nodes of `wanted` and the old ones beside them, the root first."""
        waiting: list[tuple[_Node, int, int | None]] = [(wanted, 0, 0)]
        while waiting:
            node, place, old = waiting.pop()
            # What is longer than a text that is kept is never reached.
            children = {} if old is None or -1 in node else self._children(old)
            leaf = node.get(-1)
            if leaf is None and old is not None and self._unit(old) & _HAS_LEAF:
                leaf = self._unit(self._base(old)) & ~_LEAF
            labels = (children.keys() | node.keys()) - {-1} | ({0} if leaf is not None else set())
            base = self._room(labels)
            unit = self._new[place] & 0xFF | _distance(place ^ base)
            if isinstance(leaf, int):
                unit |= _HAS_LEAF
                self._new[base] = leaf | _LEAF
            self._new[place] = unit
            for label, from_ in children.items():
                if label not in node:
                    self._new[base ^ label] = self._moved(from_, base ^ label)
            for label, next_ in node.items():
                if isinstance(next_, dict):
                    self._new[base ^ label] = label
                    waiting.append((next_, base ^ label, children.get(label)))

    def done(self) -> _Units:
        return np.array(self._new, "<u4")

    def _unit(self, place: int) -> int:
        if place >= len(self._old):
            raise ValueError(f"unit {place:,} is not there")
        return int(self._old[place])

    def _base(self, place: int) -> int:
        return place ^ _distance_of(self._unit(place))

    def _children(self, place: int) -> dict[int, int]:
        """Labels and places of the old nodes below an old one."""
        places = _LABELS ^ np.uint32(self._base(place))
        inside = places < len(self._old)
        places, labels = places[inside], _LABELS[inside]
        there = self._old[places] & np.uint32(_LEAF | 0xFF) == labels
        return dict(zip(labels[there].tolist(), places[there].tolist(), strict=True))

    def _moved(self, place: int, to: int) -> int:
        """An old unit as it is written elsewhere: its children stay."""
        return self._unit(place) & (_HAS_LEAF | 0xFF) | _distance(to ^ self._base(place))

    def _room(self, labels: set[int]) -> int:
        """A base that no other node has, whose places for all labels are free.

        A unit knows its label and not its parent: with one base, two nodes would share children.
        """
        if len(labels) != 1:
            return self._block()
        label = next(iter(labels))
        place = next((place for place in self._free if place ^ label not in self._bases), None)
        if place is None:
            place = self._block()
            self._free = list(range(place, place + _BLOCK))
        self._free.remove(place)
        self._bases.add(place ^ label)
        return place ^ label

    def _block(self) -> int:
        start = len(self._new)
        if start + _BLOCK > _DISTANCE_MAX:
            raise ValueError("it has no room for the user-defined symbols")
        self._new += [_LEAF] * _BLOCK
        return start


def _distance(distance: int) -> int:
    if distance >= _DISTANCE_MAX:  # there is a form for those, which no map needs
        raise ValueError(f"a unit is {distance:,} units away from its children")
    return distance << 10


def _distance_of(unit: int) -> int:
    return unit >> 10 << ((unit & 1 << 9) >> 6)


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
    _check_pieces(pieces, source)
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


def _check_pieces(pieces: Pieces, source: str) -> None:
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
TRAINED = "trained"  # this model was trained by tokenmill
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


def read(data: bytes, source: str) -> TokenizerSpec:
    """The spec of a model; `source` is the name of its file."""
    if len(data) > BYTES_MAX:
        raise VocabularyError(f"{source} has {len(data):,} bytes: too large for a model")
    try:
        message = _message(data)
    except ValueError as error:
        raise VocabularyError(
            f"{source} is damaged, or no model of SentencePiece ({error}); get it again"
        ) from None
    return _parts(message, source)


def of_pieces(pieces: Pieces, source: str) -> TokenizerSpec:
    """The spec of a model of pieces with the usual settings."""
    return _parts(_Message(pieces, {**_usual(), "model_type": _BPE}, b""), source)


def _parts(message: _Message, source: str) -> TokenizerSpec:
    settings = message.settings
    _check_message(message, source)
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
    return TokenizerSpec(
        model,
        added=tuple(sorted(added, key=lambda one: one.id)),
        steps=steps,
        blank=blank,
        prefix="always" if settings["add_dummy_prefix"] else "never",
        decoder=_decoder(message),
        extra=_extra(settings),
    )


def _check_message(message: _Message, source: str) -> None:
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
                rules = keep_texts(rules, symbols)
            _, texts = split_charsmap(rules)
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
        number, value, at = read_field(data, at, end)
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
    for number, value in read_fields(data, span.start, span.stop):
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
    for number, value in read_fields(data, span.start, span.stop):
        if number in names:
            name, usual = names[number]
            if isinstance(usual, bytes):
                found[name] = data[_inside(value)]
            elif isinstance(value, int):
                found[name] = value


def _inside(value: Value) -> slice:
    if not isinstance(value, slice):
        raise ValueError("a field with bytes holds a number")
    return value


_WAY_OUT = "save to tokenizer.json or .tokenmill"


def write(spec: TokenizerSpec) -> bytes:
    """The file .model."""
    _check_writable(spec)
    texts = _texts(spec)
    types = [NORMAL] * len(texts)
    for one in spec.added:
        types[one.id] = CONTROL if one.special else USER_DEFINED
    for id_ in spec.model.ids[spec.model.kinds == BYTE].tolist():
        types[id_] = BYTES
    assert spec.model.unk is not None
    types[spec.model.unk] = UNKNOWN
    order = _order(spec.model)
    message = bytearray()
    for id_, (text, type_) in enumerate(zip(texts, types, strict=True)):
        score = -float(order.get(id_, 0)) if type_ == NORMAL else 0.0
        entry = write_bytes(1, text) + write_float(2, score)
        if type_ != NORMAL:
            entry += write_number(3, type_)
        message += write_bytes(1, entry)
    data = bytes(message) + write_bytes(2, _trainer(spec)) + write_bytes(3, _normalizer(spec))
    _check_again(spec, data, types)
    return data


def _refuse(what: str) -> VocabularyError:
    return VocabularyError(f"{what}, which SentencePiece's .model cannot say; {_WAY_OUT}")


def _check_writable(spec: TokenizerSpec) -> None:
    model = spec.model
    if model.base != "characters":
        raise _refuse("tokens are merged from bytes")
    if model.whole or model.dropout:
        raise _refuse("the model takes whole pretokens, or drops merges at random")
    if model.missing not in ("unk", "bytes") or model.unk is None:
        raise _refuse("characters that are no tokens have no token of their own")
    if model.missing == "unk" and not model.fuse_unk:
        raise _refuse("unknown characters that stand together are not one token")
    if spec.stages or spec.prefix not in ("always", "never"):
        raise _refuse("text is cut before merging, or gets a blank only where there is none")
    names = [type(step).__name__ for step in spec.steps]
    if names not in ([], ["Charsmap"], ["Squeeze"], ["Charsmap", "Squeeze"]):
        raise _refuse(f"normalisers are {', '.join(names)}")
    if any(isinstance(step, Charsmap) and step.by_grapheme for step in spec.steps):
        raise _refuse("the normaliser Precompiled is Hugging Face's")
    for one in spec.added:
        if not _is_symbol(one, spec):
            raise _refuse(f"{one} is found otherwise")


def _is_symbol(one: Added, spec: TokenizerSpec) -> bool:
    """Whether it is found as control pieces or user-defined symbols are."""
    if one.lstrip or one.rstrip or one.single_word:
        return False
    if one.special or one.literal:
        return True
    # In the text as it was, which is the one that SentencePiece looks at if nothing changes it.
    plain = not spec.steps and spec.prefix == "never"
    return plain and not one.normalized and SPACE not in one.content and " " not in one.content


def _texts(spec: TokenizerSpec) -> list[bytes]:
    """The pieces by id."""
    found = {one.id: one.content.encode() for one in spec.added}
    ends = np.cumsum(spec.model.lengths, dtype=np.int64).tolist()
    for id_, kind, start, end in zip(
        spec.model.ids.tolist(), spec.model.kinds.tolist(), [0, *ends], ends, strict=False
    ):
        text = spec.model.data[start:end]
        found[id_] = b"<0x%02X>" % text[0] if kind == BYTE else text
    if sorted(found) != list(range(len(found))):
        raise _refuse("ids have gaps")
    return [found[id_] for id_ in range(len(found))]


def _order(model: Model) -> dict[int, int]:
    """Which token is merged when, by id."""
    if model.merges is None:
        order = model.ids if model.order is None else model.order
        return dict(zip(model.ids.tolist(), order.tolist(), strict=True))
    ends = np.cumsum(model.lengths, dtype=np.int64).tolist()
    spans = zip([0, *ends], ends, strict=False)
    texts = [model.data[start:end].decode(errors="replace") for start, end in spans]
    tokens = {text for text, kind in zip(texts, model.kinds.tolist(), strict=True) if kind == TOKEN}
    pairs: dict[str, list[int]] = {}
    there = set()
    for place, (left, right) in enumerate(model.merges.reshape(-1, 2).tolist()):
        pairs.setdefault(texts[left] + texts[right], []).append(place)
        there.add((texts[left], texts[right]))
    for text in tokens:
        for at in range(1, len(text)):
            pair = (text[:at], text[at:])
            if pair[0] in tokens and pair[1] in tokens and pair not in there:
                raise _refuse(f"{pair} are not merged, though {text!r} is a token")
    ranges = sorted((min(places), max(places), text) for text, places in pairs.items())
    for (_, last, text), (first, _, other) in pairwise(ranges):
        if first < last:
            raise _refuse(f"merges that make {text!r} and {other!r} are mixed")
    places = {text: place for place, (_, _, text) in enumerate(ranges)}
    return {id_: places.get(text, 0) for id_, text in zip(model.ids.tolist(), texts, strict=True)}


def _trainer(spec: TokenizerSpec) -> bytes:
    found = write_number(3, 2)  # BPE
    found += write_number(4, len(spec.model.ids))
    names = spec.extra.get(EXTRA, {})
    if COVERAGE in names:
        found += write_float(10, names[COVERAGE])
    if LENGTH_MAX in names:
        found += write_number(20, names[LENGTH_MAX])
    found += b"".join(write_bytes(31, t.content.encode()) for t in spec.added if not t.special)
    if spec.model.missing == "bytes":
        found += write_number(35, 1)
    for field, name in NAMES.items():
        if name in names:
            found += write_bytes(field, names[name].encode())
    return found


def _normalizer(spec: TokenizerSpec) -> bytes:
    rules = b"".join(step.data for step in spec.steps if isinstance(step, Charsmap))
    found = write_bytes(1, b"user_defined" if rules else b"identity") + write_bytes(2, rules)
    # As SentencePiece writes them: not where they are set, which is usual.
    settings = {3: spec.prefix == "always", 4: Squeeze() in spec.steps, 5: spec.blank}
    return found + b"".join(write_number(n, 0) for n, is_set in settings.items() if not is_set)


def _check_again(spec: TokenizerSpec, data: bytes, types: list[int]) -> None:
    """That every token is read as what it is here: some that are only decoded would be found."""
    kinds = read(data, "this tokenizer as a .model").model.kinds.tolist()
    for id_, kind in zip(spec.model.ids.tolist(), spec.model.kinds.tolist(), strict=True):
        if types[id_] == NORMAL and kinds[id_] != kind:
            raise _refuse(f"token {id_} is found in no text")


META = ("<unk>", "<s>", "</s>")


@dataclass(frozen=True)
class PieceOptions:
    """What pieces are learned with, and what spm_train does unless told otherwise."""

    special_tokens: tuple[str, ...] = ()
    coverage: float = 0.9995
    length_max: int = 16

    @property
    def front(self) -> tuple[str, ...]:
        """The names that have the first ids."""
        return (*META, *self.special_tokens)

    def score(self, id_: int) -> float:
        first = len(self.front)
        return 0.0 if id_ < first else -float(id_ - first)


def parts_of(pieces: Sequence[str], options: PieceOptions) -> TokenizerSpec:
    """What spm_train's model would be read to, with the options that it notes there."""
    types = np.full(len(pieces), NORMAL, np.uint8)
    types[: len(options.front)] = USER_DEFINED
    types[: len(META)] = CONTROL
    types[0] = UNKNOWN
    scores = np.array([options.score(id_) for id_ in range(len(pieces))], np.float32)
    texts = [piece.encode() for piece in pieces]
    spec = of_pieces(Pieces(texts, scores, types), "the pieces")
    usual = PieceOptions()
    noted = {
        name: value
        for name, value, other in (
            (COVERAGE, options.coverage, usual.coverage),
            (LENGTH_MAX, options.length_max, usual.length_max),
        )
        if value != other
    }
    return replace(spec, extra={**spec.extra, EXTRA: {**noted, TRAINED: True}})


def hugging_face(spec: TokenizerSpec) -> TokenizerSpec:
    """The spec for a tokenizer.json. Only that of a model trained by tokenmill is changed.

    The normalizer there does the work of SentencePiece's own, and all symbols are special tokens.
    """
    if TRAINED not in spec.extra.get(EXTRA, {}):
        return spec
    cutting = read_cutting(_HF_NORMALIZER, _HF_PRE_TOKENIZER, Place("the pieces"))
    names = {META[0]: 0, **{one.content: one.id for one in spec.added}}
    return TokenizerSpec(
        spec.model,
        tuple(Added(name, id_) for name, id_ in names.items()),
        cutting.steps,
        cutting.blank,
        cutting.prefix,
        cutting.stages,
        decoder=_HF_DECODER,
        extra={"normalizer": _HF_NORMALIZER, "pre_tokenizer": _HF_PRE_TOKENIZER},
    )


def write_vocab(spec: TokenizerSpec) -> bytes:
    """The file .vocab: a line per piece, with its score."""
    pieces = _message(write(spec)).pieces
    rows = zip(pieces.texts, pieces.scores.tolist(), strict=True)
    return b"".join(text + b"\t%.6g\n" % score for text, score in rows)


def _replacement(pattern: str, content: str) -> dict[str, object]:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


_HF_NORMALIZER = {
    "type": "Sequence",
    "normalizers": [
        _replacement(r"\A +| +\z", ""),
        _replacement(r" +", SPACE),
        {"type": "Prepend", "prepend": SPACE},
        _replacement(rf"{SPACE}+\z", ""),
    ],
}
_HF_PRE_TOKENIZER = {
    "type": "Metaspace",
    "replacement": SPACE,
    "prepend_scheme": "never",
    "split": True,
}
_HF_DECODER = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}
