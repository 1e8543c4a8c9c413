"""Files ↔ vocabularies, one module a format; which one is written, the name of the file says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.errors import VocabularyError
from tokenmill.files import write_whole
from tokenmill.formats import huggingface, own, ranks
from tokenmill.formats.contents import Contents, Merge, find_merges

if TYPE_CHECKING:
    from tokenmill.formats.parts import Parts

__all__ = ["Contents", "Merge", "check_name", "find_merges", "load_parts", "save", "save_parts"]


def check_name(path: Path) -> None:
    """Refuses names that promise a format of another kind of vocabulary."""
    if path.suffix in (".model", ".vocab"):
        raise VocabularyError(
            f"{path.name!r} is a name for pieces of SentencePiece, and these are tokens of bytes; "
            "give one that ends in .json, .tokenmill or .tiktoken"
        )


def save(path: Path, contents: Contents) -> None:
    """Writes a tokenizer: `.tokenmill`, `vocab.json` with `merges.txt`, another `.json` as
    tokenizer.json, and everything else as a rank file."""
    check_name(path)
    if path.suffix == own.SUFFIX:
        write_whole(path, own.write(contents))
    elif path.name in ("vocab.json", "merges.txt"):
        # The one that can fail is made before anything is written.
        vocabulary = huggingface.write_vocabulary(contents)
        write_whole(path.with_name("merges.txt"), huggingface.write_merges(contents))
        write_whole(path.with_name("vocab.json"), vocabulary)
    elif path.suffix == ".json":
        write_whole(path, huggingface.write_tokenizer(contents))
    else:
        write_whole(path, ranks.write(contents.tokens))


# Readers and writers of whole tokenizers are imported when they are needed: nobody who loads an
# embedded vocabulary waits for them.


def load_parts(source: Any, pattern: str | None = None) -> Parts:
    """The parts of a file, of a folder, of a model in the hub's cache ("org/name"), or of a
    tokenizer of another library. `pattern` is for formats that do not have it."""
    from tokenmill.formats import sniff

    return sniff.load_parts(source, pattern)


def save_parts(path: Path, parts: Parts) -> None:
    """Writes a tokenizer of any kind, in the format that the name of the file says; one that
    would not hold all of it is refused."""
    from tokenmill.formats import (
        model_writer,
        own_parts,
        rank_parts,
        tokenizer_json,
        vocab_merges,
    )

    if path.suffix == own.SUFFIX:
        write_whole(path, own_parts.write(parts))
    elif path.name in (vocab_merges.VOCABULARY, vocab_merges.MERGES):
        # The one that can fail is made before anything is written.
        vocabulary, merges = vocab_merges.write(parts)
        write_whole(path.with_name(vocab_merges.MERGES), merges)
        write_whole(path.with_name(vocab_merges.VOCABULARY), vocabulary)
    elif path.suffix == ".json":
        write_whole(path, tokenizer_json.write(parts))
    elif path.suffix == ".model":
        write_whole(path, model_writer.write(parts))
    else:
        write_whole(path, rank_parts.write(parts))
