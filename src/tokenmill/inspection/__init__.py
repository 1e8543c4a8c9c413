"""A tokenizer or a folder of shards → a report of its contents."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tokenmill import object_store
from tokenmill.errors import OptionError
from tokenmill.inspection.report import TokenizerReport, inspect_tokenizer
from tokenmill.inspection.shards import ShardReport, inspect_shards
from tokenmill.tokenizer import SpecialsChoice, Tokenizer
from tokenmill.tokenizing import journal

__all__ = ["ShardReport", "TokenizerReport", "inspect", "inspect_shards", "inspect_tokenizer"]


def inspect(
    source: Tokenizer | str | os.PathLike[str],
    *,
    words: Iterable[str] = (),
    text: str | bytes | None = None,
    allowed_special: SpecialsChoice = False,
) -> TokenizerReport | ShardReport:
    """Return a report of a tokenizer or of shards.

    Args:
        source: A tokenizer, any source that `Tokenizer.load` accepts, or a folder or URL that
            `tokenize` wrote.
        words: Words whose merges are shown as trees. Only for tokenizers.
        text: A text that is shown as tokens. Only for tokenizers.
        allowed_special: Special tokens that are recognized in `text`, as in `encode`.

    Returns:
        A `TokenizerReport` or a `ShardReport`. Both have `as_json()` and `html()`.

    Examples:
        >>> import tokenmill
        >>> tokenmill.inspect("gpt2").sizes()["merges"]
        50000
    """
    if isinstance(source, Tokenizer) or not is_shards(source):
        return inspect_tokenizer(source, words=words, text=text, allowed_special=allowed_special)
    if tuple(words) or text is not None or allowed_special:
        raise OptionError(
            f"{str(source)!r} contains shards, but words=, text= and allowed_special= are for "
            "tokenizers; pass the tokenizer of the shards"
        )
    return inspect_shards(source)


def is_shards(source: str | os.PathLike[str]) -> bool:
    """Return whether `source` is a URL or a folder that `tokenize` wrote."""
    return object_store.is_address(str(source)) or journal.is_output(Path(source))
