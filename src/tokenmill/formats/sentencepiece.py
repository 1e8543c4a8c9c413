"""SentencePiece .model ↔ TokenizerSpec, for BPE models.

A model is a protocol buffers message with pieces (text, score, type), trainer settings and
normalizer settings. SentencePiece 0.2.2 encodes in three steps (normalizer.cc, bpe_model.cc):

- It normalizes the whole text. A compiled map replaces characters outside user-defined symbols.
  remove_extra_whitespaces strips spaces, also "▁" at the end, and collapses runs to one space.
  A space is put before a text that is not empty. Every space becomes "▁".
- It finds user-defined symbols, leftmost and longest first. They are never merged, and no space
  follows them. Here they are `Added` tokens with `literal`.
- It merges the text between them. A character without a piece becomes the pieces of its bytes, or
  a run of such characters becomes one unknown piece.

Encoding never produces control pieces. Here they are special `Added` tokens, which callers can
allow. Decoding shows an unknown piece as " ⁇ ". For invalid UTF-8 SentencePiece writes one U+FFFD
per invalid byte. Hugging Face's decoders, which `TokenizerSpec` uses, write one per byte of the
run. No text encodes to such ids.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokenmill.formats.checks import Place, cannot_save
from tokenmill.formats.names import BYTE_NAMES
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
from tokenmill.formats.tokenizer_json import SPACE, read_cutting

# An integer, a float, or the span of a bytes field in the message.
Value: TypeAlias = int | float | slice

CONVERT = "convert the model again"
DOWNLOAD = "download the file again"
_SENTENCEPIECE = "use the sentencepiece library"

# ── Protocol buffers ─────────────────────────────────────────────────────────────────────────

_VARINT_BYTES_MAX = 10
_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5


def read_fields(message: bytes, start: int, end: int) -> Iterator[tuple[int, Value]]:
    """Yield the fields of `message[start:end]`. Raise ValueError for a damaged message."""
    at = start
    while at < end:
        number, value, at = read_field(message, at, end)
        yield number, value


def read_field(message: bytes, at: int, end: int) -> tuple[int, Value, int]:
    """Return the number of the field at `at`, its value, and its end."""
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
        raise ValueError(f"field {number} has unknown wire type {kind}, before byte {at}")
    if size > end - at:
        raise ValueError(f"field {number} has {size:,} bytes at byte {at}, {end - at:,} left")
    if kind == _FIXED32:
        return number, struct.unpack_from("<f", message, at)[0], at + size
    return number, slice(at, at + size), at + size


def read_varint(message: bytes, at: int, end: int) -> tuple[int, int]:
    """Return an unsigned 64-bit integer and its end."""
    number = 0
    for index in range(_VARINT_BYTES_MAX):
        if at >= end:
            raise ValueError(f"an integer is truncated at byte {at}")
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, at
    raise ValueError(f"an integer has more than {_VARINT_BYTES_MAX} bytes, before byte {at}")


def write_number(field: int, value: int) -> bytes:
    return _write_varint(field << 3 | _VARINT) + _write_varint(value)


def write_float(field: int, value: float) -> bytes:
    return _write_varint(field << 3 | _FIXED32) + struct.pack("<f", value)


def write_bytes(field: int, value: bytes) -> bytes:
    return _write_varint(field << 3 | _SIZED) + _write_varint(len(value)) + value


def _write_varint(number: int) -> bytes:
    data = bytearray()
    while number >= 0x80:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


# ── The character map: a double array of bytes (darts-clone) and its replacement texts ────────

CHARSMAP_BYTES_MAX = 16 << 20
_BLOCK = 256
_LEAF = 1 << 31  # flag of a unit that contains a value, and of a free unit
_HAS_LEAF = 1 << 8
_DISTANCE_MAX = 1 << 21
_LABELS = np.arange(1, _BLOCK, dtype=np.uint32)

_Units: TypeAlias = NDArray[np.uint32]


def split_charsmap(data: bytes) -> tuple[_Units, bytes]:
    """Return the array and the replacement texts of a map. Raise ValueError for a damaged map."""
    if len(data) > CHARSMAP_BYTES_MAX:
        raise ValueError(f"it has {len(data):,} bytes, more than {CHARSMAP_BYTES_MAX:,}")
    size = struct.unpack_from("<I", data)[0] if len(data) >= 4 else 0
    if size < 4 * _BLOCK or size % (4 * _BLOCK) or size >= len(data) - 4:
        raise ValueError(f"the size of its array is {size:,} of {len(data):,} bytes")
    if data[-1] != 0:
        raise ValueError("its last text is not terminated")
    return np.frombuffer(data, "<u4", size // 4, 4), data[4 + size :]


def keep_texts(data: bytes, texts: Iterable[str]) -> bytes:
    """Return the map with rules that replace each of `texts` with itself.

    New copies of the nodes on the paths to these texts are appended to the array. All other nodes
    stay unchanged.
    """
    units, replacements = split_charsmap(data)
    joined = bytearray(replacements)
    root: _Node = {}
    for text in texts:
        node = root
        for byte in text.encode():
            node = node.setdefault(byte, {})  # type: ignore[assignment]
        node[-1] = len(joined)
        joined += text.encode() + b"\0"
    array = _Array(units)
    array.insert(root)
    packed = np.array(array.units, "<u4").tobytes()
    return struct.pack("<I", len(packed)) + packed + bytes(joined)


# Child nodes by byte. Key -1 is the offset of the replacement of the text that ends here.
_Node: TypeAlias = "dict[int, _Node | int]"


class _Array:
    def __init__(self, units: _Units) -> None:
        self._old = units
        self.units = units.tolist()
        # Free units of a block that nodes with one child share, and the bases of all such nodes.
        self._free: list[int] = []
        self._bases: set[int] = set()

    def insert(self, root: _Node) -> None:
        """Write the nodes below `root`, merged with the old nodes at the same positions."""
        stack: list[tuple[_Node, int, int | None]] = [(root, 0, 0)]
        while stack:
            node, index, old = stack.pop()
            # Lookups end at an inserted text, so longer old texts are unreachable.
            children = {} if old is None or -1 in node else self._children(old)
            leaf = node.get(-1)
            if leaf is None and old is not None and self._unit(old) & _HAS_LEAF:
                leaf = self._unit(self._base(old)) & ~_LEAF
            labels = (children.keys() | node.keys()) - {-1} | ({0} if leaf is not None else set())
            base = self._allocate(labels)
            unit = self.units[index] & 0xFF | _distance(index ^ base)
            if isinstance(leaf, int):
                unit |= _HAS_LEAF
                self.units[base] = leaf | _LEAF
            self.units[index] = unit
            for label, source in children.items():
                if label not in node:
                    self.units[base ^ label] = self._move(source, base ^ label)
            for label, child in node.items():
                if isinstance(child, dict):
                    self.units[base ^ label] = label
                    stack.append((child, base ^ label, children.get(label)))

    def _unit(self, index: int) -> int:
        if index >= len(self._old):
            raise ValueError(f"unit {index:,} does not exist")
        return int(self._old[index])

    def _base(self, index: int) -> int:
        unit = self._unit(index)
        return index ^ (unit >> 10 << ((unit & 1 << 9) >> 6))

    def _children(self, index: int) -> dict[int, int]:
        """Return the indexes of an old node's children by label."""
        indexes = _LABELS ^ np.uint32(self._base(index))
        inside = indexes < len(self._old)
        indexes, labels = indexes[inside], _LABELS[inside]
        exist = self._old[indexes] & np.uint32(_LEAF | 0xFF) == labels
        return dict(zip(labels[exist].tolist(), indexes[exist].tolist(), strict=True))

    def _move(self, index: int, target: int) -> int:
        """Return an old unit for another index. Its children stay unchanged."""
        return self._unit(index) & (_HAS_LEAF | 0xFF) | _distance(target ^ self._base(index))

    def _allocate(self, labels: set[int]) -> int:
        """Return an unused base whose units for all labels are free.

        A unit stores its label and not its parent. Two nodes with one base would share children.
        """
        if len(labels) != 1:
            return self._append_block()
        label = next(iter(labels))
        index = next((index for index in self._free if index ^ label not in self._bases), None)
        if index is None:
            index = self._append_block()
            self._free = list(range(index, index + _BLOCK))
        self._free.remove(index)
        self._bases.add(index ^ label)
        return index ^ label

    def _append_block(self) -> int:
        start = len(self.units)
        if start + _BLOCK > _DISTANCE_MAX:
            raise ValueError("it has too few free units for the user-defined symbols")
        self.units += [_LEAF] * _BLOCK
        return start


