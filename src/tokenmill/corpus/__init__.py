"""Inputs → documents: files, folders, globs, URLs and Python objects → blocks of spans.

`find` is the only way to find inputs, and `read` the only way to read them. Training, counting,
`tokenize` and `Tokenizer.encode_files` use both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tokenmill.corpus.documents import (
    STDIN,
    DocumentOptions,
    Documents,
    Problem,
    Rejections,
    Segment,
    Source,
    find_wrong_field,
    find_wrong_id_field,
    join_parts,
    read,
    read_once,
    refuse_unused_patterns,
)
from tokenmill.corpus.inputs import cuts, find, from_python
from tokenmill.corpus.options import RecordOptions
from tokenmill.options import resolve

__all__ = [
    "STDIN", "DocumentOptions", "Documents", "Problem", "Rejections", "Segment", "Source", "cuts",
    "find", "find_wrong_field", "find_wrong_id_field", "from_python", "join_parts", "read",
    "read_files", "read_once", "refuse_unused_patterns",
]  # fmt: skip


def read_files(
    inputs: Any, separator: bytes | None, block_bytes: int, options: Mapping[str, Any]
) -> Iterator[Documents]:
    """The documents of inputs in blocks of bounded size, as `Tokenizer.encode_files` reads them.

    Each document is in one block. One that does not fit is an error.
    """
    chosen = resolve(RecordOptions, options, utf8="bytes", on_error="fail")
    reading = DocumentOptions(
        field=chosen["field"], separator=separator, utf8=chosen["utf8"], block_bytes=block_bytes
    )
    rejections = Rejections(chosen["on_error"], chosen["max_errors"])
    for source in find(inputs, chosen["input_format"], strict=chosen["strict"]):
        for block in join_parts(read_once(Segment(source), reading), source.name, block_bytes):
            rejections.add(block.problems)
            if len(block.spans):
                yield block
