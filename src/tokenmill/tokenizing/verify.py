"""A folder of shards → what is wrong with it: files, and documents compared with their sources.

Checksums say that the files are those that were written. Decoding says that what was written is the
text: the sources are read again, and each document's ids must give its bytes back. A tokenizer that
changes text (one that normalises) cannot be asked that; its documents are encoded again instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus.documents import Segment, read
from tokenmill.errors import TokenizeError
from tokenmill.native import _native
from tokenmill.shards import Shards, checksum
from tokenmill.shards import open as open_shards
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import manifest, plan
from tokenmill.tokenizing.shuffle import Order
from tokenmill.tokenizing.worker import load_tokenizer

_BLOCK_BYTES = 4 << 20
_FINDINGS_MAX = 100


@dataclass(slots=True)
class Verdict:
    """What `verify` looked at, and what it found."""

    files: int = 0
    bytes: int = 0
    documents: int = 0
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.findings

    def find(self, text: str) -> None:
        if len(self.findings) < _FINDINGS_MAX:
            self.findings.append(text)


def verify(
    folder: str | Path,
    *,
    decode: float = 0.0,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Verdict:
    """Checks a folder. `decode` is the share of documents to compare with the sources; 1 is all.

    `progress` is told how many bytes of files are checked, and of how many.
    """
    path = Path(folder)
    content = manifest.load(path)
    if content is None:
        has_plan = (path / plan.NAME).exists()
        raise TokenizeError(
            f"{str(path)!r} is not complete: run the same tokenize command again, which goes on"
            if has_plan
            else f"{str(path)!r} is no folder of shards: there is no {manifest.NAME} in it"
        )
    verdict = Verdict()
    _check_files(path, content, verdict, workers, progress)
    if decode and verdict.is_good:
        _check_documents(path, content, verdict, decode)
    return verdict


# ── files ────────────────────────────────────────────────────────────────────────────────────


def _check_files(
    folder: Path,
    content: dict[str, Any],
    verdict: Verdict,
    workers: int,
    progress: Callable[[int, int], None],
) -> None:
    rows = [*content["units"], *content.get("mixes", [])]
    files = [
        (folder / (shard["stem"] + file["suffix"]), file)
        for row in rows
        for shard in row["shards"]
        for file in shard["files"]
    ]
    files += [(folder / file["suffix"], file) for file in content.get("files", [])]
    total = sum(file["bytes"] for _, file in files)
    with ThreadPoolExecutor(workers) as pool:
        for (path, file), found in zip(files, pool.map(_checksum, files), strict=True):
            verdict.files += 1
            verdict.bytes += file["bytes"]
            if found is not None:
                verdict.find(f"{path.name}: {found}")
            progress(verdict.bytes, total)
    _check_totals(content, rows, verdict)


def _checksum(item: tuple[Path, dict[str, Any]]) -> str | None:
    path, expected = item
    try:
        size = path.stat().st_size
        if size != expected["bytes"]:
            return f"it has {size:,} bytes and should have {expected['bytes']:,}"
        found = checksum.of_file(path)
    except OSError as error:
        return error.strerror or str(error)
    if found != expected["checksum"]:
        return "its bytes are not those that were written (the checksum differs)"
    return None


def _check_totals(content: dict[str, Any], rows: list[dict[str, Any]], verdict: Verdict) -> None:
    shards = [shard for row in rows for shard in row["shards"]]
    for name in ("documents", "tokens"):
        written = sum(shard[name] for shard in shards)
        if written != content["totals"][name]:
            verdict.find(
                f"the shards have {written:,} {name}, and the manifest says "
                f"{content['totals'][name]:,}"
            )


# ── documents ────────────────────────────────────────────────────────────────────────────────


def _check_documents(folder: Path, content: dict[str, Any], verdict: Verdict, share: float) -> None:
    planned = plan.load(folder)
    tokenizer = load_tokenizer(folder, planned)
    if plan.describe(tokenizer)["sha256"] != planned.tokenizer["sha256"]:
        raise TokenizeError(f"the tokenizer in {str(folder)!r} is not the one that was used")
    comparison = _Comparison(tokenizer, planned, verdict, share)
    with open_shards(folder) as shards:
        order = Order.of(content)
        for unit, row in zip(planned.units, content["units"], strict=True):
            if "failed" in row:
                continue
            if "too_long" in row:
                verdict.notes.append(
                    f"unit {unit.number} is not compared: {row['too_long']} of its documents did "
                    "not fit into the memory of the run"
                )
                continue
            checksum = _native.Checksum()
            source = _Written(shards, order, unit.number)
            for segment in unit.segments:
                comparison.segment(segment, source, checksum)
            if source.place != row["documents"]:
                verdict.find(
                    f"unit {unit.number}: its sources give {source.place:,} documents now, and "
                    f"{row['documents']:,} were written"
                )
            if f"{checksum.value():016x}" != row["input"]:
                names = ", ".join(segment.source.name for segment in unit.segments[:3])
                verdict.find(f"{names}: changed since it was read")


class _Written:
    """The documents of one unit as the shards have them, in the order of the sources."""

    def __init__(self, shards: Shards, order: Order, unit: int) -> None:
        self._shards = shards
        self._numbers = order.numbers(unit)
        self.place = 0

    def next(self) -> NDArray[Any] | None:
        """The ids of the next document; None if there are no more."""
        if self.place >= len(self._numbers):
            self.place += 1
            return None
        ids = self._shards.original(int(self._numbers[self.place]))
        self.place += 1
        return ids

    def skip(self) -> None:
        self.place += 1


class _Comparison:
    """Documents read again ↔ documents as they were written."""

    def __init__(
        self, tokenizer: Tokenizer, planned: plan.Plan, verdict: Verdict, share: float
    ) -> None:
        self._tokenizer = tokenizer
        self._options = planned.options
        self._verdict = verdict
        self._share = share
        self._head = np.array(planned.options.before, np.int64)
        self._tail = np.array(planned.options.after, np.int64)
        self._random = np.random.default_rng(0)

    def segment(self, segment: Segment, written: _Written, checksum: _native.Checksum) -> None:
        reading = plan.document_options(self._options, _BLOCK_BYTES, checksum)
        kept: list[bytes] = []
        for text in _texts(read(segment, reading), kept):
            if self._share < 1 and self._random.random() >= self._share:
                written.skip()
                continue
            self._verdict.documents += 1
            number = written.place
            ids = written.next()
            if ids is None or not self._is_same(ids, text):
                self._verdict.find(
                    f"{segment.source.name}: document {number + 1:,} of its unit is not what was "
                    f"written; it begins {bytes(text[:40])!r}"
                )

    def _is_same(self, ids: NDArray[Any], text: bytes) -> bool:
        end = len(ids) - len(self._tail)
        inner = ids[len(self._head) : end]
        if not np.array_equal(ids[: len(self._head)], self._head):
            return False
        if end < len(self._head) or not np.array_equal(ids[end:], self._tail):
            return False
        if self._tokenizer.decode_bytes(inner) == text:
            return True
        again = self._tokenizer.encode_array(text, specials=self._options.specials)
        return bool(np.array_equal(again, inner))


def _texts(blocks: Iterator[Any], kept: list[bytes]) -> Iterator[bytes]:
    """The documents of a segment one by one; one in pieces is put together."""
    for documents in blocks:
        view = memoryview(documents.data)
        if documents.withdrawn:
            kept.clear()
        last = len(documents.spans) - 1
        for index, (start, end) in enumerate(documents.spans.tolist()):
            piece = bytes(view[start:end])
            if index == last and documents.goes_on:
                kept.append(piece)
                continue
            if kept:
                piece = b"".join([*kept, piece])
                kept.clear()
            yield piece