def _distance(distance: int) -> int:
    if distance >= _DISTANCE_MAX:  # the encoding for longer distances is not supported
        raise ValueError(f"a unit is {distance:,} units away from its children")
    return distance << 10


# ── Pieces ───────────────────────────────────────────────────────────────────────────────────

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTES = range(1, 7)  # types of pieces

PIECES_MAX = 1 << 20
_PIECE_BYTES_MAX = 1 << 16
_UNUSED_MAX = 256  # characters; the check takes quadratic time


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces by id, as UTF-8."""

    texts: list[bytes]
    scores: NDArray[np.float32]
    types: NDArray[np.uint8]

    def ids(self, type_: int) -> list[int]:
        ids: list[int] = np.flatnonzero(self.types == type_).tolist()
        return ids

    def names(self, type_: int) -> dict[str, int]:
        return {self.texts[id_].decode(): id_ for id_ in self.ids(type_)}


def model_of(pieces: Pieces, place: Place, *, blank: bool, has_bytes: bool) -> Model:
    """Return the model. `has_bytes`: characters without a piece become byte pieces."""
    _check_pieces(pieces, place)
    texts = list(pieces.texts)
    for id_ in pieces.ids(BYTES):
        name = texts[id_].decode()
        if name not in BYTE_NAMES:
            place.refuse(f"has byte piece {id_} {name!r}, expected a text such as '<0x41>'")
        texts[id_] = bytes([BYTE_NAMES[name]])
    unknown = pieces.ids(UNKNOWN)
    if len(unknown) != 1:
        place.refuse(f"has {len(unknown)} unknown pieces, expected 1")
    count, expected = len(pieces.ids(BYTES)), 256 if has_bytes else 0
    if count != expected:
        place.refuse(f"has {count} byte pieces, expected {expected} with byte_fallback {has_bytes}")
    kinds = _kinds(pieces, place, blank)
    # np.unique treats 0.0 and -0.0 as equal, as SentencePiece does.
    _, order = np.unique(-pieces.scores, return_inverse=True)
    return Model.of(
        texts,
        range(len(texts)),
        kinds,
        order=order.astype(np.uint32).reshape(-1),
        base="characters",
        missing="bytes" if has_bytes else "unk",
        unk=unknown[0],
        fuse_unk=True,
    )


def check_texts(texts: list[bytes], place: Place) -> None:
    """Raise VocabularyError unless there are tokens, all different and short enough."""
    if not 0 < len(texts) <= PIECES_MAX:
        place.refuse(f"has {len(texts):,} tokens, expected 1 to {PIECES_MAX:,}")
    long = max(texts, key=len)
    if len(long) > _PIECE_BYTES_MAX:
        place.refuse(
            f"has {len(long):,} bytes in token {texts.index(long)}, more than "
            f"{_PIECE_BYTES_MAX:,}; {CONVERT} without it"
        )
    if len(set(texts)) != len(texts):
        first: dict[bytes, int] = {}
        for id_, text in enumerate(texts):
            if first.setdefault(text, id_) != id_:
                shown = text.decode(errors="replace")
                place.refuse(f"has tokens {first[text]} and {id_} that are both {shown!r}")


def _check_pieces(pieces: Pieces, place: Place) -> None:
    texts = pieces.texts
    check_texts(texts, place)
    try:
        b"\n".join(texts).decode()
    except UnicodeDecodeError as error:
        ends = np.cumsum([len(text) + 1 for text in texts])
        wrong = int(np.searchsorted(ends, error.start, "right"))
        place.refuse(f"has piece {wrong} {texts[wrong][:60]!r}, which is not UTF-8")
    if bool(np.isnan(pieces.scores).any()):
        wrong = int(np.flatnonzero(np.isnan(pieces.scores))[0])
        place.refuse(f"has score NaN for piece {wrong}, {texts[wrong].decode()!r}")


def _kinds(pieces: Pieces, place: Place, blank: bool) -> NDArray[np.uint8]:
    """Return the kind of each piece. Pieces that merging cannot produce are DECODED."""
    kinds = np.full(len(pieces.texts), DECODED, np.uint8)
    kinds[pieces.types == NORMAL] = TOKEN
    kinds[pieces.types == BYTES] = BYTE
    for id_ in pieces.ids(UNUSED):  # SentencePiece splits only merged ones apart again
        if len(pieces.texts[id_].decode()) == 1:
            kinds[id_] = TOKEN
    if blank:  # a text contains "▁" instead of spaces
        for id_ in np.flatnonzero(kinds == TOKEN).tolist():
            if b" " in pieces.texts[id_]:
                kinds[id_] = DECODED
    _check_characters(pieces, kinds, place)
    for name, id_ in pieces.names(CONTROL).items():
        if len(name) == 1:
            place.refuse(
                f"has control piece {id_} with the single character {name!r}, which SentencePiece "
                "encodes as text; rename it to a longer text"
            )
    if pieces.ids(UNUSED):
        _check_unused(pieces, place)
    return kinds


def _check_characters(pieces: Pieces, kinds: NDArray[np.uint8], place: Place) -> None:
    """Raise VocabularyError for a piece with a character that has no piece.

    A piece with a character that is a user-defined symbol becomes DECODED, because merging never
    sees that character.
    """
    ids: list[int] = np.flatnonzero(kinds == TOKEN).tolist()
    texts = [pieces.texts[id_].decode() for id_ in ids]
    known = {text for text in texts if len(text) == 1}
    if not set("".join(texts)) - known:
        return
    symbols = pieces.names(USER_DEFINED).keys()
    for id_, text in zip(ids, texts, strict=True):
        if missing := set(text) - known:
            if not missing & symbols:
                place.refuse(
                    f"has piece {id_}, {text!r}, with the character {min(missing)!r}, which has no "
                    "piece of its own; add that piece, or remove the longer one"
                )
            kinds[id_] = DECODED


def _check_unused(pieces: Pieces, place: Place) -> None:
    """Raise VocabularyError for unused pieces that merging produces.

    SentencePiece splits them apart again after merging, which is not supported here.
    """
    known = {text.decode() for text in pieces.texts}
    for name, id_ in pieces.names(UNUSED).items():
        halves = ((name[:at], name[at:]) for at in range(1, len(name)))
        if len(name) > _UNUSED_MAX or any(
            (len(left) == 1 or left in known) and (len(right) == 1 or right in known)
            for left, right in halves
        ):
            place.refuse(
                f"has unused piece {id_}, {name[:60]!r}, which merging can produce; splitting it "
                "apart again is not supported; load the model's tokenizer.json"
            )


# ── Reading ──────────────────────────────────────────────────────────────────────────────────

_FLOAT = struct.Struct("<f")
_BPE = 2
_TYPES = {1: "Unigram", 2: "BPE", 3: "word", 4: "character"}
_TWO = 2 * SPACE.encode()
_ALL = 2**31 - 1
_NONCHARACTERS = range(0xFDD0, 0xFDF0)  # reserved by Unicode for internal use
_UNKNOWN_SURFACE = " \u2047 "

# The used fields of TrainerSpec and NormalizerSpec, with their defaults.
_TRAINER: dict[int, tuple[str, Any]] = {
    3: ("model_type", 1),
    24: ("treat_whitespace_as_suffix", 0),
    35: ("byte_fallback", 0),
    44: ("unk_surface", _UNKNOWN_SURFACE.encode()),
    45: ("unk_piece", b"<unk>"),
    46: ("bos_piece", b"<s>"),
    47: ("eos_piece", b"</s>"),
    48: ("pad_piece", b"<pad>"),
}
# Settings that encoding does not use. They are stored in `TokenizerSpec.extra` for writing.
EXTRA = "sentencepiece"
NAMES = {number: _TRAINER[number][0] for number in (44, 45, 46, 47, 48)}
# Training options that differ from the defaults, only for models trained by tokenmill.
COVERAGE, LENGTH_MAX = "character_coverage", "max_sentencepiece_length"
TRAINED = "trained"  # this model was trained by tokenmill
_NORMALIZER: dict[int, tuple[str, Any]] = {
    2: ("precompiled_charsmap", b""),
    3: ("add_dummy_prefix", 1),
    4: ("remove_extra_whitespaces", 1),
    5: ("escape_whitespaces", 1),
}
_DENORMALIZER: dict[int, tuple[str, Any]] = {2: ("denormalizer", b"")}
_SETTINGS = {2: _TRAINER, 3: _NORMALIZER, 5: _DENORMALIZER}


def read(data: bytes, source: str) -> TokenizerSpec:
    """Return the specification of a model. `source` is the file name for errors."""
    place = Place(source, advice=CONVERT)
    try:
        pieces, settings = _read_message(data)
    except ValueError as error:
        place.refuse(f"is damaged or not a SentencePiece model ({error}); {DOWNLOAD}")
    return _to_spec(pieces, settings, place)


def _to_spec(pieces: Pieces, settings: Mapping[str, Any], place: Place) -> TokenizerSpec:
    _check_message(pieces, settings, place)
    blank = bool(settings["escape_whitespaces"])
    model = model_of(pieces, place, blank=blank, has_bytes=bool(settings["byte_fallback"]))
    symbols = pieces.names(USER_DEFINED)
    steps = _steps([*symbols], settings, place)
    added = [Added(name, id_) for name, id_ in pieces.names(CONTROL).items()]
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
        decoder=_decoder(pieces, settings),
        extra=_extra(settings),
    )


def _check_message(pieces: Pieces, settings: Mapping[str, Any], place: Place) -> None:
    """Raise VocabularyError for a model whose ids cannot be reproduced exactly."""
    if settings["model_type"] != _BPE:
        name = _TYPES.get(settings["model_type"], f"unknown ({settings['model_type']})")
        place.refuse(f"has model_type {name}; only BPE is supported; {_SENTENCEPIECE}")
    if settings["treat_whitespace_as_suffix"]:
        _refuse("treat_whitespace_as_suffix", place)
    if settings["remove_extra_whitespaces"] and not settings["escape_whitespaces"]:
        _refuse("remove_extra_whitespaces without escape_whitespaces", place)
    if settings["denormalizer"]:
        _refuse("denormalizer rules", place)
    if wrong := sorted(set(pieces.types.tolist()) - {*range(NORMAL, 7)}):
        place.refuse(f"has a piece of unknown type {wrong[0]}; {DOWNLOAD}")


def _refuse(feature: str, place: Place) -> NoReturn:
    place.refuse(f"has {feature}, which is not supported; {_SENTENCEPIECE}")


def _steps(symbols: list[str], settings: Mapping[str, Any], place: Place) -> tuple[Step, ...]:
    steps = []
    squeezes = bool(settings["remove_extra_whitespaces"])
    rules: bytes = settings["precompiled_charsmap"]
    if (rules or squeezes) and (wrong := [name for name in symbols if " " in name]):
        _refuse(f"the user-defined symbol {wrong[0]!r} with a space and a normalizer", place)
    if rules:
        try:
            if symbols:
                rules = keep_texts(rules, symbols)
            _, texts = split_charsmap(rules)
        except ValueError as error:
            place.refuse(f"has a damaged precompiled_charsmap ({error}); {DOWNLOAD}")
        if squeezes and b"  " in texts:
            _refuse("remove_extra_whitespaces and a charsmap rule that writes two spaces", place)
        steps.append(Charsmap(rules, by_grapheme=False))
    return (*steps, Squeeze()) if squeezes else tuple(steps)


def _decoder(pieces: Pieces, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    joined = b"".join(pieces.texts).decode()
    free = (chr(point) for point in _NONCHARACTERS if chr(point) not in joined)
    unknown, first = next(free), next(free)
    squeezes = bool(settings["remove_extra_whitespaces"])
    has_bytes = bool(settings["byte_fallback"])
    # Each leading piece loses one space. If pieces begin with several spaces, the first space of
    # each piece is marked with the character `first`.
    if squeezes and any(text.startswith(_TWO) for text in pieces.texts):
        steps = [_replace(rf"\A{SPACE}", first, "Regex"), *decoder_steps(has_bytes, 0)]
        steps += [_replace(rf"\A{first}+", "", "Regex"), _replace(first, " ")]
    else:
        strip = _ALL if squeezes else int(bool(settings["add_dummy_prefix"]))
        steps = decoder_steps(has_bytes, strip)
    if not has_bytes:
        # Strip must not remove the spaces in the surface of an unknown piece.
        name = pieces.texts[pieces.ids(UNKNOWN)[0]].decode()
        surface = settings["unk_surface"].decode(errors="replace")
        steps = [_replace(name, unknown), *steps, _replace(unknown, surface)]
    return {"type": "Sequence", "decoders": steps}


def decoder_steps(has_bytes: bool, strip: int) -> list[dict[str, Any]]:
    """Return decoders that write "▁" as a space and remove `strip` spaces at the start."""
    return [
        _replace(SPACE, " "),
        *([{"type": "ByteFallback"}] if has_bytes else []),
        {"type": "Fuse"},
        *([{"type": "Strip", "content": " ", "start": strip, "stop": 0}] if strip else []),
    ]


def _extra(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    names = {
        name: settings[name].decode(errors="replace")
        for number, name in NAMES.items()
        if settings[name] != _TRAINER[number][1]
    }
    return {EXTRA: names} if names else {}


def _replace(text: str, content: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: text}, "content": content}


def _default_settings() -> dict[str, Any]:
    return dict(setting for group in _SETTINGS.values() for setting in group.values())


def _read_message(data: bytes) -> tuple[Pieces, dict[str, Any]]:
    """Return the pieces and the settings of a model."""
    texts: list[bytes] = []
    scores: list[float] = []
    types = bytearray()
    settings = _default_settings()
    at, end = 0, len(data)
    while at < end:
        at = _read_short_pieces(data, texts, scores, types, at)
        if at == end:
            break
        number, value, at = read_field(data, at, end)
        if number == 1:
            _read_piece(data, _bytes_span(value), texts, scores, types)
        elif number in _SETTINGS:
            _read_settings(data, _bytes_span(value), _SETTINGS[number], settings)
        if len(texts) > PIECES_MAX:
            raise ValueError(f"it has more than {PIECES_MAX:,} pieces")
    pieces = Pieces(texts, np.array(scores, np.float32), np.frombuffer(bytes(types), np.uint8))
    return pieces, settings


def _read_short_pieces(
    data: bytes, texts: list[bytes], scores: list[float], types: bytearray, at: int
) -> int:
    """Read pieces of at most 127 bytes in the usual field order. Return the end of the last one.

    A fast path: the 32,000 pieces of Mistral take 14 ms here, and 101 ms with `_read_piece`.
    """
    stop = len(data) - 0x82  # the longest such piece ends within the data
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


def _read_piece(
    data: bytes, span: slice, texts: list[bytes], scores: list[float], types: bytearray
) -> None:
    text, score, type_ = b"", 0.0, NORMAL
    for number, value in read_fields(data, span.start, span.stop):
        if number == 1:
            text = data[_bytes_span(value)]
        elif number == 2 and isinstance(value, float):
            score = value
        elif number == 3 and isinstance(value, int):
            type_ = min(value, 0xFF)
    if not text:
        raise ValueError(f"piece {len(texts)} is empty")
    texts.append(text)
    scores.append(score)
    types.append(type_)


def _read_settings(
    data: bytes, span: slice, names: Mapping[int, tuple[str, Any]], settings: dict[str, Any]
) -> None:
    for number, value in read_fields(data, span.start, span.stop):
        if number in names:
            name, default = names[number]
            if isinstance(default, bytes):
                settings[name] = data[_bytes_span(value)]
            elif isinstance(value, int):
                settings[name] = value


def _bytes_span(value: Value) -> slice:
    if not isinstance(value, slice):
        raise ValueError("a bytes field contains a number")
    return value


# ── Writing ──────────────────────────────────────────────────────────────────────────────────


def write(spec: TokenizerSpec) -> bytes:
    """Return the .model file of a tokenizer. Raise VocabularyError for an unsupported feature."""
    _check_writable(spec)
    texts = _texts(spec)
    types = [NORMAL] * len(texts)
    for token in spec.added:
        types[token.id] = CONTROL if token.special else USER_DEFINED
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
    data = bytes(message) + write_bytes(2, _write_trainer(spec))
    data += write_bytes(3, _write_normalizer(spec))
    _check_kinds(spec, data, types)
    return data


_error = partial(cannot_save, "SentencePiece .model")


def _check_writable(spec: TokenizerSpec) -> None:
    model, names = spec.model, [type(step).__name__ for step in spec.steps]
    by_grapheme = any(isinstance(step, Charsmap) and step.by_grapheme for step in spec.steps)
    is_cut = spec.stages or spec.prefix not in ("always", "never")
    is_known = names in ([], ["Charsmap"], ["Squeeze"], ["Charsmap", "Squeeze"])
    for is_wrong, reason in (
        (model.base != "characters", "it merges bytes instead of characters"),
        (model.whole or model.dropout, "it has ignore_merges or dropout"),
        (model.missing not in ("unk", "bytes") or model.unk is None, "it has no unknown token"),
        (model.missing == "unk" and not model.fuse_unk, "it does not fuse unknown characters"),
        (is_cut, "it has a pre-tokenizer, or adds a space only if the text starts with none"),
        (not is_known, f"its normalizer has the steps {', '.join(names)}"),
        (by_grapheme, "its normalizer Precompiled works as in Hugging Face"),
    ):
        if is_wrong:
            raise _error(reason)
    for token in spec.added:
        if not _is_symbol(token, spec):
            raise _error(f"it matches {token} in another way")


def _is_symbol(token: Added, spec: TokenizerSpec) -> bool:
    """Return whether a token matches like a control piece or a user-defined symbol."""
    if token.lstrip or token.rstrip or token.single_word:
        return False
    if token.special or token.literal:
        return True
    # SentencePiece searches the normalized text, which must equal the text itself.
    is_unchanged = not spec.steps and spec.prefix == "never"
    content = token.content
    return is_unchanged and not token.normalized and SPACE not in content and " " not in content


def _texts(spec: TokenizerSpec) -> list[bytes]:
    """Return the pieces by id."""
    texts = {token.id: token.content.encode() for token in spec.added}
    kinds = spec.model.kinds.tolist()
    for id_, kind, text in zip(spec.model.ids.tolist(), kinds, spec.model.tokens(), strict=True):
        texts[id_] = b"<0x%02X>" % text[0] if kind == BYTE else text
    if sorted(texts) != list(range(len(texts))):
        raise _error("its ids have gaps")
    return [texts[id_] for id_ in range(len(texts))]


def _order(model: Model) -> dict[int, int]:
    """Return the merge order of each token by id."""
    if model.merges is None:
        order = model.ids if model.order is None else model.order
        return dict(zip(model.ids.tolist(), order.tolist(), strict=True))
    texts = [token.decode(errors="replace") for token in model.tokens()]
    tokens = {text for text, kind in zip(texts, model.kinds.tolist(), strict=True) if kind == TOKEN}
    indexes: dict[str, list[int]] = {}
    merges = set()
    for index, (left, right) in enumerate(model.merges.reshape(-1, 2).tolist()):
        indexes.setdefault(texts[left] + texts[right], []).append(index)
        merges.add((texts[left], texts[right]))
    for text in tokens:
        for at in range(1, len(text)):
            pair = (text[:at], text[at:])
            if pair[0] in tokens and pair[1] in tokens and pair not in merges:
                raise _error(f"it does not merge {pair}, which makes the token {text!r}")
    ranges = sorted((min(some), max(some), text) for text, some in indexes.items())
    for (_, last, text), (first, _, other) in pairwise(ranges):
        if first < last:
            raise _error(f"its merges for {text!r} and {other!r} are interleaved")
    ranks = {text: rank for rank, (_, _, text) in enumerate(ranges)}
    return {id_: ranks.get(text, 0) for id_, text in zip(model.ids.tolist(), texts, strict=True)}


def _write_trainer(spec: TokenizerSpec) -> bytes:
    data = write_number(3, _BPE)
    data += write_number(4, len(spec.model.ids))
    names = spec.extra.get(EXTRA, {})
    if COVERAGE in names:
        data += write_float(10, names[COVERAGE])
    if LENGTH_MAX in names:
        data += write_number(20, names[LENGTH_MAX])
    data += b"".join(write_bytes(31, t.content.encode()) for t in spec.added if not t.special)
    if spec.model.missing == "bytes":
        data += write_number(35, 1)
    for field, name in NAMES.items():
        if name in names:
            data += write_bytes(field, names[name].encode())
    return data


def _write_normalizer(spec: TokenizerSpec) -> bytes:
    rules = b"".join(step.data for step in spec.steps if isinstance(step, Charsmap))
    data = write_bytes(1, b"user_defined" if rules else b"identity") + write_bytes(2, rules)
    # SentencePiece writes these settings only if they differ from the default, which is 1.
    settings = {3: spec.prefix == "always", 4: Squeeze() in spec.steps, 5: spec.blank}
    return data + b"".join(write_number(n, 0) for n, is_set in settings.items() if not is_set)


def _check_kinds(spec: TokenizerSpec, data: bytes, types: list[int]) -> None:
    """Raise VocabularyError if SentencePiece would produce a token that is only decoded here."""
    kinds = read(data, "this tokenizer as a .model").model.kinds.tolist()
    for id_, kind in zip(spec.model.ids.tolist(), spec.model.kinds.tolist(), strict=True):
        if types[id_] == NORMAL and kinds[id_] != kind:
            raise _error(f"encoding never produces its token {id_}")


def write_vocab(spec: TokenizerSpec) -> bytes:
    """Return the .vocab file, a line per piece with its score."""
    pieces, _ = _read_message(write(spec))
    rows = zip(pieces.texts, pieces.scores.tolist(), strict=True)
    return b"".join(text + b"\t%.6g\n" % score for text, score in rows)


# ── Models trained by tokenmill ──────────────────────────────────────────────────────────────

META = ("<unk>", "<s>", "</s>")


@dataclass(frozen=True)
class PieceOptions:
    """Training options, with the defaults of spm_train."""

    special_tokens: tuple[str, ...] = ()
    coverage: float = 0.9995
    length_max: int = 16

    @property
    def front(self) -> tuple[str, ...]:
        """The pieces with the first ids."""
        return (*META, *self.special_tokens)


def parts_of(pieces: Sequence[str], options: PieceOptions) -> TokenizerSpec:
    """Return the specification of a trained model, equal to that of spm_train's .model."""
    types = np.full(len(pieces), NORMAL, np.uint8)
    types[: len(options.front)] = USER_DEFINED
    types[: len(META)] = CONTROL
    types[0] = UNKNOWN
    scores = -np.maximum(np.arange(len(pieces)) - len(options.front), 0).astype(np.float32)
    texts = [piece.encode() for piece in pieces]
    settings = {**_default_settings(), "model_type": _BPE}
    spec = _to_spec(Pieces(texts, scores, types), settings, Place("the pieces"))
    extra: dict[str, Any] = {}
    if options.coverage != PieceOptions.coverage:
        extra[COVERAGE] = options.coverage
    if options.length_max != PieceOptions.length_max:
        extra[LENGTH_MAX] = options.length_max
    return replace(spec, extra={**spec.extra, EXTRA: {**extra, TRAINED: True}})


