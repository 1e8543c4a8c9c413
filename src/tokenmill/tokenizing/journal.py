"""Journal entries of finished tasks → the manifest of a complete output.

A task writes its entry, `journal/00012.json`, after its files. A run that starts again reads all
entries and does the other tasks. When every task has an entry, `finalize` writes the manifest,
which contains the entries in the order of the plan, and removes the journal.
**Invariants**: names in entries and manifests lead to files of the output alone. An entry, a plan
and a manifest end in a digest of themselves. The manifest has a checksum of every other file, and
the digest of the manifest of each set, so its own digest stands for the whole output.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tokenmill.errors import TokenizeError, TokenmillError
from tokenmill.formats.hf_folder import files_of
from tokenmill.shards import folder
from tokenmill.shards.files import HashedFile, describe_bytes, read_digest
from tokenmill.shards.shard_format import Shard, Spec, get_format
from tokenmill.tokenizing.output import LocalOutput, Output, open_output
from tokenmill.tokenizing.plan import DAMAGE, Plan, Task, dump_lines, is_a
from tokenmill.tokenizing.plan import NAME as PLAN
from tokenmill.tokenizing.split import SET_NAME, TRAIN, sets_of

MANIFEST = folder.MANIFEST
TOKENIZER = "tokenizer.tokenmill"
FOLDER = "journal"
ERRORS = "errors.jsonl"
QUARANTINE = "quarantine"
SHUFFLE = "shuffle-tmp"
COUNTS = ("documents", "tokens", "bytes", "quarantined")
OTHER = "other reasons"
NO_DOCUMENTS = "no documents"
_REASONS_MAX = 100
_RECORD_CHARS_SHOWN = 200
_ERROR_CHARS_MAX = 200
_ENTRY_FILE = re.compile(rf"{FOLDER}/(shuffled-)?[0-9]{{5,}}(\.failed)?\.json")
_REPAIR = "delete it and run the same tokenize command again"
_FILE_NAME = re.compile(rf"(?:{QUARANTINE}/)?[^/\\\0]+")
_PARTS = {
    "tasks": list, "shuffled": list, "sources": list, "totals": dict, "options": dict,
    "tokenizer": dict, "shard_format": str, "dtype": str,
    "files": [{"suffix": _FILE_NAME, "bytes": int, "checksum": str}],
}  # fmt: skip

Entry = dict[str, Any]


@dataclass(slots=True)
class Entries:
    """The entries of finished tasks, and of shards of the shuffle pass; by number.

    `restarts` is the number of worker processes that died in this run.
    """

    tasks: dict[int, Entry] = field(default_factory=dict)
    shuffled: dict[int, Entry] = field(default_factory=dict)
    restarts: int = 0

    def add(self, entry: Entry) -> None:
        if "shuffled" in entry:
            self.shuffled[entry["shuffled"]] = entry
        else:
            self.tasks[entry["task"]] = entry

    def of_set(self, name: str) -> Entries:
        """The entries of one set. Without a name, these entries."""
        if not name:
            return self
        tasks = {number: _of_set(self.tasks[number], name) for number in sorted(self.tasks)}
        shuffled = [self.shuffled[number] for number in sorted(self.shuffled)]
        own = [_of_set(entry, name) for entry in shuffled if name in entry["sets"]]
        counted = {number: {**entry, "shuffled": number} for number, entry in enumerate(own)}
        return Entries(tasks, counted, self.restarts)

    def documents(self) -> dict[int, int]:
        """The number of documents of each task."""
        return {number: self.tasks[number]["documents"] for number in sorted(self.tasks)}


def _of_set(entry: Entry, name: str) -> Entry:
    """The part of an entry of a task or of a shuffled shard."""
    part: Entry = entry["sets"][name]
    return {key: entry[key] for key in entry if key != "sets"} | part


def write_entry(output: Output, entry: Entry) -> None:
    """Record a finished task. The entry of a failed task does not replace another one."""
    if "shuffled" in entry:
        name = f"shuffled-{entry['shuffled']:05d}"
    else:
        name = f"{entry['task']:05d}" + (".failed" if "failed" in entry else "")
    output.write(f"{FOLDER}/{name}.json", dump_lines(dict(sorted(entry.items()))))


def read_entries(
    output: Output, plan: Plan, manifest: dict[str, Any] | None = None, *, failed: bool = False
) -> Entries:
    """The valid entries of this plan whose files exist: of the journal, and of an older manifest.

    Entries of failed tasks are left out unless `failed`, because their tasks are tried again.
    """
    sizes = output.sizes()
    names = sorted(filter(_ENTRY_FILE.fullmatch, sizes))  # a killed task leaves temporary files
    found: list[Any] = [] if manifest is None else [*manifest["tasks"], *manifest["shuffled"]]
    found += map(_parse, output.read_all(names))
    entries, failures = Entries(), []
    for entry in found:
        if not is_valid(entry) or not _is_of_plan(entry, plan):
            continue
        if "failed" in entry:
            failures.append(entry)
        elif all(sizes.get(name) == size for name, size in files_of_entry(entry)):
            entries.add(entry)
    for entry in failures if failed else ():
        entries.tasks.setdefault(entry["task"], entry)
    return entries


def _parse(data: bytes) -> Any:
    if read_digest(data) is None:
        return None
    try:
        entry = json.loads(data)
    except (ValueError, RecursionError):
        return None
    entry.pop("digest")
    return entry


def _is_of_plan(entry: Entry, plan: Plan) -> bool:
    sets, own = set(sets_of(plan.options)), entry.get("sets", {}).keys()
    if "shuffled" in entry:  # of one set
        return own <= sets and len(own) == bool(sets)
    if entry["task"] >= len(plan.tasks) or own != sets:
        return False
    parts = [entry, *entry.get("sets", {}).values()]
    is_kept = "failed" in entry or any("shuffle_files" in part for part in parts)
    if plan.options["shuffle"] is not None and not is_kept:
        return False  # an entry of a manifest, whose documents are in shuffled shards
    task = plan.tasks[entry["task"]]
    names = [segment["source"] for segment in entry["segments"]]
    return entry["id"] == task.id and names == [segment.source.name for segment in task.segments]


def files_of_entry(entry: Entry) -> Iterator[tuple[str, int]]:
    """The names of the files of a valid entry, and their bytes. A set has a folder."""
    for name, part in entry.get("sets", {}).items():
        yield from ((f"{name}/{file}", size) for file, size in files_of_entry(part))
    for file in entry.get("shuffle_files", ()):
        yield f"{SHUFFLE}/{file['name']}", file["bytes"]
    for shard in entry["shards"]:
        for file in shard["files"]:
            yield shard["stem"] + file["suffix"], file["bytes"]


def failed_entry(task: Task, why: str, sets: Sequence[str] = ()) -> Entry:
    """The entry of a failed task, which has no documents in the output."""

    def counted(quarantined: int) -> Entry:
        counts = dict.fromkeys(COUNTS, 0) | {"quarantined": quarantined}
        segments = [
            {"source": segment.source.name, "start": segment.start, "end": segment.end} | counts
            for segment in task.segments
        ]
        counts["quarantined"] *= len(segments)
        return {"segments": segments, "shards": []} | counts

    entry = {"task": task.number, "id": task.id, "failed": why, "input": None} | counted(1)
    if sets:
        entry["sets"] = {name: counted(int(name == TRAIN)) for name in sets}
    return entry


# Entries may come from another machine or a damaged disk. These are the kinds of their fields.
_COUNTED = dict.fromkeys(COUNTS, int)
_FILE = {"suffix": folder.SUFFIX, "bytes": int, "checksum": str}
_SHARDS = {"shards": [{"stem": folder.STEM, "files": [_FILE]}]}
_TASK = _SHARDS | _COUNTED | {"task": int, "id": str, "segments": [{"source": str} | _COUNTED]}
_SHUFFLED = _SHARDS | {"shuffled": int, "of": int, "tasks": str}
_SHUFFLE_FILES = [{"name": re.compile(r"[0-9]{5,}\.[a-z_]+"), "bytes": int}]


def is_valid(entry: Any) -> bool:
    """Whether an entry has all fields, of the right kinds."""
    if not isinstance(entry, dict) or not isinstance(sets := entry.get("sets", {}), dict):
        return False
    if not all(SET_NAME.fullmatch(name) and isinstance(sets[name], dict) for name in sets):
        return False
    parts = [entry, *({**entry, **part} for part in sets.values())]
    if "shuffled" in entry:
        return all(is_a(_SHUFFLED, part) for part in parts)
    return all(map(_is_valid_task, parts))


def _is_valid_task(entry: Entry) -> bool:
    if not is_a(_TASK, entry) or not is_a(_SHUFFLE_FILES, entry.get("shuffle_files", [])):
        return False
    return all(
        isinstance(errors := segment.get("errors", {}), dict) and is_a([int], [*errors.values()])
        for segment in entry["segments"]
    )


# ── the manifest ─────────────────────────────────────────────────────────────────────────────


def finalize(
    output: Output, plan: Plan, entries: Entries, spec: Spec, staging: Path, folder: str = ""
) -> dict[str, Any]:
    """Write errors.jsonl, the index of the shard format and, last, the manifest.

    Each set gets its own index, manifest and plan first, in its `folder`. Return the manifest.
    """
    sets = sets_of(plan.options)
    digests = {}
    for name in sets:
        own = replace(plan, options=plan.options | {"set": name})
        done = finalize(output, own, entries.of_set(name), spec, staging, f"{name}/")
        digests[name] = {"digest": done["digest"]}
    tasks = [_without_shuffle_files(entries.tasks[number]) for number in range(len(plan.tasks))]
    shuffled = [entries.shuffled[number] for number in sorted(entries.shuffled)]
    content = describe(plan, tasks, shuffled) | {"restarts": entries.restarts}
    files = []

    def write(name: str, parts: Iterable[bytes]) -> None:
        file = HashedFile(staging / name, "")
        for part in parts:
            file.write(part)
        files.append(replace(file.finish(), suffix=name))
        output.commit(file.path, folder + name)

    if content["totals"]["quarantined"] and "set" not in plan.options:
        write(ERRORS, error_lines(output, tasks))
    shards = [Shard.from_json(shard) for entry in [*tasks, *shuffled] for shard in entry["shards"]]
    index = None if sets else get_format(plan.options["format"]).make_index(shards, spec)
    if index is not None:
        write(index[0], [index[1]])
    if folder:
        output.write(folder + PLAN, plan.dump())
        if (tokenizer := output.read(TOKENIZER)) is not None:
            output.write(folder + TOKENIZER, tokenizer)
    sizes = output.sizes()
    kept = [PLAN, TOKENIZER, *([] if folder else _quarantine_files(tasks))]
    for name in filter(lambda name: folder + name in sizes, kept):
        (data,) = output.read_all([folder + name])
        files.append(describe_bytes(name, data))
    content["files"] = list(map(asdict, files))
    for name, own_digest in digests.items():
        content["sets"][name] |= own_digest
    document = dump_lines(content)
    output.write(folder + MANIFEST, document)
    if not folder:
        clear(output, content)
    return content | {"digest": read_digest(document)}


def _quarantine_files(tasks: Iterable[Entry]) -> Iterator[str]:
    """The files of the rejected records of tasks that are done."""
    for entry in tasks:
        if entry["quarantined"] and "failed" not in entry:
            yield errors_name(entry["task"])


def _without_shuffle_files(entry: Entry) -> Entry:
    kept = {key: entry[key] for key in entry if key != "shuffle_files"}
    if "sets" in entry:
        parts = entry["sets"].items()
        kept["sets"] = {name: _without_shuffle_files(part) for name, part in parts}
    return kept


def clear(output: Output, manifest: dict[str, Any]) -> None:
    """Remove the files that a complete output does not need."""
    needed = {file["suffix"] for file in manifest["files"]}
    ours = (
        *(f"{FOLDER}/", f"{SHUFFLE}/", f"{QUARANTINE}/", ERRORS),
        *(f"{name}/{SHUFFLE}/" for name in manifest.get("sets", ())),
    )
    output.remove([name for name in output.sizes() if name.startswith(ours) and name not in needed])


def missing_files(output: Output, manifest: dict[str, Any]) -> set[str]:
    """The files of a complete output, without shards, that are missing or have another size.

    A plan with another checksum is one of them: a killed run may have written it again.
    """
    sizes = output.sizes()
    expected = {file["suffix"]: file["bytes"] for file in manifest["files"]}
    for name, totals in manifest.get("sets", {}).items():
        data = output.read(f"{name}/{MANIFEST}") or b""
        if read_digest(data) != totals.get("digest"):
            return {f"{name}/{MANIFEST}"}
        files = json.loads(data)["files"]
        expected |= {f"{name}/{file['suffix']}": file["bytes"] for file in files}
    found = {name for name, size in expected.items() if sizes.get(name) != size}
    plan = next((file for file in manifest["files"] if file["suffix"] == PLAN), None)
    if plan and describe_bytes(PLAN, output.read(PLAN) or b"").checksum != plan["checksum"]:
        found.add(PLAN)
    return found


def is_entry_file(name: str) -> bool:
    """Whether a file of an output is a journal entry."""
    return _ENTRY_FILE.fullmatch(name) is not None


def errors_name(task: int) -> str:
    """The file of the rejected records of a task."""
    return f"{QUARANTINE}/{task:05d}.jsonl"


def error_lines(output: Output, entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield a line for each rejected record, in the order of the plan."""
    for entry in entries:
        for line in _lines(output, entry):
            line.pop("record_base64", None)
            if "record" in line:
                line["record"] = line["record"][:_RECORD_CHARS_SHOWN]
            yield json.dumps({"task": entry["task"]} | line).encode() + b"\n"


