"""Byte-pair encoding for Python, with its hot core in Zig.

>>> import tokenmill
>>> tokenmill.Tokenizer.load("o200k_base").encode("hello world")
[24912, 2375]
"""

from tokenmill import shards
from tokenmill.cache import cache_limit, set_cache_limit
from tokenmill.compat.transformers import patch_transformers, unpatch_transformers
from tokenmill.errors import TokenmillError
from tokenmill.ragged import Ragged
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.run import tokenize
from tokenmill.training.options import TrainingWarning
from tokenmill.training.pieces.vocabulary import Pieces
from tokenmill.training.train import count, train

__all__ = [
    "Pieces",
    "Ragged",
    "Tokenizer",
    "TokenmillError",
    "TrainingWarning",
    "__version__",
    "cache_limit",
    "count",
    "patch_transformers",
    "set_cache_limit",
    "shards",
    "tokenize",
    "train",
    "unpatch_transformers",
]
__version__ = "0.1.0"
