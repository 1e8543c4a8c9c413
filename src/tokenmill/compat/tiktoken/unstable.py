"""Text → its stable ids and the possible continuations: `Encoding.encode_with_unstable`.

More text can extend the last pretoken, so its ids are not stable. The continuations are the
encodings of all texts that begin with the last pretoken and end inside the token that crosses its
end.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenmill.compat.tiktoken.core import Encoding

_WHITESPACE = b" \n\t"


def last_count(
    encoding: Encoding,
    text: bytes,
    ids: list[int],
    spans: list[tuple[int, int]],
    has_specials: bool,
) -> int:
    """Return the number of ids of the last pretoken and of whitespace tokens before it."""
    start = 0
    if has_specials:
        # The search is by id, because the text of a special token may also be ordinary text.
        special_tokens = encoding._special_token_values
        last = next((i for i in reversed(range(len(ids))) if ids[i] in special_tokens), None)
        start = 0 if last is None else spans[last][1]
    pretokens = encoding._split(text[start:])
    if not pretokens:
        return 0
    begins = start + pretokens[-1][0]
    count = sum(span[0] >= begins for span in spans)

    def is_whitespace(index: int) -> bool:
        return not encoding.decode_single_token_bytes(ids[index]).strip(_WHITESPACE)

    if count and is_whitespace(len(ids) - count):
        while count < len(ids) and is_whitespace(len(ids) - count - 1):
            count += 1
    return count


def complete(
    encoding: Encoding,
    text: bytes,
    ids: list[int],
    spans: list[tuple[int, int]],
    has_specials: bool,
) -> tuple[list[int], list[list[int]]]:
    """Return the stable ids, and all possible continuations."""
    count = last_count(encoding, text, ids, spans, has_specials)
    if count == 0:
        return ids, []
    stable, unstable = ids[: len(ids) - count], ids[len(ids) - count :]
    rest = encoding.decode_bytes(unstable)
    ranks, tokens = encoding._mergeable_ranks, encoding.token_byte_values()
    # One token that begins with all of the rest, or ids of a part and a token across the end.
    found: set[tuple[int, ...]] = {(ranks[token],) for token in _starting_with(tokens, rest)}
    for cut in range(1, len(rest)):
        for token in _starting_with(tokens, rest[cut:]):
            found.add(_until(encoding, rest[:cut] + token, len(rest)))
    last = rest.decode("utf-8", "ignore")[-1:]
    end = last.encode()
    if last.isspace() and len(rest) > len(end) and rest.endswith(end):
        # Whitespace at the end is a pretoken of its own before other text.
        parts = rest.removesuffix(end), end
        found.add(tuple(id_ for part in parts for id_ in encoding._encode_single_piece(part)))
    return stable, [list(one) for one in sorted(found)]


def _starting_with(tokens: list[bytes], start: bytes) -> list[bytes]:
    first = bisect_left(tokens, start)
    end = first
    while end < len(tokens) and tokens[end].startswith(start):
        end += 1
    return tokens[first:end]


def _until(encoding: Encoding, text: bytes, length: int) -> tuple[int, ...]:
    """Return the ids of a text up to the one that reaches `length` bytes."""
    try:
        ids = encoding.encode_ordinary(text.decode())
    except UnicodeDecodeError:
        ids = encoding._encode_single_piece(text)
    reached = 0
    for count, id_ in enumerate(ids, 1):
        reached += len(encoding.decode_single_token_bytes(id_))
        if reached >= length:
            return tuple(ids[:count])
    return tuple(ids)
