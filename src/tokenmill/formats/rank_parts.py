"""Ranks ↔ parts: vocabularies of tiktoken's kind, and others as a rank file where they are one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tokenmill.errors import VocabularyError
from tokenmill.formats import ranks
from tokenmill.formats.merges import find_merges
from tokenmill.formats.parts import DECODED, TOKEN, Added, Model, Parts, Pattern, Ranks
from tokenmill.formats.places import Place
from tokenmill.formats.vocab_merges import DECODER, pattern_stage


def of_ranks(
    ranks: Mapping[bytes, int], pattern: str, specials: Mapping[str, int], source: str
) -> Parts:
    """Parts of tiktoken's kind: the rank of a token is its id."""
    place = Place(source)
    for token, rank in ranks.items():
        if not isinstance(token, bytes) or type(rank) is not int or not 0 <= rank < 1 << 32:
            place.refuse(f"has rank {rank!r} for {token!r}; ranks are of bytes, 0 or more")
    lengths = np.fromiter(map(len, ranks), np.uint32, len(ranks))
    model = Model(
        b"".join(ranks),
        lengths,
        np.fromiter(ranks.values(), np.uint32, len(ranks)),
        np.where(lengths == 0, DECODED, TOKEN).astype(np.uint8),
        merges=None,
        whole=True,
    )
    added = tuple(Added(name, id_) for name, id_ in sorted(specials.items(), key=lambda x: x[1]))
    stages = (pattern_stage(pattern),)
    return Parts(model, added, stages=stages, decoder=DECODER, ranks=Ranks())


def tokens_of(model: Model) -> dict[int, bytes]:
    """All tokens by id."""
    ends = np.cumsum(model.lengths, dtype=np.int64).tolist()
    starts = [0, *ends]
    return {
        id_: model.data[start:end]
        for id_, start, end in zip(model.ids.tolist(), starts, ends, strict=False)
    }


def pattern_of(parts: Parts) -> str:
    """The pattern of a vocabulary of ranks."""
    (stage,) = parts.stages
    assert isinstance(stage.match, Pattern)
    return stage.match.text


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
    """The tokens by id, without those that are specials. Where ids are ranks, none of them is one,
    and a token that has the id of a special is another."""
    names = set() if parts.ranks is not None else {token.id for token in parts.added}
    tokens = tokens_of(parts.model)
    for id_ in parts.model.ids[parts.model.kinds == DECODED].tolist():
        if tokens[id_] and id_ not in names:
            raise _refusal(f"token {id_}, {tokens[id_]!r}, is only decoded")
    return {id_: token for id_, token in tokens.items() if id_ not in names}


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
