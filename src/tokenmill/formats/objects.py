"""Tokenizers of other libraries → parts. They are known by their looks; nothing is imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenmill.errors import VocabularyError
from tokenmill.formats import tokenizer_json
from tokenmill.formats.parts import DECODED, TOKEN, Added, Model, Parts
from tokenmill.formats.places import Place
from tokenmill.formats.vocab_merges import DECODER, pattern_stage


def read(tokenizer: Any) -> Parts | None:
    """The parts of a tiktoken.Encoding, a tokenizers.Tokenizer, or a fast tokenizer of
    transformers; None for anything else."""
    kind = type(tokenizer)
    source = f"{kind.__module__}.{kind.__qualname__}"
    if all(hasattr(tokenizer, name) for name in ("_mergeable_ranks", "_pat_str")):
        specials = getattr(tokenizer, "_special_tokens", {})
        pattern = tokenizer._pat_str
        return of_ranks(tokenizer._mergeable_ranks, pattern, specials, source)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    for one in (tokenizer, backend):
        if callable(getattr(one, "to_str", None)) and hasattr(one, "get_vocab_size"):
            return tokenizer_json.read(_write(one, source), source)
    if any(base.__module__.split(".")[0] == "transformers" for base in kind.__mro__):
        raise VocabularyError(
            f"{source} has no fast tokenizer behind it; load the folder that it came from"
        )
    return None


def _write(tokenizer: Any, source: str) -> bytes:
    try:
        return str(tokenizer.to_str()).encode()
    except Exception as error:  # the library raises no narrower one for parts made in Python
        raise VocabularyError(f"{source} cannot be written as JSON ({error})") from None


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
    return Parts(model, added, stages=(pattern_stage(pattern),), decoder=DECODER)