def _lines(output: Output, entry: Entry) -> Iterator[Entry]:
    if "failed" in entry:
        for segment in entry["segments"]:
            reason = f"the task of this segment failed: {entry['failed']}"
            place = {"line": 0, "offset": segment["start"], "bytes": 0}
            yield {"source": segment["source"]} | place | {"reason": reason}
    elif entry["quarantined"]:
        name = errors_name(entry["task"])
        data = output.read(name)
        if data is None:
            raise TokenizeError(
                f"file not found: {name!r} in {output.name!r}; delete the journal entry of task "
                f"{entry['task']} and run the same command again"
            )
        yield from map(json.loads, data.splitlines())


def errors_of(entries: Iterable[Entry]) -> dict[str, int]:
    """The numbers of rejected records by reason, the largest first."""
    found: Counter[str] = Counter()
    for entry in entries:
        if "failed" in entry and entry["quarantined"]:
            found[f"the task failed: {entry['failed']}"] += entry["quarantined"]
        for segment in entry["segments"]:
            found.update(segment.get("errors", {}))
    common = dict(found.most_common(_REASONS_MAX))
    if others := found.total() - sum(common.values()):
        common[OTHER] = common.get(OTHER, 0) + others
    return common


def describe(plan: Plan, tasks: list[Entry], shuffled: list[Entry]) -> dict[str, Any]:
    """The content of a manifest for these entries, which may be those of one rank."""
    options = plan.options
    totals = {name: sum(entry[name] for entry in tasks) for name in COUNTS}
    totals["shards"] = sum(len(entry["shards"]) for entry in [*tasks, *shuffled])
    sets = {}
    for name in sorted(sets_of(options)):
        found = [_of_set(entry, name) for entry in tasks]
        mixed = [entry["sets"][name] for entry in shuffled if name in entry["sets"]]
        sets[name] = {count: sum(entry[count] for entry in found) for count in COUNTS}
        sets[name]["shards"] = sum(len(entry["shards"]) for entry in [*found, *mixed])
        totals["shards"] += sets[name]["shards"]
    return {
        "format": folder.FORMAT,
        "version": folder.VERSION,
        "shard_format": options["format"],
        **{name: options[name] for name in ("dtype", "sequence_length", "eos", "bos")},
        "tokenizer": plan.tokenizer,
        "options": options,
        "totals": totals,
        "errors": errors_of(tasks),
        "sources": _sources(plan, tasks),
        "tasks": tasks,
        "shuffled": shuffled,
        **({"skipped": plan.skipped} if plan.skipped else {}),
        **({"sets": sets} if sets else {}),
    }


