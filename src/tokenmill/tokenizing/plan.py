"""Inputs and options → a plan: tasks that stay the same, and with them the output.

The plan is written once and decides the order of the output. The number of threads and machines
does not. Large files are split between documents, small files share a task.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tokenmill import object_store
from tokenmill.corpus import STDIN, DocumentOptions, Segment, Source, cuts
from tokenmill.corpus.documents import Key
from tokenmill.corpus.inputs import Skipped
from tokenmill.corpus.options import TABLES
from tokenmill.errors import TokenizeError
from tokenmill.shards.files import add_digest, read_digest
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizing.options import check_planned
from tokenmill.tokenizing.output import Output

NAME = "plan.json"
_FORMAT = "tokenmill.plan"
_VERSION = 1
TASKS_MAX = 65_536
# Small files that share a task. Each has a line in the journal entry.
_SEGMENTS_MAX = 1024
# Bytes of text per compressed byte, about.
_EXPANSION = 4
_BYTES_PER_THREAD = 8192
_DIFFERENCES_SHOWN = 5
_IDENTITY = ("name", "kind", "compression", "size", "modified", "etag")
# The kinds of a plan's fields, for `is_a`.
_CONTENT = {
    "tokenizer": {"name": str, "sha256": str, "vocab_size": int, "embedded": bool},
    "tasks": [{"task": int, "id": str, "bytes": int, "segments": list}],
}
_SKIPPED = [{"path": str, "reason": str, "may_be_data": bool}]
_COUNT_MAX = 1 << 63
# Exceptions of reading a damaged file.
DAMAGE = (
    KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Task:
    """Segments of sources, one after the other, which become shards of their own."""

    number: int
    id: str
    segments: tuple[Segment, ...]
    bytes: int  # of the files, for the order of work and for progress


@dataclass(frozen=True, slots=True)
class Plan:
    """All tasks of a run, in the order of their output."""

    options: dict[str, Any]
    tokenizer: dict[str, Any]
    sources: list[Source]
    tasks: list[Task]
    skipped: list[dict[str, Any]] = field(default_factory=list)  # files that are not inputs

    def useful_threads(self, most: int) -> int:
        """The number of threads, up to `most`, that make the run faster.

        Python does the work around each file on one core. It takes as long as the core takes for
        8 KB, so smaller files are not faster with more threads. Those of a store wait for it.
        """
        parts = sum(len(task.segments) for task in self.tasks)
        if not parts or any(object_store.is_address(source.name) for source in self.sources):
            return most
        each = sum(_expansion(source) * (source.size or 0) for source in self.sources) // parts
        return max(1, min(most, each // _BYTES_PER_THREAD))

    def dump(self) -> bytes:
        """The plan as JSON."""
        places = {source.name: place for place, source in enumerate(self.sources)}
        tasks = [
            {
                "task": task.number,
                "id": task.id,
                "bytes": task.bytes,
                "segments": [[places[s.source.name], s.start, s.end] for s in task.segments],
            }
            for task in self.tasks
        ]
        return dump_lines(
            {
                "format": _FORMAT,
                "version": _VERSION,
                "options": self.options,
                "tokenizer": self.tokenizer,
                "sources": list(map(_source_row, self.sources)),
                "tasks": tasks,
                **({"skipped": self.skipped} if self.skipped else {}),
            }
        )


def dump_lines(content: Mapping[str, Any]) -> bytes:
    """JSON with one line per item of its lists, and a digest of these lines."""
    parts = []
    encode = json.JSONEncoder(sort_keys=True).encode
    for key, value in content.items():
        is_list = isinstance(value, list) and value
        text = "[\n  " + ",\n  ".join(map(encode, value)) + "\n ]" if is_list else encode(value)
        parts.append(f" {json.dumps(key)}: {text}")
    return add_digest(("{\n" + ",\n".join(parts) + "\n}\n").encode())


def describe(tokenizer: Tokenizer) -> dict[str, Any]:
    """The tokenizer as plans and manifests name it."""
    return {
        "name": tokenizer.name,
        "sha256": tokenizer._fingerprint,
        "vocab_size": tokenizer.vocab_size,
        "embedded": tokenizer._shared.is_embedded and Tokenizer.load(tokenizer.name) == tokenizer,
    }


def document_options(
    options: Mapping[str, Any],
    block_bytes: int,
    checksum: Any = None,
    skip: Mapping[Key, str] | None = None,
) -> DocumentOptions:
    """How the documents of a task are read."""
    separator = options["separator"]
    return DocumentOptions(
        field=options["field"],
        id_field=options["id_field"],
        separator=None if separator is None else separator.encode("utf-8", "surrogateescape"),
        utf8=options["utf8"],
        block_bytes=block_bytes,
        max_document_bytes=options["max_document_bytes"],
        checksum=checksum,
        skip=skip or {},
    )


def make_plan(
    sources: Sequence[Source],
    options: dict[str, Any],
    tokenizer: Tokenizer,
    skipped: Sequence[Skipped] = (),
) -> Plan:
    """Divide the sources into tasks of about `task_bytes`, at most 65,536 of them."""
    described = describe(tokenizer)
    total = sum((source.size or 0) * _expansion(source) for source in sources)
    # Two neighbours have more bytes than a task together.
    task_bytes = max(options["task_bytes"], -(-2 * total // TASKS_MAX))
    groups = _group(sources, document_options(options, 1 << 20), task_bytes)
    tasks = [
        Task(number, _task_id(segments, options, described), tuple(segments), size)
        for number, (segments, size) in enumerate(groups)
    ]
    rows = [file._asdict() for file in skipped]
    return Plan(options, described, list(sources), tasks, rows)


def _group(
    sources: Sequence[Source], reading: DocumentOptions, task_bytes: int
) -> Iterator[tuple[list[Segment], int]]:
    """Segments for one task each, and their bytes: one of a large file, or many small files."""
    group: list[Segment] = []
    size = weight = 0
    for source in sources:
        segments = cuts(source, reading, task_bytes)
        for segment in segments:
            file_bytes = _file_bytes(segment, len(segments))
            more = file_bytes * _expansion(source)
            if group and (weight + more > task_bytes or len(group) >= _SEGMENTS_MAX):
                yield group, size
                group, size, weight = [], 0, 0
            group.append(segment)
            size += file_bytes
            weight += more
    if group:
        yield group, size


def _expansion(source: Source) -> int:
    return _EXPANSION if source.compression else 1


def _file_bytes(segment: Segment, count: int) -> int:
    """The bytes of a segment. Segments of tables are not counted in bytes and get a share."""
    size = segment.source.size or 0
    if segment.source.kind in TABLES:
        return size // count
    end = size if segment.end is None else segment.end
    return max(0, end - segment.start)


def _task_id(segments: list[Segment], options: dict[str, Any], tokenizer: dict[str, Any]) -> str:
    """A hash of everything that the output of a task depends on."""
    stretches = [
        [*_source_row(segment.source).values(), segment.start, segment.end] for segment in segments
    ]
    what = json.dumps([stretches, options, tokenizer["sha256"]], sort_keys=True)
    return hashlib.blake2b(what.encode(), digest_size=16).hexdigest()


def _source_row(source: Source) -> dict[str, Any]:
    return {key: getattr(source, key) for key in _IDENTITY}


def load(output: Output, stdin: str | None = None) -> Plan | None:
    """The plan of an output; None if there is none. `stdin` is the copy of standard input."""
    data = output.read(NAME)
    if data is None:
        return None
    try:
        content = json.loads(data)
        if (content["format"], content["version"]) == (_FORMAT, _VERSION):
            if read_digest(data) is None:
                raise ValueError("its digest differs")
            return _read(content, stdin)
    except DAMAGE as error:
        raise TokenizeError(
            f"{output.name}/{NAME} is damaged ({error}); delete it and run the same tokenize "
            "command again"
        ) from None
    raise TokenizeError(
        f"{output.name}/{NAME} is of another version of tokenmill; use another output"
    )


def _read(content: dict[str, Any], stdin: str | None) -> Plan:
    sources = [Source(**row) for row in content["sources"]]
    if stdin is not None:
        sources = [replace(s, place=stdin) if s.name == STDIN else s for s in sources]
    for name, kind in _CONTENT.items():
        if not is_a(kind, content[name]):
            raise ValueError(f"its {name} has a wrong value")
    tasks = []
    for number, row in enumerate(content["tasks"]):
        places = [place for place, start, _ in row["segments"] if place >= 0 and start >= 0]
        if row["task"] != number or len(places) != len(row["segments"]):
            raise ValueError(f"task {number} is not valid")
        segments = tuple(Segment(sources[place], *span) for place, *span in row["segments"])
        tasks.append(Task(number, row["id"], segments, row["bytes"]))
    skipped = content.get("skipped", [])
    if not is_a(_SKIPPED, skipped):
        raise ValueError("its skipped has a wrong value")
    return Plan(check_planned(content["options"]), content["tokenizer"], sources, tasks, skipped)


def is_a(kind: Any, value: Any) -> bool:
    """Whether a value of JSON has a kind.

    A kind is a type, a pattern of a string, a table of fields, or a list with the kind of its
    items. An int is a count, so it is not negative.
    """
    if isinstance(kind, dict):
        return isinstance(value, dict) and all(is_a(kind[name], value.get(name)) for name in kind)
    if isinstance(kind, list):
        return isinstance(value, list) and all(is_a(kind[0], item) for item in value)
    if isinstance(kind, re.Pattern):
        return isinstance(value, str) and kind.fullmatch(value) is not None
    return type(value) is kind and (kind is not int or 0 <= value < _COUNT_MAX)


def require(output: Output, stdin: str | None = None) -> Plan:
    """The plan of an output that has a manifest or a task."""
    found = load(output, stdin)
    if found is None:
        raise TokenizeError(f"{output.name}/{NAME} not found; tokenize into another output")
    return found


def refuse_difference(was: Plan, now: Plan, name: str) -> None:
    """Raise if the run of an output has other inputs, options or another tokenizer."""
    found = []
    if was.tokenizer["sha256"] != now.tokenizer["sha256"]:
        found.append(
            f"the tokenizer was {was.tokenizer['name']} ({was.tokenizer['sha256'][:12]}…) and is "
            f"{now.tokenizer['name']} ({now.tokenizer['sha256'][:12]}…)"
        )
    before, after = was.options, now.options
    found += [
        f"{name} was {before.get(name)!r} and is {after.get(name)!r}"
        for name in before | after
        if before.get(name) != after.get(name)
    ]
    found += _changed_sources(was.sources, now.sources)
    if not found and list(map(_parts_of, was.tasks)) != list(map(_parts_of, now.tasks)):
        found.append("the inputs are split into other tasks")
    if found:
        more = len(found) - _DIFFERENCES_SHOWN
        shown = "; ".join(found[:_DIFFERENCES_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        raise TokenizeError(
            f"cannot resume {name!r}, because the run has changed: {shown}. Change it back, or "
            "pass another output"
        )


def _parts_of(task: Task) -> list[tuple[str, int, int | None]]:
    return [(segment.source.name, segment.start, segment.end) for segment in task.segments]


def _is_touched(old: Source, new: Source) -> bool:
    """Whether nothing but the time of a file has changed. Then its content must be compared."""
    is_local = new.name != STDIN and not object_store.is_address(new.name)
    is_same = _source_row(replace(old, modified=new.modified)) == _source_row(new)
    return is_local and is_same and old.modified != new.modified


def touched(was: Plan, now: Plan) -> set[str]:
    """The names of the inputs of which nothing but the time has changed."""
    before = {source.name: source for source in was.sources}
    return {new.name for new in now.sources if _is_touched(before.get(new.name, new), new)}


def _changed_sources(was: Sequence[Source], now: Sequence[Source]) -> list[str]:
    before = {source.name: source for source in was}
    after = {source.name: source for source in now}
    found = [f"the input {name!r} is missing" for name in before if name not in after]
    found += [f"the input {name!r} is new" for name in after if name not in before]
    for name in filter(before.get, after):  # in the order of the inputs
        old, new = before[name], after[name]
        if _is_touched(old, new):
            continue
        if old.size != new.size:
            found.append(f"{name!r} had {old.size} bytes and has {new.size}")
        elif (old.modified, old.etag) != (new.modified, new.etag):
            found.append(f"{name!r} was written again in the meantime")
        elif _source_row(old) != _source_row(new):
            found.append(f"{name!r} was read as {old.kind} and is {new.kind}")
    if not found and list(before) != list(after):
        found.append("the inputs are in another order")
    return found
