"""Blocks of a text → places where it can be cut without changing a pretoken.

A text file is one document, whatever its size, and it is read in blocks. Where a block may end is
the same for every scheme with a hand-written scanner. What a scanner finds at a place depends only
on the text from there on, so a cut is exact if a pretoken ends there, and would end there too if
the text did. Two places are such:

  - before a space that follows a character which is not white: no pretoken goes on with a space
    behind anything but white characters, and none looks further than that space;
  - behind a newline between two characters that are not white, of which the second is no slash:
    the newline is a pretoken, or the end of one (`.\n`), and what follows is not a part of it. The
    slash is o200k's, whose `.\n/` is one pretoken.

White characters around the newline would be seen from the other side: r50k cuts `\r\n` in two
before a word and leaves it whole at the end of a text.

Other patterns can look anywhere, so their documents are not cut.
"""

from __future__ import annotations

import re

# One byte is white, or the bytes before it and itself are the end of a white character. U+001C to
# U+001F are not white in Unicode; that they count here only costs a place.
_WHITE_ENDS = (
    rb"[\s\x1c-\x1f]",
    rb"\xc2[\x85\xa0]",
    rb"\xe1\x9a\x80",
    rb"\xe2\x80[\x80-\x8a\xa8\xa9\xaf]",
    rb"\xe2\x81\x9f",
    rb"\xe3\x80\x80",
)
_BLACK_BEFORE = b"".join(b"(?<!%b)" % white for white in _WHITE_ENDS)
_BLACK_NEXT = b"".join(b"(?!%b)" % white for white in _WHITE_ENDS)
_PLACE = re.compile(
    rb"(?<=[^\n])%b(?= )|(?<=[^\n])%b\n(?!/)%b" % (_BLACK_BEFORE, _BLACK_BEFORE, _BLACK_NEXT)
)

CHARACTER_BYTES_MAX = 4
# A place is mostly near the end; where it is not, more is looked at each time.
_WINDOW_BYTES_MIN = 1 << 9
_WINDOW_BYTES_MAX = 1 << 16


def last_cut(block: bytes | bytearray | memoryview, specials: tuple[bytes, ...] = ()) -> int | None:
    """The last place where the block may be cut, or None. Text may follow the block.

    No cut goes through the name of a special.
    """
    # What the last bytes are may depend on those that follow.
    limit = len(block) - CHARACTER_BYTES_MAX - max(map(len, specials), default=0)
    end = limit
    size = _WINDOW_BYTES_MIN
    while end > 0:
        start = max(0, end - size)
        size = min(2 * size, _WINDOW_BYTES_MAX)
        # A few bytes more on both sides, for what a place looks at.
        found = None
        window = bytes(block[max(0, start - 8) : end + CHARACTER_BYTES_MAX])
        base = max(0, start - 8)
        for match in _PLACE.finditer(window):
            place = base + match.end()
            if start < place <= end and not _inside_special(block, place, specials):
                found = place
        if found is not None:
            return found
        end = start
    return None


def _inside_special(
    block: bytes | bytearray | memoryview, place: int, specials: tuple[bytes, ...]
) -> bool:
    """Whether a special's name lies across a place."""
    for name in specials:
        start = max(0, place - len(name) + 1)
        if name in bytes(block[start : place + len(name) - 1]):
            return True
    return False
