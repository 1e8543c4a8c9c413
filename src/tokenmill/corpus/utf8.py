"""Documents → documents without invalid UTF-8: found, named or replaced."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.native import _native


def check(
    data: Any, spans: NDArray[np.int64], treatment: str
) -> tuple[Any, NDArray[np.int64], list[int]]:
    """The documents with invalid bytes replaced, and the numbers of those to reject.

    `treatment` is an option `utf8`. The spans must be in order.
    """
    bad: list[int] = []
    if treatment != "bytes" and len(spans):
        bad = np.asarray(_native.utf8_problems(data, spans)).tolist()
    if treatment == "replace" and bad:
        return *_replace(data, spans, bad), []
    return data, spans, bad


def _replace(data: Any, spans: NDArray[np.int64], bad: list[int]) -> tuple[Any, NDArray[np.int64]]:
    """The same documents, with U+FFFD for invalid bytes, as Python replaces them."""
    view = memoryview(data)
    parts: list[Any] = []
    growth = np.zeros(len(spans), np.int64)
    done = 0
    for index in bad:
        start, end = spans[index].tolist()
        text = bytes(view[start:end]).decode("utf-8", "replace").encode()
        parts += [view[done:start], text]
        growth[index] = len(text) - (end - start)
        done = end
    parts.append(view[done:])
    shifts = np.cumsum(growth)
    return b"".join(parts), spans + np.stack([shifts - growth, shifts], axis=1)


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
    return (
        f"is not UTF-8: byte {offset + bad:,} is 0x{raw[bad]:02X}; repair it, or use "
        "utf8='replace' or 'bytes' (--utf8)"
    )


def whole_end(view: memoryview | bytes, end: int) -> int:
    """The last offset up to `end` that is not inside of a UTF-8 character.

    Invalid bytes are cut where a decoder would start again.
    """
    for back in range(1, min(3, end) + 1):
        byte = view[end - back]
        if byte >= 0xC0:  # the first byte of a character
            size = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2
            return end - back if size > back else end
        if byte < 0x80:
            return end
    return end
