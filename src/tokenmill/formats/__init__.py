"""Files ↔ vocabularies, one module a format; which one is written, the name of the file says."""

from __future__ import annotations

from pathlib import Path

from tokenmill.files import write_whole
from tokenmill.formats import huggingface, own, ranks
from tokenmill.formats.contents import Contents, Merge, find_merges

__all__ = ["Contents", "Merge", "find_merges", "save"]


def save(path: Path, contents: Contents) -> None:
    """Writes a tokenizer: `.tokenmill`, `vocab.json` with `merges.txt`, another `.json` as
    tokenizer.json, and everything else as a rank file."""
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
