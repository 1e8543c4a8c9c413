"""Packed or installed text → the documents that every system encodes.

Documents come from the project's shared data folder when it is there, else from the sources and
documents of the installed packages; the results say which. Nothing is repeated to make a text
longer: a corpus ends where its documents end.

Invariant: the same arguments give the same documents in every process of a sweep.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import lzma
import os
import random
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE / ".cache"
FOLDER = CACHE / "corpora"

CORPORA = ("en", "code", "mix", "zh", "ja", "th")
EVERYTHING = "all"  # every packed corpus, one after the other: the text of the memory job
INSTALLED_BYTES_MAX = 20_000_000
SEPARATOR = "\n\n"  # between documents where a job wants one text


@dataclass(frozen=True)
class Text:
    seen: list[str]
    unseen: list[str]  # the documents that follow, for a pass over new text on a warm tokenizer


def data_folder() -> Path:
    """The shared data, packed: $TOKENMILL_DATA, or shared/data beside the repository."""
    named = os.environ.get("TOKENMILL_DATA")
    return Path(named) if named else HERE.parent.parent / "shared" / "data"


def prepare(name: str) -> dict[str, object]:
    """Makes the document file of a corpus, once, and says what it holds."""
    path, info_path = FOLDER / f"{name}.jsonl", FOLDER / f"{name}.info.json"
    if not info_path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        source, documents = _documents(name)
        count, size, digest = 0, 0, hashlib.blake2b(digest_size=8)
        with path.open("w", encoding="utf-8") as out:
            for document in documents:
                out.write(json.dumps({"text": document}, ensure_ascii=False) + "\n")
                data = document.encode()
                digest.update(data)
                count, size = count + 1, size + len(data)
        info = {
            "source": source,
            "documents": count,
            "bytes": size,
            "digest": digest.hexdigest(),
        }
        info_path.write_text(json.dumps(info))
    result: dict[str, object] = json.loads(info_path.read_text())
    return result


def stream(name: str) -> Iterator[str]:
    """The documents of a prepared corpus, one at a time."""
    with (FOLDER / f"{name}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["text"]


def read(name: str, megabytes: float) -> Text:
    """Up to `megabytes` of documents, at most three quarters of the corpus, and a third more."""
    wanted = seen_bytes(name, megabytes)
    documents = stream(name)
    seen = _take(documents, wanted)
    return Text(seen, _take(documents, wanted / 3))


def seen_bytes(name: str, megabytes: float) -> float:
    available: int = json.loads((FOLDER / f"{name}.info.json").read_text())["bytes"]
    return min(megabytes * 1e6, available * 0.75)


def first(name: str, megabytes: float) -> list[str]:
    """The first documents of a corpus, all of them if it has less."""
    return _take(stream(name), megabytes * 1e6)


def windows(name: str, characters: int, count: int) -> list[str]:
    """Short strings cut from the first documents of a corpus, the same in every process."""
    documents = [d for d in _take(stream(name), 2e6) if len(d) > characters]
    pick = random.Random(characters)
    return [_window(pick, pick.choice(documents), characters) for _ in range(count)]


def hard_strings() -> list[str]:
    """Strings on which tokenizers are known to differ; all valid Unicode."""
    return [
        "",
        " ",
        "a",
        "<|endoftext|>",
        "before <|endoftext|> after<|fim_prefix|>",
        "it's WE'RE I'LL they've he'd I'm can't 'S 'LL x'\u017fy '\u017f don\u2019t",
        "  \n\n  \t word\r\n\r\n  next \u00a0\u3000end  ",
        "\u0085\u2028\u200b\ufeff a\u00a0b",
        "1234567 12 3.14 ١٢٣ ²½Ⅷ ४५६",
        "e\u0301a\u0300 नमस्ते สวัสดีครับ ǅǈ ʰʻ ıİ\u212a",
        "\U0001f469\u200d\U0001f4bb\U0001f3fd \U0001f1e9\U0001f1ea \U00020000\U0002a6d6",
        "\x00\x01\x7f",
        "end.\n/path/to//\n/* note */",
        "HTTPServerXMLParserGetURL_v2",
        "a" * 5_000,
        "ab" * 3_000,
        " " * 3_000 + "x",
        "\n" * 500,
        "!" * 3_000,
        "thequickbrownfox" * 200,
        "日本語の文章" * 300,
    ]


def _window(pick: random.Random, document: str, characters: int) -> str:
    start = pick.randrange(len(document) - characters)
    return document[start : start + characters]


def _take(documents: Iterator[str], bytes_max: float) -> list[str]:
    taken: list[str] = []
    size = 0
    while size < bytes_max and (document := next(documents, None)) is not None:
        taken.append(document)
        size += len(document.encode())
    return taken


def _documents(name: str) -> tuple[str, Iterable[str]]:
    packed = sorted((data_folder() / "corpus").glob("*.jsonl.xz"))
    if name == EVERYTHING and packed:
        return "shared data, all corpora", itertools.chain.from_iterable(map(_unpack, packed))
    for path in packed:
        if path.name == f"{name}.jsonl.xz":
            return "shared data", _unpack(path)
    prose, code = ("*.md", "*.rst", "*.txt", "METADATA"), ("*.py",)
    if name == "en":
        return "documents of installed packages", _installed(prose)
    if name == "code":
        return "sources of installed packages", _installed(code)
    if name in ("mix", EVERYTHING):
        both = itertools.zip_longest(_installed(prose), _installed(code))
        documents = (d for pair in both for d in pair if d is not None)
        return "documents and sources of installed packages", documents
    return "none on this machine", ()


def _unpack(path: Path) -> Iterator[str]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["text"]


def _installed(patterns: tuple[str, ...]) -> Iterator[str]:
    paths = sysconfig.get_paths()
    folders = [Path(paths["purelib"]), Path(paths["stdlib"])]
    size = 0
    seen: set[Path] = set()
    for path in (p for f in folders for g in patterns for p in sorted(f.rglob(g))):
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        try:
            document = path.read_text("utf-8")
        except (UnicodeDecodeError, OSError):
            continue
        size += len(document.encode())
        if size > INSTALLED_BYTES_MAX:
            return
        if document:
            yield document
