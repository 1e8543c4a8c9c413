"""Bytes ↔ fields of protocol buffers: the little of the format that SentencePiece's models need.

A message is fields end to end: a varint with the number of the field and the kind of its value,
then the value. Every length is checked against what is left before it is used, so the time and
the memory that a damaged message costs are bounded by its size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeAlias

# A number, a float, or where bytes stand in the message.
Value: TypeAlias = int | float | slice

_VARINT_BYTES_MAX = 10
_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5


def fields(message: bytes, start: int, end: int) -> Iterator[tuple[int, Value]]:
    """The fields of `message[start:end]`. `ValueError` says what is wrong with a message."""
    at = start
    while at < end:
        number, value, at = field(message, at, end)
        yield number, value


def field(message: bytes, at: int, end: int) -> tuple[int, Value, int]:
    """The number of the field at `at`, its value, and where it ends."""
    tag, at = varint(message, at, end)
    number, kind = tag >> 3, tag & 7
    if number == 0:
        raise ValueError(f"a field has number 0, before byte {at}")
    size = {_FIXED32: 4, _FIXED64: 8}.get(kind, 0)
    if kind == _VARINT:
        value, at = varint(message, at, end)
        return number, value, at
    if kind == _SIZED:
        size, at = varint(message, at, end)
    elif not size:
        raise ValueError(f"field {number} has kind {kind}, before byte {at}")
    if size > end - at:
        raise ValueError(f"field {number} has {size:,} bytes at byte {at}, {end - at:,} left")
    if kind == _FIXED32:
        return number, struct.unpack_from("<f", message, at)[0], at + size
    return number, slice(at, at + size), at + size


def varint(message: bytes, at: int, end: int) -> tuple[int, int]:
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
