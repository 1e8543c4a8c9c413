"""Documents → documents without invalid UTF-8: found, named or replaced."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.native import _native

_LEAD = 0xC0
_TWO, _THREE, _FOUR = 0xC0, 0xE0, 0xF0


def bad_documents(data: Any, spans: NDArray[np.int64]) -> list[int]:
    """The numbers of the documents that are not UTF-8."""
    if not len(spans):
        return []
    bad: list[int] = np.asarray(_native.utf8_problems(data, spans)).tolist()
    return bad


def first_bad(raw: bytes) -> int:
    """The first byte that is not UTF-8, or -1."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.start
    return -1


def reason(raw: bytes, offset: int) -> str:
    """The reason of a record that is not UTF-8 and starts at a byte of its file."""
    bad = first_bad(raw)
    return said(offset + bad, raw[bad])


def said(offset: int, byte: int) -> str:
    return (
        f"is not UTF-8: byte {offset:,} is 0x{byte:02X}; repair it, or use utf8='replace' or "
        "'bytes' (--utf8)"
    )


def replace(data: Any, spans: NDArray[np.int64], bad: list[int]) -> tuple[Any, NDArray[np.int64]]:
    """The same documents, with U+FFFD for invalid bytes, as Python replaces them.

    The spans must be in order.
    """
    view = memoryview(data)
    parts: list[Any] = []
    shifts = np.zeros(len(spans), np.int64)
    place = 0
    for index in bad:
        start, end = spans[index].tolist()
        text = bytes(view[start:end]).decode("utf-8", "replace").encode()
        parts += [view[place:start], text]
        shifts[index] = len(text) - (end - start)
        place = end
    parts.append(view[place:])
    behind = np.cumsum(shifts)
    return b"".join(parts), spans + np.stack([behind - shifts, behind], axis=1)


def whole_end(view: memoryview, end: int) -> int:
    """The last offset up to `end` that is not inside of a UTF-8 character.

    Invalid bytes are cut where a decoder would start again.
    """
    for back in range(1, min(3, end) + 1):
        byte = view[end - back]
        if byte >= _LEAD:
            size = 4 if byte >= _FOUR else 3 if byte >= _THREE else 2
            return end - back if size > back else end
        if byte < 0x80:
            return end
    return end
