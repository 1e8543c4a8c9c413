"""Tokenizers of other libraries → parts. They are known by their looks; nothing is imported."""

from __future__ import annotations

from typing import Any

from tokenmill.errors import VocabularyError
from tokenmill.formats import tokenizer_json
from tokenmill.formats.parts import Parts
from tokenmill.formats.rank_parts import of_ranks


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
