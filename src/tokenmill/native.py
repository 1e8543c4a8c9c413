"""The only import of the native core, and the limit of its caches."""

import operator
import os
import sysconfig

from tokenmill.errors import OptionError

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError(
        "free-threaded Python is not supported, because its objects have another layout; use a "
        "CPython with the GIL (the core releases the GIL while it works)"
    )

try:
    from tokenmill import _native
except ImportError as error:
    raise ImportError(
        f"tokenmill's native core cannot be imported ({error}); in a source tree run `make build` "
        "or `pip install -e .`, elsewhere `pip install --force-reinstall tokenmill`"
    ) from error

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native.after_fork)

__all__ = ["_native", "cache_limit"]

_LIMIT_MAX = 1 << 62


def cache_limit(bytes: int | None = None) -> int:
    """Return the memory limit of the caches of all tokenizers in bytes, after setting it.

    The limit is 64 MiB by default and 0 turns caches off. More memory helps texts with many
    different words. Ids do not depend on it. A tokenizer has one cache, which all threads share.
    A cache that is larger than a new limit is freed after the calls that use it have ended.

    Examples:
        >>> cache_limit()
        67108864
        >>> cache_limit(256 << 20)
        268435456
        >>> cache_limit(64 << 20)
        67108864
    """
    if bytes is not None:
        if isinstance(bytes, bool) or not hasattr(bytes, "__index__"):
            raise TypeError(f"bytes must be an int, not {bytes!r}")
        if operator.index(bytes) < 0:
            raise OptionError(f"bytes must be 0 or more, not {bytes}")
        _native.set_cache_limit(min(operator.index(bytes), _LIMIT_MAX))
    return _native.cache_limit()
