"""Files ↔ vocabularies, one module a format; which one is written, the name of the file says."""

from __future__ import annotations

from pathlib import Path

from tokenmill.errors import VocabularyError
from tokenmill.files import write_whole
from tokenmill.formats import huggingface, own, ranks
from tokenmill.formats.contents import Contents, Merge, find_merges

__all__ = ["Contents", "Merge", "check_name", "find_merges", "save"]


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
