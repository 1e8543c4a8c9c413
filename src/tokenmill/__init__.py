"""Byte-pair encoding (BPE) for Python, with a native core in Zig.

`Tokenizer` encodes and decodes. `train` learns vocabularies. `tokenize` writes shards, and `shards`
reads them. `tokenmill.compat` has the interfaces of other libraries.

Examples:
    >>> import tokenmill
    >>> tokenmill.Tokenizer.load("o200k_base").encode("hello world")
    [24912, 2375]
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tokenmill import arrow, shards
    from tokenmill import errors as errors
    from tokenmill.errors import TokenmillError
    from tokenmill.inspection import inspect
    from tokenmill.native import cache_limit
    from tokenmill.ragged import Ragged
    from tokenmill.tokenizer import Tokenizer
    from tokenmill.tokenizing.run import finalize, tokenize
    from tokenmill.tokenizing.verify import verify
    from tokenmill.training.options import TrainingWarning
    from tokenmill.training.train import (
        count_pretokens,
        train,
        train_from_counts,
        train_from_iterator,
        train_sizes,
    )

# A name is imported at its first use, so that a program loads only the modules it uses.
_LATER = {
    "Ragged": "tokenmill.ragged",
    "Tokenizer": "tokenmill.tokenizer",
    "TokenmillError": "tokenmill.errors",
    "TrainingWarning": "tokenmill.training.options",
    "arrow": "tokenmill.arrow",
    "cache_limit": "tokenmill.native",
    "count_pretokens": "tokenmill.training.train",
    "errors": "tokenmill.errors",
    "finalize": "tokenmill.tokenizing.run",
    "inspect": "tokenmill.inspection",
    "shards": "tokenmill.shards",
    "tokenize": "tokenmill.tokenizing.run",
    "train": "tokenmill.training.train",
    "train_from_counts": "tokenmill.training.train",
    "train_from_iterator": "tokenmill.training.train",
    "train_sizes": "tokenmill.training.train",
    "verify": "tokenmill.tokenizing.verify",
}

__all__ = [
    "Ragged",
    "Tokenizer",
    "TokenmillError",
    "TrainingWarning",
    "__version__",
    "arrow",
    "cache_limit",
    "count_pretokens",
    "finalize",
    "inspect",
    "shards",
    "tokenize",
    "train",
    "train_from_counts",
    "train_from_iterator",
    "train_sizes",
    "verify",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'tokenmill' has no attribute {name!r}")
    module = importlib.import_module(_LATER[name])
    found = module if name in ("arrow", "errors", "shards") else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
