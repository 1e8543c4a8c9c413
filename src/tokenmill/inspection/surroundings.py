"""A token that its own text does not give → texts around it that may.

Bytes that begin or end inside a character are made whole characters first. Then other characters
are put before and behind, since a pattern cuts "\\n//" alone and not behind a semicolon. There are
far too many such texts for all of them: those that are given are spread over the range, and a token
that none of them gives is not proven to be out of reach, only very unlikely.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain, product

_CONTINUED = range(0x80, 0xC0)
# Bytes that begin a character of so many.
_LEADS = {2: range(0xC2, 0xE0), 3: range(0xE0, 0xF0), 4: range(0xF0, 0xF5)}
# What patterns tell apart: letters of either case, a digit, blanks, line ends, punctuation, and the
# ends of English words; then all of ASCII.
_KINDS = (
    "",
    "a",
    "ʣ",
    "A",
    "Ꟶ",
    "1",
    "٣",
    " ",
    "\n",
    ".",
    ";",
    "⍼",
    "'",
    "'s",
    "'ll",
    "世",
    "ll",
    "\u0301",
)
_ASCII = ("", *map(chr, range(0x20, 0x7F)), "\n", "\r\n", "\t")


def around(token: bytes, most: int) -> Iterator[bytes]:
    """Texts of whole characters in which a token lies: up to `most` that differ before it, as many
    that differ behind it, and as many that do on both sides."""
    head = next((at for at, byte in enumerate(token) if byte not in _CONTINUED), len(token))
    fronts = _fronts(token[:head], most)
    backs = _backs(_open_end(token[head:]), most)
    side = max(1, round(most**0.5))
    pairs = chain(
        product(fronts, backs[:1]),
        product(fronts[:1], backs),
        product(_some(fronts, side), _some(backs, side)),
    )
    for front, back in pairs:
        if _is_text(text := front + token + back):
            yield text


def _some(items: list[bytes], count: int) -> list[bytes]:
    return items[:: max(1, len(items) // count)]


@cache
def _fronts(head: bytes, most: int) -> list[bytes]:
    """What may stand before a token that begins with these bytes of a character."""
    if not head:
        return _contexts(most)
    found: list[bytes] = []
    for length, leads in _LEADS.items():
        missing = length - 1 - len(head)
        if missing >= 0:
            found += _filled(leads, missing, most // 2)
    return [front for front in found if _is_text(front + head)]


@cache
def _backs(tail: bytes, most: int) -> list[bytes]:
    """What may stand behind a token that ends with these bytes of a character."""
    if not tail:
        return _contexts(most)
    length = next(n for n, leads in _LEADS.items() if tail[0] in leads)
    missing = length - len(tail)
    found = _filled(_CONTINUED, missing - 1, most)
    return [back for back in found if _is_text(tail + back)]


def _contexts(most: int) -> list[bytes]:
    found = _KINDS if most < 2 * len(_ASCII) else dict.fromkeys(chain(_KINDS, _ASCII))
    return [text.encode() for text in found]


def _open_end(rest: bytes) -> bytes:
    """The bytes at the end that begin a character and do not end it."""
    for back in range(1, min(3, len(rest)) + 1):
        lead = rest[-back]
        if any(lead in leads and length > back for length, leads in _LEADS.items()):
            return rest[len(rest) - back :]
        if lead not in _CONTINUED:
            break
    return b""


def _filled(first: range, more: int, most: int) -> list[bytes]:
    """A first byte and continuation bytes behind it: all that there are, or some of all over."""
    total = len(first) << 6 * more
    count = min(total, most)
    found = []
    for index in range(count):
        rest = index * total // count
        tail = []
        for _ in range(more):
            tail.append(0x80 + (rest & 63))
            rest >>= 6
        found.append(bytes([first[rest], *reversed(tail)]))
    return found


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
