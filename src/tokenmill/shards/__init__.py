"""Ids of documents ↔ files of shards.

Examples:
    >>> import tokenmill.shards
    >>> shards = tokenmill.shards.open("shards/")  # doctest: +SKIP
    >>> shards[0], len(shards)  # doctest: +SKIP
"""

from tokenmill.shards.files import File
from tokenmill.shards.folder import Shards, open  # noqa: A004
from tokenmill.shards.shard_format import FORMATS, Rows, Shard, Spec, get_format

__all__ = ["FORMATS", "File", "Rows", "Shard", "Shards", "Spec", "get_format", "open"]
