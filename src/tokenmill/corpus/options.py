"""The input formats, and the options of every function and command that reads documents."""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypedDict

from tokenmill.options import limit, one_of, parse_escaped, text


class Reader(NamedTuple):
    """The reader of an input format: `read_documents` of a module in this package.

    With `has_fields`, the option `field` names the field of a record with the text. `split` is
    where large files are split into segments: at lines or separators ("text"), between row groups
    ("table"), or None.
    """

    module: str
    suffixes: tuple[str, ...]
    has_fields: bool = True
    split: str | None = None


# A new input format is a module with `read_documents` and a row in this table.
READERS = {
    "text": Reader("text", (".txt", ".text", ".md"), has_fields=False, split="text"),
    "lines": Reader("text", (), has_fields=False, split="text"),
    # C4 and Dolma call their files of JSON lines .json.gz.
    "jsonl": Reader("jsonl", (".jsonl", ".ndjson", ".json"), split="text"),
    "parquet": Reader("tables", (".parquet", ".pq"), split="table"),
    "arrow": Reader("tables", (".arrow", ".feather"), split="table"),
    "csv": Reader("csv", (".csv",)),
    "tsv": Reader("csv", (".tsv",)),
    "warc": Reader("warc", (".wet", ".warc"), has_fields=False),
}
INPUT_FORMATS = tuple(READERS)
RECORDS = tuple(name for name, reader in READERS.items() if reader.has_fields)
TABLES = tuple(name for name, reader in READERS.items() if reader.split == "table")
UTF8 = ("strict", "replace", "bytes")
ON_ERROR = ("fail", "skip", "quarantine")


class RecordOptions(TypedDict, total=False):
    """How inputs become documents. The separator is apart: `encode_files` has another default."""

    input_format: Annotated[
        str | None,
        one_of(
            INPUT_FORMATS, None, "format of all inputs; without it, names decide", group="inputs"
        ),
    ]
    field: Annotated[
        str, text("text", "field with the text of a record; a.b is b inside of a", group="inputs")
    ]
    utf8: Annotated[
        str, one_of(UTF8, "strict", "treatment of bytes that are not UTF-8", group="inputs")
    ]
    on_error: Annotated[
        str,
        one_of(ON_ERROR, "quarantine", "treatment of records without a document", group="inputs"),
    ]
    max_errors: Annotated[
        float | None,
        limit(
            None, "number of rejected records after which the run stops; for tokenize also a share "
            "of all records, such as 1%", group="inputs", shapes_output=False,
        ),
    ]  # fmt: skip


class ReadOptions(RecordOptions, total=False):
    """How inputs become documents."""

    separator: Annotated[
        str | None,
        text(
            None, r"text that ends a document in a text file, like \n; without it, a file is one",
            parse=parse_escaped, metavar="TEXT", group="inputs",
        ),
    ]  # fmt: skip
