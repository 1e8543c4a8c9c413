"""One more tokenizer → the bytes that it takes, in Python and beside it.

Counted by what the process holds in memory that is no file (RssAnon of Linux): objects of Python,
tables of a core and what an allocator wastes are all in it. Many are made, so that pages do not
matter, and each encodes a text, so that nothing is put off.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.formats import ranks as rank_file
from tokenmill.ladder import fresh
from tokenmill.ladder.encoding import markers, native
from tokenmill.ladder.encoding.steps import PATTERN
from tokenmill.ladder.encoding.texts import TEXT
from tokenmill.tokenizer import Tokenizer

_SHARED = 10_000
_APART = 10

# Name → package, and how the second comes about.
INSTANCES = {
    "shared": ("", "Tokenizer.load(tokenizer)"),
    "by_name": ("", 'Tokenizer.load("o200k_base") again'),
    "apart": ("", "a core of its own"),
    "rustbpe": ("rustbpe", "trained again: it has no other way"),
    "tiktoken": ("tiktoken", "Encoding of the same ranks"),
}


@dataclass(frozen=True, slots=True)
class Weighed:
    """The bytes of one more, and how it was made."""

    name: str
    how: str
    bytes: float


def measure(vocabulary: Path) -> Iterator[Weighed]:
    """Each kind in a process of its own; nothing where the system does not tell."""
    for name, (package, how) in INSTANCES.items():
        if package and not markers.version_of(package):
            continue
        settings = [name, str(vocabulary)]
        row, _ = fresh.run("tokenmill.ladder.encoding.instances", settings, name)
        if row["bytes"] is not None:
            yield Weighed(name, how, row["bytes"])


def main(arguments: list[str]) -> None:
    name, vocabulary = arguments
    make, count = _maker(name, rank_file.read(Path(vocabulary)))
    kept: list[Any] = [None] * count
    kept[0] = make()  # imports, tables that all share
    before = _bytes_held()
    for index in range(1, count):
        kept[index] = make()
    after = _bytes_held()
    found = None if before is None or after is None else (after - before) / (count - 1)
    sys.stdout.write(json.dumps({"bytes": found}) + "\n")


def _maker(name: str, ranks: Mapping[bytes, int]) -> tuple[Callable[[], object], int]:
    """A function that makes one and lets it encode, and how many are made."""
    if name in ("shared", "by_name"):
        is_shared = name == "shared"
        first = native.tokenizer_of(ranks, PATTERN) if is_shared else Tokenizer.load("o200k_base")

        def second() -> Tokenizer:
            tokenizer = Tokenizer.load(first if is_shared else first.name)
            tokenizer.encode(TEXT)
            return tokenizer

        return second, _SHARED
    if name == "rustbpe":
        return _used(lambda: markers._rustbpe(ranks, PATTERN), "encode"), _APART
    if name == "tiktoken":
        library = importlib.import_module("tiktoken")
        table = dict(ranks)

        def encoding() -> object:
            return library.Encoding(
                "ladder", pat_str=PATTERN, mergeable_ranks=table, special_tokens={}
            )

        return _used(encoding, "encode_ordinary"), _APART
    return _used(lambda: native.tokenizer_of(ranks, PATTERN), "encode"), _APART


def _used(make: Callable[[], Any], encode: str) -> Callable[[], object]:
    def one() -> object:
        made = make()
        getattr(made, encode)(TEXT)
        return made

    return one


def _bytes_held() -> int | None:
    gc.collect()
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return None
    held = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon:")]
    return int(held[0]) * 1024 if held else None


if __name__ == "__main__":
    main(sys.argv[1:])
