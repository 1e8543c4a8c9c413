"""Segments → documents: every input read into blocks of spans, and into problems.

Whatever is wrong with the data is a `Problem`, never an exception: a run over many files ends, and
says what is missing. What is wrong with the machine is raised. The documents are the same for any
size of a block, and for any segments that `cuts` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

from tokenmill.corpus.archives import read_archive
from tokenmill.corpus.faults import raise_of_machine
from tokenmill.corpus.records import read_json_lines
from tokenmill.corpus.rows import read_rows
from tokenmill.corpus.segments import cuts
from tokenmill.corpus.spans import DocumentOptions, Documents, Problem, Segment, failed
from tokenmill.corpus.tables import read_table
from tokenmill.corpus.texts import read_text
from tokenmill.errors import InputError

__all__ = ["DocumentOptions", "Documents", "Problem", "Segment", "cuts", "read"]

_Reader = Callable[[Segment, DocumentOptions, ExitStack], Iterator[Documents]]
_READERS: dict[str, _Reader] = {
    "text": read_text,
    "lines": read_text,
    "jsonl": read_json_lines,
    "parquet": read_table,
    "arrow": read_table,
    "csv": read_rows,
    "tsv": read_rows,
    "warc": read_archive,
}


def read(segment: Segment, options: DocumentOptions) -> Iterator[Documents]:
    """The documents of a segment, in blocks of about `options.block_bytes`."""
    reader = _READERS.get(segment.source.kind)
    if reader is None:
        raise ValueError(f"{segment.source.name} is of the kind {segment.source.kind!r}, not read")
    with ExitStack() as stack:
        is_open = False
        try:
            for documents in reader(segment, options, stack):
                if documents.withdrawn or len(documents.spans):
                    is_open = documents.goes_on
                yield documents
        except (InputError, OSError) as error:
            raise_of_machine(error)
            bytes_read = 0 if segment.start else segment.source.size or 0
            problems = [failed(segment.source, error)]
            yield Documents(withdrawn=is_open, problems=problems, bytes_read=bytes_read)
