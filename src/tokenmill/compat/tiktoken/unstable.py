"""The end of a text → what may become of it: `Encoding.encode_with_unstable`.

The last pretoken may grow when the text goes on, so its ids are not stable. What may stand in
their place are the encodings of all texts that start with the last pretoken and end within the
token that goes beyond it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenmill.compat.tiktoken.core import Encoding

_BLANKS = b" \n\t"


def last_count(
    encoding: Encoding,
    text: bytes,
    ids: list[int],
    spans: list[tuple[int, int]],
    has_specials: bool,
) -> int:
    """How many ids the last pretoken has, with those of white space alone before it."""
    start = 0
    if has_specials:
        # Behind the last special: text that is spelled like it, but was not allowed, is no special.
        specials = encoding._special_token_values
        last = next((i for i in reversed(range(len(ids))) if ids[i] in specials), None)
        start = 0 if last is None else spans[last][1]
    pieces = encoding._split(text[start:])
    if not pieces:
        return 0
    begins = start + pieces[-1][0]
    count = sum(span[0] >= begins for span in spans)

    def is_blank(place: int) -> bool:
        return not encoding.decode_single_token_bytes(ids[place]).strip(_BLANKS)

    if count and is_blank(len(ids) - count):
        while count < len(ids) and is_blank(len(ids) - count - 1):
            count += 1
    return count


def complete(
    encoding: Encoding,
    text: bytes,
    ids: list[int],
    spans: list[tuple[int, int]],
    has_specials: bool,
) -> tuple[list[int], list[list[int]]]:
    """The stable ids, and all that may come behind them."""
    count = last_count(encoding, text, ids, spans, has_specials)
    if count == 0:
        return ids, []
    stable, open_ = ids[: len(ids) - count], ids[len(ids) - count :]
    rest = encoding.decode_bytes(open_)
    found: set[tuple[int, ...]] = set()
    ranks = encoding._mergeable_ranks
    tokens = encoding.token_byte_values()
    # One token that begins with all of it.
    for token in _starting_with(tokens, rest):
        found.add((ranks[token],))
    # A part as it is, and one token that begins with what is left.
    for cut in range(1, len(rest)):
        for token in _starting_with(tokens, rest[cut:]):
            found.add(_until(encoding, rest[:cut] + token, len(rest)))
    if len(rest) > 1:
        last = _last_character(rest)
        if last is not None and len(rest) > last[1] and last[0].isspace():
            at = len(rest) - last[1]
            # White space at the end may stay alone if something else comes.
            parts = (
                encoding._encode_single_piece(rest[:at]),
                encoding._encode_single_piece(rest[at:]),
            )
            found.add((*parts[0], *parts[1]))
    return stable, [list(one) for one in sorted(found)]


def _starting_with(tokens: list[bytes], start: bytes) -> list[bytes]:
    first = bisect_left(tokens, start)
    end = first
    while end < len(tokens) and tokens[end].startswith(start):
        end += 1
    return tokens[first:end]


def _until(encoding: Encoding, text: bytes, length: int) -> tuple[int, ...]:
    """The ids of a text up to the one that reaches `length` bytes."""
    try:
        ids = encoding.encode_ordinary(text.decode())
    except UnicodeDecodeError:
        ids = encoding._encode_single_piece(text)
    taken = []
    reached = 0
    for id_ in ids:
        taken.append(id_)
        reached += len(encoding.decode_single_token_bytes(id_))
        if reached >= length:
            break
    return tuple(taken)


def _last_character(text: bytes) -> tuple[str, int] | None:
    """The last character and how many bytes it has; None if the end is not UTF-8."""
    for size in range(1, min(4, len(text)) + 1):
        try:
            return text[-size:].decode(), size
        except UnicodeDecodeError:
            continue
    return None
