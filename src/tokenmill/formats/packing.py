"""Steps → the bytes that the core reads (core/normal.zig), within limits on what they may do.

A file may come from anywhere, so how much steps can grow a text is bounded here, once: whatever the
text, the memory for it is a multiple of its length.
"""

from __future__ import annotations

import struct

from tokenmill.errors import PatternError, VocabularyError
from tokenmill.formats.parts import (
    Charsmap,
    Form,
    Literally,
    Lower,
    Pattern,
    Prepend,
    Replace,
    Squeeze,
    Step,
    Strip,
)
from tokenmill.patterns import compile_pattern
from tokenmill.patterns.emptiness import Emptiness
from tokenmill.patterns.parse import parse
from tokenmill.patterns.parse_oniguruma import parse_oniguruma

STEPS_MAX = 64
PREPEND_BYTES_MAX = 256
CONTENT_BYTES_MAX = 1024
MAP_BYTES_MAX = 16 << 20
# How many times longer the text may get in one step that replaces, and in all of them.
STEP_GROWTH_MAX = 64
GROWTH_MAX = 1024

_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
# The most that a form makes of a character: 3 bytes become 33 (U+FDFA), 2 become 6 (U+0390).
_FORM_GROWTH = {"NFC": 3, "NFD": 3, "NFKC": 11, "NFKD": 11}
_LOWER_GROWTH = 2

# The tags of core/normal.zig.
_FORM, _LOWER, _PREPEND, _LITERAL, _PATTERN, _STRIP, _CHARSMAP, _SQUEEZE = range(8)


def pack_steps(steps: tuple[Step, ...]) -> bytes:
    """The steps as the core reads them; raises VocabularyError, or PatternError."""
    if len(steps) > STEPS_MAX:
        raise VocabularyError(
            f"the normaliser has {len(steps)} steps; up to {STEPS_MAX} can be loaded"
        )
    growth = 1
    packed = []
    for step in steps:
        record, times = _pack(step)
        packed.append(record)
        growth *= times
    if growth > GROWTH_MAX:
        raise VocabularyError(
            f"the steps of the normaliser could make a text {growth} times longer; up to "
            f"{GROWTH_MAX} times can be loaded"
        )
    return b"".join(packed)


def _pack(step: Step) -> tuple[bytes, int]:
    """A step, and how many times longer it can make a text."""
    match step:
        case Form(name):
            return _record(_FORM, _FORMS.index(name)), _FORM_GROWTH[name]
        case Lower():
            return _record(_LOWER), _LOWER_GROWTH
        case Prepend(text):
            _check_length(step, text, PREPEND_BYTES_MAX)
            return _record(_PREPEND, 0, text.encode()), 1
        case Replace(match, content):
            _check_length(step, content, CONTENT_BYTES_MAX)
            return _pack_replace(match, content)
        case Strip(left, right):
            return _record(_STRIP, left | right << 1), 1
        case Charsmap(data, by_grapheme):
            return _pack_charsmap(data, by_grapheme)
        case Squeeze():
            return _record(_SQUEEZE), 1


def _record(tag: int, flags: int = 0, first: bytes = b"", second: bytes = b"") -> bytes:
    return struct.pack("<BBxxII", tag, flags, len(first), len(second)) + first + second


def _check_length(step: Prepend | Replace, text: str, limit: int) -> None:
    if len(text.encode()) > limit:
        raise VocabularyError(
            f"a {type(step).__name__} of the normaliser has a text of {len(text.encode())} bytes; "
            f"up to {limit} can be loaded"
        )


def _pack_replace(match: Pattern | Literally, content: str) -> tuple[bytes, int]:
    if isinstance(match, Literally):
        tag, data, length_min = _LITERAL, match.text.encode(), len(match.text.encode())
        is_empty = not data
    else:
        tag, data, length_min = _PATTERN, compile_pattern(match.text, match.dialect), 1
        read = parse_oniguruma if match.dialect == "oniguruma" else parse
        is_empty = Emptiness().nullable(read(match.text))
    if is_empty:
        raise PatternError(
            f"the normaliser replaces {match.text!r}, which matches nothing at all too; "
            "write it so that it matches at least one character"
        )
    times = -(-len(content.encode()) // length_min)
    if times > STEP_GROWTH_MAX:
        raise VocabularyError(
            f"the normaliser replaces {match.text!r} with {len(content.encode())} bytes, which "
            f"could make a text {times} times longer; up to {STEP_GROWTH_MAX} times can be loaded"
        )
    return _record(tag, 0, data, content.encode()), max(times, 1)


def _pack_charsmap(data: bytes, by_grapheme: bool) -> tuple[bytes, int]:
    if len(data) > MAP_BYTES_MAX:
        raise VocabularyError(
            f"the map of the normaliser has {len(data)} bytes; up to {MAP_BYTES_MAX} can be loaded"
        )
    size = int.from_bytes(data[:4], "little")
    longest = max(map(len, data[4 + size :].split(b"\0")))
    if longest > STEP_GROWTH_MAX:
        raise VocabularyError(
            f"the map of the normaliser has a replacement of {longest} bytes; up to "
            f"{STEP_GROWTH_MAX} can be loaded"
        )
    return _record(_CHARSMAP, by_grapheme, data), max(longest, 1)
