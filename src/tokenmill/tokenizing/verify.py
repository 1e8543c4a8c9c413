"""A folder of shards → differences from its manifest and from its inputs.

There are three checks, and each needs the one before to pass: the checksums of the files, the
counts of documents and tokens that the readers find, and the ids of documents. For the last, the
task runner reads and encodes the inputs again, with a writer that compares.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from tokenmill import object_store
from tokenmill.corpus import STDIN
from tokenmill.corpus.documents import Documents, Key, Problem, Segment
from tokenmill.cpus import cpu_count
from tokenmill.errors import MissingExtraError, ShardError, TokenizeError
from tokenmill.options import describe, number, resolve, share
from tokenmill.shards import Shards
from tokenmill.shards import open as open_shards
from tokenmill.shards.files import checksum_file
from tokenmill.shards.shard_format import Rows
from tokenmill.tokenizing import journal, plan
from tokenmill.tokenizing.executors import load_tokenizer
from tokenmill.tokenizing.output import open_output
from tokenmill.tokenizing.shuffle import by_task, output_numbers, shard_order
from tokenmill.tokenizing.task import UNSPLIT, Attempt, Job, without_failed

_FINDINGS_MAX = 100
_BLOCK_BYTES = 4 << 20
_TEXT_BYTES_SHOWN = 40
_COUNTS = ("documents", "tokens")
_Located = tuple[int, NDArray[np.int64], NDArray[np.int64]]


@dataclass(slots=True)
class Verdict:
    """The amount that `verify` checked, the number of differences, and the first of them."""

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


class VerifyOptions(TypedDict, total=False):
    """The part of an output that is checked."""

    sample: Annotated[float | None, share(
        None, "share of the documents to encode again and compare; 100% is all", metavar="5%"
    )]  # fmt: skip
    threads: Annotated[int | None, number(None, "number of threads (default: all cores)")]


@describe(VerifyOptions)
def verify(
    folder: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], None] = lambda *_: None,
    **options: Unpack[VerifyOptions],
) -> Verdict:
    """Compare the shards of a complete output with its manifest, and documents with their inputs.

    Args:
        folder: The folder or URL of the output.
        progress: Function that gets the bytes of the files checked so far, and of all files.

    Options:

    Raises:
        TokenizeError: The output is not complete, or its manifest is damaged.
    """
    values = resolve(VerifyOptions, options, TokenizeError)
    with open_output(folder).copy() as path:
        return _verify(path, values["sample"], values["threads"] or cpu_count(), progress)


def _verify(
    path: Path, sample: float | None, threads: int, progress: Callable[[int, int], None]
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
        if sample is not None and verdict.is_good:
            _check_documents(path, content, verdict, sample)
    return verdict


# ── files ────────────────────────────────────────────────────────────────────────────────────


def _check_files(
    folder: Path,
    content: dict[str, Any],
    verdict: Verdict,
    threads: int,
    progress: Callable[[int, int], None],
) -> None:
    files = [
        (folder / (shard["stem"] + file["suffix"]), file)
        for entry in [*content["tasks"], *content["shuffled"]]
        for shard in entry["shards"]
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
            return f"has {size:,} bytes; expected {expected['bytes']:,}"
        found = checksum_file(path)
    except OSError as error:
        return error.strerror or str(error)
    if found != expected["checksum"]:
        return "has changed since it was written (the checksum differs)"
    return None


# ── contents ─────────────────────────────────────────────────────────────────────────────────


def _check_contents(folder: Path, content: dict[str, Any], verdict: Verdict) -> None:
    """Compare the documents and tokens that the readers find with the counts of the manifest."""
    try:
        with open_shards(folder) as shards:
            sums = _count(shards, content)
    except MissingExtraError as error:
        verdict.notes.append(f"documents are not counted: {error}")
    except ShardError as error:
        verdict.find(str(error))
    else:
        for finding in _differences(content, sums):
            verdict.find(finding)


def _count(shards: Shards, content: dict[str, Any]) -> dict[int, NDArray[np.int64]]:
    """Documents and tokens of each segment by task. The last row is of documents without one."""
    tasks = content["tasks"]
    sums = {
        entry["task"]: np.zeros((len(entry["segments"]) + 1, len(_COUNTS)), np.int64)
        for entry in tasks
    }
    bounds = {
        entry["task"]: np.cumsum([segment["documents"] for segment in entry["segments"]])
        for entry in tasks
    }
    for task, numbers, lengths in _locate(shards, content):
        segments = np.searchsorted(bounds[task], numbers, side="right")
        for index, weights in enumerate((None, lengths)):
            found = np.bincount(segments, weights, minlength=len(sums[task]))
            sums[task][:, index] += found.astype(np.int64)
    return sums


def _locate(shards: Shards, content: dict[str, Any]) -> Iterator[_Located]:
    """The documents of each shard: their task, their numbers there, and their numbers of ids."""
    seed = content["options"]["shuffle"]
    index = 0
    for entry in content["tasks"] if seed is None else ():
        first = 0
        for _ in entry["shards"]:
            lengths = _lengths(shards, index)
            yield entry["task"], np.arange(first, first + len(lengths)), lengths
            first += len(lengths)
            index += 1
    counts = {entry["task"]: entry["documents"] for entry in content["tasks"]}
    for entry in content["shuffled"]:
        found = shard_order(seed, counts, entry["shuffled"], entry["of"])
        all_lengths = [_lengths(shards, index + more) for more in range(len(entry["shards"]))]
        index += len(entry["shards"])
        lengths = np.concatenate([np.empty(0, np.int64), *all_lengths])
        if len(lengths) != len(found.tasks):
            raise ShardError(
                f"shard {entry['shuffled']} has {len(lengths):,} documents; expected "
                f"{len(found.tasks):,} for its seed"
            )
        for task, here in by_task(found.tasks):
            yield task, found.numbers[here], lengths[here]


def _lengths(shards: Shards, index: int) -> NDArray[np.int64]:
    """The number of ids of each document of a shard."""
    shard = shards.shards[index]
    shards.reader(index)  # compares its documents, or sequences, with the manifest
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
            f"{shard.stem} has {len(ends):,} documents and {tokens:,} tokens; expected "
            f"{shard.documents:,} and {shard.tokens:,} as in the manifest"
        )
    if first or (lengths < 0).any():
        raise ShardError(f"{shard.stem}: its documents overlap or have gaps")
    return lengths


def _differences(content: dict[str, Any], sums: dict[int, NDArray[np.int64]]) -> Iterator[str]:
    found = {source["path"]: np.zeros(len(_COUNTS), np.int64) for source in content["sources"]}
    for entry in content["tasks"]:
        counts = sums[entry["task"]]
        if counts[:, 0].sum() != entry["documents"] or counts[-1].any():
            yield (
                f"task {entry['task']}: the shards have {counts[:, 0].sum():,} of its documents; "
                f"expected {entry['documents']:,} as in the manifest"
            )
        for segment, row in zip(entry["segments"], counts, strict=False):
            found[segment["source"]] += row
    expected = [(f"{source['path']}: ", source) for source in content["sources"]]
    expected.append(("", content["totals"]))
    rows = [*found.values(), sum(found.values(), np.zeros(len(_COUNTS), np.int64))]
    for (start, counts), row in zip(expected, rows, strict=True):
        for name, count in zip(_COUNTS, row.tolist(), strict=True):
            if count != counts[name]:
                yield (
                    f"{start}the shards have {count:,} {name}; expected {counts[name]:,} as in the "
                    "manifest"
                )


# ── documents ────────────────────────────────────────────────────────────────────────────────


def _check_documents(folder: Path, content: dict[str, Any], verdict: Verdict, share: float) -> None:
    output = open_output(folder)
    planned = plan.require(output)
    tokenizer = load_tokenizer(output, planned)
    job = Job(output, folder, planned.options, tokenizer, _BLOCK_BYTES)
    with open_shards(folder) as shards:
        for task, entry, numbers in zip(
            planned.tasks, content["tasks"], output_numbers(content), strict=True
        ):
            if "failed" in entry:
                continue
            if any(segment.source.name == STDIN for segment in task.segments):
                verdict.notes.append(
                    f"task {task.number} is not compared, because its input was standard input"
                )
                continue
            # An input that could not be read during the run may be missing now.
            segments = [
                segment
                for segment, counts in zip(task.segments, entry["segments"], strict=True)
                if counts["documents"]
                or "error" not in counts
                or not _is_missing(segment.source.name)
            ]
            missing = next((s.source.name for s in segments if _is_missing(s.source.name)), None)
            if missing is not None:
                verdict.find(
                    f"{missing}: file not found, so task {task.number} is not compared; run verify "
                    "in the working directory of tokenize"
                )
                continue
            comparison = _compare_task(job, segments, shards, numbers, share)
            verdict.add(comparison.verdict)
            if comparison.documents != entry["documents"]:
                verdict.find(
                    f"task {task.number}: its inputs have {comparison.documents:,} documents now, "
                    f"and {entry['documents']:,} were written"
                )
            if comparison.input != entry["input"]:
                names = ", ".join(segment.source.name for segment in task.segments[:3])
                verdict.find(f"{names}: changed since it was read")


def _is_missing(name: str) -> bool:
    return not object_store.is_address(name) and not Path(name).exists()


def _compare_task(
    job: Job,
    segments: list[Segment],
    shards: Shards,
    numbers: NDArray[np.int64],
    share: float,
) -> Comparison:
    """Read and encode segments of a task again, and compare a share of their documents."""

    def attempt(skip: Mapping[Key, str]) -> Comparison:
        comparison = Comparison(shards, numbers, share, job.options["max_unsplit_bytes"])
        run = Attempt(job, comparison, comparison.reject, skip, select=comparison.select)
        for segment in segments:
            run.run_segment(segment)
        comparison.input = run.input
        return comparison

    return without_failed(attempt)


@dataclass(slots=True)
class Comparison:
    """A writer that compares the ids of a task with those in the shards.

    `numbers` are the numbers of the task's documents in the output. `share` of them are compared.
    """

    shards: Shards
    numbers: NDArray[np.int64]
    share: float
    max_unsplit_bytes: int
    documents: int = 0  # in the inputs
    input: str = ""  # their checksum
    verdict: Verdict = field(default_factory=Verdict)
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    # The block: the number of its first document, and the index and first bytes of each chosen
    # document that has no end yet.
    _first: int = 0
    _chosen: deque[tuple[int, bytes]] = field(default_factory=deque)
    # The document that is being compared: whether it began in an earlier block, and its ids.
    _is_open: bool = False
    _tokens: int = 0
    _is_same: bool = True

    def select(self, documents: Documents) -> Documents:
        """Choose a share of the documents of the next block.

        Documents that continue, and those that are long enough to be rejected, are always chosen.
        """
        spans = documents.spans
        chosen = self._random.random(len(spans)) < self.share
        chosen |= spans[:, 1] - spans[:, 0] > self.max_unsplit_bytes
        if len(spans):
            chosen[-1] |= documents.goes_on
            chosen[0] |= self._is_open
            texts = memoryview(documents.data)
            starts = [
                (index, bytes(texts[spans[index, 0] : spans[index, 1]][:_TEXT_BYTES_SHOWN]))
                for index in np.flatnonzero(chosen).tolist()
            ]
            if self._is_open:
                starts[0] = (0, self._chosen[0][1])
            self._chosen = deque(starts)
            self._first = self.documents
            self.documents += len(spans) - int(documents.goes_on)
            self._is_open = documents.goes_on
        return replace(documents, spans=spans[chosen])

    def reject(self, problem: Problem) -> None:
        """Leave out a document that is not in the shards."""
        if problem.cause == UNSPLIT:
            self._chosen.popleft()
            self._first -= 1
            self.documents -= 1

    def append(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows | None) -> None:
        """Compare ids of the chosen documents."""
        start = 0
        for end in ends.tolist():
            assert rows is not None
            self._compare(ids[start:end])
            self._end(str(rows.sources))
            start = end
        if start < len(ids):
            self._compare(ids[start:])

    def _span(self) -> tuple[int, int, int] | None:
        """The shard of the next document, and its first and last id there. None if it has none."""
        index = self._first + self._chosen[0][0]
        if index >= len(self.numbers):
            return None
        return self.shards.original_span(int(self.numbers[index]))

    def _compare(self, ids: NDArray[Any]) -> None:
        """Compare more ids of the next document."""
        start, self._tokens = self._tokens, self._tokens + len(ids)
        span = self._span()
        if span is None or self._tokens > span[2] - span[1]:
            self._is_same = False
        elif self._is_same:
            shard, first, _ = span
            found = self.shards.reader(shard).stretch(first + start, first + self._tokens)
            self._is_same = bool(np.array_equal(found, ids))

    def _end(self, source: str) -> None:
        span = self._span()
        index, text = self._chosen.popleft()
        self.verdict.documents += 1
        if not self._is_same or span is None or self._tokens != span[2] - span[1]:
            self.verdict.find(
                f"{source}: document {self._first + index + 1:,} of its task differs from the "
                f"shards; it begins with {text!r}"
            )
        self._tokens, self._is_same = 0, True
