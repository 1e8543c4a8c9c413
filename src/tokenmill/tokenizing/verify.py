"""A folder of shards → differences from its manifest and from its inputs, and their repair.

There are three checks, and each needs the one before to pass: the files and their checksums, the
counts of documents and tokens that the readers find, and the ids of documents. For the last, the
task runner reads and encodes the inputs again, with a writer that compares. `repair` removes files
that differ and resumes the run of the output's plan, which writes them again.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from tokenmill import object_store, ray_cluster
from tokenmill.arguments import cpu_count
from tokenmill.corpus import STDIN
from tokenmill.corpus.documents import Documents, Key, Problem, Segment
from tokenmill.errors import MissingExtraError, ShardError, TokenizeError
from tokenmill.options import describe, number, resolve, share, text
from tokenmill.progress import Progress, Report, silent
from tokenmill.shards import Shards
from tokenmill.shards import open as open_shards
from tokenmill.shards.files import checksum_file
from tokenmill.shards.folder import wrong_size
from tokenmill.shards.shard_format import Rows
from tokenmill.tokenizing import journal, plan
from tokenmill.tokenizing.executors import load_tokenizer
from tokenmill.tokenizing.options import RunOptions, check_memory
from tokenmill.tokenizing.output import Output, open_output
from tokenmill.tokenizing.run import Result, Run, resume
from tokenmill.tokenizing.shuffle import output_numbers
from tokenmill.tokenizing.split import Splitter
from tokenmill.tokenizing.task import UNSPLIT, Attempt, Job, without_failed

_FINDINGS_MAX = 100
_BLOCK_BYTES = 4 << 20
_TEXT_BYTES_SHOWN = 40


@dataclass(slots=True)
class Verdict:
    """The amount that `verify` checked, the number of differences, and the first of them."""

    files: int = 0
    bytes: int = 0
    documents: int = 0
    wrong: int = 0
    files_wrong: int = 0
    digest: str = ""  # of the manifest, and with it of all files
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.findings

    def add(self, other: Verdict, prefix: str = "") -> None:
        """Add the figures and findings of a part."""
        for name in ("files", "bytes", "documents", "wrong", "files_wrong"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        findings = other.findings[: max(0, _FINDINGS_MAX - len(self.findings))]
        self.findings += [prefix + finding for finding in findings]
        self.notes += [prefix + note for note in other.notes]

    def find(self, text: str) -> None:
        self.wrong += 1
        if len(self.findings) < _FINDINGS_MAX:
            self.findings.append(text)


class VerifyOptions(TypedDict, total=False):
    """The part of an output that is checked."""

    sample: Annotated[float | None, share(
        None, "share of the documents to encode again and compare; 100% is all", metavar="5%"
    )]  # fmt: skip
    expect: Annotated[str | None, text(None, "digest that the output must have", metavar="DIGEST")]
    threads: Annotated[int | None, number(None, "number of threads (default: all cores)")]


@describe(VerifyOptions)
def verify(
    folder: str | os.PathLike[str],
    *,
    progress: Report = silent,
    **options: Unpack[VerifyOptions],
) -> Verdict:
    """Compare the shards of a complete output with its manifest, and documents with their inputs.

    Args:
        folder: The folder or URL of the output.
        progress: Function that gets a `Progress` after each file, and after each task of a sample.

    Options:

    Raises:
        TokenizeError: The output is not complete, or its manifest is damaged.
    """
    values = resolve(VerifyOptions, options, TokenizeError)
    threads, sample = values["threads"] or cpu_count(), values["sample"]
    with open_output(folder).copy() as path:
        content = journal.require_manifest(open_output(path))
        verdict, sets = Verdict(digest=content["digest"]), content.get("sets", {})
        if values["expect"] not in (None, verdict.digest):
            verdict.find(f"the digest is {verdict.digest}; expected {values['expect']}")
        for name in ("", *sets):
            verdict.add(_verify(path / name, threads, sample, progress), f"{name}/" if name else "")
        return verdict


@describe(RunOptions)
def repair(
    output: str | os.PathLike[str], *, progress: Report | None = None, **options: Unpack[RunOptions]
) -> Result:
    """Make missing and changed files of a complete output again, from its inputs and its plan.

    Files that do not belong to the output stay.

    Args:
        output: The folder or URL of the output.
        progress: Function that gets a `Progress` several times per second.

    Options:

    Raises:
        TokenizeError: The plan or the tokenizer is damaged too, or an input has changed.
    """
    values = resolve(RunOptions, options, TokenizeError) | {"max_errors": None, "rank": None}
    ray_cluster.check_options(values)
    check_memory(values)
    target = open_output(output)
    started = time.monotonic()
    target.make()
    with target.hold(shared=False), target.staging() as staging:
        wrong = wrong_files(target, values["threads"] or cpu_count())
        needed = sorted(name for name in wrong if name in (plan.NAME, journal.TOKENIZER))
        if needed:
            raise TokenizeError(
                f"{target.name}/{needed[0]} is damaged, and repair needs it; delete it and run the "
                "same tokenize command again"
            )
        planned = plan.require(target)
        manifest = None if journal.MANIFEST in wrong else journal.load_manifest(target)
        if manifest is not None and manifest["shuffled"] and planned.options["shuffle"] is None:
            raise TokenizeError(
                f"{target.name!r} is an output of merge, which repair cannot make; delete it and "
                "run merge again"
            )
        target.remove(wrong)
        used = load_tokenizer(target, planned)
        return resume(Run(target, staging, planned, used, values, progress, started))


def _verify(folder: Path, threads: int, sample: float | None, progress: Report) -> Verdict:
    """Check an output without sets, a set, or the files of an output with sets."""
    verdict = Verdict()
    content = journal.require_manifest(open_output(folder))
    with journal.reading(str(folder)):
        _check_files(folder, content, verdict, threads, progress)
        _check_names(folder, content, verdict)
        if verdict.is_good and "sets" not in content:
            _check_contents(folder, content, verdict)
            if verdict.is_good and sample is not None:
                _check_documents(folder, content, verdict, sample, progress)
    return verdict


# ── files ────────────────────────────────────────────────────────────────────────────────────


def _check_files(
    folder: Path,
    content: dict[str, Any],
    verdict: Verdict,
    threads: int,
    progress: Report,
) -> None:
    files = _files_of(folder, content)
    total = sum(file["bytes"] for _, file in files)
    with ThreadPoolExecutor(threads) as pool:
        for (path, file), found in zip(files, pool.map(_checksum, files), strict=True):
            verdict.files += 1
            verdict.bytes += file["bytes"]
            if found is not None:
                verdict.files_wrong += 1
                verdict.find(f"{path.name} {found}")
            progress(Progress("checking files", verdict.bytes, total))


def _check_names(folder: Path, content: dict[str, Any], verdict: Verdict) -> None:
    """Find files that the manifest does not name, and manifests of sets that it does not mean."""
    entries = [*content["tasks"], *content["shuffled"]]
    named = {journal.MANIFEST, *(file["suffix"] for file in content["files"])}
    named |= {name for entry in entries for name, _ in journal.files_of_entry(entry)}
    sets = content.get("sets", {})
    for name in sorted(open_output(folder).sizes().keys() - named):
        if name.partition("/")[0] not in sets:
            verdict.find(f"{name} is not a file of the output; move or delete it")
    for name, totals in sets.items():
        if journal.require_manifest(open_output(folder / name))["digest"] != totals["digest"]:
            verdict.files_wrong += 1
            verdict.find(f"{name}/{journal.MANIFEST} is of another output")


def _files_of(folder: Path, content: dict[str, Any]) -> list[tuple[Path, dict[str, Any]]]:
    """The files that a manifest names, each with its size and checksum."""
    files = [
        (folder / (shard["stem"] + file["suffix"]), file)
        for entry in [*content["tasks"], *content["shuffled"]]
        for shard in entry["shards"]
        for file in shard["files"]
    ]
    return files + [(folder / file["suffix"], file) for file in content["files"]]


def wrong_files(output: Output, threads: int) -> list[str]:
    """The files of a complete output that are missing or have changed, as names in the output."""
    found = []
    with output.copy() as path, ThreadPoolExecutor(threads) as pool:
        folders = [path]
        for folder in folders:
            try:
                content = journal.require_manifest(open_output(folder))
            except TokenizeError:
                if folder == path and not (folder / journal.MANIFEST).exists():
                    raise
                found.append(folder / journal.MANIFEST)
                continue
            folders += [folder / name for name in content.get("sets", ())]
            files = _files_of(folder, content)
            for (name, _), reason in zip(files, pool.map(_checksum, files), strict=True):
                if reason is not None:
                    found.append(name)
        return [name.relative_to(path).as_posix() for name in found]


def _checksum(item: tuple[Path, dict[str, Any]]) -> str | None:
    path, expected = item
    try:
        if reason := wrong_size(path, expected["bytes"]):
            return reason
        if checksum_file(path) == expected["checksum"]:
            return None
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    return "has changed since it was written (the checksum differs)"


# ── contents ─────────────────────────────────────────────────────────────────────────────────


def _check_contents(folder: Path, content: dict[str, Any], verdict: Verdict) -> None:
    """Compare the documents and tokens that the readers find with the counts of the manifest."""
    try:
        with open_shards(folder) as shards:
            for finding in _wrong_counts(shards, content):
                verdict.find(finding)
    except MissingExtraError as error:
        verdict.notes.append(f"documents are not counted: {error}")
    except ShardError as error:
        verdict.find(str(error))


def _wrong_counts(shards: Shards, content: dict[str, Any]) -> Iterator[str]:
    found: dict[str, Counter[str]] = {source["path"]: Counter() for source in content["sources"]}
    for entry, lengths in _task_lengths(shards, content):
        first = 0
        for segment in entry["segments"]:
            here = lengths[first : first + segment["documents"]]
            first += segment["documents"]
            found[segment["source"]].update(documents=len(here), tokens=int(here.sum()))
        if not first == len(lengths) == entry["documents"]:
            yield (
                f"task {entry['task']}: the shards have {len(lengths):,} of its documents, and its "
                f"segments {first:,}; expected {entry['documents']:,} as in the manifest"
            )
    rows = [(f"{row['path']}: ", row, found[row["path"]]) for row in content["sources"]]
    rows.append(("", content["totals"], sum(found.values(), Counter())))
    for start, expected, counts in rows:
        for name in ("documents", "tokens"):
            if counts[name] != expected[name]:
                yield (
                    f"{start}the shards have {counts[name]:,} {name}; expected "
                    f"{expected[name]:,} as in the manifest"
                )


def _task_lengths(
    shards: Shards, content: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], NDArray[np.int64]]]:
    """Each task with the numbers of ids of its documents."""
    indexes = iter(range(len(shards.shards)))

    def lengths_of(entry: dict[str, Any]) -> NDArray[np.int64]:
        found = [_lengths(shards, next(indexes)) for _ in entry["shards"]]
        return np.concatenate([np.empty(0, np.int64), *found])

    if not content["shuffled"]:
        for entry in content["tasks"]:
            yield entry, lengths_of(entry)
        return
    lengths = np.concatenate([np.empty(0, np.int64), *map(lengths_of, content["shuffled"])])
    expected = sum(entry["documents"] for entry in content["tasks"])
    if len(lengths) != expected:
        raise ShardError(f"the shards have {len(lengths):,} documents, and the tasks {expected:,}")
    for entry, numbers in zip(content["tasks"], output_numbers(content), strict=True):
        yield entry, lengths[numbers]


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


# ── documents ────────────────────────────────────────────────────────────────────────────────


def _check_documents(
    folder: Path, content: dict[str, Any], verdict: Verdict, sample: float, progress: Report
) -> None:
    output = open_output(folder)
    planned = plan.require(output)
    for source in planned.sources:
        with suppress(OSError):
            size = Path(source.name).stat().st_size
            if source.size is not None and size > source.size:
                verdict.notes.append(
                    f"{source.name}: has grown by {size - source.size:,} bytes, which are not in "
                    "the shards"
                )
    job = Job(output, folder, planned.options, load_tokenizer(output, planned), _BLOCK_BYTES)
    done, total = 0, sum(task.bytes for task in planned.tasks)
    with open_shards(folder) as shards:
        for task, entry, numbers in zip(
            planned.tasks, content["tasks"], output_numbers(content), strict=True
        ):
            progress(Progress("comparing", done, total))
            done += task.bytes
            if "failed" in entry:
                continue
            if any(segment.source.name == STDIN for segment in task.segments):
                verdict.notes.append(
                    f"task {task.number} is not compared, because its input was standard input"
                )
                continue
            gone = {s.source.name for s in task.segments if _is_missing(s.source.name)}
            # An input that could not be read during the run may be missing now.
            needed = [c["source"] for c in entry["segments"] if c["documents"] or "error" not in c]
            missing = next((name for name in needed if name in gone), None)
            if missing is not None:
                verdict.find(
                    f"{missing}: file not found, so task {task.number} is not compared; run verify "
                    "in the working directory of tokenize"
                )
                continue
            segments = [s for s in task.segments if s.source.name not in gone]
            comparison = _compare_task(job, segments, shards, numbers, sample)
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
    job: Job, segments: list[Segment], shards: Shards, numbers: NDArray[np.int64], sample: float
) -> Comparison:
    """Read and encode segments of a task again, and compare a sample of their documents."""

    def attempt(skip: Mapping[Key, str]) -> Comparison:
        comparison = Comparison(shards, numbers, sample, job.options["max_unsplit_bytes"])
        run = Attempt(job, [comparison], comparison.reject, skip)
        if (name := job.options.get("set")) is None:
            run.divide = lambda documents: [comparison.select(documents)]
        else:
            splitter = Splitter(job.options["split"])
            run.divide = lambda documents: [comparison.select(splitter.choose(documents, name))]
        for segment in segments:
            run.run_segment(segment)
        comparison.input = run.input
        return comparison

    return without_failed(attempt)


@dataclass(slots=True)
class Comparison:
    """A writer that compares the ids of a task with those in the shards.

    `numbers` are the numbers of the task's documents in the output. A `sample` is compared.
    """

    shards: Shards
    numbers: NDArray[np.int64]
    sample: float
    max_unsplit_bytes: int
    documents: int = 0  # in the inputs
    input: str = ""  # their checksum
    verdict: Verdict = field(default_factory=Verdict)
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    # The number and the first bytes of each chosen document without an end, and the ids of the
    # first of them.
    _chosen: deque[tuple[int, bytes]] = field(default_factory=deque)
    _tokens: int = 0
    _is_same: bool = True

    def select(self, documents: Documents) -> Documents:
        """Choose a sample of the documents of the next block.

        Documents that continue, and those that are long enough to be rejected, are always chosen.
        """
        spans = documents.spans
        if not len(spans):
            return documents
        is_open = len(self._chosen)  # the first document continues from the last block
        chosen = self._random.random(len(spans)) < self.sample
        chosen |= spans[:, 1] - spans[:, 0] > self.max_unsplit_bytes
        chosen[-1] |= documents.goes_on
        chosen[0] |= bool(is_open)
        texts = memoryview(documents.data)
        for index in np.flatnonzero(chosen)[is_open:].tolist():
            text = texts[spans[index, 0] : spans[index, 1]][:_TEXT_BYTES_SHOWN]
            self._chosen.append((self.documents + index, bytes(text)))
        self.documents += len(spans) - int(documents.goes_on)
        return replace(documents, spans=spans[chosen])

    def reject(self, problem: Problem) -> None:
        """Leave out a document that is not in the shards."""
        if problem.cause == UNSPLIT:
            self._chosen.popleft()
            self._chosen = deque((number - 1, text) for number, text in self._chosen)
            self.documents -= 1

    def append(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows | None) -> None:
        """Compare ids of the chosen documents."""
        start = 0
        for end in ends.tolist():
            is_whole = self._compare(ids[start:end])
            start = end
            number, text = self._chosen.popleft()
            self.verdict.documents += 1
            if not is_whole:
                assert rows is not None
                self.verdict.find(
                    f"{rows.sources}: document {number + 1:,} of its task differs from the shards; "
                    f"it begins with {text!r}"
                )
            self._tokens, self._is_same = 0, True
        if start < len(ids):
            self._compare(ids[start:])

    def _compare(self, ids: NDArray[Any]) -> bool:
        """Compare more ids of the next document. Return whether it is equal and complete now."""
        number = self._chosen[0][0]
        if number >= len(self.numbers):
            return False
        shard, start, end = self.shards.original_span(int(self.numbers[number]))
        start += self._tokens
        found = self.shards.reader(shard).stretch(start, min(start + len(ids), end))
        self._is_same = self._is_same and np.array_equal(found, ids)
        self._tokens += len(ids)
        return self._is_same and start + len(ids) == end
