"""How much memory the tokenizers of this process may use to remember ids."""

from __future__ import annotations

from tokenmill import arguments
from tokenmill.native import _native

_LIMIT_MAX = 1 << 62


def cache_limit() -> int:
    """The bytes that the caches of all tokenizers together may take: 64 MB unless it was set."""
    return _native.cache_limit()


def set_cache_limit(bytes_max: int) -> None:
    """Bounds the caches of all tokenizers of this process to `bytes_max`.

    A tokenizer has one cache, which all threads share. More helps texts with many different words;
    0 turns them off. Ids do not depend on it. A cache that is larger than a new bound is freed when
    the calls that use it have ended, and until then others go without. A negative bound is a
    ValueError.

    Examples:
        >>> set_cache_limit(256 << 20)
        >>> cache_limit()
        268435456
        >>> set_cache_limit(64 << 20)
    """
    limit = arguments.whole_number(bytes_max, "bytes_max", 0)
    _native.set_cache_limit(min(limit, _LIMIT_MAX))
