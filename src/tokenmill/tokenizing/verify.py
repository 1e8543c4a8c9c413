"""A folder of shards → what is wrong with it: files, and documents compared with their sources.

Three checks, each only if the one before finds nothing: the checksums of the files, the counts of
documents and tokens that the readers find, and the ids of documents, whose sources are read and
encoded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenmill import object_store
from tokenmill.corpus import STDIN
from tokenmill.corpus.documents import Documents, Key, Segment, read
from tokenmill.errors import MissingExtraError, ShardError, TokenizeError
from tokenmill.native import _native
from tokenmill.shards import Shards
from tokenmill.shards import open as open_shards
from tokenmill.shards.files import checksum_file
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing import journal, plan
from tokenmill.tokenizing.encoder import Encoder
from tokenmill.tokenizing.executors import load_tokenizer
from tokenmill.tokenizing.output import open_output
from tokenmill.tokenizing.plan import Task
from tokenmill.tokenizing.shuffle import Order, by_task, places
from tokenmill.tokenizing.task import make_encoder, without_failed

_FINDINGS_MAX = 100


@dataclass(slots=True)
class Verdict:
    """What `verify` looked at, and what it found: how much is wrong, and the first of it."""

    files: int = 0
    bytes: int = 0
    documents: int = 0
    wrong: int = 0
    files_wrong: int = 0
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.findings

    def add(self, other: Verdict) -> None:
        """Add the documents and findings of a part."""
        self.documents += other.documents
        self.wrong += other.wrong
        self.findings += other.findings[: max(0, _FINDINGS_MAX - len(self.findings))]

    def find(self, text: str) -> None:
        self.wrong += 1
        if len(self.findings) < _FINDINGS_MAX:
            self.findings.append(text)


def verify(
    folder: str | Path,
    *,
    decode: float = 0.0,
    threads: int = 1,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Verdict:
    """Checks a folder. `decode` is the share of documents to compare with the sources; 1 is all.

    `progress` is told how many bytes of files are checked, and of how many.
    """
    with open_output(folder).copy() as path:
        return _verify(path, decode, threads, progress)


def _verify(
    path: Path, decode: float, threads: int, progress: Callable[[int, int], None]
) -> Verdict:
    content = journal.load_manifest(open_output(path))
    if content is None:
        has_plan = (path / plan.NAME).exists()
        raise TokenizeError(
            f"{str(path)!r} is not complete; run the same tokenize command again"
            if has_plan
            else f"{str(path)!r} is not an output of tokenize: it has no {journal.MANIFEST}"
        )
    verdict = Verdict()
    with journal.reading(str(path)):
        _check_files(path, content, verdict, threads, progress)
        if verdict.is_good:
            _check_contents(path, content, verdict)
        if decode and verdict.is_good:
            _check_documents(path, content, verdict, decode)
    return verdict


# ── files ────────────────────────────────────────────────────────────────────────────────────


def _check_files(
    folder: Path,
    content: dict[str, Any],
    verdict: Verdict,
    threads: int,
    progress: Callable[[int, int], None],
) -> None:
    rows = [*content["tasks"], *content["shuffled"]]
    files = [
        (folder / (shard["stem"] + file["suffix"]), file)
        for row in rows
        for shard in row["shards"]
        for file in shard["files"]
    ]
    files += [(folder / file["suffix"], file) for file in content.get("files", [])]
    total = sum(file["bytes"] for _, file in files)
    with ThreadPoolExecutor(threads) as pool:
        for (path, file), found in zip(files, pool.map(_checksum, files), strict=True):
            verdict.files += 1
            verdict.bytes += file["bytes"]
            if found is not None:
                verdict.files_wrong += 1
                verdict.find(f"{path.name}: {found}")
            progress(verdict.bytes, total)


def _checksum(item: tuple[Path, dict[str, Any]]) -> str | None:
    path, expected = item
    try:
        size = path.stat().st_size
        if size != expected["bytes"]:
            return f"it has {size:,} bytes and should have {expected['bytes']:,}"
        found = checksum_file(path)
    except OSError as error:
        return error.strerror or str(error)
    if found != expected["checksum"]:
        return "its bytes are not those that were written (the checksum differs)"
    return None


def _check_contents(folder: Path, content: dict[str, Any], verdict: Verdict) -> None:
    try:
        for found in _contents_findings(folder, content):
            verdict.find(found)
    except MissingExtraError as error:
        verdict.notes.append(f"its documents are not counted: {error}")


# ── documents ────────────────────────────────────────────────────────────────────────────────


def _check_documents(folder: Path, content: dict[str, Any], verdict: Verdict, share: float) -> None:
    planned = plan.require(open_output(folder))
    tokenizer = load_tokenizer(open_output(folder), planned)
    with open_shards(folder) as shards:
        order = Order.of(content)
        for task, row in zip(planned.tasks, content["tasks"], strict=True):
            if "failed" in row:
                continue
            if any(segment.source.name == STDIN for segment in task.segments):
                verdict.notes.append(
                    f"task {task.number} is not compared: it came from standard input"
                )
                continue
            # An input that could not be read then may be missing now.
            segments = [
                segment
                for segment, said in zip(task.segments, row["segments"], strict=True)
                if said["documents"] or "error" not in said or not _is_gone(segment.source.name)
            ]
            missing = next((s.source.name for s in segments if _is_gone(s.source.name)), None)
            if missing is not None:
                verdict.find(
                    f"{missing}: it is not there, so task {task.number} is not compared; names "
                    "begin in the folder where tokenize ran"
                )
                continue
            again = replace(task, segments=tuple(segments))
            written = Written(shards, order.numbers(task.number))
            comparison = compare_task(again, planned.options, tokenizer, written, share)
            verdict.add(comparison.verdict)
            if comparison.documents != row["documents"]:
                verdict.find(
                    f"task {task.number}: its sources give {comparison.documents:,} documents now, "
                    f"and {row['documents']:,} were written"
                )
            if comparison.checksum != row["input"]:
                names = ", ".join(segment.source.name for segment in task.segments[:3])
                verdict.find(f"{names}: changed since it was read")


def _is_gone(name: str) -> bool:
    return not object_store.is_address(name) and not Path(name).exists()


# ── contents ─────────────────────────────────────────────────────────────────────────────────

_COUNTS = ("documents", "tokens")
_Located = tuple[int, NDArray[np.int64], NDArray[np.int64]]


def _contents_findings(folder: Path, content: dict[str, Any]) -> Iterator[str]:
    """What the readers find that is not as the manifest of the folder says."""
    try:
        shards = open_shards(folder)
    except ShardError as error:
        yield str(error)
        return
    sums = {
        row["task"]: np.zeros((len(row["segments"]) + 1, len(_COUNTS)), np.int64)
        for row in content["tasks"]
    }
    bounds = {
        row["task"]: np.cumsum([segment["documents"] for segment in row["segments"]])
        for row in content["tasks"]
    }
    try:
        for task, numbers, lengths in _located(shards, content):
            # Which segment of its task each document is of; behind the last one, of none.
            segments = np.searchsorted(bounds[task], numbers, side="right")
            for index, weights in enumerate((None, lengths)):
                found = np.bincount(segments, weights, minlength=len(sums[task]))
                sums[task][:, index] += found.astype(np.int64)
    except ShardError as error:
        yield str(error)
        return
    yield from _differences(content, sums)


def _located(shards: Shards, content: dict[str, Any]) -> Iterator[_Located]:
    """The documents of each shard: their task, their numbers there, and how many ids each has."""
    seed = content["options"]["shuffle"]
    index = 0
    for row in content["tasks"] if seed is None else ():
        place = 0
        for _ in row["shards"]:
            lengths = _lengths(shards, index)
            yield row["task"], np.arange(place, place + len(lengths)), lengths
            place += len(lengths)
            index += 1
    counts = {row["task"]: row["documents"] for row in content["tasks"]}
    for row in content["shuffled"]:
        found = places(seed, counts, row["shuffled"], row["of"])
        all_lengths = [_lengths(shards, index + more) for more in range(len(row["shards"]))]
        index += len(row["shards"])
        lengths = np.concatenate([np.empty(0, np.int64), *all_lengths])
        if len(lengths) != len(found.tasks):
            raise ShardError(
                f"shard {row['mix']} has {len(lengths):,} documents, and its seed gives it "
                f"{len(found.tasks):,}"
            )
        for task, here in by_task(found.tasks):
            yield task, found.numbers[here], lengths[here]


def _lengths(shards: Shards, index: int) -> NDArray[np.int64]:
    """How many ids each document of a shard has, as its reader finds them."""
    shard = shards.shards[index]
    shards.reader(index)  # which compares its documents, or sequences, with the manifest
    ends = shards.document_ends(index)
    lengths = np.diff(ends, prepend=0)
    first = 0
    if shards.spec.sequence_length is not None:
        starts = shards.document_starts(index)
        first = int(starts[0]) if len(starts) else 0
    shards.close()
    tokens = int(ends[-1]) if len(ends) else 0
    if len(ends) != shard.documents or tokens != shard.tokens:
        raise ShardError(
            f"{shard.stem} has {len(ends):,} documents and {tokens:,} tokens, and the manifest "
            f"says {shard.documents:,} and {shard.tokens:,}"
        )
    if first or (lengths < 0).any():
        raise ShardError(f"{shard.stem}: its documents do not lie one behind the other")
    return lengths


def _differences(content: dict[str, Any], sums: dict[int, NDArray[np.int64]]) -> Iterator[str]:
    said = {source["path"]: source for source in content["sources"]}
    held = {path: np.zeros(len(_COUNTS), np.int64) for path in said}
    for row in content["tasks"]:
        found = sums[row["task"]]
        if found[:, 0].sum() != row["documents"] or found[-1].any():
            yield (
                f"task {row['task']}: the shards hold {found[:, 0].sum():,} documents of it, and "
                f"the manifest says {row['documents']:,}"
            )
        for segment, counts in zip(row["segments"], found, strict=False):
            held[segment["source"]] += counts
    for path, counts in held.items():
        for name, count in zip(_COUNTS, counts.tolist(), strict=True):
            if count != said[path][name]:
                yield (
                    f"{path}: the shards hold {count:,} {name} of it, and the manifest says "
                    f"{said[path][name]:,}"
                )
    for index, name in enumerate(_COUNTS):
        count = sum(int(counts[index]) for counts in held.values())
        if count != content["totals"][name]:
            yield (
                f"the shards hold {count:,} {name}, and the manifest says "
                f"{content['totals'][name]:,} in all"
            )


# ── comparison ───────────────────────────────────────────────────────────────────────────────

_BLOCK_BYTES = 4 << 20
_BEGINNING_BYTES = 40


@dataclass(frozen=True, slots=True)
class Written:
    """The documents of one task in the shards. `numbers` are their numbers in the output."""

    shards: Shards
    numbers: NDArray[np.int64]

    def span(self, index: int) -> tuple[int, int, int] | None:
        """The shard of a document, and its first and last id there. None if there is none."""
        if index >= len(self.numbers):
            return None
        return self.shards.original_span(int(self.numbers[index]))


def compare_task(
    task: Task, options: dict[str, Any], tokenizer: Tokenizer, written: Written, share: float
) -> Comparison:
    """Read and encode the documents of a task again, and compare a share of them."""

    def attempt(skip: Mapping[Key, str]) -> Comparison:
        comparison = Comparison(written, make_encoder(tokenizer, options, _BLOCK_BYTES), share)
        checksum = _native.Checksum()
        reading = plan.document_options(options, _BLOCK_BYTES, checksum, skip)
        for segment in task.segments:
            for documents in read(segment, reading):
                comparison.add(segment, documents, options["max_unsplit_bytes"])
        comparison.checksum = f"{checksum.value():016x}"
        return comparison

    return without_failed(attempt)


class Comparison:
    """The documents of one task, encoded again and compared with those in the shards."""

    def __init__(self, written: Written, encoder: Encoder, share: float) -> None:
        self._written = written
        self._encoder = encoder
        self._share = share
        self._random = np.random.default_rng(0)
        # The document that is being compared.
        self._tokens = 0
        self._is_same = True
        self._beginning = b""
        self.documents = 0  # that the sources give
        self.verdict = Verdict()
        self.checksum = ""

    def add(self, segment: Segment, documents: Documents, long_bytes: int) -> None:
        """Compare a share of the documents. Longer ones than `long_bytes` may be rejected, which
        encoding them finds out."""
        spans = documents.spans
        chosen = self._random.random(len(spans)) < self._share
        chosen |= spans[:, 1] - spans[:, 0] > long_bytes
        if len(spans):
            chosen[-1] |= documents.goes_on
            chosen[0] |= bool(self._beginning)
        view = memoryview(documents.data)
        places = np.flatnonzero(chosen)
        part = replace(documents, spans=spans[chosen])
        done, ended = 0, 0  # documents of the block, and those of `part`
        for encoded in self._encoder.encode(part, 1):
            if encoded.rejected is not None:
                self.documents += int(places[ended]) - done
                done, ended = int(places[ended]) + 1, ended + 1
                continue
            start = 0
            for end in encoded.ends.tolist():
                place = int(places[ended])
                self.documents += place - done
                text = bytes(view[spans[place, 0] : spans[place, 1]][:_BEGINNING_BYTES])
                self._compare(encoded.ids[start:end], self._beginning or text)
                self._end(segment)
                done, ended, start = place + 1, ended + 1, end
            if start < len(encoded.ids):
                self._compare(encoded.ids[start:], self._beginning)
        self.documents += len(spans) - done - int(documents.goes_on)
        if documents.goes_on and not self._beginning:
            first = int(spans[-1, 0])
            self._beginning = bytes(view[first : first + _BEGINNING_BYTES])

    def _compare(self, ids: NDArray[Any], beginning: bytes) -> None:
        """Compare more ids of the next document."""
        self._beginning = beginning
        start, self._tokens = self._tokens, self._tokens + len(ids)
        span = self._written.span(self.documents)
        if span is None or self._tokens > span[2] - span[1]:
            self._is_same = False
        elif self._is_same:
            shard, first, _ = span
            reader = self._written.shards.reader(shard)
            found = reader.stretch(first + start, first + self._tokens)
            self._is_same = bool(np.array_equal(found, ids))

    def _end(self, segment: Segment) -> None:
        span = self._written.span(self.documents)
        self._is_same &= span is not None and self._tokens == span[2] - span[1]
        self.verdict.documents += 1
        self.documents += 1
        if not self._is_same:
            self.verdict.find(
                f"{segment.source.name}: document {self.documents:,} of its task is not what was "
                f"written; it begins {self._beginning!r}"
            )
        self._tokens, self._is_same, self._beginning = 0, True, b""
