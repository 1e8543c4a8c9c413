"""Layouts: how the files of a shard hold its documents. One module for each, of the same form.

`Writer(stem, spec)` writes one shard, `Reader(stem, spec)` reads one, `suffixes(spec)` names its
files, and `refuse(spec)` says why a layout cannot hold what is asked. `finish_folder`, where a
layout has one, writes what stands beside all shards; `EOS_FIRST` says that the layout's own
readers expect the end of text in front of documents, `KEEPS_NAMES` that it has room for their ids.
"""

from __future__ import annotations

import importlib
from typing import Any

from tokenmill.errors import ShardError

NAMES = ("megatron", "datatrove", "olmo", "nanogpt", "llmc", "parquet", "arrow", "mds", "npy")


def layout(name: str) -> Any:
    """The module of a layout."""
    if name not in NAMES:
        raise ShardError(f"{name!r} is no layout; those are {', '.join(NAMES)}")
    return importlib.import_module(f"tokenmill.shards.layouts.{name}")
