"""Fast byte-pair encoding: train tokenizers, encode text, write token shards.

`Tokenizer` encodes and decodes. `train` learns vocabularies. `tokenize` writes shards, and `shards`
reads them. `tokenmill.compat` has the interfaces of other libraries.

Examples:
    >>> import tokenmill
    >>> tokenmill.Tokenizer.load("o200k_base").encode("hello world")
    [24912, 2375]
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tokenmill import arrow, shards
    from tokenmill import errors as errors
    from tokenmill.errors import TokenmillError
    from tokenmill.inspection import inspect
    from tokenmill.native import cache_limit
    from tokenmill.prefix_store import PrefixStore
    from tokenmill.tokenizer import Ragged, Tokenizer
    from tokenmill.tokenizing.merge import merge_shards
    from tokenmill.tokenizing.run import finalize, tokenize
    from tokenmill.tokenizing.verify import repair, verify
    from tokenmill.training.options import TrainingWarning
    from tokenmill.training.train import (
        count_pretokens,
        train,
        train_from_counts,
        train_from_iterator,
        train_sizes,
    )

# A name is imported from its module at its first use, so a program loads only those it uses.
_TRAINING = ("count_pretokens", "train", "train_from_counts", "train_from_iterator", "train_sizes")
_MODULES = {
    "TokenmillError": "errors",
    "inspect": "inspection",
    "cache_limit": "native",
    "PrefixStore": "prefix_store",
    "Ragged": "tokenizer",
    "Tokenizer": "tokenizer",
    "finalize": "tokenizing.run",
    "merge_shards": "tokenizing.merge",
    "repair": "tokenizing.verify",
    "tokenize": "tokenizing.run",
    "verify": "tokenizing.verify",
    "TrainingWarning": "training.options",
    **dict.fromkeys(_TRAINING, "training.train"),
}

__all__ = [
    "PrefixStore", "Ragged", "Tokenizer", "TokenmillError", "TrainingWarning", "__version__",
    "arrow", "cache_limit", "count_pretokens", "finalize", "inspect", "merge_shards", "repair",
    "shards", "tokenize", "train", "train_from_counts", "train_from_iterator", "train_sizes",
    "verify",
]  # fmt: skip
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    import importlib  # a fifth of the import of this module, in which Ctrl-C prints a traceback

    if name in ("arrow", "errors", "shards"):
        return importlib.import_module(f"tokenmill.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'tokenmill' has no attribute {name!r}")
    module = importlib.import_module(f"tokenmill.{_MODULES[name]}")
    found = globals()[name] = getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
