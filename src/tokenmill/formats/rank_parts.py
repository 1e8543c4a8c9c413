"""Parts → rank file, where that is all that they are."""

from __future__ import annotations

import numpy as np

from tokenmill.errors import VocabularyError
from tokenmill.formats import ranks
from tokenmill.formats.contents import find_merges
from tokenmill.formats.parts import DECODED, Parts, Pattern


def write(parts: Parts) -> bytes:
    """The rank file of a tokenizer whose ids are ranks of bytes; any other is refused.

    Specials and the pattern are not in such a file: whoever loads it gives them.
    """
    model = parts.model
    reason = None
    if model.base != "bytes":
        reason = "its merges start with characters, and those of a rank file with bytes"
    elif parts.steps or parts.blank or parts.prefix != "never":
        reason = "it normalises text before it is split, and a rank file cannot say so"
    elif len(parts.stages) != 1 or not isinstance(parts.stages[0].match, Pattern):
        reason = "text is not split by one pattern, and a rank file is loaded with one"
    elif model.dropout:
        reason = "it drops merges at random"
    if reason is not None:
        raise _refusal(reason)
    tokens = _ranked(parts)
    if model.merges is not None:
        _check_merges(parts, tokens)
    elif model.order is not None:
        order = model.order[np.argsort(model.ids)]
        if np.any(order[1:] <= order[:-1]):
            raise _refusal("its merges are ordered by something else than its ids")
    return ranks.write(tokens)


def _refusal(reason: str) -> VocabularyError:
    return VocabularyError(
        f"this tokenizer cannot be a rank file: {reason}; save to tokenizer.json or .tokenmill"
    )


def _ranked(parts: Parts) -> dict[int, bytes]:
    """The tokens by id, without those that are specials."""
    names = {token.id for token in parts.added}
    model = parts.model
    tokens = {}
    end = 0
    for id_, length, kind in zip(
        model.ids.tolist(), model.lengths.tolist(), model.kinds.tolist(), strict=True
    ):
        end += length
        token = model.data[end - length : end]
        if id_ in names:
            continue
        if kind == DECODED and token:
            raise _refusal(f"token {id_}, {token!r}, is only decoded")
        tokens[id_] = token
    return tokens


def _check_merges(parts: Parts, tokens: dict[int, bytes]) -> None:
    """Whether ranks give the merges of the list: each token by the same last step, in its order."""
    model = parts.model
    assert model.merges is not None
    ends = np.cumsum(model.lengths, dtype=np.int64).tolist()
    lengths = model.lengths.tolist()
    texts = [model.data[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    listed: dict[bytes, tuple[bytes, bytes]] = {}
    for left, right in model.merges.tolist():
        listed[texts[left] + texts[right]] = (texts[left], texts[right])
    found = find_merges(tokens)
    if list(listed.values()) != found or len(listed) != len(model.merges):
        raise _refusal("its merges are not those that the order of its ids gives")
    if not model.whole and len(found) != sum(len(token) > 1 for token in tokens.values()):
        raise _refusal("some tokens are reached by no merges, and would be found in a rank file")
