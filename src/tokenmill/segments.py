"""Texts of different trust, and ids → the ids of a conversation and the segment of each.

The texts between two lists of ids are one text for the core, which gets the ranges of the trusted
ones and finds added tokens in these only. So a boundary between two texts changes no id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from tokenmill import arguments
from tokenmill.errors import TokenmillError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tokenmill.tokenizer import SpecialsChoice, Text, Tokenizer

Segment: TypeAlias = "tuple[Text, bool] | Iterable[int]"
# Iterables that cannot be lists of ids or segments: texts, and those without an order.
_NOT_LISTS = (str, bytes, bytearray, memoryview, Mapping, Set)


class Drift(NamedTuple):
    """A range of ids that encoding the decoded text replaces by `ids`."""

    start: int
    end: int
    ids: list[int]


class _TextSegment(NamedTuple):
    number: int
    text: bytes
    is_trusted: bool


def encode_segments(
    tokenizer: Tokenizer, segments: Iterable[Segment], join: bool
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the ids of segments, and the index of the segment that each came from."""
    if isinstance(segments, _NOT_LISTS) or not isinstance(segments, Iterable):
        raise TypeError(
            f"segments must be a list of (text, trusted) and of ids, not {shown(segments)}"
        )
    if not isinstance(join, bool | np.bool_):
        raise TypeError(f"join must be True or False, not {shown(join)}")
    stretch: list[_TextSegment] = []
    pieces: list[tuple[NDArray[np.uint32], NDArray[np.uint32]]] = []
    for index, segment in enumerate(segments):
        text = _text_segment(segment, index)
        ids = _given_ids(tokenizer, segment, index) if text is None else None
        if text is not None:
            stretch.append(text)
        if (text is not None and join) or (ids is not None and not len(ids)):
            continue
        pieces.append(_encode_stretch(tokenizer, stretch, join and len(pieces) > 0))
        stretch = []
        if ids is not None:
            pieces.append((ids, np.full(len(ids), index, np.uint32)))
    pieces.append(_encode_stretch(tokenizer, stretch, join and len(pieces) > 0))
    return np.concatenate([ids for ids, _ in pieces]), np.concatenate([own for _, own in pieces])


def _text_segment(segment: Any, index: int) -> _TextSegment | None:
    """Return the segment if it is a text; None if it must be ids."""
    is_pair = isinstance(segment, tuple) and len(segment) == 2
    if is_pair and not all(type(each) is int or isinstance(each, np.integer) for each in segment):
        text, is_trusted = segment
        if not isinstance(is_trusted, bool | np.bool_):
            raise TypeError(
                f"segments[{index}] must be (text, trusted), where trusted is True or False, not "
                f"{shown(is_trusted)}"
            )
        return _TextSegment(index, arguments.utf8(text, f"segments[{index}]"), bool(is_trusted))
    has_text = isinstance(segment, tuple | list) and len(segment) and isinstance(segment[0], str)
    if has_text or isinstance(segment, _NOT_LISTS) or not isinstance(segment, Iterable):
        raise TypeError(
            f"segments[{index}] must be (text, trusted) or a list of ids, not {shown(segment)}; "
            "for text of a user use (text, False)"
        )
    return None


def _given_ids(tokenizer: Tokenizer, segment: Any, index: int) -> NDArray[np.uint32]:
    try:
        ids = arguments.list_ids(segment)
        arguments.decode(tokenizer._core, ids)  # raises the error for an unknown id
    except TokenmillError as error:
        raise type(error)(f"segments[{index}]: {error}") from None
    except TypeError as error:
        raise TypeError(f"segments[{index}]: {error}") from None
    return np.asarray(ids, np.uint32)


def _encode_stretch(
    tokenizer: Tokenizer, stretch: Sequence[_TextSegment], is_continued: bool
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the ids of adjacent texts, and the index of the segment of each.

    `is_continued` means that something comes before the texts, so no space is added at the start
    of the conversation.
    """
    text = b"".join(segment.text for segment in stretch)
    if not text:
        return np.empty(0, np.uint32), np.empty(0, np.uint32)
    ends = np.cumsum([len(segment.text) for segment in stretch])
    trusted: list[int] = []
    for segment, end in zip(stretch, ends.tolist(), strict=True):
        start = end - len(segment.text)
        if not segment.is_trusted or start == end:
            continue
        if trusted and trusted[-1] == start:
            trusted[-1] = end
        else:
            trusted += [start, end]
    allowed, offset = tokenizer._allowed(True), int(is_continued)
    within = np.array(trusted, np.uint32)
    found, spans = tokenizer._core.encode_stretch(text, allowed, within, offset)
    ids, bounds = np.asarray(found), np.asarray(spans).astype(np.int64).reshape(-1, 2) - offset
    starts = _starts(tokenizer, text, ids, bounds)
    places = np.searchsorted(ends, starts, side="right")
    owners = np.array([segment.number for segment in stretch], np.uint32)
    return ids, owners[np.minimum(places, len(stretch) - 1)]


def _starts(
    tokenizer: Tokenizer, text: bytes, ids: NDArray[np.uint32], spans: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the start of each token, without the whitespace that added tokens strip before it."""
    starts = spans[:, 0].copy()
    stripping = {token.id: token.content for token in tokenizer._spec.added if token.lstrip}
    for index in np.flatnonzero(np.isin(ids, list(stripping))).tolist():
        start, end = spans[index].tolist()
        covered = text[start:end]
        skipped = covered.find(stripping[int(ids[index])].encode())
        if skipped < 0:  # the token is found in normalized text
            skipped = len(covered) - len(covered.lstrip())
        starts[index] += skipped
    return starts


def drift(tokenizer: Tokenizer, ids: Iterable[int], allowed_special: SpecialsChoice) -> list[Drift]:
    """Return the ranges of ids that differ after decoding and encoding."""
    listed = arguments.list_ids(ids)
    data = arguments.decode(tokenizer._core, listed)
    old = np.asarray(listed, np.uint32)
    text = data if tokenizer._decodes_bytes else tokenizer.decode(old.tolist())
    new = tokenizer.encode_array(text, allowed_special=allowed_special)
    shared = min(len(old), len(new))
    unequal = np.flatnonzero(old[:shared] != new[:shared])
    first = int(unequal[0]) if len(unequal) else shared
    if first == len(old) == len(new):
        return []
    limit = shared - first
    unequal = np.flatnonzero(old[len(old) - limit :][::-1] != new[len(new) - limit :][::-1])
    last = int(unequal[0]) if len(unequal) else limit
    before, after = old[first : len(old) - last].tolist(), new[first : len(new) - last].tolist()
    ranges = _split(tokenizer, before, after)
    return [Drift(first + start, first + end, ids) for start, end, ids in ranges]


def _split(tokenizer: Tokenizer, before: list[int], after: list[int]) -> list[Drift]:
    """Split a difference where tokens of both sides end at the same byte."""
    decode = tokenizer.decode_bytes
    if decode(before) != decode(after):
        return [Drift(0, len(before), after)]
    found: list[Drift] = []
    i = j = start = other = 0
    left = right = 0
    while i < len(before) or j < len(after):
        if j == len(after) or (i < len(before) and left <= right):
            left += len(decode(before[i : i + 1]))
            i += 1
        else:
            right += len(decode(after[j : j + 1]))
            j += 1
        is_end = i == len(before) and j == len(after)
        if left != right or (not is_end and not (i > start and j > other)):
            continue
        if before[start:i] != after[other:j]:
            found.append(Drift(start, i, after[other:j]))
        start, other = i, j
    return found
