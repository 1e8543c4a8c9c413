"""The input formats, and the options of every function and command that reads documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypedDict

from tokenmill.options import Option, number, one_of, parse_escaped, switch, text


class Reader(NamedTuple):
    """The reader of an input format: `read_documents` of a module in this package.

    With `has_fields`, the option `field` names the field of a record with the text. `split` is
    where large files are split into segments: at lines or separators ("text"), between row groups
    ("table"), or None. A file whose name does not tell its format is detected from its first bytes,
    one of `starts`.
    """

    module: str
    suffixes: tuple[str, ...]
    has_fields: bool = True
    split: str | None = None
    starts: tuple[bytes, ...] = ()


# A new input format is a module with `read_documents` and a row in this table.
READERS = {
    "text": Reader("text", (".txt", ".text", ".md"), has_fields=False, split="text"),
    "lines": Reader("text", (), has_fields=False, split="text"),
    # C4 and Dolma call their files of JSON lines .json.gz.
    "jsonl": Reader("jsonl", (".jsonl", ".ndjson", ".json"), split="text"),
    "parquet": Reader("tables", (".parquet", ".pq"), split="table", starts=(b"PAR1",)),
    "arrow": Reader(  # files, Feather version 1, and streams
        "tables", (".arrow", ".feather"), split="table",
        starts=(b"ARROW1", b"FEA1", b"\xff\xff\xff\xff"),
    ),
    "csv": Reader("csv", (".csv",)),
    "tsv": Reader("csv", (".tsv",)),
    "warc": Reader("warc", (".wet", ".warc"), has_fields=False, starts=(b"WARC/",)),
}  # fmt: skip
INPUT_FORMATS = tuple(READERS)
RECORDS = tuple(name for name, reader in READERS.items() if reader.has_fields)
TABLES = tuple(name for name, reader in READERS.items() if reader.split == "table")
UTF8 = ("strict", "replace", "bytes")
_INPUTS: dict[str, Any] = {"group": "inputs"}


def _check_field(value: Any) -> Any:
    """A field, a list of several, or a mapping of patterns to them, as a plan contains it."""
    expected = "a name, several names, or a mapping of patterns to names"
    if isinstance(value, Mapping):
        is_nested = any(isinstance(names, Mapping) for names in value.values())
        if not value or is_nested or not all(isinstance(name, str) and name for name in value):
            raise ValueError(expected)
        return {pattern: _check_field(names) for pattern, names in value.items()}
    items = [value] if isinstance(value, str) else list(value) if _is_list(value) else []
    names = [item for item in items if isinstance(item, str) and item]
    pairs = [item for item in items if isinstance(item, tuple)]  # of the command line
    if not items or len(names) + len(pairs) < len(items):
        raise ValueError(expected)
    if not pairs:
        return names[0] if len(names) == 1 else names
    by_pattern: dict[str, list[str]] = {"*": names} if names else {}
    for pattern, name in pairs:
        by_pattern.setdefault(pattern, []).append(name)
    return _check_field(by_pattern)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, bytes | bytearray)


def _parse_field(word: str) -> str | tuple[str, str]:
    pattern, is_pair, name = word.rpartition("=")
    if is_pair and not (pattern and name):
        raise ValueError("FIELD or PATTERN=FIELD, such as 'github/*=content'")
    return (pattern, name) if is_pair else name


class RecordOptions(TypedDict, total=False):
    """How inputs become documents. The separator is apart: `encode_files` has another default."""

    input_format: Annotated[str | None, one_of(
        INPUT_FORMATS, None, "format of all inputs; without it, that of each is detected", **_INPUTS
    )]  # fmt: skip
    field: Annotated[str | Sequence[str] | Mapping[str, str | Sequence[str]], Option(
        "text", "field or column with the text of a record; a.b is the field b inside of a; of "
        "several, the first that exists counts; PATTERN=FIELD is for inputs with such names",
        _check_field, _parse_field, metavar="FIELD", repeats=True, **_INPUTS,
    )]  # fmt: skip
    strict: Annotated[bool, switch(
        "fail if skipped files of a folder may have documents", shapes_output=False, **_INPUTS
    )]  # fmt: skip
    utf8: Annotated[str, one_of(
        UTF8, "strict", "bytes that are not UTF-8: strict rejects the document, replace makes "
        "them U+FFFD, bytes keeps them", **_INPUTS
    )]  # fmt: skip
    on_error: Annotated[str, one_of(
        ("fail", "skip"), "fail", "records without a text: fail stops, skip leaves them out",
        **_INPUTS
    )]  # fmt: skip
    max_errors: Annotated[float | None, number(
        None, "number of rejected records that are allowed (default: any)", 0,
        shapes_output=False, **_INPUTS
    )]  # fmt: skip


class ReadOptions(RecordOptions, total=False):
    """How inputs become documents."""

    separator: Annotated[str | None, text(
        None, r"text between the documents of a text file, such as \n; without it, each text "
        "file is one document",
        parse=parse_escaped, metavar="TEXT", **_INPUTS,
    )]  # fmt: skip
