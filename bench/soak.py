"""Gigabytes of new text → whether the ids are right and the memory is stable.

    soak.py [--gigabytes 10] [--vocabulary o200k_base] [--out bench/results/soak.json]

The text consists of pieces of all corpora and of random words of letters and Han. Blocks go through
all calls in turn, on one thread and on two. Every 25th block is compared with tiktoken, or with the
reference implementation if tiktoken is not installed. The run fails if ids differ, if the process
grows by more than a few MB after its first gigabyte, or if the caches exceed their limit. Ctrl-C
keeps the reports so far.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import datetime
import gc
import itertools
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

# isort: split
import corpora
import machine
from memory import resident_bytes

from tokenmill import Tokenizer, cache_limit

HERE = Path(__file__).resolve().parent

POOL_MEGABYTES = 3.0  # of each corpus
BLOCK_BYTES = 4_000_000
PIECE_BYTES = 2_000
NEW_BYTES = 501  # random words per piece; a multiple of three
THREADS = (1, 2)
CHECK_EVERY = 25  # blocks; coprime to the number of turns, so that every turn is checked
REPORT_GIGABYTES = 1.0
WARM_GIGABYTES = 1.0  # or half of a shorter run; the process may grow until then
REPORTS_MIN = 4  # for runs of fewer gigabytes
GROWN_MB_MAX = 8.0  # lists of ids change the size by some MB
CACHE_SLACK_MB = 2.0

Ids = Any  # the ids of a block: list, array or count; for a batch one list per document


class Source:
    """Blocks of valid UTF-8 that share few words except those of the corpora."""

    def __init__(self, documents: list[str], seed: int = 0) -> None:
        self.pool = "\n\n".join(documents).encode()
        # A piece starts at the start of a character.
        data = np.frombuffer(self.pool, np.uint8)
        self.starts = np.flatnonzero((data & 0xC0) != 0x80)
        self.random = np.random.default_rng(seed)

    def block(self, size: int = BLOCK_BYTES) -> list[bytes]:
        """Return pieces of similar size: the documents of a batch, or the parts of one text."""
        count = max(size // PIECE_BYTES, 1)
        at = self.random.choice(self.starts, count)
        ends = self.starts[np.searchsorted(self.starts, at + PIECE_BYTES - NEW_BYTES, "right") - 1]
        half = (count + 1) // 2
        new = self.letters(half * NEW_BYTES) + self.han(half * NEW_BYTES)
        words = (new[n : n + NEW_BYTES] for n in range(0, len(new), NEW_BYTES))
        return [
            self.pool[a:b] + next(words) for a, b in zip(at.tolist(), ends.tolist(), strict=True)
        ]

    def letters(self, size: int) -> bytes:
        """Return words of a few random letters, separated by spaces."""
        drawn = self.random.integers(ord("a") - 5, ord("z") + 1, size=size, dtype=np.uint8)
        return np.where(drawn < ord("a"), np.uint8(ord(" ")), drawn).tobytes()

    def han(self, size: int) -> bytes:
        """Return random characters from U+5000 to U+8FFF, of three bytes each."""
        drawn = self.random.integers(0x80, 0xC0, size=(size // 3, 3), dtype=np.uint8)
        drawn[:, 0] = 0xE5 + drawn[:, 0] % 4
        return drawn.tobytes()


def encode_session(tokenizer: Tokenizer, pieces: list[bytes], _threads: int) -> Ids:
    session = tokenizer.session(b"")
    for piece in pieces:
        session.append(piece)
    return session.array()


# Batch calls return ids for each document, the others for the joined text.
CALLS: dict[str, Callable[[Tokenizer, list[bytes], int], Ids]] = {
    "encode_array": lambda t, pieces, n: t.encode_array(b"".join(pieces), threads=n),
    "encode_batch": lambda t, pieces, n: t.encode_batch(pieces, threads=n),
    "count": lambda t, pieces, n: t.count(b"".join(pieces), threads=n),
    "encode_ragged": lambda t, pieces, n: t.encode_ragged(pieces, threads=n),
    "encode": lambda t, pieces, _: t.encode(b"".join(pieces).decode()),
    "session": encode_session,
}
BATCH_CALLS = ("encode_batch", "encode_ragged")
TURNS = tuple(itertools.product(CALLS, THREADS))


def is_right(
    call: str, got: Ids, pieces: list[bytes], oracle: Callable[[bytes], list[int]]
) -> bool:
    if call in BATCH_CALLS:
        return len(got) == len(pieces) and all(
            list(ids) == oracle(piece) for ids, piece in zip(got, pieces, strict=True)
        )
    expected = oracle(b"".join(pieces))
    return got == len(expected) if call == "count" else list(got) == expected


def oracle_of(tokenizer: Tokenizer) -> tuple[str, Callable[[bytes], list[int]]]:
    if find_spec("tiktoken") is None:
        return "encode_with_offsets", lambda text: tokenizer.encode_with_offsets(text)[0]
    import vocabularies
    from systems import SYSTEMS

    vocabularies.prepare(tokenizer.name)
    system = SYSTEMS["tiktoken"]()
    system.open()
    system.load(vocabularies.vocabulary(tokenizer.name))
    return "tiktoken", lambda text: system.encode_list(text.decode())


@dataclass
class Report:
    gigabytes: float
    resident_mb: float
    encode_mb_s: float
    checked_blocks: int


@dataclass
class Soak:
    tokenizer: Tokenizer
    source: Source
    check: Callable[[bytes], list[int]]
    reports: list[Report] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def run(self, gigabytes: float) -> None:
        step = min(REPORT_GIGABYTES, gigabytes / REPORTS_MIN) * 1e9
        done = checked = 0
        seconds = 0.0
        for number, (call, threads) in enumerate(itertools.cycle(TURNS)):
            pieces = self.source.block()
            started = time.perf_counter()
            got = CALLS[call](self.tokenizer, pieces, threads)
            seconds += time.perf_counter() - started
            done += sum(map(len, pieces))
            # The first block is checked, so the first report includes the memory of a check.
            if number % CHECK_EVERY == 0:
                checked += 1
                if not is_right(call, got, pieces, self.check):
                    self.wrong.append(f"block {number}: {call} on {threads} threads")
            del got, pieces
            if (number + 1) % len(TURNS):  # calls free different amounts: report after the same one
                continue
            if done >= step * (len(self.reports) + 1):
                trim_memory()
                report = Report(done / 1e9, resident_bytes() / 1e6, done / 1e6 / seconds, checked)
                self.reports.append(report)
                say(report)
            if done >= gigabytes * 1e9 or self.wrong:
                return

    @property
    def grown_mb(self) -> float:
        """Return the largest growth after the first report of the warm process."""
        whole = self.reports[-1].gigabytes if self.reports else 0.0
        warm = min(WARM_GIGABYTES, whole / 2)
        found = [r.resident_mb for r in self.reports if r.gigabytes >= warm]
        return max(found) - found[0] if found else 0.0

    def failures(self, cache_mb: float) -> Iterator[str]:
        yield from (f"other ids than expected: {where}" for where in self.wrong)
        if self.grown_mb > GROWN_MB_MAX:
            yield f"grew by {self.grown_mb:.1f} MB after it was warm; the limit is {GROWN_MB_MAX}"
        if cache_mb > cache_limit() / 1e6 + CACHE_SLACK_MB:
            yield f"the caches hold {cache_mb:.1f} MB; their limit is {cache_limit() / 1e6:.1f} MB"


def trim_memory() -> None:
    """Return free memory to the system, if the C library can do that (glibc)."""
    gc.collect()
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def cache_megabytes() -> float:
    """Return the size of the caches, measured by emptying them."""
    limit, before = cache_limit(), resident_bytes()
    cache_limit(0)
    freed = before - resident_bytes()
    cache_limit(limit)
    return freed / 1e6


def say(report: Report) -> None:
    print(
        f"{report.gigabytes:6.2f} GB  {report.resident_mb:7.1f} MB resident  "
        f"{report.encode_mb_s:6.1f} MB/s  {report.checked_blocks} blocks checked",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Encodes new text and measures the memory.")
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--vocabulary", default="o200k_base")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "soak.json")
    args = parser.parse_args()
    tokenizer = Tokenizer.load(args.vocabulary)
    oracle, check = oracle_of(tokenizer)
    documents: list[str] = []
    for name in corpora.CORPORA:
        corpora.prepare(name)
        documents += corpora.first(name, POOL_MEGABYTES)
    soak = Soak(tokenizer, Source(documents, args.seed), check)
    del documents
    complete = True
    try:
        soak.run(args.gigabytes)
    except KeyboardInterrupt:
        complete = False
    cache_mb = cache_megabytes()
    failures = list(soak.failures(cache_mb))
    result = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        "python": platform.python_version(),
        "vocabulary": args.vocabulary,
        "seed": args.seed,
        "calls": [*CALLS],
        "threads": THREADS,
        "checked_with": oracle,
        "complete": complete,
        "grown_mb": round(soak.grown_mb, 1),
        "cache_mb": round(cache_mb, 1),
        "cache_limit_mb": round(cache_limit() / 1e6, 1),
        "failures": failures,
        "reports": [{k: round(v, 2) for k, v in asdict(r).items()} for r in soak.reports],
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(f"grown by {soak.grown_mb:.1f} MB, caches {cache_mb:.1f} MB, {args.out.name} written")
    print("\n".join(failures) or ("ok" if complete else "ok as far as it ran"))
    sys.exit(1 if failures else 0 if complete else 130)


if __name__ == "__main__":
    main()
