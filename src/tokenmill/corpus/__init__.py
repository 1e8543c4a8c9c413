"""Sources → documents: what the user gives, opened, decompressed and cut into batches of texts."""

from tokenmill.corpus.batches import Batch, ReadOptions
from tokenmill.corpus.readers import read
from tokenmill.corpus.sources import Source, find_sources

__all__ = ["Batch", "ReadOptions", "Source", "find_sources", "read"]
