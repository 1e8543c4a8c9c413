"""A unit → its shards on the disk, and a row for the manifest.

All that schedules, schedules this. It can be done again at any time, by anybody: the same bytes
come out, and they stand under their final names only when they are whole.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenmill.corpus.documents import Documents, Problem, Segment, read
from tokenmill.corpus.inputs import is_changed
from tokenmill.corpus.sources import Source
from tokenmill.errors import TokenizeError
from tokenmill.files import sync_folder
from tokenmill.mirror import Mirror
from tokenmill.native import _native
from tokenmill.shards.spec import Rows, Shard
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.ids import Encoder
from tokenmill.tokenizing.journal import upload
from tokenmill.tokenizing.options import WHOLE_BYTES_MIN, Options
from tokenmill.tokenizing.plan import Unit, document_options
from tokenmill.tokenizing.quarantine import Quarantine, errors_name, errors_path
from tokenmill.tokenizing.series import Series
from tokenmill.tokenizing.shuffle import PIECES, PieceWriter

TEMPORARY = ".tmp"


def make_temporary(folder: Path) -> Path:
    """A folder in the output's for files that nobody else writes: an attempt may meet another."""
    (folder / TEMPORARY).mkdir(exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=folder / TEMPORARY))


@dataclass(frozen=True, slots=True)
class Job:
    """What holds for all units of a run."""

    folder: Path
    temporary: Path  # of this process alone: others may be doing the same unit
    options: Options
    tokenizer: Tokenizer
    block_bytes: int
    max_errors: int | None = None
    mirror: Mirror | None = None  # of an output at an address

    def commit(self, name: str, target: str) -> None:
        """Gives a temporary file that is whole its name in the output."""
        path = self.temporary / name
        if self.mirror is None:
            path.replace(self.folder / target)
        else:
            self.mirror.put(path, target)
            path.unlink()


@dataclass(slots=True)
class Tally:
    """What came of one source, or of a unit."""

    documents: int = 0
    tokens: int = 0
    bytes: int = 0
    quarantined: int = 0
    error: str | None = None  # why no more of the source could be read

    def as_row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "documents": self.documents,
            "tokens": self.tokens,
            "bytes": self.bytes,
            "quarantined": self.quarantined,
        }
        return row | ({"error": self.error} if self.error is not None else {})


@dataclass(slots=True)
class _Work:
    """One unit while it is being done."""

    job: Job
    unit: Unit
    threads: Callable[[], int]
    report: Callable[[int, int, int], None]
    series: Series | PieceWriter
    quarantine: Quarantine
    encoder: Encoder
    checksum: _native.Checksum = field(default_factory=_native.Checksum)
    open_bytes: int = 0
    open_tokens: int = 0
    too_long: int = 0


