"""Byte-pair encoding for Python, with its hot core in Zig.

`Tokenizer` encodes and decodes; `train` and `count` learn vocabularies; `tokenize` writes shards,
which `shards` reads; `patch_transformers` and `tokenmill.compat` put it under other libraries.

Examples:
    >>> import tokenmill
    >>> tokenmill.Tokenizer.load("o200k_base").encode("hello world")
    [24912, 2375]
"""

import importlib
from typing import TYPE_CHECKING, Any

from tokenmill.cache import cache_limit, set_cache_limit
from tokenmill.errors import TokenmillError
from tokenmill.ragged import Ragged
from tokenmill.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tokenmill import arrow, shards
    from tokenmill.compat.transformers import patch_transformers, unpatch_transformers
    from tokenmill.tokenizing.run import finish, tokenize
    from tokenmill.training.options import TrainingWarning
    from tokenmill.training.pieces.vocabulary import Pieces
    from tokenmill.training.train import count, train

# Imported when first used: who only encodes does not wait for what trains and writes shards.
_LATER = {
    "Pieces": "tokenmill.training.pieces.vocabulary",
    "TrainingWarning": "tokenmill.training.options",
    "arrow": "tokenmill.arrow",
    "count": "tokenmill.training.train",
    "finish": "tokenmill.tokenizing.run",
    "patch_transformers": "tokenmill.compat.transformers",
    "shards": "tokenmill.shards",
    "tokenize": "tokenmill.tokenizing.run",
    "train": "tokenmill.training.train",
    "unpatch_transformers": "tokenmill.compat.transformers",
}

__all__ = [
    "Pieces",
    "Ragged",
    "Tokenizer",
    "TokenmillError",
    "TrainingWarning",
    "__version__",
    "arrow",
    "cache_limit",
    "count",
    "finish",
    "patch_transformers",
    "set_cache_limit",
    "shards",
    "tokenize",
    "train",
    "unpatch_transformers",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'tokenmill' has no attribute {name!r}")
    module = importlib.import_module(_LATER[name])
    return module if name in ("arrow", "shards") else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
