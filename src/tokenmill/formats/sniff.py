"""A path, a name or an object → parts: which reader it is for, its content says."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from tokenmill.errors import VocabularyError
from tokenmill.formats import (
    directory,
    gguf,
    hub,
    model,
    objects,
    own,
    rank_parts,
    ranks,
    tekken,
    tokenizer_json,
    vocab_merges,
)
from tokenmill.formats.parts import Parts
from tokenmill.formats.reading import read_bytes, read_start, refuse_broken_link

_RANK = re.compile(rb"(?:[A-Za-z0-9+/]+=*|=) \d+\s*$", re.MULTILINE)
_TOKENIZER = re.compile(rb'"model"\s*:\s*\{')
_TEKKEN = re.compile(rb'"token_bytes"\s*:\s*"')
_VOCABULARY = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\d')


def load_parts(source: Any, pattern: str | None = None) -> Parts:
    """The parts of a file, of a folder, of a model in the hub's cache ("org/name"), or of a
    tokenizer of another library. `pattern` is for formats that do not have it."""
    if not isinstance(source, str | os.PathLike):
        found = objects.read(source)
        if found is None:
            raise TypeError(
                f"{type(source).__name__} is neither a path nor a tokenizer of tiktoken, "
                "tokenizers or transformers"
            )
        return _without_pattern(found, pattern, type(source).__name__)
    path = Path(os.fspath(source))
    if path.is_dir():
        return directory.read(path, pattern)
    if path.exists():
        return _read_file(path, pattern)
    refuse_broken_link(path)
    if isinstance(source, str) and hub.is_name(source):
        return directory.read(hub.find(source), pattern)
    raise VocabularyError(f"there is no file {str(path)!r}")


def _without_pattern(parts: Parts, pattern: str | None, source: str) -> Parts:
    if pattern is not None:
        raise VocabularyError(f"{source} has its own pattern; leave out pattern=")
    return parts


def _read_file(path: Path, pattern: str | None) -> Parts:
    if not path.is_file():
        raise VocabularyError(f"{path} is not a regular file")
    start = read_start(path, 4096)
    name = str(path)
    if start.startswith(b"GGUF"):
        return _without_pattern(gguf.read(path, name, tokenizer_json.read), pattern, name)
    if own.is_own(path):
        return _without_pattern(own.read(path), pattern, name)
    if start.lstrip(b" \t\r\n").startswith(b"{"):
        return _read_json(path, pattern)
    if start.startswith(b"#version") or path.name == vocab_merges.MERGES:
        return vocab_merges.read(path.parent, pattern)
    if _RANK.match(start):
        return _read_ranks(path, pattern)
    if start.startswith(b"\n"):  # field 1 of a message, with its length
        return _without_pattern(model.read(read_bytes(path), name), pattern, name)
    raise VocabularyError(
        f"{path} is no file of a tokenizer: neither tokenizer.json, tekken.json, .model, GGUF, "
        "vocab.json with merges.txt, a rank file, nor .tokenmill"
    )


def _read_json(path: Path, pattern: str | None) -> Parts:
    data = read_bytes(path)
    name = str(path)
    if not _TOKENIZER.search(data):
        if _TEKKEN.search(data):
            return _without_pattern(tekken.read(data, name), pattern, name)
        if _VOCABULARY.match(data) and path.name == vocab_merges.VOCABULARY:
            return vocab_merges.read(path.parent, pattern)
    return _without_pattern(tokenizer_json.read(data, name), pattern, name)


def _read_ranks(path: Path, pattern: str | None) -> Parts:
    if pattern is None:
        raise VocabularyError(
            f"a rank file does not say how text is split before merging: load {path} with "
            'pattern="…", a regular expression or the name of a scheme'
        )
    return rank_parts.of_ranks(ranks.read(path), pattern, {}, str(path))
