"""A task → its shards in the output, and its journal entry.

Every executor does this. It can be done again at any time and by any process: the same bytes come
out, and files have their final names only when they are complete.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokenmill.corpus.documents import (
    RECORD_BYTES_MAX,
    DocumentFailed,
    Documents,
    Key,
    Problem,
    Segment,
    read,
)
from tokenmill.corpus.inputs import is_changed
from tokenmill.errors import TokenizeError
from tokenmill.native import _native
from tokenmill.shards.shard_format import Rows
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.encoder import Encoder
from tokenmill.tokenizing.journal import (
    COUNTS,
    NO_DOCUMENTS,
    OTHER,
    errors_name,
    files_of_entry,
)
from tokenmill.tokenizing.options import (
    MAX_UNSPLIT_BYTES_MIN,
    MEMORY_MIN,
    ids_after,
    ids_before,
    spec_of,
)
from tokenmill.tokenizing.output import Output
from tokenmill.tokenizing.plan import Task, document_options
from tokenmill.tokenizing.split import Splitter, sets_of
from tokenmill.tokenizing.writer import Quarantine, ShardsWriter, ShuffleWriter

_T = TypeVar("_T")
# Records with the same reason are counted together, so numbers such as offsets are left out.
_NUMBERS = re.compile(r"(?<![\w-])\d[\d,]*(?!\w)|0x[0-9A-F]{2}")
_REASON_CHARS_MAX = 300
_REASONS_MAX = 20  # of one segment
UNSPLIT = "unsplit"  # the cause of a document that the encoder rejects


@dataclass(frozen=True, slots=True)
class Job:
    """Everything that the tasks of a worker have in common."""

    output: Output
    staging: Path  # of this process alone
    options: dict[str, Any]
    tokenizer: Tokenizer
    block_bytes: int
    max_errors: float | None = None

    def commit(self, entry: dict[str, Any], folder: str = "") -> None:
        """Give the files of an entry their names. Files of an earlier attempt are replaced."""
        for name, _ in files_of_entry(entry):
            self.output.commit(self.staging / folder / Path(name).name, f"{folder}{name}")

    def make_shards_writer(self, number: int, tokens_max: int, folder: str = "") -> ShardsWriter:
        """A writer of shards whose names begin with a number, in the folder of a set."""
        options = self.options
        spec = spec_of(options, self.tokenizer)
        pad_id = options["pad_id"]
        staging = self.staging / folder
        staging.mkdir(exist_ok=True)
        return ShardsWriter(staging, number, options["format"], spec, tokens_max, pad_id)


# The counts of a segment, `error` if its rest cannot be read, and `reason`, that of the first
# rejected record, if it has no documents.
Tally = dict[str, Any]
Rejected = tuple[Problem, Tally]


class IdsWriter(Protocol):
    """The target of the ids of a task."""

    def append(self, ids: NDArray[Any], ends: NDArray[np.int64], rows: Rows | None) -> None:
        """Take ids. Those after the last end are of a document that continues."""


@dataclass(slots=True)
class Attempt:
    """One attempt to read and encode the documents of a task.

    `divide` returns the documents of each set, and `writers` get their ids. Without sets there is
    one writer. `reject` gets the rejected records. `threads` returns the number of threads for a
    block, and `report` gets bytes of files, tokens and documents since the last call. `skip` are
    documents that failed in an earlier attempt.
    """

    job: Job
    writers: Sequence[IdsWriter]
    reject: Callable[[Problem], None]
    skip: Mapping[Key, str]
    threads: Callable[[], int] = lambda: 1
    report: Callable[[int, int, int], None] = lambda *_: None
    divide: Callable[[Documents], list[Documents]] = lambda documents: [documents]
    encoders: list[Encoder] = field(init=False)
    checksum: _native.Checksum = field(default_factory=_native.Checksum)

    def __post_init__(self) -> None:
        job = self.job
        self.encoders = [
            make_encoder(job.tokenizer, job.options, job.block_bytes) for _ in self.writers
        ]

    @property
    def input(self) -> str:
        """The checksum of all bytes that were read."""
        return f"{self.checksum.value():016x}"

    def run_segment(self, segment: Segment) -> list[Tally]:
        """Read and encode one segment. Return the counts of each set.

        Records without a document count in the last set.
        """
        tallies: list[Tally] = [dict.fromkeys(COUNTS, 0) for _ in self.writers]
        reading = document_options(self.job.options, self.job.block_bytes, self.checksum, self.skip)
        done = tokens = 0
        # Documents of a block that the encoder rejected. The problems of the reader come after its
        # documents. All are rejected in the order of the file, whatever the size of a block.
        late: list[Rejected] = []
        for documents in read(segment, reading):
            if len(documents.spans):
                self._reject_before(None, late)
                parts = self.divide(documents), self.encoders, self.writers, tallies
                for some, encoder, writer, tally in zip(*parts, strict=True):
                    late += self._encode(some, encoder, writer, segment, tally)
                late.sort(key=_place)
            for problem in documents.problems:
                self._reject_before((problem, tallies[-1]), late)
                self._reject(problem, tallies[-1])
                if problem.is_end or problem.line == 0:  # a problem of the file, not of a record
                    tallies[-1]["error"] = problem.reason
            more_bytes, done = documents.bytes_read - done, documents.bytes_read
            before, tokens = tokens, sum(tally["tokens"] for tally in tallies)
            self.report(more_bytes, tokens - before, len(documents.spans))
        self._reject_before(None, late)
        is_whole = segment.start == 0 and segment.end is None
        if is_whole and not any(tally["documents"] or tally["quarantined"] for tally in tallies):
            problem = Problem(segment.source.name, 0, 0, 0, "has no documents")
            self._reject(problem, tallies[-1])
            tallies[-1]["error"] = NO_DOCUMENTS
        return tallies

    def _encode(
        self,
        documents: Documents,
        encoder: Encoder,
        writer: IdsWriter,
        segment: Segment,
        tally: Tally,
    ) -> list[Rejected]:
        """Encode and write documents. Return those that are rejected."""
        rejected = []
        index = 0
        for encoded in encoder.encode(documents, self.threads()):
            count = len(encoded.ends)
            if encoded.rejected is not None:
                offset, line = documents.locate(index)
                problem = Problem(
                    segment.source.name, offset, line, encoded.bytes, encoded.rejected
                )
                text = memoryview(documents.data)[slice(*documents.spans[index])]
                problem.record = bytes(text[:RECORD_BYTES_MAX])
                problem.cause = UNSPLIT
                rejected.append((problem, tally))
                index += 1
                continue
            names = documents.names
            if names is not None:
                names = list(names[index : index + count])
            rows = Rows(names=names, sources=segment.source.name) if count else None
            writer.append(encoded.ids, encoded.ends, rows)
            index += count
            tally["documents"] += count
            tally["bytes"] += encoded.bytes
            tally["tokens"] += len(encoded.ids)
        return rejected

    def _reject_before(self, end: Rejected | None, late: list[Rejected]) -> None:
        while late and (end is None or _place(late[0]) < _place(end)):
            self._reject(*late.pop(0))

    def _reject(self, problem: Problem, tally: Tally) -> None:
        tally["quarantined"] += 1
        errors = tally.setdefault("errors", {})
        reason = _NUMBERS.sub("N", problem.reason[:_REASON_CHARS_MAX])
        if reason not in errors and len(errors) >= _REASONS_MAX:
            reason = OTHER
        errors[reason] = errors.get(reason, 0) + 1
        self.reject(problem)


def _place(rejected: Rejected) -> tuple[float, int]:
    """The place of a record in its file. A problem of the whole file comes last."""
    return rejected[0].line or math.inf, rejected[0].offset


def without_failed(attempt: Callable[[Mapping[Key, str]], _T]) -> _T:
    """Call `attempt` until no document fails late. It gets those that did, with the reasons."""
    skip: dict[Key, str] = {}
    while True:
        try:
            return attempt(skip)
        except DocumentFailed as failure:
            assert failure.key not in skip
            skip[failure.key] = failure.reason


def checksum_input(options: dict[str, Any], task: Task) -> str:
    """The checksum of the bytes that a task reads, as in its entry."""

    def attempt(skip: Mapping[Key, str]) -> str:
        checksum = _native.Checksum()
        for segment in task.segments:
            for _ in read(segment, document_options(options, _BLOCK_BYTES_MAX, checksum, skip)):
                pass
        return f"{checksum.value():016x}"

    return without_failed(attempt)


def run_task(
    job: Job,
    task: Task,
    *,
    threads: Callable[[], int] = lambda: 1,
    report: Callable[[int, int, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Read, encode and write a task, and commit its files. Return its entry, which is not written.

    A document that fails after a part of it was written starts the task again without it.
    """
    policy = job.options["on_error"]
    sets = sets_of(job.options)
    folders = [f"{name}/" for name in sets] or [""]

    def reject(quarantine: Quarantine, problem: Problem) -> None:
        if policy == "fail":
            raise TokenizeError(
                f"{problem}. To quarantine such records, pass --on-error quarantine and another "
                "output"
            )
        quarantine.add(problem)
        refuse_too_many(quarantine.count, job.max_errors)

    def run(skip: Mapping[Key, str]) -> dict[str, Any]:
        writers = [_make_writer(job, task.number, folder) for folder in folders]
        quarantine = Quarantine(job.staging / f"{task.number:05d}.errors", policy == "quarantine")
        attempt = Attempt(job, writers, partial(reject, quarantine), skip, threads, report)
        if sets:
            attempt.divide = Splitter(job.options["split"]).divide
        segments: list[list[Tally]] = []  # of each set
        try:
            for segment in task.segments:
                place = {"source": segment.source.name, "start": segment.start, "end": segment.end}
                segments.append([place | tally for tally in attempt.run_segment(segment)])
                if is_changed(segment.source):
                    raise TokenizeError(
                        f"input {segment.source.name!r} was changed while it was read; start again "
                        "with another output"
                    )
            written = [writer.finish_entry() for writer in writers]
            for folder, part in zip(folders, written, strict=True):
                job.commit(part, folder)
            path = quarantine.finish()
            if path is None:
                job.output.remove([errors_name(task.number)])
            else:
                job.output.commit(path, errors_name(task.number))
        except BaseException:
            for writer in writers:
                writer.discard()
            quarantine.discard()
            raise
        entry = {"task": task.number, "id": task.id, "input": attempt.input}
        parts = [
            _add_up(list(tallies)) | part
            for tallies, part in zip(zip(*segments, strict=True), written, strict=True)
        ]
        if not sets:
            return entry | parts[0]
        both = {"shards": [], "sets": dict(zip(sets, parts, strict=True))}
        return entry | _add_up(list(map(_join, segments))) | both

    return without_failed(run)