def hugging_face(spec: TokenizerSpec) -> TokenizerSpec:
    """Return the specification for a tokenizer.json, changed only for models of tokenmill.

    Hugging Face's normalizer then does the work of SentencePiece's, and all symbols are special
    tokens.
    """
    if TRAINED not in spec.extra.get(EXTRA, {}):
        return spec
    cutting = read_cutting(_HF_NORMALIZER, _HF_PRE_TOKENIZER, Place("the pieces"))
    names = {META[0]: 0, **{token.content: token.id for token in spec.added}}
    added = tuple(Added(name, id_) for name, id_ in names.items())
    extra = {"normalizer": _HF_NORMALIZER, "pre_tokenizer": _HF_PRE_TOKENIZER}
    return cutting.spec(spec.model, added, decoder=_HF_DECODER, extra=extra)


_HF_NORMALIZER = {
    "type": "Sequence",
    "normalizers": [
        _replace(r"\A +| +\z", "", "Regex"),
        _replace(r" +", SPACE, "Regex"),
        {"type": "Prepend", "prepend": SPACE},
        _replace(rf"{SPACE}+\z", "", "Regex"),
    ],
}
_HF_PRE_TOKENIZER = {
    "type": "Metaspace",
    "replacement": SPACE,
    "prepend_scheme": "never",
    "split": True,
}
_HF_DECODER = {"type": "Sequence", "decoders": decoder_steps(has_bytes=False, strip=1)}
