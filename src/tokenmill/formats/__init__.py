"""Files ↔ tokenizers, one module a format; which one is written, the name of the file says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.errors import VocabularyError
from tokenmill.files import write_together, write_whole
from tokenmill.formats.merges import Merge, find_merges

if TYPE_CHECKING:
    from tokenmill.formats.parts import Parts

__all__ = ["Merge", "check_name", "find_merges", "load_parts", "save_parts"]


def check_name(path: Path) -> None:
    """Refuses names that promise a format of another kind of vocabulary."""
    if path.suffix in (".model", ".vocab"):
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

    if parts.ranks is not None:
        check_name(path)
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
    elif path.suffix == ".model":
        write_whole(path, model_writer.write(parts))
    else:
        write_whole(path, rank_parts.write(parts))
