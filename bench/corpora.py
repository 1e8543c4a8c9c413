"""Real and generated documents → the texts that every system encodes.

A job reads 40 MB. No text is repeated, since a cache would contain it. A packed corpus of less than
40 MB is extended with more real documents, or with generated ones if its language has no more. They
are spread evenly, so that any part of a text is like the whole. `zh-real` and the other `-real`
corpora are the real documents alone. The results list the sources of each text.

    corpora.py [NAME…]        print the contents of each text, and compare generated with real ones

Invariant: the same arguments give the same documents in every process of a sweep.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# isort: split
from documents import PROSE, SOURCES, installed, kind, packed, unpack

HERE = Path(__file__).resolve().parent
CACHE = HERE / ".cache"
FOLDER = CACHE / "corpora"

CORPORA = ("en", "code", "mix", "zh", "ja", "th")
REAL = "-real"  # a corpus without its generated documents
REAL_CORPORA = ("en-real", "zh-real", "ja-real", "th-real")
EVERYTHING = "all"  # every packed corpus, one after the other: the text of the memory job
SEPARATOR = "\n\n"  # between documents where a job wants one text

MEGABYTES = 40.0  # of text in a job
SEEN_SHARE = 0.9  # of a corpus; the rest is the new text
CORPUS_BYTES = MEGABYTES * 1e6 / SEEN_SHARE
MODEL_BYTES_MAX = 6e6  # real text in the model of the generator: 1 GB of memory
# A character of Chinese or Japanese has as much information as several letters. With these lengths
# generated text is closest to real text.
CONTEXTS = {"zh": 3, "ja": 3, "th": 5, "en": 6}


@dataclass(frozen=True)
class Text:
    seen: list[str]
    unseen: list[str]  # the next documents, for a warm pass over new text


@dataclass(frozen=True)
class Part:
    """Documents of one origin in a corpus."""

    source: str
    documents: list[str]

    @property
    def size(self) -> int:
        return sum(len(document.encode()) for document in self.documents)


def prepare(name: str) -> dict[str, object]:
    """Write the document file of a corpus, once, and return its description."""
    path, info_path = FOLDER / f"{name}.jsonl", FOLDER / f"{name}.info.json"
    known: dict[str, object] = json.loads(info_path.read_text()) if info_path.exists() else {}
    recipe = [CORPUS_BYTES, MODEL_BYTES_MAX, CONTEXTS.get(name)]
    if known.get("recipe") == recipe:
        return known
    FOLDER.mkdir(parents=True, exist_ok=True)
    source, documents = _documents(name)
    count, size, digest = 0, 0, hashlib.blake2b(digest_size=8)
    with path.open("w", encoding="utf-8") as out:
        for document in documents:
            out.write(json.dumps({"text": document}, ensure_ascii=False) + "\n")
            data = document.encode()
            digest.update(data)
            count, size = count + 1, size + len(data)
    info: dict[str, object] = {
        "source": source,
        "documents": count,
        "bytes": size,
        "digest": digest.hexdigest(),
        "recipe": recipe,
    }
    info_path.write_text(json.dumps(info))
    return info


def stream(name: str) -> Iterator[str]:
    """Yield the documents of a prepared corpus."""
    with (FOLDER / f"{name}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)["text"]


def read(name: str, megabytes: float) -> Text:
    """Return up to `megabytes` of documents, at most 90 % of the corpus, and new text."""
    wanted = seen_bytes(name, megabytes)
    documents = stream(name)
    seen = _take(documents, wanted)
    return Text(seen, _take(documents, wanted * (1 / SEEN_SHARE - 1)))


def seen_bytes(name: str, megabytes: float) -> float:
    available: int = json.loads((FOLDER / f"{name}.info.json").read_text())["bytes"]
    return min(megabytes * 1e6, available * SEEN_SHARE)


def first(name: str, megabytes: float) -> list[str]:
    """Return the first documents of a corpus, all of them if it has less."""
    return _take(stream(name), megabytes * 1e6)


def windows(name: str, characters: int, count: int) -> list[str]:
    """Cut short strings from the first documents of a corpus, the same in every process."""
    documents = [d for d in _take(stream(name), 2e6) if len(d) > characters]
    pick = random.Random(characters)
    return [_window(pick, pick.choice(documents), characters) for _ in range(count)]


def hard_strings() -> list[str]:
    """Return strings on which tokenizers are known to differ; all are valid Unicode."""
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


def _take(documents: Iterable[str], bytes_max: float) -> list[str]:
    taken: list[str] = []
    size = 0
    rest = iter(documents)
    while size < bytes_max and (document := next(rest, None)) is not None:
        taken.append(document)
        size += len(document.encode())
    return taken


def _documents(name: str) -> tuple[str, Iterable[str]]:
    files = packed()
    if name == EVERYTHING and files:
        return "shared data, all corpora", itertools.chain.from_iterable(
            map(unpack, files.values())
        )
    if name in ("mix", EVERYTHING):
        return _mix()
    base = name.removesuffix(REAL)
    parts = [_real(base)]
    if name in CONTEXTS and parts[0].documents:
        parts.append(_generated(name, parts[0]))
    if name == "code" and files:
        known = set(parts[0].documents)
        more = (d for d in installed(SOURCES) if d not in known)
        missing = CORPUS_BYTES - parts[0].size
        parts.append(Part("sources of installed packages", _take(more, missing)))
    return _listed(parts), _spread(parts)


def _real(name: str) -> Part:
    """Return all packed documents of a kind, or documents of installed packages."""
    files = packed()
    if name in ("en", "code") and name in files:
        own = [files[n] for n in (name, f"{name}_c") if n in files]
        mixed = (d for d in unpack(files["mix"]) if kind(d) == name) if "mix" in files else ()
        every = itertools.chain(*map(unpack, own), mixed)
        return Part("shared data", _take(dict.fromkeys(every), CORPUS_BYTES))
    if name in files:
        return Part("shared data", _take(unpack(files[name]), CORPUS_BYTES))
    if name == "en":
        return Part("documents of installed packages", _take(installed(PROSE), CORPUS_BYTES))
    if name == "code":
        return Part("sources of installed packages", _take(installed(SOURCES), CORPUS_BYTES))
    return Part("none on this machine", [])


def _generated(name: str, real: Part) -> Part:
    import generated  # loads numpy, which must not happen before the threads are limited

    missing = CORPUS_BYTES - real.size
    if missing <= 0:
        return Part("generated", [])
    model = generated.Model(_take(real.documents, MODEL_BYTES_MAX), CONTEXTS[name])
    # The size of the walks varies by a few per cent, so 5 % more is generated.
    return Part("generated", _take(model.documents(1.05 * missing), missing))


def _mix() -> tuple[str, Iterable[str]]:
    """Return the packed mix, then documents of the other corpora in the same shares."""
    files = packed()
    if "mix" not in files:
        halves = [_take(installed(patterns), CORPUS_BYTES / 2) for patterns in (PROSE, SOURCES)]
        parts = [Part("documents and sources of installed packages", d) for d in halves]
        return _listed(parts), _spread(parts)
    mix = Part("shared data", _take(unpack(files["mix"]), CORPUS_BYTES))
    known = set(mix.documents)
    others = [n for n in files if n not in ("mix", "en", "code")]
    missing = max(CORPUS_BYTES - mix.size, 0.0)
    shares = {"en": 0.6, "code": 0.2, **dict.fromkeys(others, 0.2 / max(len(others), 1))}
    more = [
        Part("the other corpora", _take((d for d in unpack(files[n]) if d not in known), size))
        for n, size in ((n, share * missing) for n, share in shares.items() if n in files)
    ]
    return _listed([mix, *more]), [*mix.documents, *_spread(more)]


def _listed(parts: list[Part]) -> str:
    """Describe the sources of a text, with the megabytes of each if there are several."""
    sizes: dict[str, float] = {}
    for part in parts:
        sizes[part.source] = sizes.get(part.source, 0.0) + part.size / 1e6
    if len(sizes) == 1:
        return next(iter(sizes))
    return ", ".join(f"{source} {size:.1f} MB" for source, size in sizes.items() if size)


def _spread(parts: list[Part]) -> Iterator[str]:
    """Yield the documents of all parts, each part spread evenly over the text."""
    return (document for _, document in heapq.merge(*map(_placed, parts), key=lambda x: x[0]))


def _placed(part: Part) -> Iterator[tuple[float, str]]:
    total, at = part.size, 0
    for document in part.documents:
        yield at / total, document
        at += len(document.encode())


def main(*names: str) -> None:
    import generated

    from tokenmill import Tokenizer

    encode = Tokenizer.load("o200k_base").encode
    for name in names or (*CORPORA, *REAL_CORPORA):
        info = prepare(name)
        print(f"{name}: {info['bytes']} bytes, {info['documents']} documents: {info['source']}")
        if name not in CONTEXTS or not info["bytes"]:
            continue
        prepare(name + REAL)
        known = set(stream(name + REAL))
        real = Part("real", first(name + REAL, MODEL_BYTES_MAX / 1e6))
        new = Part("generated", _take((d for d in stream(name) if d not in known), real.size))
        for part in (real, new):
            shown = generated.figures(part.documents, encode).items()
            print(
                f"{part.source:>10}: " + ", ".join(f"{what} {value:.4g}" for what, value in shown)
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
