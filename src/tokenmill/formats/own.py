"""Contents ↔ .tokenmill, version 1: everything that a tokenizer of ranks is, in one JSON file.

Tokens are in base64, in the order of their ids; an id without a token is null. Merges are pairs of
ids. See docs/formats.md.
"""

from __future__ import annotations

import binascii
import json
from pathlib import Path
from typing import Any

from tokenmill.errors import VocabularyError
from tokenmill.formats import huggingface
from tokenmill.formats.contents import Contents

SUFFIX = ".tokenmill"
_START = b'{"format": "tokenmill", "version": '
VERSION = 1


def write(contents: Contents) -> bytes:
    """The file of a tokenizer."""
    ids = {huggingface.bytes_of(name): id_ for name, id_ in contents.specials.items()}
    ids |= {token: id_ for id_, token in contents.tokens.items()}
    merges = None
    if contents.learned is not None:
        merges = [[ids[left], ids[right]] for left, right in contents.learned]
    document = {
        "format": "tokenmill",
        "version": VERSION,
        "pattern": contents.pattern,
        "specials": dict(sorted(contents.specials.items(), key=lambda item: (item[1], item[0]))),
        "provenance": dict(contents.provenance),
        "merges": merges,
        "tokens": [
            None if token is None else binascii.b2a_base64(token, newline=False).decode()
            for token in map(contents.tokens.get, range(max(contents.tokens, default=-1) + 1))
        ],
    }
    data = (json.dumps(document, ensure_ascii=False) + "\n").encode()
    assert data.startswith(_START)
    return data


def is_own(path: Path) -> bool:
    """Whether a file is one of these, by its beginning."""
    with path.open("rb") as file:
        return file.read(len(_START)) == _START


def version_of(path: Path) -> int | None:
    """The version of the format of such a file."""
    with path.open("rb") as file:
        rest = file.read(len(_START) + 8)[len(_START) :]
    digits = rest.split(b",")[0]
    return int(digits) if digits.isdigit() else None


def read(path: Path) -> Contents:
    """The tokenizer of a file."""
    try:
        document = json.loads(path.read_bytes())
        if document["version"] != VERSION:
            raise VocabularyError(
                f"{path} has version {document['version']!r} of the format, and this tokenmill "
                f"reads {VERSION}; upgrade it"
            )
        return _contents(document)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        if isinstance(error, VocabularyError):
            raise
        raise VocabularyError(f"{path} is damaged ({error}); save the tokenizer again") from None


def _contents(document: dict[str, Any]) -> Contents:
    tokens = {
        id_: binascii.a2b_base64(token, strict_mode=True)
        for id_, token in enumerate(document["tokens"])
        if token is not None
    }
    specials = {str(name): int(id_) for name, id_ in document["specials"].items()}
    learned = None
    if document["merges"] is not None:
        # A special that is written like a learned token has its id, and may be no token here.
        parts = {id_: huggingface.bytes_of(name) or b"" for name, id_ in specials.items()} | tokens
        learned = [(parts[left], parts[right]) for left, right in document["merges"]]
    pattern = document["pattern"]
    if not isinstance(pattern, str):
        raise TypeError(f"pattern {pattern!r}")
    return Contents(tokens, pattern, None, specials, learned, dict(document["provenance"]))