def _add_up(segments: list[Tally]) -> dict[str, Any]:
    """The counts of a task."""
    totals = {name: sum(segment[name] for segment in segments) for name in COUNTS}
    return {"segments": segments} | totals


def _join(tallies: list[Tally]) -> Tally:
    """The counts of a segment, from those of its sets."""
    joined = {key: value for tally in tallies for key, value in tally.items()}
    joined |= {name: sum(tally[name] for tally in tallies) for name in COUNTS}
    errors: Counter[str] = Counter()
    for tally in tallies:
        errors.update(tally.get("errors", {}))
    return joined | ({"errors": dict(errors)} if errors else {})


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


def _make_writer(job: Job, number: int, folder: str) -> ShardsWriter | ShuffleWriter:
    """The writer of a task: of shards, or of files for the shuffle pass."""
    options = job.options
    if options["shuffle"] is None:
        return job.make_shards_writer(number, options["shard_tokens"], folder)
    has_names = options["id_field"] is not None
    staging = job.staging / folder
    staging.mkdir(exist_ok=True)
    return ShuffleWriter(staging, number, spec_of(options, job.tokenizer), has_names)


def refuse_too_many(count: int, max_errors: float | None, records: float = math.inf) -> None:
    """Raise if more records were rejected than `max_errors`, or than this share of the records."""
    if max_errors is None:
        return
    if isinstance(max_errors, float):
        most, limit = max_errors * records, f"{max_errors * 100:.4g}% of the records"
    else:
        most, limit = max_errors, f"{max_errors:,} record{'s'[: max_errors != 1]}"
    if count > most:
        raise TokenizeError(
            f"more than {limit} were rejected, which is the limit of --max-errors; finished tasks "
            "stay, and their rejected records are in quarantine/"
        )


def cache_bytes_of(memory: int) -> int:
    """The size of the cache for a memory limit. MEMORY_MIN includes the smallest one.

    200 MB of text have a million pretokens, which need 256 MB: 25 % less CPU time than with 64 MB.
    """
    return max(_CACHE_BYTES_MIN, memory // 8)


def block_bytes_of(memory: int, threads: int) -> int:
    """The size of blocks for a memory limit."""
    fixed = MEMORY_MIN + cache_bytes_of(memory) - _CACHE_BYTES_MIN
    for_tasks = max(memory - fixed, MEMORY_MIN // 4) // threads
    # The bytes of the file, the text, four bytes of ids for each at worst, and the narrow ids.
    return max(_BLOCK_BYTES_MIN, min(_BLOCK_BYTES_MAX, for_tasks // 16))


_CACHE_BYTES_MIN = 64 << 20
_BLOCK_BYTES_MIN = 1 << 16
_BLOCK_BYTES_MAX = MAX_UNSPLIT_BYTES_MIN
