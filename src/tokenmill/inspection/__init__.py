"""A tokenizer → what is in its vocabulary: `inspect` gives a `Report`."""

from tokenmill.inspection.report import Report, inspect

__all__ = ["Report", "inspect"]
