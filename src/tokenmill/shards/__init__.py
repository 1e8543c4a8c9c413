"""Ids of documents ↔ files of shards: layouts to write and read them, and what reads a whole run.

Examples:
    >>> import tokenmill.shards
    >>> shards = tokenmill.shards.open("shards/")  # doctest: +SKIP
    >>> shards[0], len(shards)  # doctest: +SKIP
"""

from tokenmill.shards.folder import Shards, open  # noqa: A004
from tokenmill.shards.layouts import NAMES, layout
from tokenmill.shards.spec import File, Rows, Shard, Spec

__all__ = ["NAMES", "File", "Rows", "Shard", "Shards", "Spec", "layout", "open"]