def run_unit(
    job: Job,
    unit: Unit,
    *,
    threads: Callable[[], int] = lambda: 1,
    report: Callable[[int, int, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Does a unit: reads, encodes, writes, renames. Returns its row, which nobody recorded yet.

    `threads` says for each block how many may encode it: more when fewer units run beside it.
    `report` is told bytes of files, tokens and documents that are done since the last time.
    """
    options = job.options
    work = _Work(
        job,
        unit,
        threads,
        report,
        _target(job, unit.number),
        Quarantine(job.temporary / f"{unit.number:05d}.errors"),
        Encoder(
            job.tokenizer,
            before=options.before,
            after=options.after,
            dtype=options.dtype,
            specials=options.specials,
            open_bytes_max=options.whole_bytes,
        ),
    )
    try:
        tallies = [_run_segment(work, segment) for segment in unit.segments]
        written = _finish(work)
        has_errors = work.quarantine.finish()
        _commit_errors(job, unit.number, has_errors)
    except BaseException:
        work.series.discard()
        work.quarantine.discard()
        raise
    too_long = {"too_long": work.too_long} if work.too_long else {}
    row = _row(work, tallies) | written | too_long
    if job.mirror is not None:
        upload(job.mirror, row)
    return row


def _target(job: Job, unit: int) -> Series | PieceWriter:
    """Where ids go: into shards, or into a piece that is mixed with the others later."""
    options = job.options
    if options.shuffle is not None:
        keeps_names = options.id_field is not None
        return PieceWriter(job.temporary, unit, options.dtype, keeps_names=keeps_names)
    spec = options.spec(job.tokenizer)
    return Series(job.temporary, unit, options.layout, spec, options.shard_tokens, options.pad)


def _finish(work: _Work) -> dict[str, Any]:
    """Ends the output of a unit and gives it its names; what the row says about it."""
    job = work.job
    folder = job.folder
    if isinstance(work.series, PieceWriter):
        pieces = work.series.finish()
        _make_folder(folder / PIECES)
        for piece in pieces:
            (job.temporary / piece["name"]).replace(folder / PIECES / piece["name"])
        sync_folder(folder / PIECES)
        return {"shards": [], "pieces": pieces}
    shards = work.series.finish()
    commit_shards(job, shards)
    return {"shards": [shard.to_json() for shard in shards]}


def _run_segment(work: _Work, segment: Segment) -> Tally:
    tally = Tally()
    options = work.job.options
    reading = document_options(options, work.job.block_bytes, work.checksum)
    done = 0
    for documents in read(segment, reading):
        tokens = _encode(work, documents, segment, tally)
        for problem in documents.problems:
            _refuse(work, problem, tally)
            if problem.is_end or problem.line == 0:  # which is about the file, not about a record
                tally.error = problem.reason
        work.report(documents.bytes_read - done, tokens, len(documents.spans))
        done = documents.bytes_read
    _refuse_change(segment.source)
    is_whole = segment.start == 0 and segment.end is None
    if is_whole and not tally.documents and not tally.quarantined:
        _refuse(work, Problem(segment.source.name, 0, 0, 0, "has no documents in it"), tally)
    return tally


def _refuse_change(source: Source) -> None:
    """Raises if a file is no longer what was planned."""
    if is_changed(source):
        raise TokenizeError(
            f"{source.name!r} was changed while it was read; leave it alone, and begin again in "
            "another folder"
        )


def _encode(work: _Work, documents: Documents, segment: Segment, tally: Tally) -> int:
    """Writes the ids of a block; how many there are."""
    total = place = 0
    for encoded in work.encoder.encode(documents, work.threads()):
        count = len(encoded.ends) or int(encoded.is_closed)
        rows = _rows(documents, segment, place, count) if count else None
        work.series.add(encoded, rows)
        place += count
        if encoded.withdrawn:
            tally.bytes -= work.open_bytes
            tally.tokens -= work.open_tokens
            work.open_bytes = work.open_tokens = 0
        elif encoded.is_closed:
            work.open_bytes = work.open_tokens = 0
        elif encoded.is_open:
            work.open_bytes += encoded.bytes
            work.open_tokens += len(encoded.ids)
        if encoded.too_long:
            reason = (
                f"is a document with more than {encoded.too_long:,} bytes that can be cut nowhere; "
                "give --whole-bytes, and memory of 16 times as much"
            )
            place += 1
            work.too_long += 1
            problem = Problem(segment.source.name, -1, 0, encoded.too_long, reason, b"")
            _refuse(work, problem, tally)
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


def _refuse(work: _Work, problem: Problem, tally: Tally) -> None:
    on_error = work.job.options.on_error
    if on_error == "fail":
        line = f", line {problem.line:,}" if problem.line else ""
        raise TokenizeError(
            f"{problem.source}{line} {problem.reason}. With --on-error quarantine, into another "
            "folder, it would be put aside, and the rest would go on"
        )
    tally.quarantined += 1
    work.quarantine.add(problem, keeps_record=on_error == "quarantine")
    refuse_too_many(work.quarantine.count, work.job.max_errors)


def refuse_too_many(count: int, max_errors: int | None) -> None:
    """Raises if there are more bad records than the caller puts up with."""
    if max_errors is not None and count > max_errors:
        raise TokenizeError(
            f"more than {max_errors:,} record{'s'[: max_errors != 1]} gave no document, which is "
            "what --max-errors allows; the units that are done stay, and their bad records are in "
            "quarantine/"
        )


def commit_shards(job: Job, shards: list[Shard]) -> None:
    """Gives all files their names. What is there already is from a try that was not recorded."""
    for shard in shards:
        for file in shard.files:
            job.commit(shard.stem + file.suffix, shard.stem + file.suffix)
    sync_folder(job.folder)


def _commit_errors(job: Job, unit: int, has_errors: bool) -> None:
    target = errors_path(job.folder, unit)
    if not has_errors:
        target.unlink(missing_ok=True)
        return
    _make_folder(target.parent)
    job.commit(f"{unit:05d}.errors", errors_name(unit))
    sync_folder(target.parent)


def _make_folder(folder: Path) -> None:
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def _row(work: _Work, tallies: list[Tally]) -> dict[str, Any]:
    unit = work.unit
    return {
        "unit": unit.number,
        "id": unit.id,
        "input": f"{work.checksum.value():016x}",
        "documents": sum(tally.documents for tally in tallies),
        "tokens": sum(tally.tokens for tally in tallies),
        "bytes": sum(tally.bytes for tally in tallies),
        "quarantined": sum(tally.quarantined for tally in tallies),
        "segments": [
            {"source": segment.source.name, "start": segment.start, "end": segment.end}
            | tally.as_row()
            for segment, tally in zip(unit.segments, tallies, strict=True)
        ],
    }


def block_bytes_of(memory: int, workers: int) -> int:
    """How large blocks are within a bound of memory."""
    for_units = max(memory - _BASE_BYTES, _BASE_BYTES // 4) // workers
    # The file's bytes, the text, four bytes of ids for each at worst, and the ids narrowed.
    return max(_BLOCK_BYTES_MIN, min(_BLOCK_BYTES_MAX, for_units // 16))


_BASE_BYTES = 192 << 20  # Python, numpy, the vocabulary and what it remembers
_BLOCK_BYTES_MIN = 1 << 16
_BLOCK_BYTES_MAX = WHOLE_BYTES_MIN  # a longer stretch is never in one block