def _sources(plan: Plan, tasks: list[Entry]) -> list[dict[str, Any]]:
    """The counts of each source of these tasks. Of a whole plan, one without documents failed."""
    rows: list[dict[str, Any]] = [
        {"path": source.name, "size": source.size, "modified": source.modified}
        | dict.fromkeys(COUNTS, 0)
        for source in plan.sources
    ]
    found = {row["path"]: row for row in rows}
    errors: dict[str, Counter[str]] = {row["path"]: Counter() for row in rows}
    for entry in tasks:
        for segment in entry["segments"]:
            row = found[segment["source"]]
            errors[row["path"]].update(segment.get("errors", {}))
            for name in COUNTS:
                row[name] += segment[name]
            if "error" in segment or "failed" in entry:
                row["error"] = entry.get("failed") or segment["error"]
    if len(tasks) < len(plan.tasks):
        seen = {segment["source"] for entry in tasks for segment in entry["segments"]}
        return [row for row in rows if row["path"] in seen]
    for row in rows:
        if not row["documents"] and "set" not in plan.options:
            reasons = errors[row["path"]].most_common(1)
            row.setdefault("error", ": ".join([NO_DOCUMENTS, *dict(reasons)]))
    return rows


def load_manifest(output: Output) -> dict[str, Any] | None:
    """The manifest of an output; None if there is none."""
    data = output.read(MANIFEST)
    if data is None:
        return None
    with reading(output.name):
        content = json.loads(data)
        if reason := folder.refuse_manifest(content):
            raise TokenizeError(f"{output.name}/{MANIFEST} {reason}")
        if read_digest(data) is None:
            raise TokenizeError(
                f"{output.name}/{MANIFEST} is damaged: its digest differs; {_REPAIR}"
            )
        missing = [name for name in _PARTS if not is_a(_PARTS[name], content.get(name))]
        if missing:
            raise TokenizeError(
                f"{output.name}/{MANIFEST} is damaged, without {missing[0]}; {_REPAIR}"
            )
        found: dict[str, Any] = content
        return found


