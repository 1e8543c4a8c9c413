"""A task → its shards in the output, and its journal entry.

Every executor does this. It can be done again at any time and by any process: the same bytes come
out, and files have their final names only when they are complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tokenmill.corpus import Source
from tokenmill.corpus.documents import DocumentFailed, Documents, Key, Problem, Segment, read
from tokenmill.corpus.inputs import is_changed
from tokenmill.errors import TokenizeError
from tokenmill.native import _native
from tokenmill.shards.spec import Rows, Shard
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.encoder import Encoder
from tokenmill.tokenizing.journal import SHUFFLE
from tokenmill.tokenizing.options import MAX_UNSPLIT_BYTES_MIN, ids_after, ids_before, spec_of
from tokenmill.tokenizing.output import Output
from tokenmill.tokenizing.plan import Task, document_options
from tokenmill.tokenizing.quarantine import Quarantine, errors_name
from tokenmill.tokenizing.writer import ShardsWriter, ShuffleWriter

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that the tasks of a worker have in common."""

    output: Output
    staging: Path  # of this process alone
    options: dict[str, Any]
    tokenizer: Tokenizer
    block_bytes: int
    max_errors: int | None = None

    def commit(self, shards: list[Shard]) -> None:
        """Give the files of shards their names. Files of an earlier attempt are replaced."""
        for shard in shards:
            for file in shard.files:
                name = shard.stem + file.suffix
                self.output.commit(self.staging / name, name)


@dataclass(slots=True)
class Tally:
    """The counts of one segment."""

    documents: int = 0
    tokens: int = 0
    bytes: int = 0
    quarantined: int = 0
    error: str | None = None  # why the rest of the segment cannot be read

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "documents": self.documents,
            "tokens": self.tokens,
            "bytes": self.bytes,
            "quarantined": self.quarantined,
        }
        return found | ({"error": self.error} if self.error is not None else {})


@dataclass(slots=True)
class _Attempt:
    """One attempt to do a task."""

    job: Job
    task: Task
    threads: Callable[[], int]
    report: Callable[[int, int, int], None]
    writer: ShardsWriter | ShuffleWriter
    quarantine: Quarantine
    encoder: Encoder
    checksum: _native.Checksum = field(default_factory=_native.Checksum)
    skip: Mapping[Key, str] = field(default_factory=dict)
    reported: list[int] = field(default_factory=lambda: [0, 0, 0])


