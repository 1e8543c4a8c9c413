"""Files ↔ tokenizers, one module a format; which one is written, the name of the file says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.errors import VocabularyError
from tokenmill.files import write_together, write_whole
from tokenmill.formats.merges import Merge, find_merges

if TYPE_CHECKING:
    from tokenmill.formats.parts import Parts

__all__ = [
    "Merge",
    "check_bytes_name",
    "check_name",
    "find_merges",
    "load_parts",
    "save_parts",
]


# Names of formats that are read or made elsewhere, and not written here.
_NAMES = {
    "tekken.json": "Mistral's format",
    "tokenizer_config.json": "a file of transformers, which is beside a tokenizer",
    "special_tokens_map.json": "a file of transformers, which is beside a tokenizer",
    "added_tokens.json": "a file of transformers, which is beside a tokenizer",
    "config.json": "a file of transformers about a model",
}
_SUFFIXES = {
    ".gguf": "llama.cpp's format",
    ".safetensors": "a format of weights",
    ".tmc": "a file of counts",
    ".tmcache": "a file of the cache",
    ".tmv": "a vocabulary of the package",
}
WRITTEN = (
    "tokenizer.json (or another .json), vocab.json (with merges.txt), x.model (pieces of "
    "SentencePiece), x.tokenmill, or x.tiktoken for ranks"
)


def check_name(path: Path) -> None:
    """Refuses names that promise a format which is not written here."""
    what = _NAMES.get(path.name) or _SUFFIXES.get(path.suffix.lower())
    if what is not None:
        raise VocabularyError(
            f"{path.name!r} is the name of {what}, which is not written here; the name says what "
            f"is: {WRITTEN}"
        )


def check_bytes_name(path: Path) -> None:
    """Refuses names that promise a format of another kind of vocabulary, too."""
    check_name(path)
    if ".model" in path.suffixes or path.suffix == ".vocab":
        raise VocabularyError(
            f"{path.name!r} is a name for pieces of SentencePiece, and these are tokens of bytes; "
            "give one that ends in .json, .tokenmill or .tiktoken"
        )


# Readers and writers are imported when they are needed: nobody who loads an embedded vocabulary
# waits for them.


def load_parts(source: Any, pattern: str | None = None) -> Parts:
    """The parts of a file, of a folder, of a model in the hub's cache ("org/name"), or of a
    tokenizer of another library. `pattern` is for formats that do not have it."""
    from tokenmill.formats import sniff

    return sniff.load_parts(source, pattern)


def save_parts(path: Path, parts: Parts) -> None:
    """Writes a tokenizer of any kind, in the format that the name of the file says; one that
    would not hold all of it is refused."""
    from tokenmill.formats import model_writer, own, rank_parts, tokenizer_json, vocab_merges

    check_name(path)
    if parts.model.base == "bytes":
        check_bytes_name(path)
    if path.suffix == own.SUFFIX:
        write_whole(path, own.write(parts))
    elif path.name in (vocab_merges.VOCABULARY, vocab_merges.MERGES):
        # merges.txt is the first, since it says which vocabulary it is for.
        vocabulary, merges = vocab_merges.write(parts)
        names = (vocab_merges.MERGES, vocab_merges.VOCABULARY)
        paths = (path.with_name(name) for name in names)
        write_together(dict(zip(paths, (merges, vocabulary), strict=True)))
    elif path.suffix == ".json":
        write_whole(path, tokenizer_json.write(parts))
    elif ".model" in path.suffixes:  # Mistral's end in .model.v3
        write_whole(path, model_writer.write(parts))
    elif path.suffix == ".vocab":
        raise VocabularyError(
            f"{path.name!r} is the name of a list of pieces, which only training writes; the name "
            f"says what is written: {WRITTEN}"
        )
    else:
        write_whole(path, rank_parts.write(parts))