def require_manifest(output: Output) -> dict[str, Any]:
    """The manifest of an output, which must be complete."""
    found = load_manifest(output)
    if found is None:
        if output.read(PLAN) is not None:
            raise TokenizeError(
                f"{output.name!r} is not complete, without {MANIFEST}; run the same tokenize "
                "command again, or tokenmill finalize when all ranks are done"
            )
        has_folder = not isinstance(output, LocalOutput) or output.folder.exists()
        reason = f"it has no {MANIFEST}" if has_folder else "the folder does not exist"
        raise TokenizeError(f"{output.name!r} is not an output of tokenize: {reason}")
    return found


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn exceptions of a damaged manifest into a TokenizeError."""
    try:
        yield
    except TokenmillError:
        raise
    except DAMAGE as error:
        text = f"{type(error).__name__}: {error}"[:_ERROR_CHARS_MAX]
        raise TokenizeError(f"{name}/{MANIFEST} is damaged ({text}); {_REPAIR}") from None


def is_output(path: Path) -> bool:
    """Whether a folder is the output of a run. One with a tokenizer must have our manifest, because
    other programs write a manifest.json too."""
    names = [name for name in (MANIFEST, PLAN, FOLDER) if (path / name).exists()]
    if not names or not files_of(path):
        return bool(names)
    try:
        return load_manifest(open_output(path)) is not None
    except TokenizeError:
        return False