def run_task(
    job: Job,
    task: Task,
    *,
    threads: Callable[[], int] = lambda: 1,
    report: Callable[[int, int, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Read, encode and write a task, and commit its files. Return its entry, which is not written.

    `threads` returns the number of threads for a block: more when fewer tasks run at the same time.
    `report` gets bytes of files, tokens and documents since the last call. A document that fails
    after a part of it was written starts the task again without it.
    """
    return without_failed(lambda skip: _attempt(job, task, threads, report, skip))


def without_failed(attempt: Callable[[Mapping[Key, str]], _T]) -> _T:
    """Call `attempt` until no document fails late. It gets those that did, with the reasons."""
    skip: dict[Key, str] = {}
    while True:
        try:
            return attempt(skip)
        except DocumentFailed as failure:
            assert failure.key not in skip
            skip[failure.key] = failure.reason


def _attempt(
    job: Job,
    task: Task,
    threads: Callable[[], int],
    report: Callable[[int, int, int], None],
    skip: Mapping[Key, str],
) -> dict[str, Any]:
    work = _Attempt(
        job,
        task,
        threads,
        report,
        _make_writer(job, task.number),
        Quarantine(job.staging / f"{task.number:05d}.errors"),
        make_encoder(job.tokenizer, job.options, job.block_bytes),
        skip=skip,
    )
    try:
        tallies = [_run_segment(work, segment) for segment in task.segments]
        written = _finish(work)
        errors = errors_name(task.number)
        path = work.quarantine.finish()
        if path is None:
            job.output.remove([errors])
        else:
            job.output.commit(path, errors)
    except BaseException:
        report(*(-count for count in work.reported))
        work.writer.discard()
        work.quarantine.discard()
        raise
    return _entry(work, tallies) | written


def make_encoder(tokenizer: Tokenizer, options: Mapping[str, Any], chunk_bytes: int) -> Encoder:
    """The encoder of a run."""
    return Encoder(
        tokenizer,
        before=ids_before(options),
        after=ids_after(options),
        dtype=options["dtype"],
        allowed_special=options["allowed_special"],
        max_unsplit_bytes=options["max_unsplit_bytes"],
        chunk_bytes=chunk_bytes,
    )


def _make_writer(job: Job, number: int) -> ShardsWriter | ShuffleWriter:
    """The writer of a task: of shards, or of files for the shuffle pass."""
    options = job.options
    if options["shuffle"] is not None:
        keeps_names = options["id_field"] is not None
        return ShuffleWriter(job.staging, number, options["dtype"], keeps_names=keeps_names)
    return make_shards_writer(job, number, options["shard_tokens"])


def make_shards_writer(job: Job, number: int, tokens_max: int) -> ShardsWriter:
    """A writer of shards whose names begin with a number."""
    options = job.options
    spec = spec_of(options, job.tokenizer)
    pad_id = options["pad_id"]
    return ShardsWriter(job.staging, number, options["format"], spec, tokens_max, pad_id)


def _finish(work: _Attempt) -> dict[str, Any]:
    """Finish and commit the files of a task. Return their part of the entry."""
    job = work.job
    if isinstance(work.writer, ShuffleWriter):
        files = work.writer.finish()
        for file in files:
            job.output.commit(job.staging / file["name"], f"{SHUFFLE}/{file['name']}")
        return {"shards": [], "shuffle_files": files}
    shards = work.writer.finish()
    job.commit(shards)
    return {"shards": [shard.to_json() for shard in shards]}


def _run_segment(work: _Attempt, segment: Segment) -> Tally:
    tally = Tally()
    reading = document_options(work.job.options, work.job.block_bytes, work.checksum, work.skip)
    done = 0
    for documents in read(segment, reading):
        tokens = _encode(work, documents, segment, tally)
        for problem in documents.problems:
            _refuse(work, problem, tally)
            if problem.is_end or problem.line == 0:  # which is about the file, not about a record
                tally.error = problem.reason
        counts = documents.bytes_read - done, tokens, len(documents.spans)
        work.report(*counts)
        work.reported = [a + b for a, b in zip(work.reported, counts, strict=True)]
        done = documents.bytes_read
    _refuse_change(segment.source)
    is_whole = segment.start == 0 and segment.end is None
    if is_whole and not tally.documents and not tally.quarantined:
        _refuse(work, Problem(segment.source.name, 0, 0, 0, "has no documents in it"), tally)
    return tally


def _refuse_change(source: Source) -> None:
    if is_changed(source):
        raise TokenizeError(
            f"{source.name!r} was changed while it was read; start again with another output"
        )


def _encode(work: _Attempt, documents: Documents, segment: Segment, tally: Tally) -> int:
    """Writes the ids of a block; how many there are."""
    total = place = 0
    for encoded in work.encoder.encode(documents, work.threads()):
        if encoded.rejected is not None:
            place += 1
            problem = Problem(segment.source.name, -1, 0, encoded.bytes, encoded.rejected)
            _refuse(work, problem, tally)
            continue
        count = len(encoded.ends)
        rows = _rows(documents, segment, place, count) if count else None
        work.writer.append(encoded.ids, encoded.ends, rows)
        place += count
        tally.documents += count
        tally.bytes += encoded.bytes
        tally.tokens += len(encoded.ids)
        total += len(encoded.ids)
    return total


def _rows(documents: Documents, segment: Segment, first: int, count: int) -> Rows:
    names = documents.names
    return Rows(
        names=None if names is None else list(names[first : first + count]),
        sources=segment.source.name,
    )


def _refuse(work: _Attempt, problem: Problem, tally: Tally) -> None:
    on_error = work.job.options["on_error"]
    if on_error == "fail":
        line = f", line {problem.line:,}" if problem.line else ""
        raise TokenizeError(
            f"{problem.source}{line} {problem.reason}. To quarantine such records, pass --on-error "
            "quarantine and another output"
        )
    tally.quarantined += 1
    work.quarantine.add(problem, keeps_record=on_error == "quarantine")
    refuse_too_many(work.quarantine.count, work.job.max_errors)


def refuse_too_many(count: int, max_errors: int | None) -> None:
    """Raise if more records were rejected than `max_errors`."""
    if max_errors is not None and count > max_errors:
        raise TokenizeError(
            f"more than {max_errors:,} record{'s'[: max_errors != 1]} were rejected, which is the "
            "limit of --max-errors; finished tasks stay, and their rejected records are in "
            "quarantine/"
        )


def _entry(work: _Attempt, tallies: list[Tally]) -> dict[str, Any]:
    task = work.task
    return {
        "task": task.number,
        "id": task.id,
        "input": f"{work.checksum.value():016x}",
        "documents": sum(tally.documents for tally in tallies),
        "tokens": sum(tally.tokens for tally in tallies),
        "bytes": sum(tally.bytes for tally in tallies),
        "quarantined": sum(tally.quarantined for tally in tallies),
        "segments": [
            {"source": segment.source.name, "start": segment.start, "end": segment.end}
            | tally.as_json()
            for segment, tally in zip(task.segments, tallies, strict=True)
        ],
    }


def block_bytes_of(memory: int, threads: int) -> int:
    """The size of blocks for a memory limit."""
    for_tasks = max(memory - _BASE_BYTES, _BASE_BYTES // 4) // threads
    # The bytes of the file, the text, four bytes of ids for each at worst, and the narrow ids.
    return max(_BLOCK_BYTES_MIN, min(_BLOCK_BYTES_MAX, for_tasks // 16))


_BASE_BYTES = 192 << 20  # Python, numpy, the vocabulary and its cache
_BLOCK_BYTES_MIN = 1 << 16
_BLOCK_BYTES_MAX = MAX_UNSPLIT_BYTES_MIN
