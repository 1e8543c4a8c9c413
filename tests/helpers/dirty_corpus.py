"""A size and a seed → a folder of dirty files as a crawl leaves them, and the truth about each.

The files: JSON lines, plain and compressed, in three subfolders with equal names; Parquet; texts
with spaces and umlauts in their names; JSON lines without a suffix, as Spark writes them; files
with other fields; a truncated gzip file; an empty file; files that a run skips; one document
without a space. The documents are texts of the Universal Declaration of Human Rights and source
files, with changed words. Of 1,000 records about 4 are dirty.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow
import pyarrow.parquet
import zstandard

DATA = Path(__file__).parents[1] / "data"
CHARACTERS_MAX = 4000
# Kinds of dirt: the share of the records that have it, and how a line gets it.
DIRT: dict[str, tuple[float, Callable[[bytes], bytes]]] = {
    "is not JSON": (0.001, lambda line: line[: len(line) // 2].decode("utf-8", "ignore").encode()),
    "has null in the field": (0.001, lambda line: b'{"text": null}'),
    "has no field": (0.001, lambda line: b'{"body": "elsewhere"}'),
    "is not UTF-8": (0.0005, lambda line: line.replace(b': "', b': "\xff', 1)),
    "is not a JSON object": (0.0002, lambda line: b"[1, 2]"),
}


@dataclass
class Truth:
    """The contents of one file: good documents, bad records, and a digest of the good texts."""

    documents: int = 0
    bad: dict[str, int] = field(default_factory=dict)
    digest: str = ""

    @staticmethod
    def of(texts: Iterable[str], bad: dict[str, int] | None = None) -> Truth:
        found = list(texts)
        return Truth(len(found), bad or {}, digest_of(text.encode() for text in found))


@dataclass
class Corpus:
    """A folder, the truth about each file, the fields of all files, and the skipped files."""

    folder: Path
    truth: dict[str, Truth] = field(default_factory=dict)
    fields: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    cut: str = ""  # the truncated file


def digest_of(texts: Iterable[bytes]) -> str:
    """One digest of documents with their lengths, so that other borders change it."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(len(text).to_bytes(8, "little") + text)
    return digest.hexdigest()


def make(folder: Path, size: int, seed: int = 0) -> Corpus:
    """Write files with about `size` bytes of text."""
    corpus = Corpus(folder)
    source = Documents(seed)
    share = size // 24
    for subfolder in ("a", "b", "c"):
        (folder / subfolder).mkdir(parents=True)
        for number in range(3):
            write_lines(corpus, f"{subfolder}/part-{number:03}.jsonl", source, share)
        write_lines(corpus, f"{subfolder}/more.jsonl.gz", source, share, gzip.compress)
        compress = zstandard.ZstdCompressor().compress
        write_lines(corpus, f"{subfolder}/more.jsonl.zst", source, share, compress)
    write_lines(corpus, "part-00000", source, share)
    write_lines(corpus, "content.jsonl", source, share, name="content")
    write_lines(corpus, "nested.jsonl.gz", source, share, gzip.compress, name="doc.text")
    corpus.fields = ["text", "content", "doc.text"]
    for number in range(2):
        write_table(corpus, f"rows-{number}.parquet", source, share)
    for name in ("zwei Wörter.txt", "c/a b.txt"):
        text = next(filter(None, source.take(share)))
        (folder / name).write_text(text, encoding="utf-8", newline="")
        corpus.truth[name] = Truth.of([text])
    (folder / "empty.jsonl").touch()
    corpus.truth["empty.jsonl"] = Truth.of([])
    write_unbroken(corpus, "no spaces.jsonl", source, max(share // 4, 1 << 17))
    write_cut(corpus, "cut.jsonl.gz", source, share)
    write_others(corpus)
    return corpus


class Documents:
    """An endless supply of documents, the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        names = sorted([*DATA.glob("udhr/*.txt"), *DATA.glob("code/*")])
        self.texts = [path.read_bytes().decode("utf-8", "replace") for path in names]

    def take(self, size: int) -> list[str]:
        """Documents with at least `size` bytes together."""
        found = []
        while size > 0:
            found.append(self.one())
            size -= len(found[-1].encode())
        return found

    def one(self) -> str:
        chance = self.random
        if chance.random() < 0.001:
            return ""
        text = chance.choice(self.texts)
        start = chance.randrange(max(1, len(text) - 200))
        words = text[start : start + chance.randrange(200, CHARACTERS_MAX)].split(" ")
        for place in range(len(words)):
            if chance.random() < 0.02:
                words[place] = f"{chance.getrandbits(24):x}"
        return " ".join(words)


def record(text: str, name: str) -> bytes:
    value: object = text
    for part in reversed(name.split(".")):
        value = {part: value}
    return json.dumps(value, ensure_ascii=False).encode()


def write_lines(
    corpus: Corpus,
    path: str,
    source: Documents,
    size: int,
    compress: Callable[[bytes], bytes] = bytes,
    name: str = "text",
) -> None:
    """Write JSON lines, of which some are dirty. The first is good, since formats are detected."""
    lines, good = [], []
    bad: dict[str, int] = {}
    for number, text in enumerate(source.take(size)):
        line = record(text, name)
        for reason, (share, spoil) in DIRT.items():
            if number and source.random.random() < share:
                line = spoil(line)
                bad[reason] = bad.get(reason, 0) + 1
                break
        else:
            good.append(text)
        lines.append(line)
    (corpus.folder / path).write_bytes(compress(b"\n".join(lines) + b"\n"))
    corpus.truth[path] = Truth.of(good, bad)


def write_table(corpus: Corpus, path: str, source: Documents, size: int) -> None:
    texts = source.take(size)
    table = pyarrow.table({"id": range(len(texts) + 1), "text": [*texts, None]})
    pyarrow.parquet.write_table(table, corpus.folder / path, row_group_size=100)
    corpus.truth[path] = Truth.of(texts, {"has null in the field": 1})


def write_unbroken(corpus: Corpus, path: str, source: Documents, size: int) -> None:
    """Write one long document without a space or a newline, between two short ones."""
    texts = ["before", f"{source.random.getrandbits(size * 4):0{size}x}", "after"]
    (corpus.folder / path).write_bytes(b"\n".join(record(text, "text") for text in texts))
    corpus.truth[path] = Truth.of(texts)


def write_cut(corpus: Corpus, path: str, source: Documents, size: int) -> None:
    """Write three fifths of a gzip file. How many documents it gives depends on its blocks."""
    data = b"".join(record(text, "text") + b"\n" for text in source.take(size))
    packed = gzip.compress(data)
    (corpus.folder / path).write_bytes(packed[: len(packed) * 3 // 5])
    corpus.cut = path


def write_others(corpus: Corpus) -> None:
    """Write files that a run skips."""
    (corpus.folder / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    (corpus.folder / "backup.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    (corpus.folder / "notes").write_text("A text without a suffix.\n")
    corpus.skipped = ["logo.png", "backup.zip", "notes"]
